// Sliders and pickers of a plan. Each stands for a key of the scenario, and knows what the shipped scenario says of it.

const at_path = (object, path) => path.split('.').reduce((at, key) => (at === undefined || at === null ? undefined : at[key]), object);
const kDoublings = (last) => Array.from({ length: Math.log2(last) + 1 }, (_, i) => 2 ** i);
const with_value = (values, value) => (values.includes(value) ? values : [...values, value].sort((a, b) => a - b));

const kSharding = [
  ['none', 'whole copies', { 'strategy.zero_stage': 0, 'strategy.fsdp.enabled': false }],
  ['zero1', 'ZeRO-1: optimizer state', { 'strategy.zero_stage': 1, 'strategy.fsdp.enabled': false }],
  ['zero2', 'ZeRO-2: and gradients', { 'strategy.zero_stage': 2, 'strategy.fsdp.enabled': false }],
  ['zero3', 'ZeRO-3: and parameters', { 'strategy.zero_stage': 3, 'strategy.fsdp.enabled': false }],
  ['fsdp', 'FSDP: all state, in units', { 'strategy.zero_stage': 0, 'strategy.fsdp.enabled': true }],
];
const kDivided = 'How work is divided';
const kAxes = ['strategy.tp', 'strategy.pp', 'strategy.cp', 'strategy.ep'];
// What else the number of replicas follows from.
const kPlaces = ['cluster.nodes', 'cluster.machine'];
// Sliders whose values are to divide the GPUs.
const kPlaced = ['cluster.nodes', 'strategy.tp', 'strategy.pp', 'strategy.cp'];

const words_of = (choices, key) => {
  const found = choices.keys.find((k) => k.key === key);
  return found && found.type.startsWith('one of: ') ? found.type.slice(8).split(', ') : [];
};
// What may be chosen for a key, where that is a list: [value, what is read of it].
const kOffered = { model: 'models', 'cluster.machine': 'machines', 'cluster.network': 'networks', 'framework.name': 'frameworks', 'strategy.schedule': 'schedules' };
const offered_values = (choices, key) => {
  if (kOffered[key]) return choices[kOffered[key]].map((c) => [c.name, c.title ? `${c.name}: ${c.title}` : c.name]);
  const is_check = choices.keys.some((k) => k.key === key && k.type === 'true or false');
  return (is_check ? ['true', 'false'] : words_of(choices, key)).map((word) => [word, word]);
};

// groups: [title, [control]]; a control is {key, label, kind: steps | number | pick | check | sharding | words, values, options}.
const control_groups = (choices) => {
  const listed_words = (key) => words_of(choices, key).map((word) => [word, word.replace(/_/g, ' ')]);
  return [
    [
      'Model and batch',
      [
        { key: 'model', label: 'Model', kind: 'pick', options: (base) => model_options(choices, base) },
        { key: 'training.global_batch', label: 'Sequences per step', kind: 'number' },
        { key: 'training.sequence_length', label: 'Tokens per sequence', kind: 'number', of_sequences: true },
        { key: 'strategy.microbatch', label: 'Sequences per microbatch', kind: 'steps', values: kDoublings(32) },
        { key: 'training.precision', label: 'Precision', kind: 'pick', options: () => listed_words('training.precision') },
      ],
    ],
    [
      'Cluster',
      [
        { key: 'cluster.machine', label: 'Machine', kind: 'pick', options: () => choices.machines.map((m) => [m.name, `${m.title} (${m.gpus} GPUs)`]) },
        { key: 'cluster.nodes', label: 'Machines', kind: 'steps', values: kDoublings(2048) },
        { key: 'cluster.network', label: 'Network', kind: 'pick', options: () => [['', 'none'], ...choices.networks.map((n) => [n.name, n.title])] },
      ],
    ],
    [
      kDivided,
      [
        { key: 'strategy.tp', label: 'Tensor parallel', kind: 'steps', values: kDoublings(64) },
        { key: 'strategy.pp', label: 'Pipeline stages', kind: 'steps', values: [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64] },
        { key: 'strategy.cp', label: 'Context parallel', kind: 'steps', values: kDoublings(64), of_sequences: true },
        { key: 'strategy.ep', label: 'Expert parallel', kind: 'steps', values: kDoublings(64), of_sequences: true },
        { key: 'sharding', label: 'Sharded over replicas', kind: 'sharding' },
        { key: 'strategy.sequence_parallel', label: 'Sequence parallel beside tensor parallel', kind: 'check', of_sequences: true },
      ],
    ],
    [
      'Order and memory',
      [
        { key: 'strategy.schedule', label: 'Schedule', kind: 'pick', options: () => choices.schedules.map((s) => [s.name, s.name.replace(/_/g, ' ')]) },
        { key: 'strategy.virtual_stages', label: 'Chunks per stage', kind: 'steps', values: [1, 2, 3, 4, 6, 8, 12] },
        { key: 'strategy.recompute', label: 'Recomputation', kind: 'pick', options: () => listed_words('strategy.recompute') },
      ],
    ],
    [
      'Software',
      [
        {
          key: 'framework.name',
          label: 'Framework',
          kind: 'pick',
          options: () => [['', 'none stated'], ...[...choices.frameworks].sort((a, b) => b.newest - a.newest).map((f) => [f.name, f.name])],
        },
        { key: 'more', label: 'Any other key, one KEY=VALUE a line', kind: 'words' },
      ],
    ],
  ];
};

