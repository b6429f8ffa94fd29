// compare and lesson: several plans side by side.

const letter = (i) => String.fromCharCode(65 + i);

// The file, with the changes that tell it from others.
const plan_name = (name) => {
  const [file, ...changes] = String(name).split('@');
  return [file_stem(file), ...changes.map((c) => c.replace(/^strategy\./, ''))].join(' ');
};

const compare_page = (a) => {
  const steps = a.steps.map((s, i) => ({ ...s, letter: letter(i), at: i }));
  const fit = steps.filter((s) => s.fits);
  const base = fit[0];
  const best = fit.length > 0 ? largest_by(fit, (s) => s.samples_per_s) : null;
  const worst = fit.length > 0 ? largest_by(fit, (s) => -s.samples_per_s) : null;
  const pace =
    fit.length > 1
      ? `${best.letter} is the fastest: ${significant(best.samples_per_s / worst.samples_per_s, 3)} times the samples per second of ${worst.letter}, the slowest.`
      : fit.length === 1
        ? `Only ${base.letter} fits into memory.`
        : 'None of them fits into memory.';
  open_page(`Which of ${plural(steps.length, 'plan')} is ${steps.length === 2 ? 'faster' : 'the fastest'}, and by what?`, null, pace);
  headline(
    steps
      .slice(0, 6)
      .map((s) => ({
        label: `${s.letter}  ${plan_name(s.name)}`,
        figure: s.fits ? figure_at(`answer.steps.${s.at}.step_time_s`, 'seconds') : { parts: ['does not fit', ''] },
        note: s.fits ? `MFU ${percent(s.mfu)}` : `needs ${text_of('gib', s.needed_bytes)}`,
        tone: s.fits ? '' : 'bad',
      })),
  );
  const plans = table(
    'The plans',
    [
      { title: 'letter' },
      { title: 'plan' },
      { title: 'step time', number: true },
      { title: 'samples/s', number: true },
      { title: 'tokens/s', number: true },
      { title: 'MFU', number: true },
      { title: 'needed', number: true },
      { title: 'capacity', number: true },
    ],
    steps.map((s) => ({
      mark: s === best ? 'pick' : undefined,
      cells: [
        s.letter,
        s.name,
        s.fits ? cell(s.step_time_s, 'seconds', { path: `answer.steps.${s.at}.step_time_s` }) : 'does not fit',
        s.fits ? cell(s.samples_per_s, 'number', { path: `answer.steps.${s.at}.samples_per_s` }) : '–',
        s.fits && s.tokens_per_s > 0 ? cell(s.tokens_per_s, 'whole', { path: `answer.steps.${s.at}.tokens_per_s` }) : '–',
        s.fits ? cell(s.mfu, 'percent', { path: `answer.steps.${s.at}.mfu` }) : '–',
        cell(s.needed_bytes, 'gib', { path: `answer.steps.${s.at}.needed_bytes` }),
        cell(s.capacity_bytes, 'gib', { path: `answer.steps.${s.at}.capacity_bytes` }),
      ],
    })),
  );
  if (fit.length > 0) {
    const chart = stacks_chart(fit.map((s) => ({ label: s.letter, breakdown: s.breakdown })));
    const column = time_column(fit.map((s) => s.step_time_s));
    const used = Object.keys(words.time).filter((key) => fit.some((s) => s.breakdown[key] > 0));
    const longest = largest_by(fit, (s) => s.step_time_s);
    const over = (k) => longest.breakdown[k] - base.breakdown[k];
    const key = longest === base ? breakdown_parts(longest.breakdown)[0][0] : largest_by(used, over);
    section({
      id: 'stacks',
      title: 'Where each step goes',
      keys: chart.keys,
      chart,
      see:
        longest === base
          ? `The longest step is ${base.letter}'s, ${seconds(base.step_time_s)}; its largest part is ${words.time[key]}, ${seconds(base.breakdown[key])}.`
          : `The longest step is ${longest.letter}'s, ${seconds(longest.step_time_s)}; beside ${base.letter} it loses most to ${words.time[key]}: ${seconds(longest.breakdown[key])} against ${seconds(base.breakdown[key])}.`,
      tables: [
        plans,
        table(
          `Slowest rank of each, ${column.unit}`,
          [{ title: 'category' }, ...fit.map((s) => ({ title: s.letter, number: true }))],
          [
            ...used
              .filter((k) => fit.some((s) => column.text(s.breakdown[k]) !== '0.000'))
              .map((k) => [
                words.time[k],
                ...fit.map((s) => ({ text: column.text(s.breakdown[k]), value: s.breakdown[k], path: `answer.steps.${s.at}.breakdown.${k}` })),
              ]),
            {
              mark: 'sum',
              cells: ['step', ...fit.map((s) => ({ text: column.text(sum(Object.values(s.breakdown))), value: sum(Object.values(s.breakdown)) }))],
            },
          ],
        ),
      ],
    });
  } else main().append(plans);
  a.differences.forEach((d, i) => difference_section(a, d, i, steps));
  (report.gantts || []).forEach((g, i) => gantt_section(g, `One step of ${g.name}${modelled_words(steps.find((s) => s.letter === g.name))}`, `gantt-${i}`));
  assumptions([['Differences', "By category, on each plan's slowest rank; they add up to the difference of the two step times."]], []);
};

