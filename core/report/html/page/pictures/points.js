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
const y_name_style = (view) => ({ color: view.muted, fontSize: 12.5, align: 'left', padding: [0, 0, 0, -64] });

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
          symbolSize: g.faint ? 7 : 10,
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

// curves: [{name, points: [[x, y], ..], low, high}]; x and y may be logarithmic.
const curves_chart = (
  curves,
  { x_name, y_name, x_text, y_text, x_log = false, y_log = false, x_names = null, x_range = null, from_zero = false, limit = null, thread = false },
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
          scale: true,
          ...(x_log ? (x_range ? { min: x_range[0], max: x_range[1] } : { min: 'dataMin', max: 'dataMax' }) : {}),
          ...axis_style(view.theme, { axisLabel: { formatter: (v) => x_text(v), showMaxLabel: true } }),
          splitLine: { show: false },
        },
    yAxis: {
      type: y_log ? 'log' : 'value',
      name: y_name,
      nameGap: 16,
      nameLocation: 'end',
      scale: !from_zero,
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
        symbolSize: 9,
        connectNulls: true,
        lineStyle: { color: kHue[series_look(i)[0]], width: 2.5, type: i >= 4 ? 'dashed' : 'solid' },
        itemStyle: { color: kHue[series_look(i)[0]], borderColor: view.paper, borderWidth: 1 },
      })),
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

// Values with a range from 10 to 90 %, one row each; hatched where one misses. rows: [{label, value, low, high, misses}]
const ranges_chart = (rows, { name, text, limit }) => ({
  height: (view) => (limit ? 96 : 76) + rows.length * (view.narrow ? 48 : 40),
  option: (view) => {
    const whisker = (params, api) => {
      const [x1, y] = api.coord([api.value(0), api.value(2)]),
        [x2] = api.coord([api.value(1), api.value(2)]);
      const line = (a, b, c, d) => ({ type: 'line', shape: { x1: a, y1: b, x2: c, y2: d }, style: { stroke: view.ink, lineWidth: 2 } });
      return { type: 'group', children: [line(x1, y, x2, y), line(x1, y - 6, x1, y + 6), line(x2, y - 6, x2, y + 6)] };
    };
    return {
      grid: { left: rows_left(view), right: view.narrow ? 14 : 24, top: limit ? 28 : 8, bottom: 48 },
      xAxis: { type: 'value', min: 0, name, nameLocation: 'middle', ...axis_style(view.theme, { axisLabel: { formatter: text } }) },
      yAxis: named_rows(
        view,
        rows.map((r) => r.label),
      ),
      tooltip: {
        formatter: (p) =>
          `${rows[p.dataIndex].label}<br><b>${text(rows[p.dataIndex].value)}</b>${rows[p.dataIndex].low !== undefined ? `<br>10 to 90 %: ${text(rows[p.dataIndex].low)} to ${text(rows[p.dataIndex].high)}` : ''}`,
      },
      series: [
        {
          type: 'bar',
          barWidth: view.narrow ? 10 : 20,
          data: rows.map((r, i) => ({
            value: r.value,
            itemStyle: style_of(r.misses ? ['grey', 'rising'] : [series_look(0)[0], 'none'], view.theme),
          })),
          markLine: limit
            ? {
                silent: true,
                symbol: 'none',
                lineStyle: { color: kHue.vermillion, width: 2, type: 'dashed' },
                label: { color: view.ink, formatter: limit.text, position: 'start' },
                data: [{ xAxis: limit.x }],
              }
            : undefined,
        },
        {
          type: 'custom',
          renderItem: whisker,
          data: rows.map((r, i) => (r.low === undefined ? null : [r.low, r.high, i])).filter(Boolean),
          encode: { x: [0, 1], y: 2 },
          silent: true,
          z: 8,
        },
        // Unseen: an axis takes its length from points, not from marked lines.
        ...(limit ? [{ type: 'scatter', data: [[limit.x, 0]], symbolSize: 0, silent: true }] : []),
      ],
    };
  },
});

// Shares of several things that add up, one bar each. rows: [{label, parts: {name: value}}]
const shares_chart = (rows, text, unit_name) => {
  const names = [...new Set(rows.flatMap((r) => Object.keys(r.parts)))];
  return {
    keys: names.map((n, i) => [series_look(i), n]),
    height: (view) => 64 + rows.length * (view.narrow ? 48 : 40),
    option: (view) => ({
      grid: { left: rows_left(view), right: view.narrow ? 14 : 24, top: 8, bottom: 46 },
      xAxis: { type: 'value', name: unit_name, nameLocation: 'middle', ...axis_style(view.theme, { axisLabel: { formatter: text } }) },
      yAxis: named_rows(
        view,
        rows.map((r) => r.label),
      ),
      tooltip: { formatter: (p) => `${p.name}: ${p.seriesName}<br><b>${text(p.value)}</b>` },
      series: names.map((n, i) => ({
        type: 'bar',
        stack: 'all',
        name: n,
        barWidth: view.narrow ? 10 : 20,
        data: rows.map((r) => r.parts[n] || 0),
        itemStyle: style_of(series_look(i), view.theme),
      })),
    }),
  };
};
