// fleet: who waits for whom on a shared cluster.

const kAccountLook = {
  useful: ['green', 'none'],
  lost: ['vermillion', 'falling'],
  restarts: ['orange', 'rising'],
  down: ['grey', 'boxes'],
  'free: order': ['purple', 'none'],
  'free: quota': ['yellow', 'rising'],
  'free: fragments': ['sky', 'dots'],
  'free: busy': ['blue', 'level'],
  unwanted: ['grey', 'none'],
};
const kAccountWords = {
  useful: 'work that counts',
  lost: 'work done again',
  restarts: 'restarts, resizes and checkpoints',
  down: 'nodes that were away',
  'free: order': 'free, kept for another job',
  'free: quota': 'free, but the quota is used up',
  'free: fragments': 'free, but in pieces',
  'free: busy': 'free, but too few',
  unwanted: 'free, nobody waited',
};
const kWhyFree = {
  'free: order': 'they were kept for another job',
  'free: quota': "the jobs' queues had all that they may have",
  'free: fragments': 'they were not where a job could stand',
  'free: busy': 'they were fewer than any job wanted',
};
const gpu_hours = (x) => `${significant(x / 3600, 4)}\u00a0GPU-hours`;

// [key, GPU-seconds, path in the account]
const account_parts = (account) =>
  [
    ...['useful', 'lost', 'restarts', 'down'].map((key) => [key, account[key], key]),
    ...Object.entries(account.free_while_wanted).map(([why, v]) => [`free: ${why}`, v, `free_while_wanted.${why}`]),
    ['unwanted', account.unwanted, 'unwanted'],
  ].filter(([, v]) => v > 0);

const leaf_queues = (f) => f.queues.map((q, i) => ({ ...q, at: i })).filter((q) => !f.queues.some((other) => other.parent === q.name));

const fleet_headline = (f, path) =>
  headline([
    { label: 'Waiting, on average', figure: figure_at(`${path}.all.wait_mean_s`, 'wait') },
    { label: '9 of 10 wait no longer than', figure: figure_at(`${path}.all.wait_p90_s`, 'wait') },
    { label: 'Of the time works', figure: { parts: parts_of.percent(f.account.useful / f.account.capacity) }, note: 'GPU-hours of work that counts, of all' },
    { label: 'Jobs that ended', figure: figure_at(`${path}.all.done`, 'whole'), note: `of ${fixed(f.all.jobs, 0)}` },
    { label: 'Preemptions', figure: figure_at(`${path}.all.preemptions`, 'whole') },
    { label: 'Fairness', figure: figure_at(`${path}.fairness`, 'number'), note: '1 where all get the same part of what they ask for (Jain)' },
  ]);

const account_section = (f, path, id, title) => {
  const parts = account_parts(f.account),
    whole = f.account.capacity;
  const [first, most] = largest_by(parts, ([, v]) => v);
  const idle = parts.filter(([key]) => key.startsWith('free: '));
  const waste = largest_by(idle, ([, v]) => v);
  section({
    id: `account${id}`,
    title: `Where the GPU-hours went${title}`,
    see: `Most is ${kAccountWords[first]}: ${percent(most / whole)} of ${gpu_hours(whole)}.${waste ? ` While jobs waited, ${percent(sum(idle.map(([, v]) => v)) / whole)} stood free, mostly because ${kWhyFree[waste[0]]}.` : ' No GPU stood free while a job waited.'}`,
    chart: bars_chart(
      parts.map(([key, v]) => [key, v]),
      (key) => kAccountLook[key],
      (key) => capital(kAccountWords[key]),
      (v) => percent(v / whole),
    ),
    tables: [
      table(
        'GPU-hours',
        [{ title: '' }, { title: 'GPU-hours', number: true }, { title: '%', number: true }],
        parts.map(([key, v, at]) => [
          kAccountWords[key],
          { text: `${fixed(v / 3600, 1)}\u00a0h`, value: v, path: `${path}.account.${at}` },
          fixed((100 * v) / whole, 1),
        ]),
      ),
    ],
  });
};

const nodes_section = (timeline, hues, id, title) => {
  const busiest = largest_by(timeline.rows, (r) => sum(r.cells.filter((_, i) => i % kCellFields === 2)) / r.gpus);
  const share = sum(busiest.cells.filter((_, i) => i % kCellFields === 2)) / (busiest.gpus * kTimelineBins);
  section({
    id: `nodes${id}`,
    title: `What stood on the nodes${title}`,
    keys: hues.keys,
    see: `Of all, ${busiest.name} was held most, ${percent(share)} of the time. A row is ${timeline.rows.some((r) => / to /.test(r.name)) ? 'a group of nodes' : 'a node'}; its height is all of its GPUs, and what is not coloured was free.`,
    chart: nodes_chart(timeline, hues),
    tables: [
      table(
        'Held, on average',
        [{ title: 'node' }, { title: 'GPUs', number: true }, { title: 'held', number: true }, { title: '% of the time', number: true }],
        timeline.rows.map((r) => {
          const held = sum(r.cells.filter((_, i) => i % kCellFields === 2)) / kTimelineBins;
          return [r.name, fixed(r.gpus, 0), fixed(held, 2), fixed((100 * held) / r.gpus, 1)];
        }),
      ),
    ],
  });
};