const difference_section = (a, d, i, steps) => {
  const name = steps.find((s) => s.name === d.name).letter,
    against = steps.find((s) => s.name === d.against).letter;
  const [key, most] = largest_by(Object.entries(d.breakdown), ([, s]) => Math.abs(s));
  const same = Math.abs(d.ratio - 1) < 5e-4;
  const column = time_column(Object.values(d.breakdown));
  const parts = Object.entries(d.breakdown)
    .filter(([, s]) => column.text(Math.abs(s)) !== '0.000')
    .sort((x, y) => Math.abs(y[1]) - Math.abs(x[1]));
  if (parts.length === 0) return;
  section({
    id: `difference-${i}`,
    title: `Why ${name} differs from ${against}`,
    beside: true,
    chart: difference_chart(d.breakdown),
    see: same
      ? `${name} takes as long as ${against}.`
      : `${name} takes ${significant(d.ratio, 3)} times as long: ${signed_seconds(d.step_time_s)} a step, of which ${signed_seconds(most)} ${words.time[key]}.`,
    tables: [
      table(
        'Seconds more or less',
        [{ title: 'category' }, { title: column.unit, number: true }],
        [
          ...parts.map(([k, s]) => [
            words.time[k],
            { text: column.signed(s), value: s, path: `answer.differences.${i}.breakdown.${k}` },
          ]),
          {
            mark: 'sum',
            cells: [
              'step',
              {
                text: column.signed(d.step_time_s),
                value: d.step_time_s,
                path: `answer.differences.${i}.step_time_s`,
              },
            ],
          },
        ],
      ),
    ],
  });
};

// What the fullest GPU of each plan needs, also of a plan that does not fit.
const lesson_memory = (a) => {
  const plans = a.plans.map((p, at) => ({ ...p, at })).filter((p) => p.figures && p.figures.needed > 0);
  const over = plans.filter((p) => !p.figures.fits);
  if (plans.length === 0 || (over.length === 0 && !asks_for(a, 'memory'))) return;
  const used = Object.keys(words.memory).filter((key) => plans.some((p) => p.figures[`memory.${key}`] > 0));
  section({
    id: 'memory',
    title: 'Memory that the fullest GPU needs',
    see: over.length > 0 ? `${over.map((p) => p.key).join(', ')}: does not fit.` : 'Every plan fits.',
    tables: [
      table(
        'Peak memory by category',
        [
          { title: 'plan' },
          { title: 'fits' },
          { title: 'needed', number: true },
          { title: 'capacity', number: true },
          ...used.map((key) => ({ title: words.memory[key], number: true })),
        ],
        plans.map((p) => [
          p.key,
          p.figures.fits ? 'yes' : 'no',
          cell(p.figures.needed, 'gib', { path: `answer.plans.${p.at}.figures.needed` }),
          cell(p.figures.capacity, 'gib', { path: `answer.plans.${p.at}.figures.capacity` }),
          ...used.map((key) => cell(p.figures[`memory.${key}`] || 0, 'gib')),
        ]),
      ),
    ],
  });
};

// A figure of each plan.
const bars_section = (picture, id) => {
  const known = picture.bars.filter((b) => b.value !== null);
  const text_at = new Map(known.map((b) => [b.value, b.text]));
  section({
    id,
    title: picture.title,
    see: `${picture.bars.map((b) => `${b.plan}: ${b.text}`).join('; ')}.`,
    chart:
      known.length > 0 &&
      bars_chart(
        known.map((b) => [b.plan, b.value]),
        () => ['blue', 'none'],
        (plan) => plan,
        (value) => text_at.get(value),
      ),
  });
};

