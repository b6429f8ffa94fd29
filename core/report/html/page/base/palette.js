// Colours that colour-blind readers tell apart (Okabe and Ito 2008), with patterns where a colour serves twice, and the inks of either theme.

const kHue = {
  blue: '#0072B2',
  sky: '#56B4E9',
  green: '#009E73',
  orange: '#E69F00',
  vermillion: '#D55E00',
  purple: '#CC79A7',
  yellow: '#F0E442',
  grey: '#9AA3AE',
};

// Patterns as ECharts' decals have them.
const stripes = (rotation) => ({ symbol: 'rect', dashArrayX: [1, 0], dashArrayY: [2, 5], rotation });
const checks = (symbol, symbolSize, cell) => ({
  symbol,
  symbolSize,
  dashArrayX: [
    [cell, cell],
    [0, cell, cell, 0],
  ],
  dashArrayY: [5, 0],
});
const kPattern = {
  none: { symbol: 'none' },
  rising: stripes(-Math.PI / 4),
  falling: stripes(Math.PI / 4),
  level: stripes(0),
  upright: stripes(Math.PI / 2),
  dots: checks('circle', 0.7, 6),
  boxes: checks('rect', 0.8, 8),
};

// Category of time or memory to [hue, pattern].
const kTimeLook = {
  matmul: ['blue', 'none'],
  attention: ['sky', 'none'],
  memory_bound: ['green', 'none'],
  loss: ['green', 'dots'],
  recompute: ['purple', 'none'],
  launch: ['grey', 'level'],
  overlap_slowdown: ['orange', 'dots'],
  optimizer: ['yellow', 'none'],
  exposed_tp: ['vermillion', 'rising'],
  exposed_cp: ['vermillion', 'boxes'],
  exposed_ep: ['vermillion', 'dots'],
  exposed_dp: ['vermillion', 'none'],
  exposed_pp: ['vermillion', 'falling'],
  exposed_tile: ['vermillion', 'level'],
  exposed_copy: ['orange', 'upright'],
  input: ['purple', 'upright'],
  bubble: ['grey', 'none'],
};
const kMemoryLook = {
  weights: ['blue', 'none'],
  gradients: ['sky', 'rising'],
  optimizer: ['orange', 'none'],
  activations: ['green', 'none'],
  communication: ['vermillion', 'falling'],
  workspace: ['purple', 'none'],
  framework: ['grey', 'dots'],
};
// What several plans, machines or curves look like, in order.
const kSeriesLook = [
  ['blue', 'none', 'circle'],
  ['orange', 'rising', 'triangle'],
  ['green', 'dots', 'rect'],
  ['vermillion', 'falling', 'diamond'],
  ['purple', 'level', 'pin'],
  ['sky', 'boxes', 'roundRect'],
  ['grey', 'upright', 'arrow'],
  ['yellow', 'none', 'rect'],
];
const series_look = (i) => kSeriesLook[i % kSeriesLook.length];

const kInk = {
  light: { ink: '#15191e', muted: '#566070', line: '#dfe3e8', paper: '#ffffff', panel: '#f6f7f9', stripe: 'rgba(0,0,0,.5)', track: '#e9ecf0' },
  dark: { ink: '#e9ecef', muted: '#a0a9b5', line: '#303741', paper: '#14171b', panel: '#1b1f25', stripe: 'rgba(0,0,0,.55)', track: '#262c34' },
};

const style_of = ([hue, pattern], theme) => ({
  color: kHue[hue],
  borderColor: kInk[theme].paper,
  borderWidth: 0.5,
  decal: { color: kInk[theme].stripe, ...kPattern[pattern] },
});

// Marks of curves and points.
const kMarks = {
  circle: '<circle cx="9" cy="6" r="4.5"/>',
  triangle: '<path d="M9 1l5 10H4z"/>',
  rect: '<path d="M5 2h8v8H5z"/>',
  diamond: '<path d="M9 0l5 6-5 6-5-6z"/>',
  pin: '<path d="M9 12L5 5a4 4 0 1 1 8 0z"/>',
  roundRect: '<rect x="5" y="2" width="8" height="8" rx="2.5"/>',
  arrow: '<path d="M9 0l5 12-5-3-5 3z"/>',
};
const mark = ([hue, , symbol], faint = false, line = !faint) =>
  `<svg width="18" height="12" viewBox="0 0 18 12" aria-hidden="true">${line ? `<path d="M0 6h18" stroke="${kHue[hue]}" stroke-width="2"/>` : ''}<g fill="${faint ? 'none' : kHue[hue]}" stroke="${faint ? '#888' : 'none'}">${kMarks[symbol]}</g></svg>`;

// The same look as a small picture, for keys outside of charts.
const kStripes = {
  none: '',
  rising: '<path d="M-2 10 10 -2M4 16 16 4" stroke-width="2"/>',
  falling: '<path d="M4 -4 18 10M-4 0 12 16" stroke-width="2"/>',
  level: '<path d="M0 3h14M0 9h14" stroke-width="2"/>',
  upright: '<path d="M4 0v12M10 0v12" stroke-width="2"/>',
  dots: '<g fill="#000a" stroke="none"><circle cx="4" cy="4" r="1.6"/><circle cx="10" cy="8" r="1.6"/></g>',
  boxes: '<g fill="#000a" stroke="none"><path d="M2 2h4v4H2zM8 6h4v4H8z"/></g>',
};
const swatch = ([hue, pattern]) =>
  `<svg width="14" height="12" viewBox="0 0 14 12" aria-hidden="true"><rect width="14" height="12" fill="${kHue[hue]}"/><g stroke="#0009" fill="none">${kStripes[pattern]}</g></svg>`;