const kQueuesDrawn = 12;
const queues_sections = (f, timeline, hues, path, id, title) => {
  const leaves = leaf_queues(f).filter((q) => q.jobs > 0);
  leaves.slice(0, kQueuesDrawn).forEach((q) =>
    section({
      id: `queue${id}-${q.at}`,
      title: `Queue ${q.name}${title}`,
      see: `It held ${significant(q.held_gpus, 3)} GPUs on average${q.guaranteed > 0 ? ` and is guaranteed ${significant(q.guaranteed, 4)}` : ''}; with what waited it asked for ${significant(q.asked_gpus, 3)}.${q.guaranteed > 0 && q.held_gpus > q.guaranteed * 1.005 ? ' So it lived on what others lent.' : ''} ${q.wait_p90_s > 0 ? `9 of 10 of its jobs waited no longer than ${hours_text(q.wait_p90_s)}` : '9 of 10 of its jobs did not wait'}.`,
      chart: queue_chart(timeline.courses[q.at], timeline, q.guaranteed, hues.of(q.at)),
    }),
  );
  if (leaves.length === 0) return;
  section({
    id: `queues${id}`,
    title: `Queues against what they are guaranteed${title}`,
    see: `Queue ${largest_by(leaves, (q) => q.wait_p90_s).name} waits longest: 9 of 10 of its jobs up to ${hours_text(largest_by(leaves, (q) => q.wait_p90_s).wait_p90_s)}.`,
    tables: [
      table(
        'Queues, GPUs on average',
        [
          { title: 'queue' },
          { title: 'its own', number: true },
          { title: 'held', number: true },
          { title: 'asked', number: true },
          { title: 'jobs', number: true },
          { title: 'mean wait', number: true },
          { title: '90 %', number: true },
          { title: 'longest', number: true },
        ],
        leaves.map((q) => {
          const at = (key) => `${path}.queues.${q.at}.${key}`;
          return [
            q.name,
            { text: significant(q.guaranteed), value: q.guaranteed, path: at('guaranteed') },
            { text: fixed(q.held_gpus, 2), value: q.held_gpus, path: at('held_gpus') },
            { text: fixed(q.asked_gpus, 2), value: q.asked_gpus, path: at('asked_gpus') },
            { text: fixed(q.jobs, 0), value: q.jobs, path: at('jobs') },
            { text: hours_text(q.wait_mean_s), value: q.wait_mean_s, path: at('wait_mean_s') },
            { text: hours_text(q.wait_p90_s), value: q.wait_p90_s, path: at('wait_p90_s') },
            { text: hours_text(q.wait_max_s), value: q.wait_max_s, path: at('wait_max_s') },
          ];
        }),
      ),
    ],
  });
};

const kWaitersShown = 40;
const waiters_section = (f, path, id, title) => {
  const waited = f.jobs
    .map((j, i) => ({ ...j, at: i }))
    .filter((j) => j.waiting_s > 0)
    .sort((a, b) => b.waiting_s - a.waiting_s);
  if (waited.length === 0) return;
  const why = (j) => largest_by(Object.entries(j.waited_s), ([, s]) => s)[0];
  const most = waited[0];
  section({
    id: `waiters${id}`,
    title: `Who waited longest${title}`,
    see: `${fixed(waited.length, 0)} of ${plural(f.all.jobs, 'job')} waited. Job ${most.name} waited ${hours_text(most.waiting_s)}, mostly for ${why(most)}${most.after ? `, until ${most.after} gave its GPUs back` : ''}.`,
    tables: [
      table(
        'Jobs',
        [{ title: 'job' }, { title: 'queue' }, { title: 'GPUs', number: true }, { title: 'waited', number: true }, { title: 'mostly for' }, { title: 'after' }],
        waited.slice(0, kWaitersShown).map((j) => [
          j.name,
          j.queue || '–',
          { text: significant(j.gpus), value: j.gpus, path: `${path}.jobs.${j.at}.gpus` },
          { text: hours_text(j.waiting_s), value: j.waiting_s, path: `${path}.jobs.${j.at}.waiting_s` },
          why(j),
          j.after || '–',
        ]),
      ),
    ],
  });
};

const fleet_page = (a) => {
  const fleets = a.fleets || [a];
  const policy = (f) => `order ${f.policy.order}, rule ${f.policy.rule}, quota ${f.policy.quota}, placement ${f.policy.placement}`;
  open_page(
    'Who waits for whom?',
    `${a.name}: ${plural(fleets[0].cluster.nodes, 'node')}, ${plural(fleets[0].cluster.gpus, 'GPU')}; ${policy(fleets[0])}`,
    fleets.length > 1
      ? `${fleets.map((f) => `${capital(f.label)}: jobs wait ${hours_text(f.all.wait_mean_s)} on average`).join('. ')}.`
      : `Jobs wait ${hours_text(a.all.wait_mean_s)} on average, and ${percent(a.account.useful / a.account.capacity)} of the GPU-hours are work that counts.`,
  );
  fleets.forEach((f, i) => {
    const several = fleets.length > 1;
    const path = several ? `answer.fleets.${i}` : 'answer',
      id = several ? `-${i}` : '',
      title = several ? ` (${f.label})` : '';
    if (several) main().append(element('h2', {}, capital(f.label)));
    const hues = queue_hues(report.timelines[i]);
    fleet_headline(f, path);
    account_section(f, path, id, title);
    nodes_section(report.timelines[i], hues, id, title);
    queues_sections(f, report.timelines[i], hues, path, id, title);
    waiters_section(f, path, id, title);
  });
  assumptions(
    [
      ['Time', 'Counts from the first arrival. Pictures show means over 240 equal parts of it.'],
      ['Policies', fleets.map((f) => `${f.label}: ${policy(f)}`).join('. ')],
    ],
    [],
  );
};
