// The page's parts: headline numbers, sections of a picture, its sentence and its table.

// What is shown, and the words of its categories. A page that shows one answer after the other sets them before each.
let report = {};
let words = {};
const take_report = (data) => {
  report = data;
  words = data.words;
};

const element = (name, attributes = {}, ...children) => {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes))
    if (value !== undefined && value !== null) key === 'html' ? (node.innerHTML = value) : node.setAttribute(key, value);
  for (const child of children.flat()) if (child !== null && child !== undefined) node.append(child);
  return node;
};
// Where parts are put.
let room = null;
const main = () => room || document.querySelector('main');
const fill = (host, parts) => {
  room = host;
  try {
    parts();
  } finally {
    room = null;
  }
};

// A figure that a test, or a reader's script, can hold against the JSON: its path there and its full value.
const figure_at = (path, kind, root = report) => {
  const value = path.split('.').reduce((at, key) => (at === null || at === undefined ? undefined : at[key]), root);
  return { path, value, text: text_of(kind, value), parts: value === null || value === undefined ? ['–', ''] : parts_of[kind](value) };
};
const cell = (value, kind, more = {}) => ({ value, text: text_of(kind, value), number: true, ...more });

const open_page = (title, plan, answer) => {
  document.title = `${title} – Rehearse`;
  main().append(element('h1', {}, title));
  if (plan) main().append(element('p', { class: 'plan' }, plan));
  if (answer) main().append(element('p', { class: 'answer' }, answer));
};

const notice = (text, command) =>
  main().append(element('p', { class: 'notice' }, text, command ? ' ' : null, command ? element('code', {}, command) : null));

// entries: [{label, figure: figure_at(...) | {parts}, note, tone}]
const headline = (entries) => {
  const list = element('dl', { class: 'headline' });
  for (const { label, figure, note, tone } of entries) {
    const value = element('dd', { 'data-path': figure.path, 'data-value': figure.path ? figure.value : undefined }, figure.parts[0]);
    if (figure.parts[1]) value.append(element('span', { class: 'unit' }, figure.parts[1]));
    list.append(element('div', { class: tone }, element('dt', {}, label), value, note ? element('dd', { class: 'note' }, note) : null));
  }
  main().append(list);
};

const copied_text = (columns, rows) =>
  [
    columns.map((c) => c.title).join('\t'),
    ...rows.map((row) => row.cells.map((c) => (typeof c === 'object' && c !== null ? (c.value ?? c.text) : c)).join('\t')),
  ].join('\n');

const copy = (text, button) => {
  const done = () => {
    button.textContent = 'Copied';
    setTimeout(() => {
      button.textContent = 'Copy';
    }, 1500);
  };
  const by_hand = () => {
    const area = element('textarea', {}, text);
    document.body.append(area);
    area.select();
    document.execCommand('copy');
    area.remove();
    done();
  };
  navigator.clipboard ? navigator.clipboard.writeText(text).then(done, by_hand) : by_hand();
};

const kMostRows = 16; // Of a longer table the first kRowsFirst are shown until all are asked for: nothing scrolls inside the page.
const kRowsFirst = 12;
const length_class = (letters) => (letters <= 26 ? 'short' : letters > 120 ? 'long' : ''); // Short ones are not broken into lines.