// Kinds of pictures that are characters here, too; steps, time and memory are drawn from figures.
const kTextPictures = ['ring', 'nodes', 'hours'];
const text_section = (picture) =>
  main().append(
    element('section', {}, element('h2', {}, picture.title), element('pre', { class: 'scroll text-picture', tabindex: 0, role: 'img', 'aria-label': picture.title }, picture.text)),
  );

const own_pictures = (a) =>
  (a.pictures || []).forEach((picture, i) => {
    if (picture.kind === 'bars') bars_section(picture, `bars-${i}`);
    else if (kTextPictures.includes(picture.kind)) text_section(picture);
  });
// Whether the file asks for a picture of such a kind; where it asks for none, all are shown.
const asks_for = (a, ...kinds) => (a.pictures || []).length === 0 || a.pictures.some((p) => kinds.includes(p.kind));

const lesson_page = (a) => {
  const time = (f) => Object.fromEntries(Object.keys(words.time).map((key) => [key, f[`time.${key}`] || 0]));
  const plans = a.plans.filter((p) => p.figures && p.figures['step_time'] > 0);
  open_page(a.title || a.lesson, a.question || null, (a.says || [])[0]);
  const at = (p) => a.plans.indexOf(p);
  const shown = a.plans.filter((p) => p.figures && (p.figures.step_time > 0 || p.figures.fits === 0));
  const timed = asks_for(a, 'time', 'steps');
  if (shown.length > 0 && timed)
    headline(
      shown.slice(0, 6).map((p) => ({
        label: p.key,
        figure:
          p.figures.step_time > 0
            ? { path: `answer.plans.${at(p)}.figures.step_time`, value: p.figures.step_time, parts: parts_of.seconds(p.figures.step_time) }
            : { parts: ['does not fit', ''] },
        note: p.title,
        tone: p.figures.step_time > 0 ? '' : 'bad',
      })),
    );
  if (!timed)
    section({
      id: 'plans',
      title: 'The plans',
      see: `${capital(plural(a.plans.length, 'plan'))}, each played by itself.`,
      tables: [
        table(
          'What each is',
          [{ title: 'plan' }, { title: 'what' }],
          a.plans.map((p) => [p.key, p.title]),
        ),
      ],
    });
  if (plans.length > 0 && timed) {
    const chart = stacks_chart(plans.map((p) => ({ label: p.key, breakdown: time(p.figures) })));
    const longest = largest_by(plans, (p) => p.figures.step_time),
      shortest = largest_by(plans, (p) => -p.figures.step_time);
    section({
      id: 'stacks',
      title: 'Where each step goes',
      keys: chart.keys,
      chart,
      see: `${capital(longest.title)} takes longest, ${seconds(longest.figures.step_time)}; ${shortest.title} is the shortest, ${seconds(shortest.figures.step_time)}.`,
      tables: [
        table(
          'The plans',
          [{ title: 'plan' }, { title: 'what' }, { title: 'step time', number: true }, { title: 'bubble', number: true }, { title: 'MFU', number: true }],
          plans.map((p) => [
            p.key,
            p.title,
            cell(p.figures.step_time, 'seconds', { path: `answer.plans.${at(p)}.figures.step_time` }),
            cell(p.figures['time.bubble'] || 0, 'seconds'),
            cell(p.figures.mfu, 'percent', { path: `answer.plans.${at(p)}.figures.mfu` }),
          ]),
        ),
      ],
    });
  }
  own_pictures(a);
  const rows = (a.rows || []).map((r, at) => ({ ...r, at })).filter((r) => r.predicted > 0 && r.measured > 0);
  if (rows.length > 0) replay_section(rows);
  lesson_memory(a);
  const told = (g) => capital(`${(a.plans.find((p) => p.key === g.name) || { title: g.name }).title}. `);
  if (timed) (report.gantts || []).forEach((g, i) => gantt_section(g, `One step of ${g.name}`, `gantt-${i}`, told(g)));
  if ((a.says || []).length > 1 || (a.left_out || []).length > 0)
    main().append(
      element(
        'section',
        {},
        element('h2', {}, 'What it shows'),
        [...a.says.slice(1), ...(a.left_out || [])].map((text) => element('p', { class: 'see' }, text)),
      ),
    );
  assumptions([['Held', (a.shows || []).map((s) => `${s.claim}: ${s.holds ? 'yes' : 'no'}`).join('; ')]], []);
};
