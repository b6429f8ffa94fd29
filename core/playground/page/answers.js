// What the page says of a plan: the closed form at once, what is played below it.

const kPlayAfter = 250; // Milliseconds without a move.

const refusal_text = (error) => [error.what, error.where ? `(${error.where})` : '', error.hint].filter(Boolean).join(' ');
// Changes that a refusal's advice or a suggestion names: "--set KEY=VALUE".
const named_changes = (text) => [...String(text).matchAll(/--set ([\w.]+)=('[^']*'|\S+)/g)].map(([, key, value]) => [key, value.replace(/^'|'$|[.,;]$/g, '')]);

const apply_button = (changes, apply) => {
  const button = element('button', { type: 'button', class: 'apply' }, `Set ${changes.map((c) => c.join(' = ')).join(', ')}`);
  button.addEventListener('click', () => apply(Object.fromEntries(changes)));
  return button;
};

const refused_part = (error, apply) => {
  const changes = named_changes(error.hint);
  main().append(
    element(
      'div',
      { class: 'notice', role: 'alert' },
      element('b', {}, 'This is no plan. '),
      refusal_text(error),
      changes.length > 0 ? element('p', {}, apply_button(changes, apply)) : null,
    ),
  );
};

const plan_title = (a) => `${report.plan.model} on ${plural(report.plan.gpus, 'GPU')}`;

const headline_part = (a) => {
  main().append(element('h2', { class: 'title' }, plan_title(a)), element('p', { class: 'plan' }, report.heading));
  for (const warning of report.warnings || []) notice(warning);
  if (a.step_time_s === undefined) {
    const m = tightest_of(a.memory);
    headline([
      { label: 'Step time', figure: { parts: ['does not fit', ''] }, note: 'no time is given', tone: 'bad' },
      memory_entry(a.memory, 'answer.memory'),
      { label: 'Capacity', figure: figure_at(`answer.memory.${a.memory.indexOf(m)}.capacity_bytes`, 'gib') },
    ]);
    return;
  }
  headline(step_headline(a));
};

// Opened details stay open when their answer is told anew.
const fill_again = (host, parts) => {
  const open = new Set([...host.querySelectorAll('details[open] > summary')].map((s) => s.textContent));
  host.style.minHeight = `${host.offsetHeight}px`;
  clear(host);
  fill(host, parts);
  for (const summary of host.querySelectorAll('details > summary')) summary.parentNode.open = open.has(summary.textContent);
  host.style.minHeight = '';
};

// In one line, which small screens keep in sight below the controls. Screen readers have the status.
const brief_text = ({ error, answer: a }) => {
  if (error) return 'This is no plan';
  const m = tightest_of(a.memory),
    memory = `${text_of('gib', m.needed_bytes)} of ${text_of('gib', m.capacity_bytes)}`;
  return a.step_time_s === undefined ? `Does not fit: ${memory}` : `${seconds(a.step_time_s)} · MFU ${percent(a.mfu)} · ${memory}`;
};

const show_estimate = (host, data, apply) =>
  fill_again(host, () => {
    if (data.error) return refused_part(data.error, apply);
    const a = data.answer;
    headline_part(a);
    if (a.breakdown) breakdown_section(a.breakdown, 'answer.breakdown', `Where the step goes on its slowest rank, ${a.slowest_rank}`);
    memory_section(a.memory, 'answer.memory');
    roofline_section(report.roofline);
  });

const show_suggestion = (host, data, apply) =>
  fill_again(host, () => {
    const s = data && !data.error && data.answer.suggestion;
    if (!s) return main().append(element('p', { class: 'notice' }, 'No single change was found that makes it fit.'));
    const changes = s.changes.map((c) => [c.slice(0, c.indexOf('=')), c.slice(c.indexOf('=') + 1)]);
    main().append(element('p', { class: 'notice' }, `It would fit, with ${text_of('gib', s.needed_bytes)} needed, by `, apply_button(changes, apply)));
  });

// The closed form beside what was played, category by category.
const beside_section = (formula, played) => {
  const a = formula.answer,
    b = played.answer;
  const column = time_column([a.modelled_step_time_s, b.modelled_step_time_s]);
  const scale = (x) => x.modelled_step_time_s / x.step_time_s; // Breakdowns have the bias applied.
  const rows = Object.keys(words.time)
    .map((key) => [words.time[key], (a.breakdown[key] || 0) * scale(a), (b.breakdown[key] || 0) * scale(b)])
    .filter(([, x, y]) => x > 0 || y > 0);
  const cells = (x) => ({ text: column.text(x), value: x });
  const off = a.modelled_step_time_s / b.modelled_step_time_s - 1;
  section({
    id: 'beside',
    title: 'The formula beside what was played',
    see: `In closed form the step takes ${seconds(a.modelled_step_time_s)}, played ${seconds(b.modelled_step_time_s)}: the formula is ${Math.abs(off) < 5e-4 ? 'the same' : `${percent(Math.abs(off))} ${off > 0 ? 'above' : 'below'}`}. ${bubble_rule(b)}`,
    tables: [
      table(
        'Time on the slowest rank, as modelled',
        [{ title: 'category' }, { title: `formula, ${column.unit}`, number: true }, { title: `played, ${column.unit}`, number: true }, { title: 'difference', number: true }],
        [
          ...rows.map(([name, x, y]) => [name, cells(x), cells(y), { text: column.signed(x - y), value: x - y }]),
          {
            mark: 'sum',
            cells: ['step', cells(a.modelled_step_time_s), cells(b.modelled_step_time_s), { text: text_of('signed_percent', off), value: off }],
          },
        ],
      ),
    ],
  });
};

// What textbooks say of waiting in a pipeline whose stages take equally long.
const kBubbleRules = {
  gpipe: (p, m) => [(p - 1) / (m + p - 1), '(p − 1) / (m + p − 1)'],
  '1f1b': (p, m) => [(p - 1) / (m + p - 1), '(p − 1) / (m + p − 1)'],
  interleaved_1f1b: (p, m, v) => [(p - 1) / (v * m + p - 1), '(p − 1) / (v m + p − 1)'],
};
const bubble_rule = (a) => {
  const { pp, schedule, virtual_stages, dp, microbatch } = a.scenario.strategy;
  const rule = kBubbleRules[schedule];
  if (!rule || pp < 2) return '';
  const m = a.scenario.training.global_batch / (dp * microbatch);
  const [share, formula] = rule(pp, m, virtual_stages);
  const total = sum(Object.values(a.mean_breakdown || a.breakdown));
  return `The rule for ${schedule.replace(/_/g, ' ')} says that ranks wait for ${formula} = ${percent(share)} of a step with p = ${pp} equal stages${virtual_stages > 1 ? `, v = ${virtual_stages} chunks` : ''} and m = ${m} microbatches; played, the slowest rank waits ${percent((a.breakdown.bubble || 0) / total)}.`;
};

const show_played = (host, data, formula, plan) =>
  fill_again(host, () => {
    if (data.error) return refused_part(data.error, () => {});
    const a = data.answer;
    if (a.step_time_s === undefined) return;
    if (formula && !formula.error && formula.answer.step_time_s !== undefined) beside_section(formula, data);
    gantt_section(report.gantt, `Who computes when${modelled_words(a)}`);
    course_section(report.course);
    topology_section(report.topology);
    assumptions(plan_facts(a), [a.evidence && a.evidence.length > 0 ? evidence_table(a.evidence) : null]);
  });

const copyable = (title, text) => {
  const button = element('button', { type: 'button', 'aria-label': `Copy: ${title}` }, 'Copy');
  button.addEventListener('click', () => copy(text, button));
  return element('div', { class: 'sheet' }, element('header', {}, element('h3', {}, title), button), element('pre', { tabindex: '0', 'aria-label': title }, text));
};

// Shipped models by their names, which are the same in any folder.
const portable_scenario = (stated) => ({ ...stated, model: name_of_model(stated.model) || stated.model });

const show_elsewhere = (host, plan, data) =>
  fill_again(host, () => {
    main().append(
      element(
        'section',
        { id: 'elsewhere' },
        element('h2', {}, 'The same elsewhere'),
        element('p', { class: 'see' }, 'This page is the same program as the command line, without SimGrid. The address above holds the plan.'),
        copyable('Closed form', command_line('estimate', plan)),
        copyable('Played', command_line('simulate', plan, ' --backend analytic')),
        data && data.stated ? element('details', {}, element('summary', {}, 'The scenario, as a file'), copyable('scenario.json', JSON.stringify(portable_scenario(data.stated), null, 2))) : null,
        data && data.answer ? scenario_text(data.answer) : null,
      ),
    );
  });
