// Step by step: a ring all-reduce, a pipeline, the exchange between experts. The core says what happens when; a slider
// shows it as far as it has come, in a picture and in words.

const kStepTopics = {
  ring: {
    title: 'Ring all-reduce',
    lesson: 'ring',
    about: (d) =>
      `Each of ${plural(d.ranks, 'GPU')} has gradients in ${d.ranks} pieces, and each needs the sum over all. In ${plural(d.ranks - 1, 'step')} sums are made on the way round, in as many more they are handed round: each GPU sends 2(n − 1)/n = ${significant((2 * (d.ranks - 1)) / d.ranks, 3)} times its data, and less than twice however many there are.`,
    sizes: () => [{ key: 'ranks', label: 'GPUs', values: whole_numbers(2, 16) }],
    first: { ranks: 4 },
    last: (d) => d.steps,
    sentence: (d, at) => ring_sentence(d, at),
    picture: (d, at, room) => ring_picture(d, at, room),
    list: (d, at) => d.sends.filter((s) => s.step === at - 1).map((s) => `GPU ${s.from} sends piece ${s.piece} to GPU ${s.to}, which ${s.adds ? 'adds it to its own' : 'keeps it'}`),
    table: (d) =>
      table(
        'Every step',
        ['step', 'from GPU', 'to GPU', 'piece'].map((title) => ({ title, number: true })).concat({ title: 'the receiver' }),
        d.sends.map((s) => [s.step + 1, s.from, s.to, s.piece, s.adds ? 'adds' : 'keeps'].map(String)),
      ),
  },
  pipeline: {
    title: 'Pipeline',
    lesson: 'schedules',
    about: (d) =>
      `${d.schedule.replace(/_/g, ' ')}: ${d.about}. Drawn with equal stages: a forward pass of one chunk takes 1, a backward pass 2, messages nothing. Each stage computes for ${d.work} of ${d.end}; what it waits is ${percent(d.end / d.work - 1)} of that, and the schedule's formula says ${percent(d.bubble_ratio)}.`,
    sizes: (choices) => [
      { key: 'schedule', label: 'Schedule', values: choices.schedules.map((s) => s.name) },
      { key: 'stages', label: 'Stages', values: whole_numbers(2, 8) },
      { key: 'chunks', label: 'Chunks of a stage', values: whole_numbers(1, 4) },
      { key: 'microbatches', label: 'Microbatches', values: [1, 2, 3, 4, 6, 8, 12, 16, 24] },
    ],
    first: { schedule: '1f1b', stages: 4, chunks: 1, microbatches: 8 },
    last: (d) => d.end,
    sentence: (d, at) => pipeline_sentence(d, at),
    picture: (d, at, room) => pipeline_picture(d, at, room),
    list: (d, at) => pipeline_list(d, at),
    table: (d) =>
      table(
        'Every pass',
        [...['stage', 'chunk', 'microbatch'].map((title) => ({ title, number: true })), { title: 'pass' }, ...['begins', 'ends'].map((title) => ({ title, number: true }))],
        [...d.passes].sort((a, b) => a.begin - b.begin || a.stage - b.stage).map((p) => [p.stage, p.chunk, p.microbatch, p.pass, p.begin, p.end].map(String)),
      ),
  },
  exchange: {
    title: "Experts' exchange",
    lesson: 'experts',
    about: (d) =>
      `${d.experts} experts stand on ${plural(d.ranks, 'GPU')}, ${d.experts / d.ranks} on each. Each GPU has ${fixed(d.tokens, 0)} tokens, and each token goes to ${plural(d.chosen, 'expert')}: ${fixed(d.tokens * d.chosen, 0)} rows leave a GPU, on average ${percent(1 - 1 / d.ranks)} of them for others. In each round a GPU sends to the one that many places on; afterwards the results go back the same way.`,
    sizes: () => [
      { key: 'ranks', label: 'GPUs', values: [2, 4, 8, 16] },
      { key: 'experts', label: 'Experts', values: [16, 32, 64, 128, 256] },
      { key: 'chosen', label: 'Experts of a token', values: [1, 2, 4, 6, 8] },
      { key: 'tokens', label: 'Tokens of a GPU', values: [1024, 4096, 16384] },
      { key: 'imbalance', label: 'How they choose', values: ['none', 'multinomial', 'zipf'], words: { none: 'all experts equally', multinomial: 'at random', zipf: 'some are popular' } },
    ],
    first: { ranks: 4, experts: 16, chosen: 2, tokens: 4096, imbalance: 'zipf' },
    last: (d) => d.ranks,
    sentence: (d, at) => exchange_sentence(d, at),
    picture: (d, at, room) => exchange_picture(d, at, room),
    list: (d, at) => (at === 0 ? [] : d.rounds[at - 1].map((s) => (s.from === s.to ? `GPU ${s.from} keeps ${rows_text(s.rows)}` : `GPU ${s.from} sends ${rows_text(s.rows)} to GPU ${s.to}`))),
    table: (d) =>
      table(
        'Rows from each GPU to each, on average',
        [{ title: 'from GPU', number: true }, ...d.arrive.map((_, to) => ({ title: `to ${to}`, number: true }))],
        [
          ...d.arrive.map((_, from) => [String(from), ...d.arrive.map((rows) => cell(rows / d.ranks, 'whole'))]),
          { mark: 'sum', cells: ['all', ...d.arrive.map((rows) => cell(rows, 'whole'))] },
        ],
      ),
  },
};