const name_of_model = (ref) => (typeof ref === 'string' ? file_stem(ref.replace(/\/config\.json$/, '')) : '');
const billions = (n) => (n >= 1e9 ? `${significant(n / 1e9, 3)} B` : `${significant(n / 1e6, 3)} M`);
const model_options = (choices, base) => {
  const own = choices.models.find((m) => m.name === name_of_model(base.model));
  return choices.models
    .filter((m) => !own || m.sequence_length > 0 === own.sequence_length > 0)
    .map((m) => [m.name, `${m.name.replace(/_/g, ' ')} (${billions(m.parameters)})`]);
};

const help_of = (choices, key) => (choices.keys.find((k) => k.key === key) || {}).help;
// What the plan says of a key: a change, the shipped scenario, or the key's default; as text.
const value_of = (choices, plan, key) => {
  if (plan.set[key] !== undefined) return String(plan.set[key]);
  const base = scenario_of(choices, plan.base);
  if (key === 'model') return name_of_model(base.model);
  const stated = at_path(base, key);
  if (stated !== undefined) return String(stated);
  const known = choices.keys.find((k) => k.key === key);
  return known ? known.fallback.replace(/^"|"$/g, '') : '';
};
const scenario_of = (choices, file) => (choices.scenarios.find((s) => s.file === file) || choices.scenarios[0]).scenario;
const says_of_base = (choices, plan, key) => value_of(choices, plan_of(plan.base), key);

// The plan with one key changed; replicas are what is left of the GPUs.
const changed = (choices, plan, changes) => {
  const set = { ...plan.set };
  for (const [key, value] of Object.entries(changes))
    if (says_of_base(choices, plan, key) === String(value)) delete set[key];
    else set[key] = String(value);
  const divided = [...kAxes, ...kPlaces].some((key) => set[key] !== undefined);
  for (const key of ['strategy.dp', 'strategy.dp_replicate'])
    if (divided && /^\d+$/.test(says_of_base(choices, plan, key))) set[key] = 'auto';
    else if (!divided && set[key] === 'auto') delete set[key];
  return plan_of(plan.base, set);
};

// What follows from the axes, of the resolved scenario.
const show_derived = (scenario) => {
  const host = document.getElementById('derived');
  if (!host) return;
  const s = scenario && scenario.strategy;
  const each = s ? scenario.training.global_batch / (s.dp * s.microbatch) : 0;
  host.textContent = s ? `${plural(s.dp, 'replica')}, ${plural(each, 'microbatch', 'microbatches')} each` : '';
};

const sharding_of = (choices, plan) =>
  value_of(choices, plan, 'strategy.fsdp.enabled') === 'true' ? 'fsdp' : value_of(choices, plan, 'strategy.zero_stage') === '0' ? 'none' : `zero${value_of(choices, plan, 'strategy.zero_stage')}`;

const picker = (id, options, chosen, changed_to) => {
  const known = options.some(([value]) => value === chosen) ? options : [[chosen, chosen || 'none'], ...options];
  const select = element(
    'select',
    { id },
    known.map(([value, text]) => element('option', { value, selected: value === chosen ? '' : undefined }, text)),
  );
  select.addEventListener('change', () => changed_to(select.value));
  return select;
};

// Whether the GPUs divide into what the axes say, with `key` set to `value`. Not known of clusters that have no one machine.
const divides = (choices, plan, key, value) => {
  const figure = (name) => (name === key ? value : Number(value_of(choices, plan, name)) || 1);
  const machine = choices.machines.find((m) => m.name === value_of(choices, plan, 'cluster.machine'));
  return !machine || (machine.gpus * figure('cluster.nodes')) % (figure('strategy.tp') * figure('strategy.pp') * figure('strategy.cp')) === 0;
};
// Where a slider that is moved from one place to another comes to rest: there, or at the next place on its way that can be.
const resting_place = (from, to, count, can_be) => {
  const way = Math.sign(to - from);
  for (let at = to; way !== 0 && at >= 0 && at < count; at += way) if (can_be(at)) return at;
  return to;
};

