// validate, measurements and replays: predictions beside measurements.

const error_entry = (label, path) => ({ label, figure: figure_at(path, 'percent') });

// The group names that divide the rows into few parts.
const score_groups = (rows) => {
  const key = ['strategy', 'gpu', 'model_kind'].find((k) => {
    const n = new Set(rows.map((r) => r[k])).size;
    return n > 1 && n <= 7;
  });
  if (!key) return [{ name: 'counted rows', points: rows.map(score_point) }];
  return [...new Set(rows.map((r) => r[key]))].map((name) => ({ name, points: rows.filter((r) => r[key] === name).map(score_point) }));
};
const score_point = (r) => ({ x: r.measured, y: r.predicted, label: r.id });

const scoreboard_page = (a) => {
  if (a.row)
    return open_page(
      `How was row ${a.row.id} predicted?`,
      a.row.source,
      a.row.skipped || `Predicted ${seconds(a.row.predicted)}, measured ${seconds(a.row.measured)}: ${text_of('signed_percent', a.row.error)}.`,
    );
  const s = a.summary,
    rows = a.rows.filter((r) => !r.skipped),
    counted = rows.filter((r) => r.counts !== false);
  const side = s.bias < 0 ? 'too fast' : 'too slow';
  open_page(
    'How far are predictions off what others measured?',
    `${plural(a.rows.length, 'row')}: ${fixed(s.predicted_rows, 0)} predicted, ${fixed(counted.length, 0)} counted, ${fixed(s.skipped_rows, 0)} skipped for stated reasons`,
    counted.length > 0
      ? `Half of the counted rows are predicted within ${percent(s.median_abs_error)}, nine in ten within ${percent(s.p90_abs_error)}; the middle prediction is ${percent(Math.abs(s.bias))} ${side}.`
      : 'No row counts.',
  );
  headline([
    { ...error_entry('Median error', 'answer.summary.median_abs_error'), note: plural(counted.length, 'row') },
    error_entry('Mean error', 'answer.summary.mean_abs_error'),
    error_entry('90th percentile', 'answer.summary.p90_abs_error'),
    error_entry('Worst', 'answer.summary.worst_abs_error'),
    { label: 'Bias', figure: figure_at('answer.summary.bias', 'signed_percent'), note: `predictions ${side}` },
    ...(s.memory && s.memory.rows > 0
      ? [{ ...error_entry('Memory, median', 'answer.summary.memory.median_abs_error'), note: plural(s.memory.rows, 'row') }]
      : []),
  ]);
  if (counted.length > 0) {
    const groups = score_groups(counted);
    const faint = rows.filter((r) => r.counts === false);
    const near = counted.filter((r) => Math.abs(r.error) <= 0.1).length;
    const worst = largest_by(counted, (r) => Math.abs(r.error));
    section({
      id: 'scatter',
      title: 'Predicted against measured',
      see: `${fixed(near, 0)} of ${plural(counted.length, 'row')} lie within 10 % (dashed); the furthest is ${worst.id}, ${text_of('signed_percent', worst.error)}.`,
      keys: curve_keys([...groups, ...(faint.length > 0 ? [{ name: 'not counted', faint: true }] : [])]),
      chart: against_chart([...groups, ...(faint.length > 0 ? [{ name: 'not counted', faint: true, points: faint.map(score_point) }] : [])], {
        x_name: 'measured',
        y_name: 'predicted',
        text: seconds,
        diagonal: true,
      }),
      tables: [scored_rows(a.rows)],
    });
  }
  const by = [...new Set((a.groups || []).map((g) => g.by))];
  for (const kind of by) groups_section(a, kind);
  const skipped = Object.entries(a.skipped || {});
  assumptions(
    [
      [
        'Errors',
        'predicted / measured − 1 of seconds per step; bias is their median, negative where predictions are too fast. Rows in which a field that matters is guessed are shown and count in no figure.',
      ],
    ],
    [
      skipped.length > 0
        ? table(
            'Rows skipped',
            [{ title: 'reason' }, { title: 'rows', number: true }],
            skipped.map(([reason, n]) => [reason, { text: fixed(n, 0), value: n }]),
          )
        : null,
    ],
  );
  return undefined;
};