const whole_numbers = (from, to) => Array.from({ length: to - from + 1 }, (_, i) => from + i);
const rows_text = (rows) => `${fixed(rows, 0)} rows`;

// What is shown: {topic, at, and the sizes}. Sizes that the address has and the topic has not are left out.
const stepping = (choices, words) => {
  const topic = kStepTopics[words.topic] ? words.topic : 'ring';
  const { sizes, first } = kStepTopics[topic];
  const own = sizes(choices).map(({ key, values }) => [key, values.find((v) => String(v) === String(words[key])) ?? first[key]]);
  return { topic, at: Math.max(0, Math.floor(Number(words.at)) || 0), ...Object.fromEntries(own) };
};

const svg = (width, height, label, parts) =>
  element('figure', {
    class: 'stage',
    role: 'img',
    'aria-label': label,
    html: `<svg viewBox="0 0 ${width} ${height}" style="max-width:${width}px" aria-hidden="true">${parts.join('')}</svg>`,
  });
const svg_text = (x, y, text, more = '') => `<text x="${x}" y="${y}" ${more}>${text}</text>`;
const arrow_heads = '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0l8 4-8 4z"/></marker></defs>';

// Pictures are drawn for the room at hand, so that letters keep their size; on narrow pages rows have their numbers alone.
const kNarrow = 560;
const row_name = (room, word, i) => (room < kNarrow ? String(i) : `${word} ${i}`);
const row_width = (room, word) => (room < kNarrow ? 26 : word === 'stage' ? 66 : 62);

