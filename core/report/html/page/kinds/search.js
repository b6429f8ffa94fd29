// search and sweep: many plans for one model on one cluster.

const kMetricKind = {
  step_time_s: 'seconds',
  tokens_per_s: 'whole',
  tokens_per_s_per_gpu: 'number',
  mfu: 'percent',
  memory_bytes: 'gib',
  samples_per_s: 'number',
  memory_capacity_bytes: 'gib',
};
const metric_text = (metric, x) => text_of(kMetricKind[metric], x);
const metric_name = {
  step_time_s: 'step time',
  tokens_per_s: 'tokens per second',
  tokens_per_s_per_gpu: 'tokens per second and GPU',
  mfu: 'MFU',
  memory_bytes: 'memory',
  samples_per_s: 'samples per second',
  memory_capacity_bytes: 'capacity',
};

// How many plans came how far; what is not counted in plans is left to the JSON.
const kSpaceWords = {
  combinations: 'combinations',
  legal: 'legal',
  fit: 'that fit into memory',
  bounded: 'ruled out by a bound',
  left: 'left out',
  evaluated: 'evaluated',
  lowered: 'lowered',
  simulated: 'simulated',
};
const space_text = (space) =>
  listed(
    Object.entries(kSpaceWords)
      .filter(([key]) => space && typeof space[key] === 'number')
      .map(([key, text]) => `${fixed(space[key], 0)} ${text}`),
  );

const search_page = (a) => {
  const list = a.candidates.map((c, i) => ({ ...c, at: i }));
  const scenario =
    a.scenario && typeof a.scenario === 'object'
      ? file_stem(a.scenario.model || 'the model')
      : file_stem((a.resolved && a.resolved.model && typeof a.resolved.model === 'string' && a.resolved.model) || a.scenario || 'the model');
  const goal =
    {
      step_time: 'fastest',
      tokens_per_s_per_gpu: 'fastest per GPU',
      cost_per_token: 'at the least cost',
      energy_per_token: 'with the least energy',
      memory: 'in the least memory',
    }[a.objective] || 'best';
  const best = list[0],
    front = new Set(a.pareto || []),
    own = a.own && a.own.step_time_s > 0 ? a.own : null;
  open_page(
    `Which strategy trains ${scenario} ${goal}${a.gpus ? ` on ${plural(a.gpus, 'GPU')}` : ' here'}?`,
    a.subject || space_text(a.space),
    best ? a.why || `${best.label}: ${seconds(best.step_time_s)} a step.` : a.interrupted ? 'No plan that fits was found before.' : a.why || 'No plan fits.',
  );
  if (a.interrupted) notice('Interrupted: the best of what was evaluated until then; another search may find better.');
  if (!best) return search_assumptions(a);
  headline([
    { label: 'Best step time', figure: figure_at('answer.candidates.0.step_time_s', 'seconds'), note: best.label },
    ...(best.tokens_per_s_per_gpu > 0
      ? [{ label: 'Tokens/s per GPU', figure: figure_at('answer.candidates.0.tokens_per_s_per_gpu', 'number') }]
      : []),
    { label: 'MFU', figure: figure_at('answer.candidates.0.mfu', 'percent') },
    {
      label: 'Memory',
      figure: figure_at('answer.candidates.0.memory_bytes', 'gib'),
      note: [best.memory_capacity_bytes ? `of ${text_of('gib', best.memory_capacity_bytes)}` : '', likely_gib(best)].filter(Boolean).join(', '),
    },
    ...(own
      ? [
          {
            label: "The scenario's own plan",
            figure: figure_at('answer.own.step_time_s', 'seconds'),
            note: `${significant(own.step_time_s / best.step_time_s, 3)} times the best`,
          },
        ]
      : []),
    ...(a.space && a.space.evaluated
      ? [
          {
            label: 'Plans evaluated',
            figure: figure_at('answer.space.evaluated', 'whole'),
            note: a.space.combinations ? `of ${fixed(a.space.combinations, 0)} combinations` : '',
          },
        ]
      : []),
  ]);
  candidates_section(a, list, front);
  const with_parts = list.filter((c) => c.breakdown && sum(Object.values(c.breakdown)) > 0).slice(0, 10);
  if (with_parts.length > 1) {
    const chart = stacks_chart(with_parts.map((c) => ({ label: `${c.rank}`, breakdown: c.breakdown })));
    const last = with_parts[with_parts.length - 1];
    const [key, most] = largest_by(
      Object.entries(last.breakdown).map(([k, v]) => [k, v - (best.breakdown[k] || 0)]),
      ([, v]) => v,
    );
    section({
      id: 'stacks',
      title: 'Where the best plans spend their step',
      keys: chart.keys,
      chart,
      see:
        most > 0
          ? `Rank ${last.rank} takes ${significant(last.step_time_s / best.step_time_s, 3)} times as long as rank 1; most of it is ${words.time[key]}, ${signed_seconds(most)}.`
          : `The best ${with_parts.length} differ by ${percent(last.step_time_s / best.step_time_s - 1)} at most.`,
    });
  }
  search_assumptions(a);
};

