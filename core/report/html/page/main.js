// The kind of the answer chooses its page.

const kPages = {
  simulate: step_page,
  estimate: step_page,
  memory: memory_page,
  run: run_page,
  compare: compare_page,
  lesson: lesson_page,
  replay: lesson_page,
  validate: (a) => (a.step ? validation_page(a) : scoreboard_page(a)),
  search: search_page,
  sweep: sweep_page,
  plan: plan_page,
  fleet: fleet_page,
  collectives: collectives_page,
  topology: topology_page,
};

const start = () => {
  take_report(JSON.parse(document.getElementById('report-data').textContent));
  const bar = document.querySelector('.masthead');
  bar.append(element('b', {}, 'Rehearse'), element('span', {}, `${report.kind}`), element('span', { class: 'space' }), theme_switch());
  if (!pictures_available())
    notice('This report has tables and no pictures: the program was built without a charting library. To have them:', report.pictures_hint);
  kPages[report.kind](report.answer);
  main().append(
    element('footer', {}, `Made by Rehearse ${report.version}. The whole answer is in this page as JSON: document.getElementById('report-data').`),
  );
  apply_theme();
  follow_the_page();
  document.documentElement.dataset.ready = String(drawn_charts.length);
};

try {
  start();
} catch (error) {
  console.error(error);
  notice(`This report could not be shown in full: ${error.message}. Its figures are in the page's source, as JSON.`);
}
