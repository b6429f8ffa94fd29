// A hand and an eye on a page: clicks what can be seen where it is, types into what has a label, and reads.

// An expression for the one element that can be seen, is of `kind` and says `text` (or begins with it).
const kFind = `(kind, text) => {
  const seen = [...document.querySelectorAll(kind)].filter((e) => e.getClientRects().length > 0 && !e.disabled);
  const says = (e) => e.textContent.trim();
  return seen.find((e) => says(e) === text) || seen.find((e) => says(e).startsWith(text));
}`;

export const open_hand = (page) => {
  const text = (selector) => page.value(`document.querySelector(${JSON.stringify(selector)})?.innerText.trim() ?? ''`);

  // `element` is an expression. It is waited for, scrolled to, and has to lie on top where it is clicked.
  const click = async (element, what) => {
    await page.until(`document.readyState === 'complete' && !!(${element})`);
    const at = await page.value(`(() => {
      const e = ${element};
      if (!e) return null;
      e.scrollIntoView({ block: 'center' });
      const r = e.getClientRects()[0], x = r.x + r.width / 2, y = r.y + r.height / 2;
      const top = document.elementFromPoint(x, y);
      return top && (e.contains(top) || top.contains(e)) ? { x, y } : null;
    })()`);
    if (!at) throw new Error(`nothing to click: ${what}; on ${await page.value('location.href')}`);
    // A page that is left by the click does not answer any more.
    for (const type of ['mousePressed', 'mouseReleased']) await page.send('Input.dispatchMouseEvent', { type, ...at, button: 'left', clickCount: 1 }).catch(() => {});
  };
  const named = (kind, words) => `(${kFind})(${JSON.stringify(kind)}, ${JSON.stringify(words)})`;
  const press = (words) => click(named('button', words), words);
  const follow = (words) => click(named('a', words), words);

  const type = async (selector, words) => {
    await click(`document.querySelector(${JSON.stringify(selector)})`, selector);
    await page.value('document.activeElement.select()');
    await page.send('Input.insertText', { text: words });
  };

  // The control whose label names `key`, set to `value`: typed, or by arrow keys in a list.
  const set = async (key, value) => {
    const id = await page.value(`[...document.querySelectorAll('#part-task label')].find((l) => l.querySelector('code')?.textContent === '${key}')?.htmlFor ?? ''`);
    if (!id) throw new Error(`no control is labelled ${key}`);
    if ((await page.value(`document.getElementById('${id}').tagName`)) !== 'SELECT') return type(`#${id}`, value);
    await page.value(`document.getElementById('${id}').focus()`);
    const at = await page.value(`[...document.getElementById('${id}').options].findIndex((o) => o.text === '${value}' || o.text.startsWith('${value}:'))`);
    if (at < 0) throw new Error(`${key} does not offer ${value}`);
    await page.key('Home');
    for (let i = 0; i < at; ++i) await page.key('ArrowDown');
    return undefined;
  };

  const words = (selector) =>
    page.value(`[...document.querySelectorAll(${JSON.stringify(selector)})]
      .filter((e) => e.getClientRects().length > 0 && !e.closest('table') && !e.querySelector('table'))
      .reduce((n, e) => n + e.innerText.split(/\\s+/).filter(Boolean).length, 0)`);
  // Words outside tables, and sections with a picture or a table: all but the last two, which explain.
  const reading = async (selector) => ({ words: await words(selector), pictures: await page.value("Math.max(0, document.querySelectorAll('main section').length - 2)") });

  const back = () => page.value('history.back()').catch(() => {});
  // Whether there was a next page to go to.
  const follow_next = async () => {
    const next = "[...document.querySelectorAll('nav.course')].flatMap((n) => [...n.childNodes]).find((t, i, all) => i > 0 && /next: $/.test(all[i - 1].textContent))";
    if (!(await page.value(`!!(${next})`))) return false;
    const from = await page.value('location.href');
    await click(next, 'next');
    await page.until(`location.href !== ${JSON.stringify(from)}`);
    return true;
  };
  return { text, press, follow, type, set, words, reading, back, follow_next };
};
