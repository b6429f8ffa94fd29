// Memory against capacity, per stage and over a step.

const memory_keys = (rows) => Object.keys(words.memory).filter((key) => rows.some((r) => (r.by_category[key] || 0) > 0));
const needed_over = (m) => Math.max(0, m.needed_bytes - sum(Object.values(m.by_category)));

const capacity_line = (bytes, view) => ({
  silent: true,
  symbol: 'none',
  lineStyle: { color: view.ink, width: 2, type: 'solid' },
  label: { position: 'insideEndTop', color: view.ink, formatter: `capacity ${text_of('gib', bytes)}`, fontSize: 12.5 },
  data: [{ yAxis: bytes / kGiB }],
});

const memory_chart = (rows) => {
  const used = memory_keys(rows),
    equal = rows.every((m) => m.capacity_bytes === rows[0].capacity_bytes);
  const top = Math.max(...rows.map((m) => Math.max(m.needed_bytes, m.capacity_bytes))) / kGiB;
  return {
    height: (view) => (view.narrow ? 320 : 380),
    option: (view) => ({
      grid: { left: 52, right: 16, top: 40, bottom: 46 },
      xAxis: { type: 'category', data: rows.map((m) => String(m.stage)), name: 'pipeline stage', nameLocation: 'middle', ...axis_style(view.theme) },
      yAxis: {
        type: 'value',
        name: 'GiB',
        nameGap: 16,
        ...round_axis(top * 1.02),
        ...axis_style(view.theme),
        axisLabel: { color: view.muted, fontSize: 12.5, formatter: (v) => fixed(v, top < 4 ? 2 : 0) },
      },
      tooltip: {
        formatter: (p) =>
          p.seriesType === 'line'
            ? `capacity: <b>${text_of('gib', rows[p.dataIndex].capacity_bytes)}</b>`
            : `stage ${p.name}: ${p.seriesName}<br><b>${fixed(p.value, 2)} GiB</b>`,
      },
      series: [
        ...used.map((key) => ({
          type: 'bar',
          stack: 'memory',
          name: key,
          barMaxWidth: 64,
          data: rows.map((m) => (m.by_category[key] || 0) / kGiB),
          itemStyle: style_of(kMemoryLook[key], view.theme),
        })),
        {
          type: 'bar',
          stack: 'memory',
          name: 'reserve of the allocator',
          barMaxWidth: 64,
          data: rows.map((m) => needed_over(m) / kGiB),
          itemStyle: { color: view.track, borderColor: view.muted, borderType: 'dashed', borderWidth: 1 },
        },
        {
          type: 'line',
          name: 'capacity',
          data: equal ? [] : rows.map((m) => m.capacity_bytes / kGiB),
          symbol: 'none',
          step: 'middle',
          lineStyle: { color: view.ink, width: 2 },
          itemStyle: { color: view.ink },
          markLine: equal ? capacity_line(rows[0].capacity_bytes, view) : undefined,
        },
      ],
    }),
  };
};

const tightest_of = (rows) => largest_by(rows, (m) => m.needed_bytes - m.capacity_bytes);

const memory_see = (rows) => {
  const m = tightest_of(rows);
  const [key, most] = largest_by(Object.entries(m.by_category), ([, v]) => v);
  const stage = rows.length === 1 ? 'Each GPU' : `Stage ${m.stage}`;
  const verdict =
    m.needed_bytes > m.capacity_bytes
      ? `${stage} needs ${text_of('gib', m.needed_bytes)} of ${text_of('gib', m.capacity_bytes)}: ${text_of('gib', m.needed_bytes - m.capacity_bytes)} too much`
      : `${stage} ${rows.length === 1 ? 'needs' : 'comes nearest to its capacity:'} ${text_of('gib', m.needed_bytes)} of ${text_of('gib', m.capacity_bytes)} (${percent(m.needed_bytes / m.capacity_bytes)})`;
  return `${verdict}; the largest part is ${key}, ${text_of('gib', most)}.`;
};

const memory_table = (rows, path) => {
  const used = memory_keys(rows);
  const gib = (value, at) => ({ text: fixed(value / kGiB, 2), value, path: at });
  return table(
    'Peak per stage, GiB',
    [
      { title: 'stage' },
      ...used.map((title) => ({ title, number: true })),
      { title: 'peak', number: true },
      { title: 'needed', number: true },
      { title: 'capacity', number: true },
    ],
    rows.map((m, i) => ({
      mark: m === tightest_of(rows) ? 'pick' : undefined,
      cells: [
        { text: String(m.stage), value: m.stage },
        ...used.map((key) => gib(m.by_category[key] || 0, `${path}.${i}.by_category.${key}`)),
        gib(m.peak_bytes, `${path}.${i}.peak_bytes`),
        { ...gib(m.needed_bytes, `${path}.${i}.needed_bytes`), tone: m.needed_bytes > m.capacity_bytes ? 'over' : '' },
        gib(m.capacity_bytes, `${path}.${i}.capacity_bytes`),
      ],
    })),
  );
};