// Pieces are columns, GPUs rows: a piece goes down, from the last GPU to the first.
const ring_picture = (d, at, room) => {
  const n = d.ranks,
    label = row_width(room, 'GPU'),
    side = Math.min(96, (Math.min(room, 820) - label) / n),
    high = Math.max(22, Math.min(side, 44)),
    gap = 18,
    left = (piece) => label + piece * side,
    top = (rank) => 26 + gap + rank * (high + gap);
  const moved = d.sends.filter((s) => s.step === at - 1);
  const parts = [arrow_heads, ...whole_numbers(0, n - 1).map((p) => svg_text(left(p) + side / 2, 15, side < 56 ? p : `piece ${p}`, 'class="axis"'))];
  d.held[at].forEach((pieces, rank) => {
    parts.push(svg_text(label - 8, top(rank) + high / 2, row_name(room, 'GPU', rank), 'class="row"'));
    pieces.forEach((held, piece) => {
      const came = moved.some((s) => s.to === rank && s.piece === piece);
      const text = held.length === n ? 'all' : n <= 5 && side > 8 * (2 * held.length - 1) ? held.join('+') : held.length === 1 ? '·' : held.length;
      parts.push(
        `<rect x="${left(piece) + 2}" y="${top(rank)}" width="${side - 4}" height="${high}" rx="4" class="piece ${held.length === n ? 'whole' : ''} ${came ? 'came' : ''}" style="--part:${held.length / n}"/>`,
        svg_text(left(piece) + side / 2, top(rank) + high / 2, text, `class="held ${held.length === n ? 'whole' : ''}"`),
      );
    });
  });
  for (const s of moved) {
    const x = left(s.piece) + side / 2,
      wraps = s.to < s.from;
    const [from, to] = wraps ? [top(s.to) - gap + 2, top(s.to) - 1] : [top(s.from) + high + 1, top(s.to) - 1];
    parts.push(`<line x1="${x}" y1="${from}" x2="${x}" y2="${to}" class="arrow" marker-end="url(#head)"/>`);
    if (wraps) parts.push(`<line x1="${x}" y1="${top(s.from) + high + 1}" x2="${x}" y2="${top(s.from) + high + gap - 3}" class="arrow"/>`);
  }
  return svg(label + n * side, top(n) + 4, ring_sentence(d, at), parts);
};
const ring_sentence = (d, at) => {
  if (at === 0) return `Before the first of ${d.steps} steps each GPU has its own part of every piece.`;
  const adds = at <= d.ranks - 1;
  const whole = d.held[at].flat().filter((held) => held.length === d.ranks).length;
  const so_far = whole === d.ranks * d.ranks ? 'Now every GPU has the sum.' : whole > 0 ? `${whole} of ${d.ranks * d.ranks} pieces are the sum of all.` : `A sum has at most ${Math.max(...d.held[at].flat().map((held) => held.length))} of ${d.ranks} parts.`;
  return `Step ${at} of ${d.steps}, ${adds ? 'reduce-scatter' : 'all-gather'}: each GPU sends one piece to the next, which ${adds ? 'adds it to its own' : 'keeps it'}. ${so_far}`;
};

const kPassLook = { forward: 0, backward: 1, 'backward of inputs': 1, 'backward of weights': 2 };
const running = (d, at) => d.passes.filter((p) => p.begin < at && p.end >= at);
const pass_words = (p, d) => `${p.pass} of microbatch ${p.microbatch}${d.chunks > 1 ? `, chunk ${p.chunk}` : ''}`;
const pipeline_picture = (d, at, room) => {
  const label = 62,
    unit = Math.max(4, Math.min(28, 1080 / d.end)),
    high = 34,
    x = (t) => label + t * unit,
    top = (stage) => 6 + stage * (high + 6),
    bottom = top(d.stages);
  const parts = whole_numbers(0, d.stages - 1).flatMap((s) => [svg_text(label - 8, top(s) + high / 2, row_name(room, 'stage', s), 'class="row"'), `<rect x="${x(0)}" y="${top(s)}" width="${d.end * unit}" height="${high}" class="lane"/>`]);
  for (const p of d.passes) {
    const { look, ink, lines } = kPasses[kPassLook[p.pass]],
      width = (p.end - p.begin) * unit,
      // Passes that run interleaved share their time: one above the other.
      twins = d.passes.filter((q) => q.stage === p.stage && q.begin === p.begin),
      share = high / twins.length,
      y = top(p.stage) + twins.indexOf(p) * share;
    const state = p.begin >= at ? 'later' : p.end >= at ? 'now' : '';
    parts.push(
      `<rect x="${x(p.begin) + 0.5}" y="${y}" width="${width - 1}" height="${share - 1}" class="pass ${state}" style="--fill:${kHue[look[0]]};opacity:${state === 'later' ? 0.16 : 1}"/>`,
      ...foot_lines({ x: x(p.begin) + 1, y, width: width - 2, height: share - 1 }, state === 'later' ? 0 : lines).map((l) => `<rect x="${l.shape.x}" y="${l.shape.y}" width="${l.shape.width}" height="${kLineHeight}" fill="#15191e"/>`),
    );
    if (width >= 7 + 7 * String(p.microbatch).length && share > 14)
      parts.push(svg_text(x(p.begin) + width / 2, y + share / 2 - 1, p.microbatch, state === 'later' ? 'class="held"' : `class="held" style="fill:${ink}"`));
  }
  parts.push(at > 0 ? `<rect x="${x(at - 1)}" y="1" width="${unit}" height="${bottom - 2}" class="clock"/>` : '', svg_text(x(0), bottom + 12, '0', 'class="axis"'), svg_text(x(d.end), bottom + 12, d.end, 'class="axis"'));
  return svg(label + d.end * unit + 14, bottom + 22, pipeline_sentence(d, at), parts);
};
const pipeline_sentence = (d, at) => {
  if (at === 0) return `Before the first of ${d.end} units of time, no stage has begun.`;
  const busy = new Set(running(d, at).map((p) => p.stage)).size;
  return `From ${at - 1} to ${at} of ${d.end}: ${busy === d.stages ? 'all stages compute' : `${busy} of ${d.stages} stages ${busy === 1 ? 'computes' : 'compute'}, the others wait`}.`;
};
const pipeline_list = (d, at) =>
  at === 0
    ? []
    : whole_numbers(0, d.stages - 1).map((s) => {
        const now = running(d, at).filter((p) => p.stage === s);
        return `Stage ${s}: ${now.length > 0 ? now.map((p) => pass_words(p, d)).join(' and ') : 'waits'}`;
      });

