// Numbers as text. Every rule that turns a figure into words is here.

const significant = (x, digits = 4) => {
  if (x === 0) return '0';
  const places = Math.max(0, digits - 1 - Math.floor(Math.log10(Math.abs(x))));
  return x.toLocaleString('en-US', { minimumFractionDigits: 0, maximumFractionDigits: Math.min(places, 12), useGrouping: true });
};
// The same with its zeros kept, so that a column of them is even.
const even = (x, digits = 4) => {
  const places = x === 0 ? 0 : Math.min(12, Math.max(0, digits - 1 - Math.floor(Math.log10(Math.abs(x)))));
  return fixed(x, places);
};
const fixed = (x, places) => x.toLocaleString('en-US', { minimumFractionDigits: places, maximumFractionDigits: places });

// Without a sign where no digit is left of it.
const signed = (x, text) => (!/[1-9]/.test(text) ? '' : x > 0 ? '+' : '−') + text;

// [factor, unit], largest first; the last one takes the rest.
const kTimes = [
  [86400, 'days'],
  [1, 's'],
  [1e-3, 'ms'],
  [1e-6, 'µs'],
  [1e-9, 'ns'],
];
// Of what people wait for.
const kWaits = [
  [48 * 3600, 86400, 'days'],
  [3600, 3600, 'h'],
  [60, 60, 'min'],
  [0, 1, 's'],
];
const kBytes = [
  [1e15, 'PB'],
  [1e12, 'TB'],
  [1e9, 'GB'],
  [1e6, 'MB'],
  [1e3, 'kB'],
  [1, 'B'],
];
const kBinary = [
  [1024 ** 4, 'TiB'],
  [1024 ** 3, 'GiB'],
  [1024 ** 2, 'MiB'],
  [1024, 'KiB'],
  [1, 'B'],
];
const kGiB = 1024 ** 3;

const scaled = (x, units) => {
  const unit = units.find(([factor]) => Math.abs(x) >= factor * 0.9995) || units[units.length - 1];
  return [x / unit[0], unit[1]];
};
const joined = ([value, unit]) => `${value}\u00a0${unit}`;

// Each returns [text, unit]; `text_of` joins them.
const parts_of = {
  seconds: (x) => {
    const [v, u] = x === 0 ? [0, 's'] : scaled(x, kTimes);
    return [even(v), u];
  },
  bytes: (x) => {
    const [v, u] = x === 0 ? [0, 'B'] : scaled(x, kBytes);
    return [significant(v), u];
  },
  binary: (x) => {
    const [v, u] = scaled(x, kBinary);
    return [significant(v), u];
  },
  gib: (x) => [fixed(x / kGiB, 2), 'GiB'],
  wait: (x) => {
    const [, factor, unit] = kWaits.find(([from]) => x >= from);
    return [significant(x / factor, 3), unit];
  },
  percent: (x) => [fixed(100 * x, 1), '%'],
  signed_percent: (x) => [signed(x, fixed(100 * Math.abs(x), 1)), '%'],
  days: (x) => [significant(x, 3), x === 1 ? 'day' : 'days'],
  tflops: (x) => [significant(x / 1e12), 'TFLOP/s'],
  rate: (x) => [x >= 1e6 ? significant(x, 4) : x >= 1000 ? fixed(x, 0) : significant(x), '/s'],
  gbps: (x) => [significant(x), 'GB/s'],
  rate_of_bytes: (x) => [significant(x / 1e9), 'GB/s'],
  usd: (x) => [x >= 1e6 ? `$${significant(x / 1e6, 3)}` : `$${significant(Math.round(x), 12)}`, x >= 1e6 ? 'million' : ''],
  number: (x) => [even(x), ''],
  whole: (x) => [fixed(x, 0), ''],
  mwh: (x) => [significant(x, 3), 'MWh'],
};
const text_of = (kind, x) => (x === null || x === undefined || Number.isNaN(x) ? '–' : joined(parts_of[kind](x)).replace(/\u00a0$/, ''));
// In sentences and on axes, without zeros at the end.
const seconds = (x) => {
  const [v, u] = x === 0 ? [0, 's'] : scaled(x, kTimes);
  return joined([significant(v), u]);
};
const percent = (x) => text_of('percent', x);
const hours_text = (x) => text_of('wait', x);
const signed_seconds = (x) => signed(x, seconds(Math.abs(x)));
const round_percent = (x) => `${significant(100 * x)}\u00a0%`; // On axes.

// One unit for a whole column, so that its rows can be compared.
const time_column = (values) => {
  const largest = Math.max(...values.map(Math.abs), 0);
  const [factor, unit] = kTimes.slice(1).find(([f]) => largest >= f * 0.9995) || kTimes[kTimes.length - 1];
  const text = (x) => fixed(x / factor, 3);
  return { unit, factor, text, signed: (x) => signed(x, text(Math.abs(x))) };
};

const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);
const listed = (words) => (words.length < 2 ? words.join('') : `${words.slice(0, -1).join(', ')} and ${words[words.length - 1]}`);
const plural = (n, one, many = `${one}s`) => `${fixed(n, 0)} ${n === 1 ? one : many}`;
const sum = (values) => values.reduce((a, b) => a + b, 0);
const largest_by = (list, of) => list.reduce((best, x) => (best === undefined || of(x) > of(best) ? x : best), undefined);
const median = (values) => {
  const v = [...values].sort((a, b) => a - b);
  return v.length === 0 ? 0 : (v[Math.floor((v.length - 1) / 2)] + v[Math.ceil((v.length - 1) / 2)]) / 2;
};
const file_stem = (path) =>
  String(path)
    .split('@')[0]
    .split('/')
    .filter((p) => p !== 'config.json')
    .pop()
    .replace(/\.json$/, '');

// Whether a step's time is not what was modelled, but that with the known bias of such steps applied.
const biased = (a) => Math.abs(a.bias) >= 0.005;

// For titles of pictures, which are of steps as they were modelled.
const modelled_words = (a) => (a && biased(a) ? ', as modelled, before the bias' : '');

// Lines on how far a step may be off, of an answer or of one of its candidates.
const range_lines = (a) =>
  a.step_time_s_p10 > 0
    ? [
        [
          'Likely range',
          `${seconds(a.step_time_s_p10)} to ${seconds(a.step_time_s_p90)} for 8 of 10 such steps, by ${plural(a.range_rows, 'row')} of ${plural(a.range_sources, 'source')}: ${a.range_rows_of}${a.range_caution ? `; ${a.range_caution}` : ''}`,
        ],
        [
          'Bias',
          biased(a)
            ? `${seconds(a.modelled_step_time_s)} as modelled; such steps took ${fixed(100 * Math.abs(a.bias), 0)} % ${a.bias > 0 ? 'longer' : 'less'}, which is applied`
            : null,
        ],
        [
          'Without your own steps',
          a.range_before
            ? `${seconds(a.range_before.step_time_s)}, ${seconds(a.range_before.step_time_s_p10)} to ${seconds(a.range_before.step_time_s_p90)}; ${plural(a.range_own_rows, 'step')} of your own shifted that`
            : null,
        ],
      ]
    : [];