const search_assumptions = (a) =>
  assumptions(
    [
      ['Objective', String(a.objective || '').replace(/_/g, ' ')],
      ['Searched', space_text(a.space)],
      ...range_lines((a.candidates || [])[0] || {}),
      ['Likely memory', a.memory_range ? `8 of 10 such peaks lie in the range given, by ${a.memory_range.rests_on}` : null],
    ],
    [
      a.space ? folded('The space', JSON.stringify(a.space, null, 2)) : null,
      scenario_text({ scenario: a.resolved || (typeof a.scenario === 'object' ? a.scenario : null) }),
    ],
  );

// "likely 61.2 to 74.9 GiB": of what a plan needs; empty where nobody knows.
const likely_gib = (c) => (c.memory_bytes_p10 > 0 ? `likely ${text_of('gib', c.memory_bytes_p10)} to ${text_of('gib', c.memory_bytes_p90)}` : '');

const candidates_section = (a, list, front) => {
  const points = list.map((c) => ({ x: c.step_time_s, y: c.memory_bytes / kGiB, label: c.label, front: front.has(c.at), pick: c.at === 0 }));
  const on_front = list.filter((c) => front.has(c.at));
  const least = largest_by(on_front.length > 0 ? on_front : list, (c) => -c.memory_bytes);
  const capacity = list[0].memory_capacity_bytes;
  const tallest = Math.max(...points.map((p) => p.y));
  const ranged = list.some((c) => c.step_time_s_p10 > 0);
  const peaked = list.some((c) => c.memory_bytes_p10 > 0);
  const tied = list.findIndex((c) => !c.tied);
  section({
    id: 'front',
    title: 'Time against memory',
    chart: front_chart(points, {
      x_name: 'step time',
      y_name: 'memory needed',
      x_text: seconds,
      y_text: (v) => `${significant(v, 3)} GiB`,
      limit: capacity && tallest > (0.6 * capacity) / kGiB ? { y: capacity / kGiB, text: 'capacity' } : null,
    }),
    keys: [
      ['vermillion', 'pin', 'the choice'],
      ['blue', 'diamond', 'beaten by none in both'],
      ['grey', 'circle', 'the others'],
    ].map(([hue, symbol, text]) => [[hue], text, mark([hue, 'none', symbol], false, false)]),
    see:
      least.at === 0
        ? `The fastest plan also needs the least memory, ${text_of('gib', least.memory_bytes)}.`
        : `${plural(on_front.length, 'plan')} ${on_front.length === 1 ? 'is' : 'are'} beaten by none in both; the leanest, ${least.label}, needs ${text_of('gib', least.memory_bytes)} instead of ${text_of('gib', list[0].memory_bytes)} and takes ${percent(least.step_time_s / list[0].step_time_s - 1)} longer.`,
    tables: [
      table(
        tied === 1 || !ranged ? 'The best' : `The best; 1 to ${tied < 0 ? list.length : tied} are tied: predictions do not tell them apart`,
        [
          { title: '' },
          { title: 'plan' },
          { title: 'step time', number: true },
          ...(ranged ? [{ title: 'likely', number: true }] : []),
          { title: 'played', number: true },
          { title: 'tokens/s/GPU', number: true },
          { title: 'MFU', number: true },
          { title: 'memory', number: true },
          ...(peaked ? [{ title: 'likely memory', number: true }] : []),
          { title: 'what it trades' },
        ],
        list.map((c) => ({
          mark: c.at === 0 ? 'pick' : undefined,
          cells: [
            { text: String(c.rank), value: c.rank },
            c.label,
            cell(c.step_time_s, 'seconds', { path: `answer.candidates.${c.at}.step_time_s` }),
            ...(ranged ? [c.step_time_s_p10 > 0 ? `${seconds(c.step_time_s_p10)} to ${seconds(c.step_time_s_p90)}` : '–'] : []),
            c.simulated_step_time_s ? cell(c.simulated_step_time_s, 'seconds', { path: `answer.candidates.${c.at}.simulated_step_time_s` }) : '–',
            cell(c.tokens_per_s_per_gpu, 'number', { path: `answer.candidates.${c.at}.tokens_per_s_per_gpu` }),
            cell(c.mfu, 'percent', { path: `answer.candidates.${c.at}.mfu` }),
            cell(c.memory_bytes, 'gib', { path: `answer.candidates.${c.at}.memory_bytes` }),
            ...(peaked ? [likely_gib(c).replace('likely ', '') || '–'] : []),
            Array.isArray(c.trades) ? c.trades.join('; ') : c.trades || '',
          ],
        })),
      ),
    ],
  });
};

