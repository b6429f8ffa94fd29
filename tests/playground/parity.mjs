// What the module answers beside what the program prints: structure, words and integers are the same, reals within 1e-9.
// usage: parity.mjs PLAYGROUND REHEARSE, in the project's folder. Prints the worst difference; ends with 1 where one is
// beyond the bound.
import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { open_core } from './module.mjs';
import { kCases } from './cases.mjs';

const kBound = 1e-9; // Relative, of reals.
const [folder, program] = process.argv.slice(2);

const printed = (words) => {
  const env = { ...process.env, REHEARSE_DATA: process.cwd() }; // What the module was built with.
  const run = spawnSync(program, [...words, '--format', 'json'], { encoding: 'utf8', maxBuffer: 1 << 28, env });
  if (run.error) throw run.error;
  if (run.stdout === '') throw new Error(`${words.join(' ')}: ${run.stderr}`);
  return run.stdout;
};

// The text of the member "answer", as it stands: what JSON.parse gives can't tell 20 from 20.0.
const answer_text = (reply) => {
  const key = '"answer":',
    begin = reply.indexOf(key) + key.length;
  if (reply.startsWith('{"error"')) throw new Error(reply.slice(0, 400));
  let depth = 0,
    quoted = false;
  for (let i = begin; i < reply.length; ++i) {
    const c = reply[i];
    if (quoted) {
      if (c === '\\') ++i;
      else if (c === '"') quoted = false;
    } else if (c === '"') quoted = true;
    else if (c === '{' || c === '[') ++depth;
    else if ((c === '}' || c === ']') && --depth === 0) return reply.slice(begin, i + 1);
  }
  throw new Error('no answer in the reply');
};

const tokens = (json) => json.match(/"(?:\\.|[^"\\])*"|-?\d[\d.eE+-]*|[[\]{}:,]|true|false|null/g);
const is_number = (token) => /^-?\d/.test(token);
const is_real = (token) => /[.eE]/.test(token);

// The largest relative difference of a real, and what else differs.
const difference = (native, module) => {
  const a = tokens(native),
    b = tokens(module);
  if (a.length !== b.length) return { worst: Infinity, other: `${a.length} parts and ${b.length}` };
  let worst = 0;
  for (let i = 0; i < a.length; ++i) {
    if (a[i] === b[i]) continue;
    const near = a.slice(Math.max(0, i - 8), i).filter((t) => t.length > 1).slice(-2).join(' ');
    if (!is_number(a[i]) || !is_number(b[i]) || !is_real(a[i]) || !is_real(b[i])) return { worst: Infinity, other: `at ${near}: ${a[i]} and ${b[i]}` };
    const x = Number(a[i]),
      y = Number(b[i]);
    worst = Math.max(worst, Math.abs(x - y) / Math.max(Math.abs(x), Math.abs(y)));
  }
  return { worst };
};

const core = await open_core(folder);
const lessons = readdirSync('scenarios/lessons', { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => ({ what: `lesson ${name}`, words: ['lesson', name, '--backend', 'analytic'], request: { ask: 'lesson', name } }));
const cases = [
  ...lessons,
  ...kCases.flatMap(({ scenario, set }) => {
    const changes = set.flatMap((s) => ['--set', s]);
    const what = [scenario, ...set].join(' ');
    return [
      { what: `estimate ${what}`, words: ['estimate', scenario, ...changes], request: { ask: 'estimate', scenario, set, suggest: true } },
      { what: `simulate ${what}`, words: ['simulate', scenario, '--backend', 'analytic', ...changes], request: { ask: 'simulate', scenario, set, suggest: true } },
    ];
  }),
];

let worst = 0,
  worst_of = '',
  failed = 0;
for (const { what, words, request } of cases) {
  const began = performance.now();
  const reply = core.text(request);
  const took = performance.now() - began;
  const d = difference(printed(words), answer_text(reply));
  if (d.worst > worst && Number.isFinite(d.worst)) [worst, worst_of] = [d.worst, what];
  const bad = d.worst > kBound;
  failed += bad ? 1 : 0;
  console.log(`${bad ? 'FAILED' : 'ok    '} ${d.other || d.worst.toExponential(1)}  ${took.toFixed(0)} ms  ${what}`);
}
console.log(`${cases.length} answers, ${lessons.length} of them lessons, ${kCases.length} scenarios; worst difference of a real: ${worst.toExponential(2)}${worst_of ? ` (${worst_of})` : ''}; ${failed} beyond ${kBound}`);
process.exit(failed > 0 || cases.length === 0 ? 1 : 0);