// columns: [{title, number}]; rows: [{cells: [text | {value, text, path}], mark: 'sum' | 'pick'}] or arrays of cells.
const table = (title, columns, rows) => {
  const all = rows.map((row) => (Array.isArray(row) ? { cells: row } : row));
  const body = element('tbody');
  for (const row of all) {
    const line = element('tr', { class: row.mark });
    row.cells.forEach((c, i) => {
      const rich = typeof c === 'object' && c !== null;
      line.append(
        element(
          i === 0 ? 'th' : 'td',
          {
            scope: i === 0 ? 'row' : undefined,
            class:
              [columns[i].number ? 'num' : '', rich && c.tone ? c.tone : '', length_class(String(rich ? c.text : c).length)].join(' ').trim() || undefined,
            'data-path': rich ? c.path : undefined,
            'data-value': rich ? (c.value ?? undefined) : undefined,
            html: rich ? c.html : undefined,
          },
          rich ? (c.html ? null : c.text) : String(c),
        ),
      );
    });
    body.append(line);
  }
  const head = element(
    'thead',
    {},
    element(
      'tr',
      {},
      columns.map((c) => element('th', { scope: 'col', class: c.number ? 'num' : undefined }, c.title)),
    ),
  );
  const button = element('button', { type: 'button', 'aria-label': `Copy the table: ${title}` }, 'Copy');
  button.addEventListener('click', () => copy(copied_text(columns, all), button));
  const sheet = element(
    'div',
    { class: 'sheet' },
    element('header', {}, element('h3', {}, title), button),
    element('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': title }, element('table', {}, head, body)),
  );
  if (all.length > kMostRows) fold_rows(sheet, body);
  return sheet;
};

const fold_rows = (sheet, body) => {
  const rows = [...body.children];
  const more = element('button', { type: 'button', class: 'more', 'aria-expanded': 'false' });
  const show = (all) => {
    rows.forEach((row, i) => row.classList.toggle('later', !all && i >= kRowsFirst));
    more.textContent = all ? `Show the first ${kRowsFirst}` : `Show all ${fixed(rows.length, 0)} rows`;
    more.setAttribute('aria-expanded', String(all));
  };
  more.addEventListener('click', () => show(more.getAttribute('aria-expanded') !== 'true'));
  show(false);
  sheet.classList.add('many');
  sheet.append(more);
};

const keys = (entries) =>
  element(
    'ul',
    { class: 'keys' },
    entries.map(([look, text, picture]) => element('li', { html: picture || swatch(look) }, text)),
  );

const chooser = (label, options, chosen, changed) => {
  const select = element(
    'select',
    {},
    options.map((text, i) => element('option', { value: i, selected: i === chosen ? '' : undefined }, text)),
  );
  select.addEventListener('change', () => changed(Number(select.value)));
  return element('label', { class: 'choose' }, label, select);
};

// One picture with what to see in it. `parts`: {id, title, see, keys, chart: {height, option, canvas, redraw_on}, choose, table, beside, hint}
const section = ({ id, title, see, keys: key_list, chart, choose, tables = [], beside = false, hint }) => {
  const node = element(
    'section',
    { id, 'aria-labelledby': `${id}-title` },
    element('h2', { id: `${id}-title` }, title),
    element('p', { class: 'see', id: `${id}-see` }, see),
  );
  const drawn = chart && pictures_available();
  const figure = element('figure', { role: 'group', 'aria-labelledby': `${id}-title` });
  if (drawn && choose) figure.append(...[choose].flat());
  if (drawn && key_list && key_list.length > 1) figure.append(keys(key_list));
  const host = drawn ? element('div', { class: chart.square ? 'chart square' : 'chart', role: 'img', 'aria-label': see }) : null;
  if (host) figure.append(host);
  if (drawn && hint) figure.append(element('p', { class: 'hint' }, hint));
  const side = element('div', { class: `side${beside && drawn ? ' both' : ''}` });
  if (drawn) side.append(figure);
  if (tables.length > 0) side.append(element('div', {}, tables));
  node.append(side);
  main().append(node);
  if (host) draw(id, host, chart);
  return node;
};

const assumptions = (facts, documents) => {
  const node = element('section', { id: 'assumptions' }, element('h2', {}, 'What this rests on'));
  const list = element('dl', { class: 'facts' });
  for (const [name, text] of facts) if (text) list.append(element('dt', {}, name), element('dd', {}, text));
  if (list.childElementCount > 0) node.append(list);
  for (const part of documents.filter(Boolean)) node.append(part);
  main().append(node);
};
const folded = (title, text) => element('details', {}, element('summary', {}, title), element('pre', {}, text));