// "+3.1 %, likely 61.2 to 74.9 GiB": of a row's peak memory, where it was measured.
const peak_text = (m) =>
  m ? `${m.error > 0 ? '+' : ''}${fixed(100 * m.error, 1)} %${m.p10 > 0 ? `, likely ${fixed(m.p10, 1)} to ${fixed(m.p90, 1)} GiB` : ''}` : '';

const scored_rows = (all) =>
  table(
    'Rows',
    [
      { title: 'row' },
      { title: 'measured', number: true },
      { title: 'predicted', number: true },
      { title: 'error', number: true },
      { title: 'likely range' },
      ...(all.some((r) => r.memory) ? [{ title: 'peak memory' }] : []),
      { title: 'GPU' },
      { title: 'bound by' },
    ],
    all
      .map((r, i) => [r, i])
      .filter(([r]) => !r.skipped)
      .map(([r, i]) => [
        r.id,
        cell(r.measured, 'seconds', { path: `answer.rows.${i}.measured` }),
        cell(r.predicted, 'seconds', { path: `answer.rows.${i}.predicted` }),
        { ...cell(r.error, 'signed_percent', { path: `answer.rows.${i}.error` }) },
        r.p10 > 0 ? `${seconds(r.p10)} to ${seconds(r.p90)}` : '',
        ...(all.some((other) => other.memory) ? [peak_text(r.memory)] : []),
        r.gpu || '',
        r.counts === false ? `not counted: ${(r.guessed || []).join(', ')} guessed` : words.time[r.bound_by] || '',
      ]),
  );

const groups_section = (a, kind) => {
  const groups = a.groups
    .map((g, i) => ({ ...g, at: i }))
    .filter((g) => g.by === kind && g.rows > 0)
    .sort((x, y) => y.median_abs_error - x.median_abs_error);
  if (groups.length < 2) return;
  const [worst, best] = [groups[0], groups[groups.length - 1]];
  const shown = groups.slice(0, 16);
  section({
    id: `by-${kind.toLowerCase()}`,
    title: `Median error by ${kind}`,
    see: `Largest for ${worst.name}, ${percent(worst.median_abs_error)} over ${plural(worst.rows, 'row')}; smallest for ${best.name}, ${percent(best.median_abs_error)}.`,
    beside: kind !== 'source',
    chart: bars_chart(
      shown.map((g) => [g.name, g.median_abs_error]),
      () => ['blue', 'none'],
      (name) => (name.length > 48 ? `…${name.slice(-47)}` : name),
      percent,
    ),
    tables: [
      table(
        `By ${kind}`,
        [{ title: kind }, ...['rows', 'median %', '90th %', 'worst %', 'bias %', 'in range %'].map((title) => ({ title, number: true }))],
        groups.map((g) => [
          g.name,
          { text: fixed(g.rows, 0), value: g.rows },
          ...['median_abs_error', 'p90_abs_error', 'worst_abs_error', 'bias', 'inside'].filter((k) => k in g).map((k) => ({
            text: fixed(100 * g[k], 1),
            value: g[k],
            path: `answer.groups.${g.at}.${k}`,
          })),
        ]),
      ),
    ],
  });
};

