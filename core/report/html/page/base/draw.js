// Charts on the page: drawn for the theme and the width at hand, again when either changes, and for paper.

const drawn_charts = [];
const pictures_available = () => typeof echarts !== 'undefined';
let printing = false;
const kPaperWidth = 690; // Of A4 within its margins, at 96 to the inch.

const wanted_theme = () => {
  const chosen = document.documentElement.dataset.choice || 'auto';
  if (printing) return 'light';
  if (chosen !== 'auto') return chosen;
  return window.matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light';
};

const base_option = (theme) => ({
  animation: false,
  backgroundColor: 'transparent',
  textStyle: { fontFamily: getComputedStyle(document.body).fontFamily, color: kInk[theme].ink },
  aria: { enabled: false },
  tooltip: {
    confine: true,
    backgroundColor: kInk[theme].panel,
    borderColor: kInk[theme].line,
    textStyle: { color: kInk[theme].ink, fontSize: 13 },
    transitionDuration: 0,
  },
});

// The end of an axis and its step: about five of a round length.
const round_axis = (top) => {
  const rough = top / 5,
    power = 10 ** Math.floor(Math.log10(rough));
  const interval = [1, 2, 2.5, 5, 10].map((k) => k * power).find((s) => s >= rough);
  return { max: Math.ceil(top / interval) * interval, interval };
};

const axis_style = (theme, more = {}) => ({
  axisLine: { lineStyle: { color: kInk[theme].line } },
  axisTick: { show: false },
  splitLine: { lineStyle: { color: kInk[theme].line } },
  minorSplitLine: { show: false },
  axisLabel: { color: kInk[theme].muted, fontSize: 12.5, hideOverlap: true, ...(more.axisLabel || {}) },
  nameTextStyle: { color: kInk[theme].muted, fontSize: 12.5 },
  nameGap: 30,
  ...Object.fromEntries(Object.entries(more).filter(([key]) => key !== 'axisLabel')),
});

// Names of rows: left of them in as much room as they need, on a narrow page above each row.
const kLetter = 7.6; // Pixels of one at 13.5, on average.
const kLeastName = 56; // Room for a short name of wide letters.
const rows_left = (view, names) => (view.narrow ? 4 : Math.min(0.4 * view.width, Math.max(kLeastName, kLetter * Math.max(...names.map((n) => n.length)) + 16)));
const named_rows = (view, names) => ({
  type: 'category',
  inverse: true,
  data: names,
  axisLine: { show: false },
  axisTick: { show: false },
  axisLabel: view.narrow
    ? { inside: true, align: 'left', verticalAlign: 'bottom', padding: [0, 0, 10, -4], color: view.ink, fontSize: 12, interval: 0 }
    : { color: view.ink, fontSize: 13.5, interval: 0, width: rows_left(view, names) - 10, overflow: 'truncate' },
  z: 10,
});

const render = (entry) => {
  const width = printing ? kPaperWidth : entry.host.clientWidth;
  if (width === 0) return;
  const view = { width, theme: wanted_theme(), narrow: width < 560, ...kInk[wanted_theme()] };
  const height = typeof entry.chart.height === 'function' ? entry.chart.height(view) : entry.chart.height;
  entry.host.style.height = `${height}px`;
  view.height = height;
  if (!entry.instance)
    entry.instance = echarts.init(entry.host, null, {
      renderer: entry.chart.canvas ? 'canvas' : 'svg',
      width,
      height,
      devicePixelRatio: Math.max(2, window.devicePixelRatio || 1),
    });
  else entry.instance.resize({ width, height });
  entry.width = width;
  const { tooltip, ...rest } = base_option(view.theme);
  const option = entry.chart.option(view);
  entry.instance.setOption({ ...rest, ...option, tooltip: { ...tooltip, ...(option.tooltip || {}) } }, true);
  entry.host.dataset.drawn = 'yes';
};

// A picture that fails leaves its table, says so, and never takes the page with it.
const draw = (id, host, chart) => {
  const entry = { id, host, chart };
  try {
    render(entry);
    drawn_charts.push(entry);
  } catch (error) {
    console.error(`picture ${id}: ${error.message}`);
    host.replaceWith(element('p', { class: 'hint' }, 'This picture could not be drawn; the table has its figures.'));
  }
  chart.redraw = () => render(entry);
  chart.zoom = (from, to) => entry.instance.dispatchAction({ type: 'dataZoom', start: 100 * from, end: 100 * to });
};

// Empties `host`, and forgets what was drawn in it.
const clear = (host) => {
  for (let i = drawn_charts.length - 1; i >= 0; --i)
    if (host.contains(drawn_charts[i].host)) {
      drawn_charts[i].instance.dispose();
      drawn_charts.splice(i, 1);
    }
  host.replaceChildren();
};

const redraw_all = () => drawn_charts.forEach(render);

const apply_theme = () => {
  document.documentElement.dataset.theme = wanted_theme();
  redraw_all();
};

const remember = (choice) => {
  try {
    localStorage.setItem('rehearse-theme', choice);
  } catch {
    /* A page without storage forgets. */
  }
};
const remembered = () => {
  try {
    return localStorage.getItem('rehearse-theme') || 'auto';
  } catch {
    return 'auto';
  }
};

const theme_switch = () => {
  const group = element('div', { class: 'themes', role: 'group', 'aria-label': 'Colours' });
  const choose = (choice) => {
    document.documentElement.dataset.choice = choice;
    remember(choice);
    for (const button of group.children) button.setAttribute('aria-pressed', String(button.dataset.choice === choice));
    apply_theme();
  };
  for (const [choice, label] of [
    ['auto', 'Auto'],
    ['light', 'Light'],
    ['dark', 'Dark'],
  ]) {
    const button = element('button', { type: 'button', 'data-choice': choice }, label);
    button.addEventListener('click', () => choose(choice));
    group.append(button);
  }
  const named = new URLSearchParams(location.hash.slice(1)).get('theme');
  choose(['light', 'dark'].includes(named) ? named : remembered());
  return group;
};

const follow_the_page = () => {
  window.matchMedia('(prefers-color-scheme: dark)').addEventListener('change', apply_theme);
  let waiting = 0;
  window.addEventListener('resize', () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => drawn_charts.filter((c) => c.host.clientWidth !== c.width).forEach(render), 120);
  });
  window.addEventListener('beforeprint', () => {
    printing = true;
    apply_theme();
  });
  window.addEventListener('afterprint', () => {
    printing = false;
    apply_theme();
  });
};
