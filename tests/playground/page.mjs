// The page in headless Chromium, from disk: how soon it answers, that nothing complains, that it can be used by keyboard
// and on a telephone, and what a checker of accessibility finds.
// usage: page.mjs PLAYGROUND CHROMIUM [--axe FILE] [--pictures FOLDER]. Prints what it measured; ends with 1 where a bound
// is missed that does not depend on how busy the machine is, and with --strict where any is.
import { mkdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { brotliCompressSync, gzipSync } from 'node:zlib';
import { open_browser, open_page } from './browser.mjs';
import { module_of, skip } from './module.mjs';

const [folder, chromium, ...options] = process.argv.slice(2);
const option = (name) => (options.includes(name) ? options[options.indexOf(name) + 1] : '');
if (!chromium) skip('no browser: chromium was not found when the build was configured');
module_of(folder);

const kFiles = ['index.html', 'page.css', 'charts.js', 'module.js', 'page.js'];
const kMostBytes = 4_000_000,
  kMoves = 50;
const kBounds = { load: 2000, answer: 100, draw: 200 }; // Milliseconds.
const url = pathToFileURL(resolve(folder, 'index.html')).href;
const failures = [],
  late = [];
const check = (holds, what, list = failures) => {
  console.log(`${holds ? 'ok    ' : 'FAILED'} ${what}`);
  if (!holds) list.push(what);
};
const median = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];

const sizes = kFiles.map((file) => {
  const text = readFileSync(join(folder, file));
  return { file, plain: text.length, gzip: gzipSync(text, { level: 9 }).length, brotli: brotliCompressSync(text).length };
});
for (const s of sizes) console.log(`       ${s.file}: ${s.plain} bytes, gzip ${s.gzip}, brotli ${s.brotli}`);
const total = sizes.reduce((n, s) => n + s.gzip, 0);
check(total <= kMostBytes, `compressed (gzip) the folder has ${total} bytes, at most ${kMostBytes}`);

// When the first answer was drawn, on the page's own clock.
const kStopwatch = `new MutationObserver(() => {
  const d = document.documentElement.dataset;
  if (d.answered && !window.first_answer) window.first_answer = performance.now();
  if (d.warm && !window.warm) window.warm = performance.now();
}).observe(document, { attributes: true, subtree: true });`;

// Moves sliders as fingers do, and takes the time until the answer is there and until it is on the screen.
const kMove = `async (id, by) => {
  const slider = document.getElementById(id);
  const before = document.documentElement.dataset.answered;
  slider.value = Number(slider.value) + by;
  const began = performance.now();
  slider.dispatchEvent(new Event('input', { bubbles: true }));
  while (document.documentElement.dataset.answered === before) await new Promise((done) => setTimeout(done, 0));
  const answered = performance.now() - began;
  await new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));
  return { core: Number(document.documentElement.dataset.took), replied: Number(document.documentElement.dataset.replied) - began, answered, drawn: performance.now() - began };
}`;

// Each with the way that it can go from the first plan.
const kSliders = [
  ['control-strategy-tp', -1],
  ['control-strategy-pp', -1],
  ['control-strategy-microbatch', 1],
  ['control-cluster-nodes', -1],
];

