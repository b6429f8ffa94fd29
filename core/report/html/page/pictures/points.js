// Points and curves: a front, predicted against measured, anything against a varied key.

const range_of = (values) => {
  const v = values.filter((x) => x > 0);
  return [Math.min(...v), Math.max(...v)];
};
// Round numbers that enclose all values: 1, 2 or 5 times a power of ten.
const round_log = (x, up) => {
  const power = 10 ** Math.floor(Math.log10(x)),
    steps = [1, 2, 5, 10].map((k) => k * power);
  return up ? steps.find((s) => s >= x * 0.999) : [...steps].reverse().find((s) => s <= x * 1.001);
};
const log_edges = (values) => {
  const [low, high] = range_of(values);
  return [round_log(low / 1.1, false), round_log(high * 1.1, true)];
};
const log_span = (values) => {
  const [min, max] = log_edges(values);
  return { min, max };
};
const y_name_style = (view) => ({ color: view.muted, fontSize: 12.5, align: 'left', padding: [0, 0, 0, -64] });

// Symbols of one size look unlike in size.
const kSymbolSize = { pin: 20, diamond: 13, triangle: 11, arrow: 12 };
const symbol_size = (symbol, size) => (size / 10) * (kSymbolSize[symbol] || 10);

// groups: [{name, points: [{x, y, label}]}]
const against_chart = (groups, { x_name, y_name, text, diagonal, unit_band = 0.1 }) => {
  const all = groups.flatMap((g) => g.points);
  const [low, high] = log_edges(all.flatMap((p) => [p.x, p.y]));
  return {
    square: true,
    height: (view) => Math.min(600, Math.max(340, view.width * 0.78)),
    option: (view) => ({
      grid: { left: 74, right: 18, top: 44, bottom: 50 },
      xAxis: {
        type: 'log',
        min: low,
        max: high,
        name: x_name,
        nameLocation: 'middle',
        ...axis_style(view.theme, { axisLabel: { formatter: (v) => text(v) } }),
      },
      yAxis: {
        type: 'log',
        min: low,
        max: high,
        name: y_name,
        nameLocation: 'end',
        nameGap: 16,
        ...axis_style(view.theme, { axisLabel: { formatter: (v) => text(v) } }),
        nameTextStyle: y_name_style(view),
      },
      tooltip: {
        formatter: (p) =>
          p.data.label
            ? `${p.data.label}<br>${x_name} ${text(p.value[0])}, ${y_name} ${text(p.value[1])}<br><b>${text_of('signed_percent', p.value[1] / p.value[0] - 1)}</b>`
            : '',
      },
      series: [
        ...(diagonal
          ? [
              {
                type: 'line',
                data: [
                  [low, low],
                  [high, high],
                ],
                symbol: 'none',
                silent: true,
                lineStyle: { color: view.ink, width: 1.5 },
              },
              ...[1 - unit_band, 1 + unit_band].map((k) => ({
                type: 'line',
                data: [
                  [low, low * k],
                  [high, high * k],
                ],
                symbol: 'none',
                silent: true,
                lineStyle: { color: view.muted, width: 1, type: 'dashed' },
              })),
            ]
          : []),
        ...groups.map((g, i) => ({
          type: 'scatter',
          name: g.name,
          symbol: series_look(i)[2],
          symbolSize: symbol_size(series_look(i)[2], g.faint ? 7 : 10),
          data: g.points.map((p) => ({ value: [p.x, p.y], label: undefined, ...p })),
          itemStyle: {
            color: g.faint ? 'transparent' : kHue[series_look(i)[0]],
            borderColor: g.faint ? view.muted : view.paper,
            borderWidth: 1,
            opacity: 1,
          },
        })),
      ],
    }),
  };
};

// `data` is not drawn: a value at the limit makes the axis reach it.
const limit_line = (limit, view, data = []) =>
  limit
    ? [
        {
          type: 'line',
          data,
          symbol: 'none',
          markLine: {
            silent: true,
            symbol: 'none',
            lineStyle: { color: view.ink, type: 'dashed' },
            label: { color: view.ink, formatter: limit.text, position: 'insideEndTop' },
            data: [{ yAxis: limit.y }],
          },
        },
      ]
    : [];