// The keys that vary; the first with most values is the axis, the others name the curves.
const sweep_page = (a) => {
  const vary = Object.entries(a.vary || {}),
    points = a.points.map((p, i) => ({ ...p, at: i }));
  const good = points.filter((p) => p.step_time_s > 0);
  const axis = largest_by(vary, ([, values]) => values.length)[0];
  const metric = ['tokens_per_s_per_gpu', 'samples_per_s'].find((m) => good.some((p) => p[m] > 0)) || 'step_time_s';
  const better = metric === 'step_time_s' ? (p) => -p.step_time_s : (p) => p[metric];
  const best = largest_by(good, better),
    worst = largest_by(good, (p) => -better(p));
  const lost = sweep_losses(points);
  open_page(
    `What changes with ${listed(vary.map(([k]) => k))}?`,
    a.heading || a.file || (typeof a.scenario === 'string' ? a.scenario : null),
    best
      ? `Of ${plural(points.length, 'point')} the best is ${setting_text(best)}: ${metric_name[metric]} ${metric_text(metric, best[metric])}, against ${metric_text(metric, worst[metric])} with ${setting_text(worst)}.`
      : points.length > 0
        ? `Of ${plural(points.length, 'point')} none gave a step time: ${lost}.`
        : 'No point was evaluated.',
  );
  if (a.interrupted) notice('Interrupted: the points that were evaluated until then; the others are missing.');
  if (best)
    headline([
      {
        label: `Best ${metric_name[metric]}`,
        figure: figure_at(`answer.points.${best.at}.${metric}`, kMetricKind[metric]),
        note: setting_text(best),
      },
      ...(metric === 'step_time_s' ? [] : [{ label: 'Its step time', figure: figure_at(`answer.points.${best.at}.step_time_s`, 'seconds') }]),
      { label: 'Its memory', figure: figure_at(`answer.points.${best.at}.memory_bytes`, 'gib'), note: `of ${text_of('gib', best.memory_capacity_bytes)}` },
      ...(best.mfu > 0 ? [{ label: 'Its MFU', figure: figure_at(`answer.points.${best.at}.mfu`, 'percent') }] : []),
      { label: 'Points', figure: { parts: [String(points.length), ''] }, note: lost },
    ]);
  scaling_section(good);
  for (const m of [metric, 'memory_bytes', 'mfu']) sweep_section(vary, axis, m, points);
  if (points.length > 0) section({ id: 'points', title: 'All points', see: points_see(points, lost), tables: [points_table(vary, points)] });
  assumptions(
    [['Varied', vary.map(([k, v]) => `${k} = ${v.join(', ')}`).join('; ')]],
    [scenario_text({ scenario: a.resolved || (typeof a.scenario === 'object' ? a.scenario : null) })],
  );
};

