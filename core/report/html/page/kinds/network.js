// collectives and topology.

const collectives_page = (a) => {
  const rows = a.rows.map((r, i) => ({ ...r, at: i })).filter((r) => r.bytes > 0 && r.time_us > 0);
  const best = largest_by(rows, (r) => r.busbw_GBps),
    half = rows.find((r) => r.busbw_GBps >= best.busbw_GBps / 2);
  open_page(
    `How fast is ${a.op.replace(/_/g, '-')} on ${a.cluster}?`,
    `${plural(a.ranks, 'rank')} on ${plural(a.nodes, 'node')}, ${a.type}, ${a.backend === 'model' ? 'by the cost model, alone on the network' : `played by ${a.backend}`}`,
    `Large calls reach a bus bandwidth of ${significant(best.busbw_GBps)} GB/s, half of it from ${text_of('binary', half.bytes)} on; the smallest takes ${seconds(rows[0].time_us * 1e-6)}.`,
  );
  headline([
    { label: 'Best bus bandwidth', figure: figure_at(`answer.rows.${best.at}.busbw_GBps`, 'gbps'), note: `at ${text_of('binary', best.bytes)}` },
    { label: 'Average, as nccl-tests has it', figure: figure_at('answer.average_busbw_GBps', 'gbps') },
    { label: 'Smallest call', figure: { parts: parts_of.seconds(rows[0].time_us * 1e-6) }, note: text_of('binary', rows[0].bytes) },
  ]);
  const choices = [...new Set(rows.map((r) => `${r.algorithm} ${r.protocol}`))];
  const curves = (key) =>
    choices.map((name) => ({ name, points: rows.filter((r) => `${r.algorithm} ${r.protocol}` === name).map((r) => [r.bytes, r[key]]) }));
  const bytes = (x) => text_of('binary', x);
  section({
    id: 'bandwidth',
    title: 'Bus bandwidth by size',
    see: `It rises to ${significant(best.busbw_GBps)} GB/s; NCCL changes its choice ${plural(rows.filter((r, i) => i > 0 && `${r.algorithm} ${r.protocol}` !== `${rows[i - 1].algorithm} ${rows[i - 1].protocol}`).length, 'time')} on the way.`,
    keys: curve_keys(choices.map((name) => ({ name }))),
    chart: curves_chart(curves('busbw_GBps'), {
      x_name: 'size',
      y_name: 'GB/s',
      x_text: bytes,
      y_text: (x) => significant(x, 3),
      x_log: true,
      from_zero: true,
      thread: true,
    }),
    tables: [
      table(
        'Calls',
        [
          { title: 'size', number: true },
          { title: 'time', number: true },
          { title: 'algbw GB/s', number: true },
          { title: 'busbw GB/s', number: true },
          { title: 'algorithm' },
          { title: 'protocol' },
          { title: 'channels', number: true },
        ],
        rows.map((r) => [
          cell(r.bytes, 'binary', { path: `answer.rows.${r.at}.bytes` }),
          { text: seconds(r.time_us * 1e-6), value: r.time_us, path: `answer.rows.${r.at}.time_us` },
          { text: fixed(r.algbw_GBps, 2), value: r.algbw_GBps, path: `answer.rows.${r.at}.algbw_GBps` },
          { text: fixed(r.busbw_GBps, 2), value: r.busbw_GBps, path: `answer.rows.${r.at}.busbw_GBps` },
          r.algorithm,
          r.protocol,
          { text: String(r.channels), value: r.channels, path: `answer.rows.${r.at}.channels` },
        ]),
      ),
    ],
  });
  section({
    id: 'time',
    title: 'Time by size',
    see: `From ${seconds(rows[0].time_us * 1e-6)} for ${bytes(rows[0].bytes)} to ${seconds(rows[rows.length - 1].time_us * 1e-6)} for ${bytes(rows[rows.length - 1].bytes)}; flat where latency rules, rising where bandwidth does.`,
    keys: curve_keys(choices.map((name) => ({ name }))),
    chart: curves_chart(curves('time_us'), {
      x_name: 'size',
      y_name: 'time',
      x_text: bytes,
      y_text: (x) => seconds(x * 1e-6),
      x_log: true,
      y_log: true,
      thread: true,
    }),
  });
  assumptions(
    [],
    [
      table(
        'Rests on',
        [{ title: 'source' }],
        (a.rests_on || []).map((line) => [line]),
      ),
    ],
  );
};

// How fast a GPU gets to its neighbours, and out of its machine.
const joined_text = (t) => {
  const rate = (c) => text_of('rate_of_bytes', c.rate_bytes_per_s);
  const near = t.classes.find((c) => /GPU/.test(c.between)),
    far = t.classes.find((c) => /^NIC – /.test(c.between));
  return [
    near ? `A GPU of ${t.of.replace(/^node \d+ of [\d,]+, |, and the switches above it$/g, '')} reaches its machine at ${rate(near)} each way (${near.between}).` : '',
    far ? `A NIC leaves it at ${rate(far)}.` : 'Nothing leaves it.',
  ].join(' ');
};

const topology_page = (a) => {
  const t = report.topology;
  open_page(`How are the GPUs of ${a.cluster} joined?`, report.heading, joined_text(t));
  headline(
    t.classes
      .slice(0, 6)
      .map((c, i) => ({
        label: c.between,
        figure: figure_at(`topology.classes.${i}.rate_bytes_per_s`, 'rate_of_bytes'),
        note: `each direction, ${c.kind}, ${plural(c.links, 'wire')}`,
      })),
  );
  const matrices = (a.machines || []).map((m) =>
    table(
      `Paths of ${m.machine}, as nvidia-smi topo -m has them`,
      [{ title: '' }, ...m.devices.map((d) => ({ title: d.name }))],
      m.paths.map((row, i) => [m.devices[i].name, ...row.map((p, j) => (i === j ? 'X' : p))]),
    ),
  );
  const rates = a.rows
    ? [
        table(
          `${capital(a.matrix)}, ${a.unit}`,
          [{ title: '' }, ...a.devices.map((title) => ({ title, number: true }))],
          a.rows.map((row, i) => [a.devices[i], ...row.map((v) => (v === null ? 'X' : { text: significant(v), value: v }))]),
        ),
      ]
    : [];
  topology_section(t, [...matrices, ...rates]);
};
