// A shared cluster over time: what stands on its nodes, and what queues hold and ask for.

const kCellFields = 3; // bin, queue, GPUs
// Times count from the first arrival. Marks of their axis stand at whole hours or days.
const kTimeSteps = [60, 300, 600, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 2 * 86400, 5 * 86400, 7 * 86400, 14 * 86400, 30 * 86400, 90 * 86400, 365 * 86400];
const time_span = (view, timeline) => {
  const end = timeline_end(timeline),
    marks = view.narrow ? 4 : 9;
  return {
    type: 'value',
    min: 0,
    max: end,
    interval: kTimeSteps.find((s) => end / s <= marks) || end / marks,
    ...axis_style(view.theme, { axisLabel: { formatter: hours_text, showMaxLabel: false } }),
    splitLine: { show: false },
  };
};
const timeline_end = (t) => kTimelineBins * t.bin_s;
const kTimelineBins = 240;

// A colour for each queue by what it held; the least of more than there are colours for share grey.
const kQueueHues = ['orange', 'green', 'blue', 'vermillion', 'sky', 'purple', 'yellow'];
const queue_hues = (timeline) => {
  const held = timeline.queues.map((name, i) => ({ name, i, sum: 0 }));
  for (const row of timeline.rows) for (let at = 0; at < row.cells.length; at += kCellFields) held[row.cells[at + 1]].sum += row.cells[at + 2];
  const used = held.filter((q) => q.sum > 0).sort((a, b) => b.sum - a.sum || a.i - b.i);
  const hues = Object.fromEntries(used.map((q, rank) => [q.i, kQueueHues[rank] || 'grey']));
  const keys = used.slice(0, kQueueHues.length).map((q) => [[hues[q.i], 'none'], q.name]);
  if (used.length > kQueueHues.length) keys.push([['grey', 'none'], `${used.length - kQueueHues.length} more queues`]);
  return { of: (queue) => hues[queue] || 'grey', keys };
};

// One after another upwards in each cell, as many parts of its height as GPUs are held.
const node_cells = (timeline) =>
  timeline.rows.flatMap((row, y) => {
    const out = [];
    let bin = -1,
      below = 0;
    for (let i = 0; i < row.cells.length; i += kCellFields) {
      const [b, queue, gpus] = row.cells.slice(i, i + kCellFields);
      if (b !== bin) [bin, below] = [b, 0];
      out.push([b * timeline.bin_s, (b + 1) * timeline.bin_s, y, below / row.gpus, (below + gpus) / row.gpus, queue, gpus]);
      below += gpus;
    }
    return out;
  });

const draw_cell = (hues) => (params, api) => {
  const [begin, end, y, low, high, queue] = [0, 1, 2, 3, 4, 5].map((i) => api.value(i));
  const from = api.coord([begin, y]),
    to = api.coord([end, y]),
    lane = 0.8 * api.size([0, 1])[1];
  const foot = from[1] + lane / 2;
  const shape = echarts.graphic.clipRectByRect(
    { x: from[0], y: foot - lane * Math.min(high, 1), width: Math.max(to[0] - from[0] + 0.4, 0.6), height: lane * (Math.min(high, 1) - low) },
    params.coordSys,
  );
  return shape && { type: 'rect', shape, style: { fill: kHue[hues.of(queue)] } };
};

const nodes_chart = (timeline, hues) => {
  const names = timeline.rows.map((r) => r.name);
  return {
    canvas: true,
    height: (view) => 60 + names.length * (names.length > 20 ? 15 : view.narrow ? 22 : 26),
    option: (view) => ({
      grid: { left: view.narrow ? 70 : 130, right: 18, top: 8, bottom: 40 },
      xAxis: time_span(view, timeline),
      yAxis: {
        type: 'category',
        inverse: true,
        data: names,
        ...axis_style(view.theme),
        axisLabel: { color: view.muted, fontSize: 11, width: view.narrow ? 62 : 120, overflow: 'truncate', interval: names.length > 20 ? 'auto' : 0 },
        splitLine: { show: false },
      },
      tooltip: {
        formatter: (p) =>
          p.value.length === 2
            ? `<b>${names[p.value[1]]}</b><br>${timeline.rows[p.value[1]].gpus} GPUs`
            : `<b>${names[p.value[2]]}</b><br>${timeline.queues[p.value[5]]}: ${significant(p.value[6], 3)} of ${timeline.rows[p.value[2]].gpus} GPUs<br>${hours_text(p.value[0])} to ${hours_text(p.value[1])}`,
      },
      series: [
        {
          type: 'custom',
          renderItem: (params, api) => {
            const from = api.coord([0, params.dataIndex]),
              to = api.coord([timeline_end(timeline), params.dataIndex]),
              lane = 0.8 * api.size([0, 1])[1];
            return { type: 'rect', silent: true, shape: { x: from[0], y: from[1] - lane / 2, width: to[0] - from[0], height: lane }, style: { fill: view.track } };
          },
          data: names.map((_, y) => [0, y]),
          silent: true,
        },
        { type: 'custom', renderItem: draw_cell(hues), encode: { x: [0, 1], y: 2 }, data: node_cells(timeline) },
      ],
    }),
  };
};

// What a queue holds is a filled line, what it asks for beside is a line above, what it is guaranteed a dashed one.
const queue_chart = (course, timeline, guaranteed, hue) => {
  const times = course.points.filter((_, i) => i % 2 === 0).map((_, i) => (i + 0.5) * timeline.bin_s);
  const held = times.map((t, i) => [t, course.points[2 * i]]),
    wanted = times.map((t, i) => [t, course.points[2 * i] + course.points[2 * i + 1]]);
  const top = Math.max(guaranteed, ...wanted.map(([, v]) => v), 1);
  return {
    height: 210,
    option: (view) => ({
      grid: { left: 52, right: 18, top: 36, bottom: 34 },
      xAxis: time_span(view, timeline),
      yAxis: { type: 'value', name: 'GPUs', ...round_axis(top), min: 0, ...axis_style(view.theme, { axisLabel: { formatter: (v) => significant(v, 3) } }), nameGap: 12 },
      tooltip: {
        trigger: 'axis',
        formatter: (ps) => `${hours_text(ps[0].value[0])}<br>${ps.map((p) => `${p.seriesName}: <b>${significant(p.value[1], 3)}</b>`).join('<br>')}`,
      },
      series: [
        { name: 'held and waited for', type: 'line', step: 'middle', symbol: 'none', data: wanted, lineStyle: { color: view.muted, width: 1.2 }, itemStyle: { color: view.muted } },
        {
          name: 'held',
          type: 'line',
          step: 'middle',
          symbol: 'none',
          data: held,
          lineStyle: { color: kHue[hue], width: 1.6 },
          itemStyle: { color: kHue[hue] },
          areaStyle: { color: kHue[hue], opacity: 0.35 },
          markLine:
            guaranteed > 0
              ? {
                  silent: true,
                  symbol: 'none',
                  data: [{ yAxis: guaranteed }],
                  lineStyle: { color: view.ink, type: 'dashed', width: 1.2 },
                  label: { formatter: `its own, ${significant(guaranteed, 4)}`, position: 'insideEndTop', color: view.ink, fontSize: 11.5 },
                }
              : undefined,
        },
      ],
    }),
  };
};