const arrived = (d, at) => d.arrive.map((_, to) => sum(d.rounds.slice(0, at).map((round) => round.find((s) => s.to === to).rows)));
const exchange_picture = (d, at, room) => {
  const n = d.ranks,
    label = row_width(room, 'GPU'),
    side = Math.min(84, (Math.min(room, 820) - label - 40) / n),
    high = 26,
    x = (to) => label + to * side,
    y = (from) => 24 + from * (high + 3),
    most = Math.max(...d.arrive);
  const parts = whole_numbers(0, n - 1).map((to) => svg_text(x(to) + side / 2, 15, side < 40 ? to : `to ${to}`, 'class="axis"'));
  for (const from of whole_numbers(0, n - 1)) parts.push(svg_text(label - 8, y(from) + high / 2, row_name(room, 'GPU', from), 'class="row"'));
  d.rounds.forEach((round, r) => {
    for (const s of round) {
      const state = r >= at ? 'later' : r === at - 1 ? 'came' : '';
      parts.push(`<rect x="${x(s.to) + 1.5}" y="${y(s.from)}" width="${side - 3}" height="${high}" rx="3" class="piece ${state}" style="--part:${r < at ? Math.min(1, s.rows / (most / n)) : 0}"/>`);
      if (r < at) parts.push(svg_text(x(s.to) + side / 2, y(s.from) + high / 2, side < 8 * fixed(s.rows, 0).length ? '·' : fixed(s.rows, 0), 'class="held"'));
    }
  });
  const base = y(n) + 84,
    mean = sum(d.arrive) / n,
    level = (rows) => base - (rows / most) * 66;
  arrived(d, at).forEach((rows, to) =>
    parts.push(
      `<rect x="${x(to) + side * 0.2}" y="${level(rows)}" width="${side * 0.6}" height="${base - level(rows)}" class="bar"/>`,
      svg_text(x(to) + side / 2, base + 11, side < 8 * fixed(rows, 0).length ? '' : fixed(rows, 0), 'class="axis"'),
    ),
  );
  parts.push(room < kNarrow ? '' : svg_text(label - 8, base - 8, 'arrived', 'class="row"'), `<line x1="${label}" y1="${level(mean)}" x2="${x(n)}" y2="${level(mean)}" class="clock"/>`, svg_text(x(n) + 4, level(mean), 'mean', 'class="end"'));
  return svg(x(n) + 40, base + 20, exchange_sentence(d, at), parts);
};
const exchange_sentence = (d, at) => {
  if (at === 0) return 'Before the exchange each GPU has sorted its rows by the experts they are for.';
  const rows = arrived(d, at),
    mean = sum(rows) / d.ranks,
    most = Math.max(...rows);
  const what = at === 1 ? `each GPU keeps the rows for its own experts` : `each GPU sends to the one ${plural(at - 1, 'place')} on`;
  const end = at === d.ranks ? ` Now all are there: GPU ${rows.indexOf(most)} has ${significant(most / mean, 3)} times the mean, and all wait for it.` : '';
  return `Round ${at} of ${d.ranks}: ${what}. So far ${fixed(Math.min(...rows), 0)} to ${fixed(most, 0)} rows have come to a GPU.${end}`;
};

