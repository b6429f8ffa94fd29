// One node, the switches above it, and how full the wires are.

const class_text = (c) =>
  `${c.between}: ${text_of('gbps', c.rate_bytes_per_s / 1e9)}${c.most_used > 0 ? `, at most ${percent(c.most_used)} used` : ''}`;

const topology_chart = (topology) => {
  const loaded = topology.seconds !== null && topology.classes.some((c) => c.most_used > 0);
  const place = (row, i) => [(100 * (i + 0.5)) / topology.rows[row].vertices.length, row];
  const half = (row) => (topology.rows[row].vertices.length === 1 ? 46 : 40 / topology.rows[row].vertices.length);
  // A line meets a wide box above or below its narrower end.
  const meet = (end, other) => {
    const [x, y] = place(...end);
    const [there] = place(...other);
    return [Math.min(Math.max(there, x - half(end[0])), x + half(end[0])), y];
  };
  const shade = (used, view) => (used > 0 ? kHue[used > 0.5 ? 'vermillion' : 'blue'] : view.line);
  const edges = topology.links.map((l) => {
    const narrow_first = topology.rows[l.a[0]].vertices.length >= topology.rows[l.b[0]].vertices.length;
    const a = narrow_first ? place(...l.a) : meet(l.a, l.b),
      b = narrow_first ? meet(l.b, l.a) : place(...l.b);
    return { value: [...a, ...b], link: l };
  });
  const boxes = topology.rows.flatMap((row, r) => row.vertices.map((name, i) => ({ value: [...place(r, i), half(r)], name, kind: row.kind })));
  const height = (view) => 40 + topology.rows.length * (view.narrow ? 68 : 84);
  const edge = (view) => (params, api) => {
    const { link } = edges[params.dataIndex];
    const [x1, y1] = api.coord([api.value(0), api.value(1)]),
      [x2, y2] = api.coord([api.value(2), api.value(3)]);
    const style = {
      stroke: loaded ? shade(link.used, view) : view.muted,
      lineWidth: loaded ? (link.used > 0 ? 1.5 + 8 * link.used : 1) : 1.5,
      opacity: loaded && !(link.used > 0) ? 0.9 : 1,
      fill: null,
    };
    if (link.a[0] === link.b[0])
      return { type: 'bezierCurve', shape: { x1, y1, x2, y2, cpx1: (x1 + x2) / 2, cpy1: y1 + 16 + Math.abs(x2 - x1) * 0.14 }, style };
    return { type: 'line', shape: { x1, y1, x2, y2 }, style };
  };
  const box = (view) => (params, api) => {
    const [x, y] = api.coord([api.value(0), api.value(1)]),
      width = 2 * api.size([api.value(2), 0])[0];
    const { name } = boxes[params.dataIndex];
    const room = Math.floor(width / 7.2),
      number = /\d+$/.exec(name),
      text = name.length <= room ? name : number ? number[0] : '';
    return {
      type: 'group',
      children: [
        {
          type: 'rect',
          shape: { x: x - width / 2, y: y - 14, width, height: 28, r: 5 },
          style: { fill: view.panel, stroke: view.muted, lineWidth: 1 },
        },
        { type: 'text', style: { text, x, y, align: 'center', verticalAlign: 'middle', fill: view.ink, fontSize: 12 } },
      ],
    };
  };
  return {
    height,
    option: (view) => ({
      grid: { left: 0, right: view.narrow ? 0 : 300, top: 10, bottom: 10 },
      xAxis: { type: 'value', min: 0, max: 100, show: false },
      yAxis: { type: 'value', min: -0.5, max: topology.rows.length - 0.5, inverse: true, show: false },
      tooltip: {
        formatter: (p) => {
          if (p.seriesIndex !== 0) return `${p.data.name}`;
          const { link } = p.data;
          return `${link.name}<br>${text_of('gbps', link.rate_bytes_per_s / 1e9)} in each direction${topology.seconds !== null ? `<br>used ${percent(link.used)}: ${text_of('bytes', link.bytes)} per step` : ''}`;
        },
      },
      series: [
        { type: 'custom', renderItem: edge(view), data: edges, coordinateSystem: 'cartesian2d', encode: { x: [0, 2], y: [1, 3] } },
        { type: 'custom', renderItem: box(view), data: boxes, coordinateSystem: 'cartesian2d', encode: { x: 0, y: 1 }, z: 5 },
      ],
      graphic: view.narrow ? [] : class_labels(topology, view, height(view)),
    }),
  };
};

