// Pipelines in time: one row per rank, passes above, communication as a thin line below them.

// `lines`: at a block's foot, which tell passes apart where colours don't.
const kPasses = [
  { name: 'forward', look: ['blue', 'none'], ink: '#fff', lines: 0 },
  { name: 'backward', look: ['orange', 'none'], ink: '#15191e', lines: 1 },
  { name: 'backward of weights', look: ['yellow', 'none'], ink: '#15191e', lines: 2 },
  { name: 'optimizer', look: ['purple', 'none'], ink: '#15191e', lines: 3 },
];
const kLineHeight = 2; // Pixels, with as much between two.
const foot_lines = (shape, lines) =>
  Array.from({ length: lines }, (_, i) => ({
    type: 'rect',
    silent: true,
    shape: { x: shape.x, y: shape.y + shape.height - kLineHeight * (2 * i + 2), width: shape.width, height: kLineHeight },
    style: { fill: '#15191e' },
  }));
const pass_swatch = (p) =>
  `<svg width="18" height="12" viewBox="0 0 18 12" aria-hidden="true"><rect width="18" height="12" fill="${kHue[p.look[0]]}"/>${foot_lines({ x: 0, y: 0, width: 18, height: 12 }, p.lines)
    .map(({ shape }) => `<rect x="0" y="${shape.y}" width="18" height="${shape.height}" fill="#15191e"/>`)
    .join('')}</svg>`;
const kTalks = [
  { name: 'collectives', look: ['vermillion', 'none'] },
  { name: 'messages between stages', look: ['green', 'none'] },
  { name: 'copies and input', look: ['grey', 'none'] },
];
const kChunkStrength = [1, 0.8, 0.62, 0.5];
const kSpanFields = 5; // begin, length, pass, microbatch, chunk
const kRowSeconds = ['forward', 'backward', 'optimizer', 'idle'];
const kTalkFields = 3; // begin, length, kind

const gantt_items = (gantt) => {
  const items = [],
    at = (t) => t * gantt.unit_s;
  gantt.rows.forEach((row, y) => {
    for (let i = 0; i < row.talks.length; i += kTalkFields)
      items.push([at(row.talks[i]), at(row.talks[i] + row.talks[i + 1]), y, 1, row.talks[i + 2], -1, 0]);
    for (let i = 0; i < row.spans.length; i += kSpanFields)
      items.push([at(row.spans[i]), at(row.spans[i] + row.spans[i + 1]), y, 0, row.spans[i + 2], row.spans[i + 3], row.spans[i + 4]]);
  });
  return items;
};

const gantt_tip = (gantt, item) => {
  const [begin, end, y, talk, kind, microbatch, chunk] = item;
  const what = talk ? kTalks[kind].name : kPasses[kind].name;
  const which =
    !talk && microbatch >= 0
      ? `, microbatch ${microbatch}${gantt.chunks > 1 ? `, chunk ${chunk}` : ''}`
      : !talk && microbatch === -2
        ? ', several microbatches'
        : '';
  return `<b>${gantt.rows[y].label}</b><br>${what}${which}<br>${seconds(begin)} to ${seconds(end)}: ${seconds(end - begin)}`;
};

const draw_lane = (theme) => (params, api) => {
  const from = api.coord([api.value(0), api.value(2)]),
    to = api.coord([api.value(1), api.value(2)]),
    lane = api.size([0, 1])[1];
  const shape = echarts.graphic.clipRectByRect(
    { x: from[0], y: from[1] - lane * 0.42, width: to[0] - from[0], height: lane * 0.68 },
    params.coordSys,
  );
  return shape && { type: 'rect', shape, style: { fill: kInk[theme].track } };
};