// `change` takes what is shown next, and whether it is asked for anew: the slider redraws the picture alone. `teach` opens a lesson.
const show_steps = (host, choices, shown, data, change, teach) =>
  fill_again(host, () => {
    const topic = kStepTopics[shown.topic];
    const pick = element('div', { class: 'topics', role: 'group', 'aria-label': 'What is shown' });
    for (const [name, { title }] of Object.entries(kStepTopics)) {
      const button = element('button', { type: 'button', 'aria-pressed': String(name === shown.topic) }, title);
      button.addEventListener('click', () => change({ topic: name, at: 0 }));
      pick.append(button);
    }
    const sizes = topic.sizes(choices).map(({ key, label, values, words: names = {} }) =>
      chooser(
        label,
        values.map((v) => names[v] || String(v).replace(/_/g, ' ')),
        values.findIndex((v) => v === shown[key]),
        (i) => change({ ...shown, [key]: values[i], at: 0 }),
      ),
    );
    main().append(element('h2', { class: 'title' }, `${topic.title}, step by step`), pick, element('div', {}, sizes));
    if (data.error) return refused_part(data.error, () => {});
    main().append(element('p', { class: 'see' }, topic.about(data)), step_player(topic, data, shown, change));
    const lesson = element('button', { type: 'button', class: 'more' }, 'The lesson on it, with the times of a cluster');
    lesson.addEventListener('click', () => teach(topic.lesson));
    main().append(lesson, topic.table(data));
    return undefined;
  });

const kStepEvery = 900; // Milliseconds from one step to the next, where they run.
const step_player = (topic, data, shown, change) => {
  const room = document.querySelector('.plan-view').clientWidth;
  const last = topic.last(data);
  let at = Math.min(shown.at, last),
    runs = 0;
  const picture = element('div'),
    sentence = element('p', { class: 'see step-sentence', role: 'status' }),
    list = element('ul', { class: 'step-list' });
  const slider = element('input', { id: 'step', type: 'range', min: 0, max: last, step: 1, value: at });
  const button = (text, act) => {
    const b = element('button', { type: 'button' }, text);
    b.addEventListener('click', act);
    return b;
  };
  const show = (to) => {
    at = Math.max(0, Math.min(last, to));
    const text = topic.sentence(data, at);
    slider.value = at;
    slider.setAttribute('aria-valuetext', text);
    back.disabled = at === 0;
    next.disabled = at === last;
    sentence.textContent = text;
    picture.replaceChildren(topic.picture(data, at, picture.clientWidth || room));
    list.replaceChildren(...topic.list(data, at).map((line) => element('li', {}, line)));
  };
  const go = (to) => {
    show(to);
    change({ ...shown, at }, false);
  };
  const stop = () => {
    clearInterval(runs);
    runs = 0;
    play.textContent = 'Play';
  };
  const back = button('Back', () => (stop(), go(at - 1))),
    next = button('Next', () => (stop(), go(at + 1))),
    play = button('Play', () => {
      if (runs) return stop();
      if (at === last) go(0);
      play.textContent = 'Stop';
      runs = setInterval(() => {
        if (!picture.isConnected || at === last) return stop();
        return go(at + 1);
      }, kStepEvery);
      return undefined;
    });
  slider.addEventListener('input', () => (stop(), go(Number(slider.value))));
  show(at);
  return element(
    'section',
    { class: 'steps' },
    element('div', { class: 'step-bar' }, back, next, play, element('label', { for: 'step' }, 'Step'), slider),
    sentence,
    picture,
    list,
  );
};
