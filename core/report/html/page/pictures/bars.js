// Where time goes: bars of one breakdown, stacks of several, and the difference of two.

const breakdown_parts = (breakdown) =>
  Object.entries(breakdown)
    .filter(([, s]) => s > 0)
    .sort((a, b) => b[1] - a[1]);

const kLeastBar = 2; // Pixels: what is not nothing shows.

const bars_chart = (parts, look_of, label_of, text) => {
  const names = parts.map(([key]) => label_of(key));
  return {
    height: 26 + parts.length * 34,
    option: (view) => ({
      grid: { left: rows_left(view, names), right: view.narrow ? 100 : 132, top: 6, bottom: 6 },
      xAxis: { type: 'value', show: false, max: Math.max(...parts.map(([, v]) => v)) },
      yAxis: named_rows(view, names),
      tooltip: { formatter: (p) => `${p.name}<br><b>${text(p.value)}</b>` },
      series: [
        {
          type: 'bar',
          barWidth: view.narrow ? 9 : 20,
          barMinHeight: kLeastBar,
          data: parts.map(([key, value]) => ({ value, itemStyle: style_of(look_of(key), view.theme) })),
          label: { show: true, position: 'right', formatter: (p) => text(p.value), color: view.ink, fontSize: view.narrow ? 11.5 : 13.5 },
        },
      ],
    }),
  };
};

const breakdown_see = (breakdown) => {
  const total = sum(Object.values(breakdown));
  const parts = breakdown_parts(breakdown);
  const [first, most] = parts[0];
  const exposed = sum(
    Object.entries(breakdown)
      .filter(([key]) => key.startsWith('exposed_'))
      .map(([, s]) => s),
  );
  const bubble = breakdown.bubble || 0;
  const rest = [];
  const counts = (s) => s / total >= 5e-4; // Less is 0.0 %.
  if (counts(exposed) && !first.startsWith('exposed_'))
    rest.push(`communication that nothing hides takes ${seconds(exposed)} (${percent(exposed / total)})`);
  if (counts(bubble) && first !== 'bubble') rest.push(`waiting for others ${seconds(bubble)} (${percent(bubble / total)})`);
  return `${capital(words.time[first])} take${/s$/.test(words.time[first]) ? '' : 's'} ${seconds(most)} of ${seconds(total)} (${percent(most / total)})${rest.length > 0 ? `; ${rest.join(', ')}` : ''}.`;
};

const breakdown_table = (breakdown, path) => {
  const parts = breakdown_parts(breakdown);
  const total = sum(Object.values(breakdown));
  const column = time_column([total]);
  return table(
    'Seconds by category',
    [{ title: 'category' }, { title: column.unit, number: true }, { title: '%', number: true }],
    [
      ...parts
        .filter(([, s]) => column.text(s) !== '0.000' || s / total >= 5e-4)
        .map(([key, s]) => [
          words.time[key],
          { text: column.text(s), value: s, path: `${path}.${key}` },
          { text: fixed((100 * s) / total, 1), value: s / total },
        ]),
      { mark: 'sum', cells: ['step', { text: column.text(total), value: total }, { text: '100.0', value: 1 }] },
    ],
  );
};

const breakdown_section = (breakdown, path, title = 'Where the step goes') => {
  const total = sum(Object.values(breakdown));
  if (!(total > 0)) return;
  const shown = breakdown_parts(breakdown).filter(([, s]) => s / total >= 5e-4);
  section({
    id: 'breakdown',
    title,
    see: breakdown_see(breakdown),
    beside: true,
    tables: [breakdown_table(breakdown, path)],
    chart: bars_chart(
      shown,
      (key) => kTimeLook[key],
      (key) => words.time[key],
      (s) => `${seconds(s)} · ${fixed((100 * s) / total, 1)} %`,
    ),
  });
};