const setting_text = (p) =>
  Object.entries(p.values)
    .map(([k, v]) => `${k.split('.').pop()}=${v}`)
    .join(', ');
const is_over = (p) => p.fits === false;
const is_refused = (p) => p.error && p.fits === undefined;

const sweep_losses = (points) => {
  const over = points.filter(is_over).length,
    refused = points.filter(is_refused).length;
  return [over > 0 ? `${over} ${over === 1 ? 'does' : 'do'} not fit` : null, refused > 0 ? `${refused} refused` : null]
    .filter(Boolean)
    .join(', ');
};

const points_see = (points, lost) => {
  const leanest = largest_by(
    points.filter((p) => p.memory_bytes > 0),
    (p) => -p.memory_bytes,
  );
  if (!leanest) return `${capital(lost)}: the table says why.`;
  const need = `the leanest, ${setting_text(leanest)}, needs ${text_of('gib', leanest.memory_bytes)} of ${text_of('gib', leanest.memory_capacity_bytes)}`;
  return `${capital(lost || 'all of them fit')}; ${need}.`;
};

const points_table = (vary, points) => {
  const numeric = ([k]) => points.every((p) => typeof p.values[k] === 'number');
  const kinds = ['step_time_s', 'tokens_per_s_per_gpu', 'samples_per_s', 'mfu', 'memory_bytes', 'memory_capacity_bytes'].filter((m) =>
    points.some((p) => p[m] > 0),
  );
  return table(
    'Points',
    [...vary.map((v) => ({ title: v[0], number: numeric(v) })), ...kinds.map((k) => ({ title: metric_name[k], number: true })), { title: '' }],
    points.map((p) => [
      ...vary.map(([k]) => String(p.values[k])),
      ...kinds.map((k) => (p[k] > 0 ? cell(p[k], kMetricKind[k], { path: `answer.points.${p.at}.${k}` }) : '–')),
      is_over(p) ? 'does not fit' : p.error || '',
    ]),
  );
};