const replay_section = (rows) =>
  section({
    id: 'scatter',
    title: 'Predicted against measured',
    see: `${plural(rows.length, 'measurement')}; half are predicted within ${percent(median(rows.map((r) => Math.abs(r.predicted / r.measured - 1))))}.`,
    chart: against_chart([{ name: 'rows', points: rows.map((r) => ({ x: r.measured, y: r.predicted, label: [r.id, r.unit].filter(Boolean).join(', ') })) }], {
      x_name: 'measured, each in its own unit',
      y_name: 'predicted',
      text: (x) => significant(x),
      diagonal: true,
    }),
    tables: [
      table(
        'Rows',
        [
          { title: 'row' },
          { title: 'quantity' },
          { title: 'unit' },
          { title: 'measured', number: true },
          { title: 'predicted', number: true },
          { title: 'error', number: true },
        ],
        rows.map((r) => [
          r.id,
          r.quantity || '',
          r.unit || '',
          cell(r.measured, 'number', { path: `answer.rows.${r.at}.measured` }),
          cell(r.predicted, 'number', { path: `answer.rows.${r.at}.predicted` }),
          cell(r.predicted / r.measured - 1, 'signed_percent'),
        ]),
      ),
    ],
  });

// A run on this machine against its simulation.
const validation_page = (a) => {
  const kernels = a.rows.map((r, i) => ({ ...r, at: i })).filter((r) => r.id !== 'step');
  kernels.sort((x, y) => y.measured - x.measured);
  const positive = kernels.filter((r) => r.measured > 0 && r.predicted > 0);
  open_page(
    `Does the simulation of ${a.scenario} agree with ${a.machine}?`,
    `${plural(a.ranks, 'rank')}, ${plural(a.steps, 'measured step')}, simulated by ${a.backend}`,
    `A step was predicted to take ${seconds(a.step.predicted_s)} and took ${seconds(a.step.measured_s)}, the median of ${plural(a.steps, 'step')} (${seconds(a.step.measured_p5_s)} to ${seconds(a.step.measured_p95_s)}): the prediction is ${percent(Math.abs(a.step.error))} ${a.step.error < 0 ? 'too fast' : 'too slow'}.`,
  );
  headline([
    { label: 'Predicted step', figure: figure_at('answer.step.predicted_s', 'seconds') },
    {
      label: 'Measured step',
      figure: figure_at('answer.step.measured_s', 'seconds'),
      note: `${seconds(a.step.measured_p5_s)} to ${seconds(a.step.measured_p95_s)}`,
    },
    { label: 'Error', figure: figure_at('answer.step.error', 'signed_percent') },
    { label: 'Median error of its parts', figure: figure_at('answer.summary.median_abs_error', 'percent') },
  ]);
  gantt_section(
    report.gantt,
    'Simulated above measured',
    'gantt',
    `Simulated, the step is over after ${seconds(a.step.predicted_s)}; measured, after ${seconds(a.step.measured_s)}. `,
  );
  if (positive.length > 0) {
    const most = largest_by(kernels, (r) => Math.abs(r.predicted - r.measured));
    section({
      id: 'scatter',
      title: 'Parts of the step, predicted against measured',
      see: `The largest gap is ${most.id}: ${seconds(most.predicted)} predicted, ${seconds(most.measured)} measured a step, ${percent(Math.abs(most.predicted - most.measured) / a.step.measured_s)} of it.`,
      beside: true,
      chart: against_chart([{ name: 'parts', points: positive.map((r) => ({ x: r.measured, y: r.predicted, label: r.id })) }], {
        x_name: 'measured',
        y_name: 'predicted',
        text: seconds,
        diagonal: true,
      }),
      tables: [
        table(
          'Parts of the step',
          [{ title: 'part' }, { title: 'predicted', number: true }, { title: 'measured', number: true }, { title: 'error', number: true }],
          kernels.map((r) => [
            r.id,
            cell(r.predicted, 'seconds', { path: `answer.rows.${r.at}.predicted` }),
            cell(r.measured, 'seconds', { path: `answer.rows.${r.at}.measured` }),
            r.measured > 0 ? cell(r.error, 'signed_percent') : '–',
          ]),
        ),
      ],
    });
  }
  assumptions(
    [
      ['Machine', a.machine],
      ['Back end', a.backend],
      ['Priced by the kernel model, for want of a measurement', (a.not_calibrated || []).join(', ')],
    ],
    [],
  );
};
