// simulate, estimate, memory and run: one plan, one step.

const evidence_table = (evidence) =>
  table(
    'What prices rest on',
    [{ title: 'price of' }, { title: 'evidence' }, { title: 'off by, on rows held out' }, { title: 'source' }],
    evidence.map((e) => [
      e.words || e.what,
      e.evidence,
      e.held_out ? `${percent(e.held_out.median)} median, ${plural(e.held_out.rows, 'row')}` : 'not tested',
      e.source || '',
    ]),
  );

const plan_facts = (a) => [
  ['Model', report.plan && report.plan.model],
  ['Cluster', report.plan && report.plan.cluster],
  ['Strategy', report.plan && report.plan.strategy],
  ['Back end', [a.backend, a.folding].filter(Boolean).join('; ')],
  ...range_lines(a),
  peak_line(a),
  ['How MFU is counted', a.mfu !== undefined ? report.definitions && report.definitions.utilisation : null],
  ['Memory', a.memory && report.definitions && report.definitions.memory],
];

const scenario_text = (a) => (a.scenario ? folded('The scenario, with every default written out', JSON.stringify(a.scenario, null, 2)) : null);

const fit_note = (rows) => {
  const m = tightest_of(rows);
  return m.needed_bytes > m.capacity_bytes
    ? { note: `over ${text_of('gib', m.capacity_bytes)} on stage ${m.stage}`, tone: 'bad' }
    : { note: `of ${text_of('gib', m.capacity_bytes)}, fullest stage` };
};
const memory_entry = (rows, path) => ({
  label: 'Memory needed',
  figure: figure_at(`${path}.${rows.indexOf(tightest_of(rows))}.needed_bytes`, 'gib'),
  ...fit_note(rows),
});

// How far the fullest stage's memory may be off, of an answer that knows it.
const peak_line = (a) =>
  a.memory_range
    ? [
        'Likely memory',
        `${text_of('gib', a.memory_range.needed_bytes_p10)} to ${text_of('gib', a.memory_range.needed_bytes_p90)} on stage ${a.memory_range.stage}, for 8 of 10 such peaks, by ${a.memory_range.rests_on}`,
      ]
    : ['Likely memory', null];

const suggestion_notice = (a) =>
  a.suggestion &&
  notice(`It would fit, with ${text_of('gib', a.suggestion.needed_bytes)} needed, by`, a.suggestion.changes.map((c) => `--set ${c}`).join(' '));

const memory_page = (a) => {
  const m = tightest_of(a.memory);
  open_page(
    `Does ${report.plan.model} fit into the memory of ${plural(report.plan.gpus, 'GPU')}?`,
    report.heading,
    a.fits
      ? `It fits: the fullest stage needs ${text_of('gib', m.needed_bytes)} of ${text_of('gib', m.capacity_bytes)}.`
      : `It does not: stage ${m.stage} needs ${text_of('gib', m.needed_bytes)} of ${text_of('gib', m.capacity_bytes)}, so that no time is given.`,
  );
  suggestion_notice(a);
  const at = a.memory.indexOf(m);
  headline([
    memory_entry(a.memory, 'answer.memory'),
    { label: 'Peak held', figure: figure_at(`answer.memory.${at}.peak_bytes`, 'gib'), note: m.peak_at },
    { label: 'Capacity', figure: figure_at(`answer.memory.${at}.capacity_bytes`, 'gib') },
  ]);
  memory_section(a.memory, 'answer.memory');
  assumptions(plan_facts(a), [scenario_text(a)]);
};

const step_answer_text = (a) => {
  const total = sum(Object.values(a.breakdown));
  const m = tightest_of(a.memory);
  const pace = a.tokens_per_s > 0 ? `${fixed(a.tokens_per_s, 0)} tokens a second` : `${significant(a.samples_per_s)} ${report.plan.samples} a second`;
  return `A step takes ${seconds(a.step_time_s)}: ${pace}, ${percent(a.mfu)} of what the chips could do. ${capital(words.time[a.bound_by])} ${/s$/.test(words.time[a.bound_by]) ? 'are' : 'is'} the largest part, ${percent(a.breakdown[a.bound_by] / total)} of the slowest rank's time. Memory suffices, with ${text_of('gib', m.capacity_bytes - m.needed_bytes)} to spare on the fullest stage.`;
};