const memory_section = (rows, path) =>
  rows &&
  rows.length > 0 &&
  section({
    id: 'memory',
    title: 'Peak memory against capacity',
    see: memory_see(rows),
    chart: memory_chart(rows),
    tables: [memory_table(rows, path)],
    keys: [...memory_keys(rows).map((key) => [kMemoryLook[key], key])],
    hint: 'The dashed part on top is what the allocator keeps in reserve.',
  });

// course: {unit_s, categories: [..], rows: [{stage, rank, capacity_bytes, t: [..], bytes: [[per category] ..]}]}
const course_chart = (course, chosen) => ({
  height: (view) => (view.narrow ? 300 : 360),
  option: (view) => {
    const row = course.rows[chosen()];
    const used = course.categories.map((key, i) => [key, i]).filter(([, i]) => row.bytes.some((b) => b[i] > 0));
    return {
      grid: { left: 52, right: 20, top: 40, bottom: 34 },
      xAxis: {
        type: 'value',
        min: 0,
        max: course.end * course.unit_s,
        ...axis_style(view.theme, { axisLabel: { formatter: (t) => seconds(t) } }),
        splitLine: { show: false },
      },
      yAxis: {
        type: 'value',
        name: 'GiB',
        nameGap: 16,
        ...round_axis((Math.max(row.capacity_bytes, ...row.bytes.map(sum)) / kGiB) * 1.02),
        ...axis_style(view.theme),
      },
      tooltip: {
        trigger: 'axis',
        formatter: (ps) =>
          `${seconds(ps[0].value[0])}: ${fixed(sum(ps.map((p) => p.value[1])), 2)} GiB<br>${[...ps]
            .reverse()
            .map((p) => `${p.seriesName} ${fixed(p.value[1], 2)}`)
            .join('<br>')}`,
      },
      series: used.map(([key, i], at) => ({
        type: 'line',
        step: 'end',
        stack: 'all',
        name: key,
        symbol: 'none',
        lineStyle: { width: 0.8, color: view.paper },
        areaStyle: { ...style_of(kMemoryLook[key], view.theme), opacity: 1 },
        itemStyle: { color: kHue[kMemoryLook[key][0]] },
        data: row.t.map((t, k) => [t * course.unit_s, row.bytes[k][i] / kGiB]),
        markLine: at === 0 ? capacity_line(row.capacity_bytes, view) : undefined,
      })),
    };
  },
});

const course_figures = (course, row) => {
  const totals = row.bytes.map(sum);
  const at = totals.indexOf(Math.max(...totals));
  return {
    peak: totals[at],
    when: row.t[at] * course.unit_s,
    least: Math.min(...totals),
    most: course.categories[row.bytes[at].indexOf(Math.max(...row.bytes[at]))],
  };
};

const course_section = (course) => {
  if (!course || course.rows.length === 0) return;
  let chosen = course.tightest;
  const { peak, when, least } = course_figures(course, course.rows[chosen]);
  const chart = course_chart(course, () => chosen);
  const see = `${course.rows.length > 1 ? `On stage ${course.rows[chosen].stage} tensors` : 'Tensors'} hold between ${text_of('gib', least)} and ${text_of('gib', peak)}; the peak stands ${seconds(when)} into the step (${percent(when / (course.end * course.unit_s))} of it).`;
  const used = course.categories.filter((key, i) => course.rows.some((r) => r.bytes.some((b) => b[i] > 0)));
  section({
    id: 'course',
    title: 'Memory over the step',
    see,
    keys: used.map((key) => [[kMemoryLook[key][0], 'none'], key]),
    chart,
    choose:
      course.rows.length > 1
        ? chooser(
            'Stage',
            course.rows.map((r) => `stage ${r.stage}, rank ${r.rank}`),
            chosen,
            (i) => {
              chosen = i;
              chart.redraw();
            },
          )
        : null,
    tables: [
      table(
        'Least and most held in the step',
        [
          { title: 'stage' },
          { title: 'least, GiB', number: true },
          { title: 'most, GiB', number: true },
          { title: 'most at', number: true },
          { title: 'largest part then' },
        ],
        course.rows.map((r) => {
          const f = course_figures(course, r);
          return [
            String(r.stage),
            { text: fixed(f.least / kGiB, 2), value: f.least },
            { text: fixed(f.peak / kGiB, 2), value: f.peak },
            cell(f.when, 'seconds'),
            f.most,
          ];
        }),
      ),
    ],
  });
};
