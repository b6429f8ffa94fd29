// plan: the buyer's question.

const usd = (x) => text_of('usd', x);
const span_text = (c, key, text) => (c[`${key}_p10`] !== undefined ? `${text(c[`${key}_p10`])} to ${text(c[`${key}_p90`])}` : '');
const misses = (c) => [c.meets_deadline === false ? 'the deadline' : null, c.meets_budget === false ? 'the budget' : null].filter(Boolean);
const limit_of = (a, key) => { const v = (a.question || {})[key] ?? ((a.plan || {})[key]); return typeof v === 'number' ? v : null; };

const plan_page = (a) => {
  const list = a.candidates.map((c, i) => ({ ...c, at: i }));
  const best = list.find((c) => misses(c).length === 0);
  const question = typeof a.question === 'string' ? a.question : (a.question && a.question.text) || null;
  open_page(question || 'Which machines, how many, at what cost, by when?', typeof a.plan === 'string' ? a.plan : a.plan && a.plan.name, a.why || (best ? `${best.machine}: ${plural(best.gpus, 'GPU')}, ${text_of('days', best.days)}, ${usd(best.cost_usd)}.` : 'None of the candidates meets the question.'));
  if (list.length === 0) return;
  const first = best || list[0];
  headline([{ label: 'First choice', figure: { parts: [first.machine, ''] }, note: `${plural(first.gpus, 'GPU')}; ${first.label}` }, { label: 'Cost', figure: figure_at(`answer.candidates.${first.at}.cost_usd`, 'usd'), note: span_text(first, 'cost_usd', usd) }, { label: 'Days', figure: figure_at(`answer.candidates.${first.at}.days`, 'days'), note: span_text(first, 'days', (x) => significant(x, 3)) },
    { label: 'MFU', figure: figure_at(`answer.candidates.${first.at}.mfu`, 'percent') }, ...(first.goodput ? [{ label: 'Goodput', figure: figure_at(`answer.candidates.${first.at}.goodput`, 'percent'), note: 'share of time that trains' }] : []), ...(first.energy_mwh ? [{ label: 'Energy', figure: figure_at(`answer.candidates.${first.at}.energy_mwh`, 'mwh') }] : [])]);
  cost_section(a, list);
  days_section(a, list);
  curve_section(list);
  assumptions([['Ranges', 'From the 10th to the 90th percentile of the scoreboard\'s errors on plans of that kind.'], ['Prices', 'Each has its source and its date in the plan, and is yours to replace.']],
    [table('How each would train', [{ title: '' }, { title: 'machine' }, { title: 'strategy' }, { title: 'step time', number: true }, { title: '10 to 90 %' }, { title: 'MFU', number: true }], list.map((c) => [String(c.rank), c.machine, c.label, cell(c.step_time_s, 'seconds', { path: `answer.candidates.${c.at}.step_time_s` }), span_text(c, 'step_time_s', seconds), cell(c.mfu, 'percent')])),
      typeof a.plan === 'object' ? folded('The plan, as it was read', JSON.stringify(a.plan, null, 2)) : null]);
};

const row_label = (c) => `${c.machine}, ${fixed(c.gpus, 0)}`;

const cost_section = (a, list) => {
  const cheap = largest_by(list, (c) => -c.cost_usd), dear = largest_by(list, (c) => c.cost_usd);
  const budget = limit_of(a, 'budget_usd');
  section({ id: 'cost', title: 'What each costs', see: `${cheap.machine} costs least, ${usd(cheap.cost_usd)}; ${dear.machine} ${significant(dear.cost_usd / cheap.cost_usd, 3)} times as much.${budget ? ` ${capital(plural(list.filter((c) => c.cost_usd <= budget).length, 'candidate'))} stay${list.filter((c) => c.cost_usd <= budget).length === 1 ? 's' : ''} within ${usd(budget)}.` : ''} Hatched bars miss the deadline or the budget; whiskers show the range.`,
    chart: ranges_chart(list.map((c) => ({ label: row_label(c), value: c.cost_usd, low: c.cost_usd_p10, high: c.cost_usd_p90, misses: misses(c).length > 0 })), { name: 'US dollars', text: usd, limit: budget ? { x: budget, text: 'budget' } : null }), tables: [plan_table(list)] });
  if (!list.some((c) => c.cost_parts && Object.keys(c.cost_parts).length > 1)) return;
  const chart = shares_chart(list.map((c) => ({ label: row_label(c), parts: Object.fromEntries(Object.entries(c.cost_parts || {}).filter(([, v]) => typeof v === 'number').map(([k, v]) => [k.replace(/_usd$/, '').replace(/_/g, ' '), v])) })), usd, 'US dollars');
  const parts = Object.entries(cheap.cost_parts || {}).filter(([, v]) => typeof v === 'number');
  const [key, most] = largest_by(parts, ([, v]) => v) || ['', 0];
  section({ id: 'cost-parts', title: 'What the money goes to', keys: chart.keys, chart, see: `Of ${cheap.machine}'s ${usd(cheap.cost_usd)}, ${usd(most)} (${percent(most / cheap.cost_usd)}) is ${key.replace(/_usd$/, '').replace(/_/g, ' ')}.`,
    tables: [table('US dollars', [{ title: 'candidate' }, ...chart.keys.map(([, n]) => ({ title: n, number: true }))], list.map((c) => [row_label(c), ...chart.keys.map(([, n]) => { const hit = Object.entries(c.cost_parts || {}).find(([k]) => k.replace(/_usd$/, '').replace(/_/g, ' ') === n); return hit ? cell(hit[1], 'usd', { path: `answer.candidates.${c.at}.cost_parts.${hit[0]}` }) : '–'; })]))] });
};

