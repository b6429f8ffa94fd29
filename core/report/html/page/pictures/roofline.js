// Kernels under the roof of their GPU: what they compute for each byte, and how fast.

const roofline_points = (roof) => roof.points.filter((p) => p.flops > 0 && p.bytes > 0 && p.seconds > 0);
const roof_name = (p) => `${p.kernels.replace(/_/g, ' ')}, ${p.type}`;
const intensity = (p) => p.flops / p.bytes;
const rate = (p) => p.flops / p.seconds;
// What the roof allows a kernel: its type's peak where the datasheet has one, and what memory delivers.
const peak_of = (roof, p) => (roof.peaks.find((k) => k.type === p.type) || { flops_per_s: Infinity }).flops_per_s;
const allowed = (roof, p) => Math.min(peak_of(roof, p), roof.bandwidth_bytes_per_s * intensity(p));
const tera = (x) => `${significant(x / 1e12, 3)}`;

const roofline_chart = (roof) => {
  const points = roofline_points(roof);
  const total = sum(roof.points.map((p) => p.seconds));
  const peaks = roof.peaks.map((p) => p.flops_per_s);
  const [left, right] = log_edges([...points.map(intensity), ...peaks.map((p) => p / roof.bandwidth_bytes_per_s)]);
  const [low, high] = log_edges([...points.map(rate), ...peaks]);
  const slope = (x) => x * roof.bandwidth_bytes_per_s;
  const roof_line = (peak) => [
    [Math.max(left, low / roof.bandwidth_bytes_per_s), Math.max(low, slope(left))],
    [peak / roof.bandwidth_bytes_per_s, peak],
    [right, peak],
  ];
  return {
    height: (view) => (view.narrow ? 330 : 400),
    option: (view) => ({
      grid: { left: 78, right: 26, top: 44, bottom: 50 },
      xAxis: {
        type: 'log',
        min: left,
        max: right,
        name: 'FLOP per byte',
        nameLocation: 'middle',
        ...axis_style(view.theme, { axisLabel: { formatter: (v) => significant(v) } }),
      },
      yAxis: {
        type: 'log',
        min: low,
        max: high,
        name: 'TFLOP/s',
        nameGap: 16,
        ...axis_style(view.theme, { axisLabel: { formatter: tera } }),
        nameTextStyle: y_name_style(view),
      },
      tooltip: {
        formatter: (p) =>
          p.data && p.data.kernel
            ? `<b>${roof_name(p.data.kernel)}</b><br>${significant(intensity(p.data.kernel), 3)} FLOP per byte<br>${tera(rate(p.data.kernel))} TFLOP/s, ${percent(rate(p.data.kernel) / allowed(roof, p.data.kernel))} of its roof<br>${seconds(p.data.kernel.seconds)} of the step`
            : p.seriesName,
      },
      series: [
        ...roof.peaks.map((peak) => ({
          type: 'line',
          name: `roof of ${peak.type}: ${tera(peak.flops_per_s)} TFLOP/s`,
          data: roof_line(peak.flops_per_s),
          symbol: 'none',
          lineStyle: { color: view.ink, width: 2 },
          endLabel: { show: true, formatter: peak.type, color: view.ink, fontSize: 12.5, offset: [-34, -10] },
        })),
        ...points.map((p, i) => ({
          type: 'scatter',
          name: roof_name(p),
          symbol: series_look(i)[2],
          symbolSize: 9 + 26 * Math.sqrt(p.seconds / total),
          data: [{ value: [intensity(p), rate(p)], kernel: p }],
          itemStyle: { color: kHue[series_look(i)[0]], borderColor: view.paper, borderWidth: 1 },
        })),
      ],
    }),
  };
};

const roofline_see = (roof) => {
  const total = sum(roof.points.map((p) => p.seconds));
  const under_memory = sum(roof.points.filter((p) => !(allowed(roof, p) >= peak_of(roof, p))).map((p) => p.seconds));
  const most = roofline_points(roof)[0];
  if (!most) return 'No kernel of the step computes.';
  return `${capital(roof_name(most))} takes longest, ${seconds(most.seconds)} of ${seconds(total)} of kernels, at ${percent(rate(most) / allowed(roof, most))} of what ${roof.gpu} allows it; kernels that memory bounds take ${percent(under_memory / total)} of that time.`;
};

const roofline_table = (roof) =>
  table(
    'Kernels of the step',
    [
      { title: 'kernels' },
      { title: 'calls', number: true },
      { title: 'time', number: true },
      { title: 'FLOP per byte', number: true },
      { title: 'TFLOP/s', number: true },
      { title: '% of its roof', number: true },
      { title: 'bound by' },
    ],
    roof.points.map((p, i) => {
      const computes = p.flops > 0 && p.bytes > 0;
      const share = computes ? rate(p) / allowed(roof, p) : p.bytes / p.seconds / roof.bandwidth_bytes_per_s;
      return [
        roof_name(p),
        { text: fixed(p.calls, 0), value: p.calls },
        cell(p.seconds, 'seconds', { path: `roofline.points.${i}.seconds` }),
        computes ? { text: significant(intensity(p), 3), value: intensity(p) } : '–',
        computes ? { text: tera(rate(p)), value: rate(p) } : '–',
        { text: fixed(100 * share, 1), value: share },
        allowed(roof, p) >= peak_of(roof, p) ? 'arithmetic' : 'memory',
      ];
    }),
  );

const roofline_section = (roof) => {
  if (!roof || roof.points.length === 0) return;
  const points = roofline_points(roof);
  section({
    id: 'roofline',
    title: 'Kernels under the roof of the GPU',
    see: roofline_see(roof),
    keys: points.map((p, i) => [series_look(i), roof_name(p), mark(series_look(i), false, false)]),
    chart: points.length > 0 ? roofline_chart(roof) : undefined,
    tables: [roofline_table(roof)],
    hint: 'Larger marks take more time. The slope is what memory delivers; each flat line what the GPU computes in that type. Bytes are the least that a kernel must move, launches are not counted.',
  });
};