// One curve per setting of the other keys. Memory is also that of the points that do not fit; elsewhere they are named.
const sweep_section = (vary, axis, metric, points) => {
  const shown = points.filter((p) => p[metric] > 0);
  if (shown.length === 0) return;
  const others = vary.map(([k]) => k).filter((k) => k !== axis);
  const name_of = (p) => others.map((k) => `${k.split('.').pop()}=${p.values[k]}`).join(', ') || metric_name[metric];
  const values = vary.find(([k]) => k === axis)[1];
  const numeric = values.every((v) => typeof v === 'number' && v > 0);
  const memory = metric === 'memory_bytes',
    height = (p) => (memory ? p[metric] / kGiB : p[metric]);
  const list = [...new Set(shown.map(name_of))].map((name) => {
    const own = shown.filter((p) => name_of(p) === name);
    return {
      name,
      points: numeric
        ? own.map((p) => [p.values[axis], height(p)]).sort((x, y) => x[0] - y[0])
        : values.map((v) => [String(v), ...own.filter((p) => p.values[axis] === v).map(height)]),
    };
  });
  const most = largest_by(shown, (p) => p[metric]),
    least = largest_by(shown, (p) => -p[metric]);
  const missing = points.filter((p) => !(p[metric] > 0));
  const capacities = [...new Set(points.map((p) => p.memory_capacity_bytes).filter((b) => b > 0))];
  const limit = memory && capacities.length === 1 ? { y: capacities[0] / kGiB, text: `capacity, ${text_of('gib', capacities[0])}` } : null;
  section({
    id: `curve-${metric}`,
    title: `${capital(metric_name[metric])} by ${axis}`,
    see:
      most[metric] === least[metric]
        ? `${metric_text(metric, most[metric])} everywhere.`
        : `Between ${metric_text(metric, least[metric])} with ${setting_text(least)} and ${metric_text(metric, most[metric])} with ${setting_text(most)}: ${significant(most[metric] / least[metric], 3)} times as much.`,
    keys: list.length > 1 ? curve_keys(list) : null,
    chart: curves_chart(list, {
      x_name: axis,
      y_name: metric_name[metric],
      x_text: (x) => significant(x),
      y_text: memory ? (v) => `${significant(v)} GiB` : metric === 'mfu' ? round_percent : metric === 'step_time_s' ? seconds : (v) => significant(v),
      x_log: numeric,
      x_names: numeric ? null : values.map(String),
      x_range: numeric ? [Math.min(...values), Math.max(...values)] : null,
      from_zero: true,
      limit,
    }),
    hint: missing.length > 0 ? `Not shown, ${sweep_losses(missing)}: ${missing_text(missing)}.` : null,
  });
};

// Where the number of GPUs varies: how the pace grows with it, beside growth in proportion.
const scaling_section = (good) => {
  const metric = ['tokens_per_s', 'samples_per_s'].find((m) => good.some((p) => p[m] > 0));
  const best_of = new Map();
  for (const p of good)
    if (p.gpus > 0 && p[metric] > 0 && !(best_of.has(p.gpus) && best_of.get(p.gpus)[metric] >= p[metric])) best_of.set(p.gpus, p);
  const list = [...best_of.values()].sort((x, y) => x.gpus - y.gpus);
  if (list.length < 2) return;
  const first = list[0],
    last = list[list.length - 1],
    grown = last[metric] / first[metric],
    share = (p) => p[metric] / first[metric] / (p.gpus / first.gpus);
  section({
    id: 'scaling',
    title: 'Pace by number of GPUs',
    see: `From ${fixed(first.gpus, 0)} to ${plural(last.gpus, 'GPU')}, ${significant(last.gpus / first.gpus, 3)} times as many, ${metric_name[metric]} grow ${significant(grown, 3)} times: ${percent(share(last))} of growth in proportion (dashed).`,
    chart: curves_chart([{ name: metric_name[metric], points: list.map((p) => [p.gpus, p[metric]]) }], {
      x_name: 'GPUs',
      y_name: metric_name[metric],
      x_text: (x) => fixed(x, 0),
      y_text: (x) => significant(x),
      x_log: true,
      y_log: true,
      ideal: { name: 'in proportion', points: list.map((p) => [p.gpus, (first[metric] * p.gpus) / first.gpus]) },
    }),
    tables: [
      table(
        'The best point of each number of GPUs',
        [
          { title: 'GPUs', number: true },
          { title: 'setting' },
          { title: metric_name[metric], number: true },
          { title: 'of growth in proportion', number: true },
        ],
        list.map((p) => [
          cell(p.gpus, 'whole', { path: `answer.points.${p.at}.gpus` }),
          setting_text(p),
          cell(p[metric], kMetricKind[metric], { path: `answer.points.${p.at}.${metric}` }),
          cell(share(p), 'percent'),
        ]),
      ),
    ],
  });
};

const kMostNamed = 8;
const missing_text = (points) =>
  points.length <= kMostNamed
    ? points.map(setting_text).join('; ')
    : `${points.slice(0, kMostNamed).map(setting_text).join('; ')} and ${points.length - kMostNamed} more`;
