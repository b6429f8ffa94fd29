// One row per candidate: values with their range, and shares that add up.

// Values with a range from 10 to 90 %, one row each; hatched where one misses. rows: [{label, value, low, high, misses}]
const ranges_chart = (rows, { name, text, limit }) => ({
  height: (view) => (limit ? 96 : 76) + rows.length * (view.narrow ? 48 : 40),
  option: (view) => {
    const names = rows.map((r) => r.label);
    const whisker = (params, api) => {
      const [x1, y] = api.coord([api.value(0), api.value(2)]),
        [x2] = api.coord([api.value(1), api.value(2)]);
      const line = (a, b, c, d) => ({ type: 'line', shape: { x1: a, y1: b, x2: c, y2: d }, style: { stroke: view.ink, lineWidth: 2 } });
      return { type: 'group', children: [line(x1, y, x2, y), line(x1, y - 6, x1, y + 6), line(x2, y - 6, x2, y + 6)] };
    };
    return {
      grid: { left: rows_left(view, names), right: view.narrow ? 14 : 24, top: limit ? 28 : 8, bottom: 48 },
      xAxis: { type: 'value', min: 0, name, nameLocation: 'middle', ...axis_style(view.theme, { axisLabel: { formatter: text } }) },
      yAxis: named_rows(view, names),
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
  const names = [...new Set(rows.flatMap((r) => Object.keys(r.parts)))],
    labels = rows.map((r) => r.label);
  return {
    keys: names.map((n, i) => [series_look(i), n]),
    height: (view) => 64 + rows.length * (view.narrow ? 48 : 40),
    option: (view) => ({
      grid: { left: rows_left(view, labels), right: view.narrow ? 14 : 24, top: 8, bottom: 46 },
      xAxis: { type: 'value', name: unit_name, nameLocation: 'middle', ...axis_style(view.theme, { axisLabel: { formatter: text } }) },
      yAxis: named_rows(view, labels),
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