const browser = await open_browser(chromium);
try {
  const page = await open_page(browser, url, { before: kStopwatch });
  await page.until('document.documentElement.dataset.answered');
  const load = await page.value('window.first_answer');
  check(load < kBounds.load, `the first answer is drawn ${load.toFixed(0)} ms after the page is opened, in less than ${kBounds.load}`, late);
  await page.until('document.documentElement.dataset.played && window.warm');
  const warm = await page.value('window.warm');
  console.log(`       the core has worked the same out after ${warm.toFixed(0)} ms`);
  console.log(`       ${await page.value("document.querySelector('.status').textContent")}`);

  const moves = [];
  for (let i = 0; i < kMoves; ++i) {
    // One step there and one back, on each of the sliders in turn: every other plan has been asked before, none twice in a row.
    const [id, there] = kSliders[Math.floor(i / 2) % kSliders.length];
    moves.push(await page.value(`(${kMove})('${id}', ${i % 2 === 0 ? there : -there})`));
  }
  const medians = Object.fromEntries(['core', 'replied', 'answered', 'drawn'].map((name) => [name, median(moves.map((m) => m[name]))]));
  const slowest = Math.max(...moves.map((m) => m.drawn));
  console.log(`       of ${kMoves} moves, median: ${medians.core.toFixed(1)} ms in the core, answered after ${medians.replied.toFixed(1)}, in the page after ${medians.answered.toFixed(1)}, drawn after ${medians.drawn.toFixed(1)}; slowest drawn after ${slowest.toFixed(0)}`);
  check(medians.replied <= kBounds.answer, `closed form within ${kBounds.answer} ms of a move (median)`, late);
  check(medians.drawn <= kBounds.draw, `drawn within ${kBounds.draw} ms of a move (median)`, late);

  // The address holds the state.
  await page.value(`(${kMove})('control-strategy-tp', -1)`);
  const [address, headline] = await page.value("[location.href, document.querySelector('.headline').textContent]");
  check(address.includes('strategy.tp=4'), `the address holds the change: ${address.slice(address.indexOf('#'))}`);
  const again = await open_page(browser, address);
  await again.until('document.documentElement.dataset.answered');
  check((await again.value("document.querySelector('.headline').textContent")) === headline, 'the address alone gives the same answer');
  check(await again.value("document.getElementById('elsewhere').textContent.includes('rehearse estimate scenarios/gpt3_175b_a100_1024.json')"), 'the command line is shown');
  await again.close();

  // By keyboard alone: to the slider, and one step.
  await page.value(`(${kMove})('control-strategy-tp', 1)`);
  const before = await page.value('document.documentElement.dataset.answered');
  await page.value("document.getElementById('control-base').focus()");
  for (let i = 0; i < 40 && (await page.value('document.activeElement.id')) !== 'control-strategy-pp'; ++i) await page.key('Tab');
  check((await page.value('document.activeElement.id')) === 'control-strategy-pp', 'Tab reaches the sliders');
  await page.key('ArrowRight');
  await page.until(`document.documentElement.dataset.answered !== '${before}'`);
  const moved = await page.value('location.hash');
  check(moved.includes('strategy.pp=16'), `an arrow key moves one, past what does not divide the GPUs: ${moved}`);

  // Every picture has a sentence in its place for who does not see it, and none failed.
  await page.until("document.querySelector('#gantt') && !document.querySelector('.old')");
  const pictures = await page.value("[...document.querySelectorAll('.chart')].map((c) => [c.dataset.drawn, c.getAttribute('role'), c.getAttribute('aria-label').length])");
  check(pictures.length >= 6 && pictures.every(([drawn, role, letters]) => drawn === 'yes' && role === 'img' && letters > 20), `${pictures.length} pictures are drawn, each with a text`);

  // Two plans, and lessons.
  const two = await open_page(browser, `${url}#base=llama3_8b_h100_8&strategy.tp=4&view=beside&beside=${encodeURIComponent('base=llama3_8b_h100_8')}`);
  await two.until("document.documentElement.dataset.compared && document.querySelector('#difference, #stacks')");
  check(await two.value("/faster|slower|fastest/.test(document.querySelector('main').textContent)"), 'two plans stand side by side');
  const lesson = await open_page(browser, `${url}#view=lessons&lesson=naive_pipeline`);
  await lesson.until("document.querySelector('#part-lesson .chart')");
  check(true, 'a lesson is worked out');

  // Step by step: each topic to its end, in pictures and words.
  const stepped = [];
  for (const [topic, end] of [
    ['ring', /every GPU has the sum/],
    ['pipeline', /compute/],
    ['exchange', /times the mean, and all wait for it/],
  ]) {
    const steps = await open_page(browser, `${url}#view=steps&steps=${encodeURIComponent(`topic=${topic}&at=2`)}`);
    await steps.until(`document.documentElement.dataset.stepped === '${topic}'`);
    const at = () => steps.value("[document.getElementById('step').value, document.getElementById('step').max, document.querySelector('.step-sentence').textContent, document.querySelector('.stage').getAttribute('aria-label')]");
    const [two] = await at();
    await steps.value("document.getElementById('step').focus()");
    await steps.key('ArrowRight');
    const [three, last, sentence, label] = await at();
    check(two === '2' && three === '3' && sentence === label, `${topic}: begins where the address says, and an arrow key goes on`);
    check((await steps.value('location.hash')).includes('at%3D3'), `${topic}: the address holds the step`);
    await steps.key('End');
    const [at_end, , words] = await at();
    check(at_end === last && end.test(words), `${topic}: ends with "${words}"`);
    await steps.value("(document.getElementById('step').value = 3, document.getElementById('step').dispatchEvent(new Event('input')))");
    stepped.push([steps, `steps_${topic}`]);
  }

  const shown = [];
  for (const width of [390, 1280, 1920])
    for (const dark of [false, true]) {
      const p = await open_page(browser, url, { width, dark, height: width < 600 ? 844 : 1000 });
      await p.until("document.documentElement.dataset.played && !document.querySelector('.old')");
      shown.push([p, `${width}${dark ? '_dark' : ''}`]);
    }
  shown.push([two, 'beside'], [lesson, 'lesson'], ...stepped);
  for (const [name, address] of [
    ['tasks', '#view=tasks&task=state_in_shards'],
    ['lesson_ring', '#view=lessons&lesson=ring'],
  ])
    for (const width of [390, 1280]) {
      const p = await open_page(browser, url + address, { width, dark: width === 390 });
      await p.until("document.querySelector('.status').textContent === '' && document.documentElement.dataset.ready");
      shown.push([p, `${name}_${width}`]);
    }
  for (const [p, name] of shown) {
    const over = await p.value('document.documentElement.scrollWidth - window.innerWidth');
    check(over <= 0, `nothing is wider than the page (${name})${over > 0 ? ` (by ${over})` : ''}`);
  }
  if (option('--axe')) {
    const axe = readFileSync(option('--axe'), 'utf8');
    for (const [p, name] of shown) {
      await p.value(`${axe}; true`);
      const found = await p.value("axe.run({ preload: false }).then((r) => r.violations.map((v) => ({ id: v.id, impact: v.impact, nodes: v.nodes.length, first: v.nodes[0].html.slice(0, 160) })))");
      for (const v of found) console.log(`       axe, ${name}: ${v.impact} ${v.id}, ${v.nodes} times, such as ${v.first}`);
      check(!found.some((v) => ['serious', 'critical'].includes(v.impact)), `axe finds nothing serious (${name}; ${found.length} lesser)`);
    }
  } else console.log('       no axe-core: accessibility was not checked');
  if (option('--pictures')) {
    mkdirSync(option('--pictures'), { recursive: true });
    for (const [p, name] of shown) await p.picture(join(option('--pictures'), `${name}.png`));
  }
  const complaints = [page, ...shown.map(([p]) => p)].flatMap((p) => p.complaints);
  check(complaints.length === 0, `the console complains of nothing${complaints.length > 0 ? `: ${complaints.join('; ').slice(0, 400)}` : ''}`);
} finally {
  await browser.close();
}
if (late.length > 0) console.log(`too late on this machine, now: ${late.join('; ')}`);
process.exit(failures.length > 0 || (options.includes('--strict') && late.length > 0) ? 1 : 0);