// plans: [{label, breakdown}]; one bar each, on one clock.
const stacks_chart = (plans) => {
  const named = (view) => Math.min(0.3 * view.width, Math.max(view.narrow ? 36 : 48, 10 * Math.max(...plans.map((p) => p.label.length))));
  const used = Object.keys(words.time).filter((key) => plans.some((p) => (p.breakdown[key] || 0) > 0));
  return {
    height: (view) => 60 + plans.length * (view.narrow ? 46 : 52),
    option: (view) => ({
      grid: { left: named(view) + 8, right: view.narrow ? 70 : 90, top: 6, bottom: 40 },
      xAxis: { type: 'value', ...axis_style(view.theme, { axisLabel: { formatter: (t) => seconds(t) } }) },
      yAxis: {
        type: 'category',
        inverse: true,
        data: plans.map((p) => p.label),
        axisLine: { show: false },
        axisTick: { show: false },
        axisLabel: { color: view.ink, fontSize: view.narrow ? 13 : 15, fontWeight: 600, interval: 0, width: named(view), overflow: 'truncate' },
      },
      tooltip: {
        trigger: 'item',
        formatter: (p) =>
          `${p.name}: ${p.seriesName}<br><b>${seconds(p.value)}</b> (${percent(p.value / sum(Object.values(plans[p.dataIndex].breakdown)))})`,
      },
      series: used.map((key, i) => ({
        type: 'bar',
        stack: 'step',
        name: words.time[key],
        barWidth: '62%',
        data: plans.map((p) => p.breakdown[key] || 0),
        itemStyle: style_of(kTimeLook[key], view.theme),
        label:
          i === used.length - 1
            ? {
                show: true,
                position: 'right',
                color: view.ink,
                fontSize: 13,
                formatter: (p) => seconds(sum(Object.values(plans[p.dataIndex].breakdown))),
              }
            : undefined,
      })),
    }),
    keys: used
      .filter((key) => plans.some((p) => p.breakdown[key] >= 5e-4 * sum(Object.values(p.breakdown))))
      .map((key) => [kTimeLook[key], words.time[key]]),
  };
};

// Signed seconds by category, largest first.
const difference_chart = (breakdown) => {
  const parts = Object.entries(breakdown)
    .filter(([, s]) => s !== 0)
    .sort((a, b) => Math.abs(b[1]) - Math.abs(a[1]))
    .filter(([, s], i) => i < 10 && Math.abs(s) > 1e-3 * sum(Object.values(breakdown).map(Math.abs)));
  const less = Math.max(0, ...parts.map(([, s]) => -s)),
    more = Math.max(0, ...parts.map(([, s]) => s));
  const room = (view) => Math.max(less, more) * (view.narrow ? 1 : 0.35); // For the numbers beside the bars.
  return {
    height: 30 + parts.length * 34,
    option: (view) => ({
      grid: { left: view.narrow ? 124 : 250, right: 20, top: 6, bottom: 20 },
      xAxis: { type: 'value', min: less > 0 ? -less - room(view) : 0, max: more > 0 ? more + room(view) : 0, show: false },
      yAxis: {
        type: 'category',
        inverse: true,
        data: parts.map(([key]) => words.time[key]),
        axisLine: { lineStyle: { color: view.muted }, onZero: true },
        axisTick: { show: false },
        axisLabel: {
          color: view.ink,
          fontSize: view.narrow ? 11.5 : 13.5,
          interval: 0,
          width: view.narrow ? 118 : 242,
          overflow: view.narrow ? 'break' : 'truncate',
          lineHeight: 13,
        },
      },
      tooltip: { formatter: (p) => `${p.name}<br><b>${signed_seconds(p.value)}</b>` },
      series: [
        {
          type: 'bar',
          barWidth: 20,
          barMinHeight: kLeastBar,
          data: parts.map(([key, value]) => ({
            value,
            itemStyle: style_of(kTimeLook[key], view.theme),
            label: { position: value < 0 ? 'left' : 'right' },
          })),
          label: { show: true, formatter: (p) => signed_seconds(p.value), color: view.ink, fontSize: 13 },
        },
      ],
    }),
  };
};