// Beside the picture, at the height of its wires, or below the label before it.
const kLabelHeight = 38;
const class_labels = (topology, view, height) => {
  const step = (height - 20) / topology.rows.length;
  const wanted = topology.classes
    .filter((c) => c.rows)
    .map((c) => ({ c, top: 10 + step * ((c.rows[0] + c.rows[1]) / 2 + 0.5) - kLabelHeight / 2 }))
    .sort((a, b) => a.top - b.top);
  let free = 0;
  for (const label of wanted) {
    label.top = Math.max(label.top, free);
    free = label.top + kLabelHeight;
  }
  const over = Math.max(0, free - height);
  const use = (c) => (topology.seconds === null ? '' : c.most_used > 0 ? `, at most ${percent(c.most_used)} used` : ', no flows');
  return wanted.map(({ c, top }) => ({
    type: 'text',
    left: view.width - 284,
    top: top - over,
    silent: true,
    style: {
      text: `{a|${c.between}}\n{b|${text_of('gbps', c.rate_bytes_per_s / 1e9)}${use(c)}}`,
      rich: { a: { fill: view.ink, fontSize: 13, fontWeight: 600, lineHeight: 18 }, b: { fill: view.muted, fontSize: 12.5, lineHeight: 17 } },
    },
  }));
};

const topology_see = (topology) => {
  const busiest = largest_by(topology.classes, (c) => c.most_used);
  if (topology.seconds === null)
    return `${capital(topology.of)}. ${listed(topology.classes.slice(0, 3).map((c) => `${c.between} at ${text_of('gbps', c.rate_bytes_per_s / 1e9)}`))}, in each direction.`;
  if (!busiest || !(busiest.most_used > 0)) return `${capital(topology.of)}. No flow crossed a shared link in this step.`;
  const spare = busiest.most_used < 0.2 ? 'none is near its limit' : busiest.most_used > 0.7 ? 'it bounds what crosses it' : 'the rest has room';
  return `The fullest wires lie between ${busiest.between.replace(' – ', ' and ')}: at most ${percent(busiest.most_used)} of their ${text_of('gbps', busiest.rate_bytes_per_s / 1e9)} over the step, ${percent(busiest.mean_used)} on average over all ${fixed(busiest.links, 0)} of them; ${spare}.`;
};

const topology_table = (topology) =>
  table(
    'Wires of the whole cluster, each direction counted',
    [
      { title: 'between' },
      { title: 'kind' },
      { title: 'wires', number: true },
      { title: 'GB/s', number: true },
      ...(topology.seconds !== null
        ? [
            { title: 'used, mean %', number: true },
            { title: 'most %', number: true },
            { title: 'bytes in all', number: true },
          ]
        : []),
    ],
    topology.classes.map((c, i) => [
      c.between,
      c.kind,
      { text: fixed(c.links, 0), value: c.links },
      { text: significant(c.rate_bytes_per_s / 1e9), value: c.rate_bytes_per_s },
      ...(topology.seconds !== null
        ? [
            { text: fixed(100 * c.mean_used, 2), value: c.mean_used, path: `topology.classes.${i}.mean_used` },
            { text: fixed(100 * c.most_used, 2), value: c.most_used, path: `topology.classes.${i}.most_used` },
            cell(c.bytes, 'bytes'),
          ]
        : []),
    ]),
  );

const topology_section = (topology, tables = []) =>
  topology &&
  section({
    id: 'topology',
    title: topology.seconds === null ? 'How it is wired' : 'Wires, and how full they are',
    see: topology_see(topology),
    chart: topology_chart(topology),
    tables: [topology_table(topology), ...tables],
    hint: `Shown: ${topology.of}.${topology.seconds !== null ? ' Thicker lines carry more. Transfers on wires that nobody shares are timed without flows and carry nothing here; simulate --all-flows plays them, too.' : ''}`,
  });