// A slider over a list of values, with the value beside it. It passes over values that `can_be` says no of.
const stepper = (id, values, chosen, can_be, changed_to) => {
  const all = with_value(values, Number(chosen) || 1);
  let at = all.indexOf(Number(chosen) || 1);
  const shown = element('output', { for: id }, fixed(all[at], 0));
  const slider = element('input', { id, type: 'range', min: 0, max: all.length - 1, step: 1, value: at, 'aria-valuetext': String(all[at]) });
  slider.addEventListener('input', () => {
    at = resting_place(at, Number(slider.value), all.length, (place) => can_be(all[place]));
    slider.value = at;
    const value = all[at];
    shown.textContent = fixed(value, 0);
    slider.setAttribute('aria-valuetext', String(value));
    changed_to(value);
  });
  return element('div', { class: 'stepper' }, slider, shown);
};

const number_box = (id, chosen, changed_to) => {
  const box = element('input', { id, type: 'number', min: 1, step: 1, value: chosen, inputmode: 'numeric' });
  box.addEventListener('input', () => box.value !== '' && changed_to(box.value));
  return box;
};

const check_box = (id, chosen, changed_to) => {
  const box = element('input', { id, type: 'checkbox' });
  box.checked = chosen === 'true';
  box.addEventListener('change', () => changed_to(String(box.checked)));
  return box;
};

// Keys that no other control stands for.
const words_box = (id, choices, plan, known, changed_to) => {
  const more = Object.entries(plan.set).filter(([key]) => !known.has(key));
  const box = element('textarea', { id, rows: 3, spellcheck: 'false', placeholder: 'kernels.attention=flash' }, more.map((m) => m.join('=')).join('\n'));
  box.addEventListener('change', () => {
    const set = Object.fromEntries(Object.entries(plan.set).filter(([key]) => known.has(key)));
    for (const line of box.value.split('\n').map((l) => l.trim()).filter((l) => l.includes('='))) set[line.slice(0, line.indexOf('='))] = line.slice(line.indexOf('=') + 1);
    changed_to(set);
  });
  return box;
};

// `current` gives the plan as it is at the time; moving a slider does not draw the controls anew.
const show_controls = (form, choices, current, change) => {
  const plan = current();
  const focused = document.activeElement && document.activeElement.id;
  const base = scenario_of(choices, plan.base);
  const sequences = value_of(choices, plan, 'training.sequence_length') !== '0';
  const groups = control_groups(choices);
  const known = new Set([...groups.flatMap(([, controls]) => controls.map((c) => c.key)), 'strategy.zero_stage', 'strategy.fsdp.enabled', 'strategy.dp', 'strategy.dp_replicate']);
  const input_of = (c, id) => {
    const now = value_of(choices, plan, c.key);
    const set = (value) => change((p) => changed(choices, p, { [c.key]: value }));
    if (c.kind === 'steps') return stepper(id, c.values, now, (value) => !kPlaced.includes(c.key) || divides(choices, current(), c.key, value), set);
    if (c.kind === 'number') return number_box(id, now, set);
    if (c.kind === 'check') return check_box(id, now, set);
    if (c.kind === 'pick') return picker(id, c.options(base), now, set);
    if (c.kind === 'words') return words_box(id, choices, plan, known, (all) => change((p) => plan_of(p.base, all)));
    return picker(
      id,
      kSharding.map(([value, text]) => [value, text]),
      sharding_of(choices, plan),
      (value) => change((p) => changed(choices, p, kSharding.find(([name]) => name === value)[2])),
    );
  };
  const line = (c) => {
    const id = `control-${c.key.replace(/\./g, '-')}`;
    return element('div', { class: `control ${c.kind}`, title: help_of(choices, c.key) }, element('label', { for: id }, c.label), input_of(c, id));
  };
  const start = picker(
    'control-base',
    choices.scenarios.map((s) => [s.file, file_stem(s.file).replace(/_/g, ' ')]),
    plan.base,
    (file) => change(() => plan_of(file), true),
  );
  form.replaceChildren(
    element('div', { class: 'control' }, element('label', { for: 'control-base' }, 'Begin with'), start),
    ...groups.map(([title, controls]) =>
      element(
        'fieldset',
        {},
        element('legend', {}, title),
        controls.filter((c) => sequences || !c.of_sequences).map(line),
        title === kDivided ? element('p', { class: 'derived', id: 'derived' }) : null,
      ),
    ),
  );
  if (focused && document.getElementById(focused)) document.getElementById(focused).focus();
};