const plan_table = (list) => table('The candidates', [{ title: '' }, { title: 'machine' }, { title: 'GPUs', number: true }, { title: 'days', number: true }, { title: '10 to 90 %' }, { title: 'cost', number: true }, { title: '10 to 90 %' }, { title: 'goodput', number: true }, { title: 'MWh', number: true }, { title: 'misses' }],
  list.map((c) => ({ mark: c.at === 0 ? 'pick' : undefined, cells: [String(c.rank), c.machine, { text: fixed(c.gpus, 0), value: c.gpus, path: `answer.candidates.${c.at}.gpus` }, { text: significant(c.days, 3), value: c.days, path: `answer.candidates.${c.at}.days` }, span_text(c, 'days', (x) => significant(x, 3)), cell(c.cost_usd, 'usd', { path: `answer.candidates.${c.at}.cost_usd` }), span_text(c, 'cost_usd', usd), c.goodput ? cell(c.goodput, 'percent') : '–', c.energy_mwh ? { text: significant(c.energy_mwh, 3), value: c.energy_mwh } : '–', misses(c).join(' and ')] })));

const days_section = (a, list) => {
  const deadline = limit_of(a, 'deadline_days'), quick = largest_by(list, (c) => -c.days), late = list.filter((c) => c.meets_deadline === false);
  section({ id: 'days', title: 'How long each takes', see: `${quick.machine} is done first, in ${text_of('days', quick.days)}${late.length > 0 ? `; ${listed(late.map((c) => c.machine))} miss${late.length === 1 ? 'es' : ''} the deadline` : '; none misses the deadline'}.`,
    chart: ranges_chart(list.map((c) => ({ label: row_label(c), value: c.days, low: c.days_p10, high: c.days_p90, misses: c.meets_deadline === false })), { name: 'days', text: (x) => significant(x, 3), limit: deadline ? { x: deadline, text: 'deadline' } : null }) });
};

const curve_section = (list) => {
  const with_curve = list.filter((c) => Array.isArray(c.curve) && c.curve.length > 1).slice(0, 8);
  if (with_curve.length === 0) return;
  const curves = with_curve.map((c) => ({ name: c.machine, points: c.curve.map((p) => [p.gpus, p.days]) }));
  const c = with_curve[0], from = c.curve[0], to = c.curve[c.curve.length - 1];
  section({ id: 'curves', title: 'Days by number of GPUs', keys: curve_keys(curves), see: `${c.machine}: ${significant(to.gpus / from.gpus, 3)} times the GPUs (${fixed(from.gpus, 0)} to ${fixed(to.gpus, 0)}) take ${significant(to.days / from.days, 3)} of the days and ${significant(to.cost_usd / from.cost_usd, 3)} times the money.`,
    chart: curves_chart(curves, { x_name: 'GPUs', y_name: 'days', x_text: (x) => fixed(x, 0), y_text: (x) => significant(x, 3), x_log: true, y_log: true }),
    tables: [table('Points of the curves', [{ title: 'machine' }, { title: 'GPUs', number: true }, { title: 'days', number: true }, { title: 'cost', number: true }], with_curve.flatMap((k) => k.curve.map((p, i) => [k.machine, { text: fixed(p.gpus, 0), value: p.gpus }, { text: significant(p.days, 3), value: p.days, path: `answer.candidates.${k.at}.curve.${i}.days` }, cell(p.cost_usd, 'usd')])))] });
};