const draw_item = (theme) => (params, api) => {
  const [begin, end, y, talk, kind, microbatch, chunk] = [0, 1, 2, 3, 4, 5, 6].map((i) => api.value(i));
  const from = api.coord([begin, y]),
    to = api.coord([end, y]);
  const lane = api.size([0, 1])[1];
  const top = talk ? from[1] + lane * 0.3 : from[1] - lane * 0.42;
  const full = { x: from[0], y: top, width: Math.max(to[0] - from[0], 0.6), height: talk ? Math.max(lane * 0.13, 2.5) : lane * 0.68 };
  const shape = echarts.graphic.clipRectByRect(full, params.coordSys);
  if (!shape) return undefined;
  const look = talk ? kTalks[kind].look : kPasses[kind].look,
    strength = talk ? 1 : kChunkStrength[chunk % kChunkStrength.length];
  const rect = {
    type: 'rect',
    shape,
    style: { fill: kHue[look[0]], opacity: strength, stroke: kInk[theme].paper, lineWidth: shape.width > 5 ? 1 : 0 },
  };
  if (talk) return rect;
  const text = microbatch >= 0 ? String(microbatch) : '';
  const lines = foot_lines(shape, kPasses[kind].lines);
  if (text === '' || shape.width < 7 + 7 * text.length || lane < 18) return lines.length > 0 ? { type: 'group', children: [rect, ...lines] } : rect;
  return {
    type: 'group',
    children: [
      rect,
      ...lines,
      {
        type: 'text',
        silent: true,
        style: {
          text,
          x: shape.x + shape.width / 2,
          y: shape.y + shape.height / 2,
          align: 'center',
          verticalAlign: 'middle',
          fill: strength < 0.75 ? kInk[theme].ink : kPasses[kind].ink,
          fontSize: 11,
        },
      },
    ],
  };
};

// A long pipeline is read at its beginning and its end; as a whole it is a carpet.
const kReadableBlocks = 90;
const gantt_views = (gantt) => {
  const most = Math.max(...gantt.rows.map((r) => r.spans.length / kSpanFields));
  const share = Math.min(1, kReadableBlocks / most);
  return share > 0.6
    ? [['whole step', 0, 1]]
    : [
        ['beginning', 0, share],
        ['end', 1 - share, 1],
        ['whole step', 0, 1],
      ];
};

// From its first pass to its last, over all rows, as shares of the picture; null where no block is that microbatch alone.
const microbatch_range = (gantt, microbatch) => {
  let from = Infinity,
    to = -Infinity;
  for (const { spans } of gantt.rows)
    for (let i = 0; i < spans.length; i += kSpanFields)
      if (spans[i + 3] === microbatch) {
        from = Math.min(from, spans[i]);
        to = Math.max(to, spans[i] + spans[i + 1]);
      }
  return to > from ? [from / gantt.end, to / gantt.end] : null;
};
const microbatches_of = (gantt) => {
  const most = Math.max(-1, ...gantt.rows.flatMap(({ spans }) => spans.filter((_, i) => i % kSpanFields === 3)));
  return Array.from({ length: most + 1 }, (_, m) => m).filter((m) => microbatch_range(gantt, m));
};
const zoom_choice = (gantt, chart) => {
  const all = microbatches_of(gantt);
  if (all.length < 2) return null;
  return chooser('Zoom to microbatch', ['–', ...all.map(String)], 0, (i) => chart.zoom(...(i === 0 ? [0, 1] : microbatch_range(gantt, all[i - 1]))));
};

const gantt_chart = (gantt, chosen = () => 0) => {
  const items = gantt_items(gantt);
  return {
    canvas: true,
    height: (view) => 92 + gantt.rows.length * (view.narrow ? 24 : 30) - (printing ? 44 : 0),
    option: (view) => {
      const [, from, to] = gantt_views(gantt)[chosen()],
        end = gantt.end * gantt.unit_s;
      return {
        grid: { left: view.narrow ? 62 : 96, right: 14, top: 8, bottom: printing ? 40 : 84 },
        xAxis: {
          type: 'value',
          min: printing ? from * end : 0,
          max: printing ? to * end : end,
          ...axis_style(view.theme, { axisLabel: { formatter: (t) => seconds(t) } }),
          splitLine: { show: false },
        },
        yAxis: {
          type: 'category',
          inverse: true,
          data: gantt.rows.map((r) => r.label),
          ...axis_style(view.theme),
          axisLabel: { color: view.muted, fontSize: view.narrow ? 11 : 13, width: view.narrow ? 56 : 90, overflow: 'truncate', interval: 0 },
          splitLine: { show: false },
        },
        dataZoom: printing
          ? []
          : [
              {
                type: 'slider',
                start: 100 * from,
                end: 100 * to,
                filterMode: 'weakFilter',
                height: 26,
                bottom: 10,
                borderColor: view.line,
                fillerColor: 'rgba(0,114,178,.16)',
                backgroundColor: view.panel,
                showDataShadow: false,
                textStyle: { color: view.muted, fontSize: 11 },
                labelFormatter: (t) => seconds(t),
                moveHandleSize: 0,
              },
              {
                type: 'inside',
                start: 100 * from,
                end: 100 * to,
                filterMode: 'weakFilter',
                zoomOnMouseWheel: 'ctrl',
                moveOnMouseMove: true,
                moveOnMouseWheel: false,
              },
            ],
        tooltip: { formatter: (p) => (p.seriesIndex === 0 ? '' : gantt_tip(gantt, p.value)) }, // Lanes have nothing to say.
        series: [
          {
            type: 'custom',
            silent: true,
            renderItem: draw_lane(view.theme),
            encode: { x: [0, 1], y: 2 },
            data: gantt.rows.map((r, y) => [0, end, y]),
            clip: true,
          },
          { type: 'custom', renderItem: draw_item(view.theme), encode: { x: [0, 1], y: 2 }, data: items, clip: true, progressive: 0 },
        ],
      };
    },
  };
};