const step_headline = (a) => [
  {
    label: 'Step time',
    figure: figure_at('answer.step_time_s', 'seconds'),
    note: a.step_time_s_p10 > 0 ? `likely ${seconds(a.step_time_s_p10)} to ${seconds(a.step_time_s_p90)}` : `by ${a.backend}`,
  },
  a.tokens_per_s > 0
    ? { label: 'Tokens per second', figure: figure_at('answer.tokens_per_s', 'whole'), note: `${significant(a.tokens_per_s_per_gpu)} per GPU` }
    : { label: `${capital(report.plan.samples)} per second`, figure: figure_at('answer.samples_per_s', 'number') },
  { label: 'MFU', figure: figure_at('answer.mfu', 'percent'), note: `HFU ${percent(a.hfu)}` },
  { label: 'Model FLOP/s per GPU', figure: figure_at('answer.model_flops_per_s_per_gpu', 'tflops') },
  memory_entry(a.memory, 'answer.memory'),
  ...(a.run_time_s ? [{ label: 'Whole run', figure: figure_at('answer.run_time_s', 'seconds'), note: 'without failures and evaluation' }] : []),
];

const step_page = (a) => {
  if (a.step_time_s === undefined) return memory_page(a);
  open_page(
    `How long does a training step of ${report.plan.model} take on ${plural(report.plan.gpus, 'GPU')}, and why?`,
    report.heading,
    step_answer_text(a),
  );
  headline(step_headline(a));
  gantt_section(report.gantt, `Who computes when${modelled_words(report.answer)}`);
  breakdown_section(a.breakdown, 'answer.breakdown', `Where the step goes on its slowest rank, ${a.slowest_rank}`);
  memory_section(a.memory, 'answer.memory');
  course_section(report.course);
  topology_section(report.topology);
  roofline_section(report.roofline);
  assumptions(plan_facts(a), [a.evidence && a.evidence.length > 0 ? evidence_table(a.evidence) : null, scenario_text(a)]);
  return undefined;
};

const run_page = (a) => {
  const steps = report.steps || [];
  open_page(
    `What does ${report.plan ? report.plan.model : 'the model'} do when it trains here, on ${plural(a.ranks, 'rank')}?`,
    report.heading || (report.plan && [report.plan.model, report.plan.strategy].join(': ')),
    `${plural(a.steps, 'step')} ran on ${a.backend}; the middle one took ${seconds(a.step_time_s)}, nine in ten lay between ${seconds(a.step_time_p5_s)} and ${seconds(a.step_time_p95_s)}, and the loss ended at ${significant(a.loss, 5)}.`,
  );
  headline([
    {
      label: 'Step time, median',
      figure: figure_at('answer.step_time_s', 'seconds'),
      note: `${seconds(a.step_time_p5_s)} to ${seconds(a.step_time_p95_s)}`,
    },
    { label: 'Loss', figure: figure_at('answer.loss', 'number'), note: `after ${plural(a.steps, 'step')}` },
    ...(a.tokens_per_s > 0 ? [{ label: 'Tokens per second', figure: figure_at('answer.tokens_per_s', 'whole') }] : []),
    { label: 'Memory of rank 0', figure: figure_at('answer.memory.0.peak_bytes', 'bytes'), note: 'at its peak, as the plan counts it' },
  ]);
  if (steps.length > 1) {
    const first = steps[0],
      last = steps[steps.length - 1];
    section({
      id: 'loss',
      title: 'Loss',
      see: `The loss goes from ${significant(first.loss, 5)} at step ${first.step} to ${significant(last.loss, 5)} at step ${last.step}.`,
      beside: true,
      chart: curves_chart([{ name: 'loss', points: steps.map((s) => [s.step, s.loss]) }], {
        x_name: 'step',
        y_name: 'loss',
        x_text: (x) => significant(x),
        y_text: (x) => significant(x, 4),
      }),
      tables: [
        table(
          'Steps',
          ['step', 'loss', 'gradient norm', 'ms'].map((title) => ({ title, number: true })),
          steps.map((s, i) => [
            { text: String(s.step), value: s.step },
            { text: even(s.loss, 6), value: s.loss, path: `steps.${i}.loss` },
            { text: even(s.norm, 4), value: s.norm, path: `steps.${i}.norm` },
            { text: fixed(s.seconds * 1e3, 2), value: s.seconds, path: `steps.${i}.seconds` },
          ]),
        ),
      ],
    });
    section({
      id: 'times',
      title: 'Time of each step',
      see: `The slowest step took ${seconds(Math.max(...steps.map((s) => s.seconds)))}, ${significant(Math.max(...steps.map((s) => s.seconds)) / a.step_time_s, 3)} times the median.`,
      chart: curves_chart([{ name: 'seconds', points: steps.map((s) => [s.step, s.seconds]) }], {
        x_name: 'step',
        y_name: 'time',
        x_text: (x) => significant(x),
        y_text: seconds,
        from_zero: true,
      }),
    });
  }
  const last = steps[steps.length - 1];
  const covers = last && report.gantt ? `The last step took ${seconds(last.seconds)}, of which its tasks cover ${seconds(report.gantt.period_s)}. ` : '';
  gantt_section(report.gantt, 'Who computed when, in the last step', 'gantt', covers);
  assumptions(
    [
      ['Back end', a.backend],
      ['Data', report.data],
    ],
    [scenario_text(a)],
  );
};
