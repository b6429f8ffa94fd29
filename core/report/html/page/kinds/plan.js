// plan: the buyer's question.

const usd = (x) => text_of('usd', x);
const span_text = (c, key, text) => (typeof c[`${key}_p10`] === 'number' ? `${text(c[`${key}_p10`])} to ${text(c[`${key}_p90`])}` : '');
const misses = (c) => [c.meets_deadline === false ? 'the deadline' : null, c.meets_budget === false ? 'the budget' : null].filter(Boolean);
// 'in time' where the slow end of the range meets the deadline, 'may be late' where only the prediction does.
const grade = (c) => (c.meets_deadline === false ? 'late' : c.meets_deadline_p90 === false ? 'may be late' : 'in time');
const name_of = (c) => c.name || c.machine;
const limit_of = (a, key) => {
  const v = a[key] ?? (a.question || {})[key];
  return typeof v === 'number' ? v : null;
};

const plan_headline = (c) =>
  headline([
    { label: 'First choice', figure: { parts: [name_of(c), ''] }, note: `${plural(c.gpus, 'GPU')}; ${c.label}` },
    { label: 'Cost', figure: figure_at(`answer.candidates.${c.at}.cost_usd`, 'usd'), note: span_text(c, 'cost_usd', usd) },
    { label: 'Days', figure: figure_at(`answer.candidates.${c.at}.days`, 'days'), note: span_text(c, 'days', (x) => significant(x, 3)) },
    { label: 'MFU', figure: figure_at(`answer.candidates.${c.at}.mfu`, 'percent') },
    ...(c.goodput
      ? [{ label: 'Goodput', figure: figure_at(`answer.candidates.${c.at}.goodput`, 'percent'), note: 'share of time that trains' }]
      : []),
    ...(c.energy_mwh ? [{ label: 'Energy', figure: figure_at(`answer.candidates.${c.at}.energy_mwh`, 'mwh') }] : []),
  ]);

const plan_page = (a) => {
  const all = a.candidates.map((c, i) => ({ ...c, at: i }));
  const list = all.filter((c) => c.days > 0 && c.cost_usd >= 0),
    never = all.filter((c) => !list.includes(c));
  const best = list.find((c) => misses(c).length === 0);
  const question = typeof a.question === 'string' ? a.question : (a.question && a.question.text) || null;
  open_page(
    question || 'Which machines, how many, at what cost, by when?',
    typeof a.plan === 'string' ? a.plan : a.plan && a.plan.name,
    a.why ||
      (best
        ? `${name_of(best)}: ${plural(best.gpus, 'GPU')}, ${text_of('days', best.days)}, ${usd(best.cost_usd)}.`
        : 'None of the candidates meets the question.'),
  );
  if (list.length > 0) {
    plan_headline(best || list[0]);
    cost_section(a, list);
    days_section(a, list);
    curve_section(list);
    swings_section(list[0]);
  }
  const peaks = [...new Set(list.map((c) => c.memory_range_source).filter(Boolean))];
  const prices = all.flatMap((c) => ((c.price && c.price.sources) || []).map((s) => [name_of(c), s.figure, s.date, s.evidence, s.source]));
  assumptions(
    [
      [
        'Ranges',
        [...new Set(list.map((c) => c.range_source).filter(Boolean))].join('; ') ||
          "From the 10th to the 90th percentile of the scoreboard's errors on plans of that kind.",
      ],
      ['Likely memory', peaks.length > 0 ? `8 of 10 such peaks lie in the range given, by ${peaks.join('; ')}` : null],
      ['Prices', 'Each has its source and its date, and is yours to replace.'],
    ],
    [
      never.length > 0
        ? table(
            'Candidates that cannot do it',
            [{ title: 'candidate' }, { title: 'why' }],
            never.map((c) => [name_of(c), c.why_not || '']),
          )
        : null,
      list.length > 0 ? how_table(list) : null,
      prices.length > 0
        ? table(
            'Prices and power',
            ['candidate', 'figure', 'date', 'evidence', 'source'].map((title) => ({ title })),
            prices,
          )
        : null,
      typeof a.plan === 'object' && a.plan ? folded('The plan, as it was read', JSON.stringify(a.plan, null, 2)) : null,
    ],
  );
};

const how_table = (list) =>
  table(
    'How each would train',
    [
      { title: '' },
      { title: 'machine' },
      { title: 'strategy' },
      { title: 'step time', number: true },
      { title: '10 to 90 %' },
      { title: 'closed form', number: true },
      { title: 'MFU', number: true },
      { title: 'memory', number: true },
      { title: '10 to 90 %' },
      { title: 'failure every', number: true },
      { title: 'checkpoint every', number: true },
    ],
    list.map((c) => [
      String(c.rank),
      name_of(c),
      c.label,
      cell(c.step_time_s, 'seconds', { path: `answer.candidates.${c.at}.step_time_s` }),
      span_text(c, 'step_time_s', seconds),
      c.played_by ? cell(c.closed_form_step_time_s * (1 + (c.bias || 0)), 'seconds') : 'not played',
      cell(c.mfu, 'percent', { path: `answer.candidates.${c.at}.mfu` }),
      cell(c.memory_needed_bytes, 'gib', { path: `answer.candidates.${c.at}.memory_needed_bytes` }),
      c.memory_range_source ? `${text_of('gib', c.memory_needed_bytes_p10)} to ${text_of('gib', c.memory_needed_bytes_p90)}` : '–',
      c.mtbf_hours ? { text: `${significant(c.mtbf_hours, 3)} h`, value: c.mtbf_hours } : '–',
      c.checkpoint_interval_s ? { text: `${significant(c.checkpoint_interval_s / 60, 3)} min`, value: c.checkpoint_interval_s } : '–',
    ]),
  );

