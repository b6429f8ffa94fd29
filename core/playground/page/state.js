// What is asked: a shipped scenario with changes, as `--set` takes them. The page's address holds it.

const kFirst = kModule.first.scenario;

const plan_of = (base, set = {}) => ({ base, set });
const overrides = (plan) => Object.entries(plan.set).map(([key, value]) => `${key}=${value}`);
const same_plan = (a, b) => a && b && a.base === b.base && overrides(a).sort().join() === overrides(b).sort().join();

// "base=gpt3_175b_a100_1024&strategy.tp=4"
const plan_text = (plan) => {
  const words = new URLSearchParams(Object.entries(plan.set));
  const text = words.toString();
  return `base=${encodeURIComponent(file_stem(plan.base))}${text ? `&${text}` : ''}`;
};
const kViewNames = ['plan', 'beside', 'steps', 'lessons', 'tasks'];
const kOwnWords = ['base', 'view', 'beside', 'steps', 'lesson', 'changed', 'task', 'theme'];
const read_plan = (text) => {
  const words = new URLSearchParams(text);
  const set = {};
  for (const [key, value] of words) if (!kOwnWords.includes(key)) set[key] = value;
  return plan_of(words.has('base') ? `scenarios/${words.get('base')}.json` : kFirst, set);
};

const read_address = () => {
  const text = location.hash.slice(1),
    words = new URLSearchParams(text);
  return {
    view: kViewNames.includes(words.get('view')) ? words.get('view') : 'plan',
    plan: read_plan(text),
    beside: words.has('beside') ? read_plan(words.get('beside')) : null,
    steps: Object.fromEntries(new URLSearchParams(words.get('steps') || '')),
    lesson: words.get('lesson'),
    changed: words.get('changed') || '',
    task: words.get('task'),
    theme: words.get('theme'),
  };
};
const address_of = (state) =>
  `#${[
    plan_text(state.plan),
    state.view !== 'plan' ? `view=${state.view}` : '',
    state.beside ? `beside=${encodeURIComponent(plan_text(state.beside))}` : '',
    state.view === 'steps' && state.steps.topic ? `steps=${encodeURIComponent(new URLSearchParams(state.steps))}` : '',
    state.view === 'lessons' && state.lesson ? `lesson=${encodeURIComponent(state.lesson)}` : '',
    state.view === 'lessons' && state.lesson && state.changed ? `changed=${encodeURIComponent(state.changed)}` : '',
    state.view === 'tasks' && state.task ? `task=${encodeURIComponent(state.task)}` : '',
    state.theme ? `theme=${state.theme}` : '',
  ]
    .filter(Boolean)
    .join('&')}`;

// A word as a shell reads it back.
const shell_word = (text) => (/^[\w./=:,+@%-]+$/.test(text) ? text : `'${text.replace(/'/g, `'\\''`)}'`);
const command_line = (verb, plan, more = '') =>
  [`rehearse ${verb} ${plan.base}${more}`, ...overrides(plan).map((o) => `--set ${shell_word(o)}`)].join(' \\\n  ');

const request_of = (ask, plan, more = {}) => ({ ask, scenario: plan.base, set: overrides(plan), ...more });