const gantt_keys = (gantt) => {
  const passes = new Set(),
    talks = new Set();
  for (const [, , , talk, kind] of gantt_items(gantt)) (talk ? talks : passes).add(kind);
  return [...kPasses.map((p, i) => [passes.has(i), p.look, p.name, pass_swatch(p)]), ...kTalks.map((t, i) => [talks.has(i), t.look, t.name])]
    .filter(([there]) => there)
    .map(([, ...key]) => key);
};

const idle_of = (row) => row.seconds.idle / row.period_s;
// Steps of two lengths: a simulated and a measured one.
const two_steps = (gantt) => new Set(gantt.rows.map((r) => r.period_s)).size > 1;

const gantt_table = (gantt) => {
  const column = time_column([gantt.period_s]);
  const columns = [
    { title: 'row' },
    { title: 'rank', number: true },
    ...kRowSeconds.map((title) => ({ title: `${title}, ${column.unit}`, number: true })),
    { title: 'idle %', number: true },
  ];
  return table(
    'Time of each row',
    columns,
    gantt.rows.map((r) => [
      r.label,
      { text: String(r.rank), value: r.rank },
      ...kRowSeconds.map((key) => ({ text: column.text(r.seconds[key]), value: r.seconds[key] })),
      { text: fixed(100 * idle_of(r), 1), value: idle_of(r) },
    ]),
  );
};

const gantt_see = (gantt) => {
  const most = largest_by(gantt.rows, idle_of),
    least = largest_by(gantt.rows, (r) => -idle_of(r));
  if (gantt.rows.length === 1)
    return `Of the ${seconds(gantt.period_s)} that are shown, ${most.label} spends ${percent(1 - idle_of(most))} inside passes, where communication may be part of them; grey is the rest.`;
  const clock = `The rows share one clock of ${seconds(gantt.period_s)}`;
  if (most === least || Math.abs(idle_of(most) - idle_of(least)) < 5e-4)
    return `${clock}; every row is in passes, communication inside them included, for ${percent(1 - idle_of(most))} of it.`;
  return `${clock}; grey is time outside passes: most on ${most.label}, ${percent(idle_of(most))} of ${two_steps(gantt) ? 'its' : 'the'} step, least on ${least.label}, ${percent(idle_of(least))}.`;
};

const gantt_section = (gantt, title = 'Who computes when', id = 'gantt', before = '') => {
  if (!gantt || gantt.rows.length === 0) return;
  let chosen = 0;
  const chart = gantt_chart(gantt, () => chosen),
    views = gantt_views(gantt);
  const see = before + gantt_see(gantt) + (views.length > 1 && pictures_available() ? ` Shown first: the beginning, ${seconds(views[0][2] * gantt.period_s)} of it.` : '');
  const choose =
    views.length > 1
      ? chooser(
          'Show the',
          views.map(([name]) => name),
          0,
          (i) => {
            chosen = i;
            chart.redraw();
          },
        )
      : null;
  section({
    id,
    title,
    see,
    keys: gantt_keys(gantt),
    chart,
    choose: [choose, zoom_choice(gantt, chart)].filter(Boolean),
    tables: [gantt_table(gantt)],
    hint: `Numbers in blocks are microbatches. Drag the handles below the picture to zoom.${gantt.chunks > 1 ? ' Fainter blocks are later chunks of the model.' : ''}${gantt.thinned ? ' Neighbouring blocks too thin to see are drawn as one.' : ''}`,
  });
};