const row_label = (c) => `${name_of(c)}, ${fixed(c.gpus, 0)}`;

const cost_section = (a, list) => {
  const cheap = largest_by(list, (c) => -c.cost_usd),
    dear = largest_by(list, (c) => c.cost_usd);
  const budget = limit_of(a, 'budget_usd');
  section({
    id: 'cost',
    title: 'What each costs',
    see: `${capital(name_of(cheap))} costs least, ${usd(cheap.cost_usd)}; ${name_of(dear)} ${significant(dear.cost_usd / cheap.cost_usd, 3)} times as much.${budget ? ` ${capital(plural(list.filter((c) => c.cost_usd <= budget).length, 'candidate'))} stay${list.filter((c) => c.cost_usd <= budget).length === 1 ? 's' : ''} within ${usd(budget)}.` : ''}${pictures_available() ? ' Hatched bars miss the deadline or the budget; whiskers show the range.' : ''}`,
    chart: ranges_chart(
      list.map((c) => ({ label: row_label(c), value: c.cost_usd, low: c.cost_usd_p10, high: c.cost_usd_p90, misses: misses(c).length > 0 })),
      { name: 'US dollars', text: usd, limit: budget ? { x: budget, text: 'budget' } : null },
    ),
    tables: [plan_table(list)],
  });
  if (!list.some((c) => c.cost_parts && Object.values(c.cost_parts).filter((v) => v > 0).length > 1)) return;
  const chart = shares_chart(
    list.map((c) => ({
      label: row_label(c),
      parts: Object.fromEntries(
        Object.entries(c.cost_parts || {})
          .filter(([, v]) => v > 0)
          .map(([k, v]) => [k.replace(/_usd$/, '').replace(/_/g, ' '), v]),
      ),
    })),
    usd,
    'US dollars',
  );
  const parts = Object.entries(cheap.cost_parts || {}).filter(([, v]) => typeof v === 'number');
  const [key, most] = largest_by(parts, ([, v]) => v) || ['', 0];
  section({
    id: 'cost-parts',
    title: 'What the money goes to',
    keys: chart.keys,
    chart,
    see: `Of ${name_of(cheap)}'s ${usd(cheap.cost_usd)}, ${usd(most)} (${percent(most / cheap.cost_usd)}) is ${key.replace(/_usd$/, '').replace(/_/g, ' ')}.`,
    tables: [
      table(
        'US dollars',
        [{ title: 'candidate' }, ...chart.keys.map(([, n]) => ({ title: n, number: true }))],
        list.map((c) => [
          row_label(c),
          ...chart.keys.map(([, n]) => {
            const hit = Object.entries(c.cost_parts || {}).find(([k]) => k.replace(/_usd$/, '').replace(/_/g, ' ') === n);
            return hit && hit[1] > 0 ? cell(hit[1], 'usd', { path: `answer.candidates.${c.at}.cost_parts.${hit[0]}` }) : '–';
          }),
        ]),
      ),
    ],
  });
};

const plan_table = (list) => {
  const lacking = list.some((c) => misses(c).length > 0);
  return table(
    'The candidates',
    [
      { title: '' },
      { title: 'machine' },
      { title: 'machines', number: true },
      { title: 'GPUs', number: true },
      { title: 'days', number: true },
      { title: '10 to 90 %' },
      { title: 'late', number: true },
      { title: 'cost', number: true },
      { title: '10 to 90 %' },
      { title: 'at once', number: true },
      { title: 'goodput', number: true },
      { title: 'MWh', number: true },
      { title: 'by the deadline' },
      ...(lacking ? [{ title: 'misses' }] : []),
    ],
    list.map((c) => ({
      mark: c.at === 0 ? 'pick' : undefined,
      cells: [
        String(c.rank),
        name_of(c),
        c.machines ? { text: `${fixed(c.machines, 0)}${c.spares > 0 ? `+${fixed(c.spares, 0)}` : ''}`, value: c.machines } : '–',
        { text: fixed(c.gpus, 0), value: c.gpus, path: `answer.candidates.${c.at}.gpus` },
        { text: significant(c.days, 3), value: c.days, path: `answer.candidates.${c.at}.days` },
        span_text(c, 'days', (x) => significant(x, 3)),
        typeof c.odds_late === 'number' ? cell(c.odds_late, 'percent', { path: `answer.candidates.${c.at}.odds_late` }) : '–',
        cell(c.cost_usd, 'usd', { path: `answer.candidates.${c.at}.cost_usd` }),
        span_text(c, 'cost_usd', usd),
        typeof c.capital_usd === 'number' ? cell(c.capital_usd, 'usd', { path: `answer.candidates.${c.at}.capital_usd` }) : '–',
        c.goodput ? cell(c.goodput, 'percent', { path: `answer.candidates.${c.at}.goodput` }) : '–',
        c.energy_mwh ? { text: significant(c.energy_mwh, 3), value: c.energy_mwh, path: `answer.candidates.${c.at}.energy_mwh` } : '–',
        grade(c),
        ...(lacking ? [misses(c).join(' and ')] : []),
      ],
    })),
  );
};

