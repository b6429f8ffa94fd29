// Two plans side by side: the one that was kept, and the one at hand.

const show_comparison = async (host, asked, beside, plan) => {
  const ask = (p) => asked(request_of('simulate', p, { ranks: 8 }));
  const kept = await ask(beside);
  const now = await ask(plan);
  if (!kept || !now) return false;
  const bad = [kept, now].find((d) => d.error);
  if (bad) {
    fill_again(host, () => refused_part(bad.error, () => {}));
    return true;
  }
  const compared = await asked({ ask: 'compare', names: [beside, plan].map(plan_word), results: [kept.answer, now.answer] });
  if (!compared) return false;
  const gantts = [kept, now].flatMap((d, i) => (d.gantt ? [{ ...d.gantt, name: letter(i) }] : []));
  take_report({ ...report, ...compared, plan: now.plan, gantts });
  fill_again(host, () => (compared.error ? refused_part(compared.error, () => {}) : compare_page(compared.answer)));
  return true;
};

const plan_word = (plan) => [plan.base, ...overrides(plan)].join('@');