// curves: [{name, points: [[x, y], ..]}]; x and y may be logarithmic. `thread` joins all points by a thin line; `ideal` is a dashed one, {name, points}.
const curves_chart = (
  curves,
  {
    x_name,
    y_name,
    x_text,
    y_text,
    x_log = false,
    y_log = false,
    x_names = null,
    x_range = null,
    from_zero = false,
    limit = null,
    thread = false,
    ideal = null,
  },
) => ({
  height: (view) => (view.narrow ? 310 : 380),
  option: (view) => ({
    grid: { left: 78, right: 26, top: 44, bottom: 50 },
    xAxis: x_names
      ? { type: 'category', data: x_names, name: x_name, nameLocation: 'middle', ...axis_style(view.theme) }
      : {
          type: x_log ? 'log' : 'value',
          logBase: 2,
          name: x_name,
          nameLocation: 'middle',
          ...(x_range ? { min: x_range[0], max: x_range[1] } : { min: 'dataMin', max: 'dataMax' }),
          ...axis_style(view.theme, { axisLabel: { formatter: (v) => x_text(v), showMaxLabel: x_log } }),
          splitLine: { show: false },
        },
    yAxis: {
      type: y_log ? 'log' : 'value',
      name: y_name,
      nameGap: 16,
      nameLocation: 'end',
      scale: !from_zero,
      ...(y_log ? log_span(curves.flatMap((c) => c.points.map(([, y]) => y))) : {}),
      ...axis_style(view.theme, { axisLabel: { formatter: (v) => y_text(v) } }),
      nameTextStyle: y_name_style(view),
    },
    tooltip: {
      formatter: (p) =>
        p.seriesName && `${p.seriesName}<br>${x_name} ${x_names ? p.name : x_text(p.value[0])}<br><b>${y_text(x_names ? p.value : p.value[1])}</b>`,
    },
    series: [
      ...(thread
        ? [
            {
              type: 'line',
              silent: true,
              symbol: 'none',
              data: curves.flatMap((c) => c.points).sort((a, b) => a[0] - b[0]),
              lineStyle: { color: view.muted, width: 1.5 },
              z: 1,
            },
          ]
        : []),
      ...curves.map((c, i) => ({
        type: 'line',
        name: c.name,
        data: x_names ? c.points.map(([, y]) => y) : c.points,
        symbol: series_look(i)[2],
        symbolSize: symbol_size(series_look(i)[2], 9),
        connectNulls: true,
        lineStyle: { color: kHue[series_look(i)[0]], width: 2.5, type: i >= 4 ? 'dashed' : 'solid' },
        itemStyle: { color: kHue[series_look(i)[0]], borderColor: view.paper, borderWidth: 1 },
      })),
      ...(ideal
        ? [{ type: 'line', name: ideal.name, data: ideal.points, symbol: 'none', lineStyle: { color: view.ink, width: 1.5, type: 'dashed' }, z: 1 }]
        : []),
      ...limit_line(limit, view, limit ? [x_names ? limit.y : [curves[0].points[0][0], limit.y]] : []),
    ],
  }),
});
const curve_keys = (curves) => curves.map((c, i) => [series_look(i), c.name, mark(series_look(i), c.faint)]);

// Candidates with two costs, the front through those that nothing beats in both. points: [{x, y, label, front, pick}]
const front_chart = (points, { x_name, y_name, x_text, y_text, limit }) => ({
  height: (view) => (view.narrow ? 330 : 420),
  option: (view) => {
    const front = points.filter((p) => p.front).sort((a, b) => a.x - b.x);
    const dot = (p, colour) => ({ value: [p.x, p.y], name: p.label, itemStyle: { color: colour } });
    return {
      grid: { left: 78, right: 34, top: 44, bottom: 50 },
      xAxis: { type: 'value', scale: true, name: x_name, nameLocation: 'middle', ...axis_style(view.theme, { axisLabel: { formatter: x_text } }) },
      yAxis: {
        type: 'value',
        scale: true,
        name: y_name,
        nameGap: 16,
        ...axis_style(view.theme, { axisLabel: { formatter: y_text } }),
        nameTextStyle: y_name_style(view),
      },
      tooltip: { formatter: (p) => (p.name ? `${p.name}<br>${x_name} ${x_text(p.value[0])}<br>${y_name} ${y_text(p.value[1])}` : '') },
      series: [
        { type: 'scatter', symbolSize: 8, data: points.filter((p) => !p.front).map((p) => dot(p, view.muted)), itemStyle: { opacity: 0.75 } },
        { type: 'line', data: front.map((p) => [p.x, p.y]), symbol: 'none', silent: true, lineStyle: { color: kHue.blue, width: 2 } },
        { type: 'scatter', symbol: 'diamond', symbolSize: 13, data: front.filter((p) => !p.pick).map((p) => dot(p, kHue.blue)) },
        { type: 'scatter', symbol: 'pin', symbolSize: 38, data: points.filter((p) => p.pick).map((p) => dot(p, kHue.vermillion)), z: 6 },
        ...limit_line(limit, view),
      ],
    };
  },
});