// What one figure more or less does to the cost, the widest first.
const swings_section = (c) => {
  const swings = c.tornado || [];
  if (swings.length === 0) return;
  const first = swings[0];
  section({
    id: 'tornado',
    title: 'What moves the cost most',
    see: `${capital(name_of(c))} at its size: with ${first.figure} from ${first.from} to ${first.to} the run costs ${usd(first.cost_from_usd)} to ${usd(first.cost_to_usd)}.`,
    chart: ranges_chart(
      swings.map((s) => ({
        label: s.figure,
        value: c.cost_usd,
        low: Math.min(s.cost_from_usd, s.cost_to_usd),
        high: Math.max(s.cost_from_usd, s.cost_to_usd),
        misses: false,
      })),
      { name: 'US dollars', text: usd, limit: null },
    ),
    tables: [
      table(
        'One figure at a time',
        [
          { title: 'figure' },
          { title: 'from' },
          { title: 'to' },
          { title: 'cost', number: true },
          { title: 'cost', number: true },
        ],
        swings.map((s, i) => [
          s.figure,
          s.from,
          s.to,
          cell(s.cost_from_usd, 'usd', { path: `answer.candidates.${c.at}.tornado.${i}.cost_from_usd` }),
          cell(s.cost_to_usd, 'usd', { path: `answer.candidates.${c.at}.tornado.${i}.cost_to_usd` }),
        ]),
      ),
    ],
  });
};

const days_section = (a, list) => {
  const deadline = limit_of(a, 'deadline_days'),
    quick = largest_by(list, (c) => -c.days),
    late = list.filter((c) => grade(c) === 'late'),
    maybe = list.filter((c) => grade(c) === 'may be late');
  section({
    id: 'days',
    title: 'How long each takes',
    see: `${capital(name_of(quick))} is done first, in ${text_of('days', quick.days)}${late.length > 0 ? `; ${listed(late.map(name_of))} miss${late.length === 1 ? 'es' : ''} the deadline` : '; none misses the deadline'}${maybe.length > 0 ? `; ${listed(maybe.map(name_of))} may be late: the slow end of ${maybe.length === 1 ? 'its range is' : 'their ranges are'} beyond it` : ''}.`,
    chart: ranges_chart(
      list.map((c) => ({ label: row_label(c), value: c.days, low: c.days_p10, high: c.days_p90, misses: c.meets_deadline === false })),
      { name: 'days', text: (x) => significant(x, 3), limit: deadline ? { x: deadline, text: 'deadline' } : null },
    ),
  });
};

const curve_section = (list) => {
  const points_of = (k) => (Array.isArray(k.curve) && k.curve.length > 0 ? k.curve : [{ gpus: k.gpus, days: k.days, cost_usd: k.cost_usd }]);
  const shown = list.slice(0, 8);
  const c = shown.find((k) => points_of(k).length > 1);
  if (!c) return;
  const curves = shown.map((k) => ({ name: name_of(k), points: points_of(k).map((p) => [p.gpus, p.days]) }));
  const from = c.curve[0],
    to = c.curve[c.curve.length - 1];
  section({
    id: 'curves',
    title: 'Days by number of GPUs',
    keys: curve_keys(curves),
    see: `${capital(name_of(c))}: ${significant(to.gpus / from.gpus, 3)} times the GPUs (${fixed(from.gpus, 0)} to ${fixed(to.gpus, 0)}) take ${significant(to.days / from.days, 3)} of the days and ${significant(to.cost_usd / from.cost_usd, 3)} times the money.`,
    chart: curves_chart(curves, {
      x_name: 'GPUs',
      y_name: 'days',
      x_text: (x) => fixed(x, 0),
      y_text: (x) => significant(x, 3),
      x_log: true,
      y_log: true,
    }),
    tables: [
      table(
        'Points of the curves',
        [{ title: 'machine' }, { title: 'GPUs', number: true }, { title: 'days', number: true }, { title: 'cost', number: true }],
        list.flatMap((k) =>
          points_of(k).map((p, i) => ({
            mark: k.at === 0 && p.gpus === k.gpus ? 'pick' : undefined,
            cells: [
              name_of(k),
              { text: fixed(p.gpus, 0), value: p.gpus },
              { text: significant(p.days, 3), value: p.days, path: `answer.candidates.${k.at}.${p === (k.curve || [])[i] ? `curve.${i}.days` : 'days'}` },
              cell(p.cost_usd, 'usd'),
            ],
          })),
        ),
      ),
    ],
  });
};
