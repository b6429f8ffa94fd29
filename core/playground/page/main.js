// The page: controls, what they ask, and what is answered.

const kViews = [
  ['plan', 'One plan'],
  ['beside', 'Two plans'],
  ['steps', 'Step by step'],
  ['lessons', 'Lessons'],
  ['tasks', 'Tasks'],
];
const part = (id) => element('div', { id: `part-${id}` });

const start = async () => {
  const form = document.querySelector('.controls'),
    answer = document.querySelector('main'),
    status = document.querySelector('.status'),
    view = document.querySelector('.plan-view');
  const say = (text) => {
    status.textContent = text;
  };
  // After this script: the first answer is drawn before anything is compiled.
  const module = new Promise((begun) => setTimeout(begun, 0)).then(unpacked_module);
  const ask_now = open_worker(module);
  const choices = kModule.choices;
  // Later, so that the first answer is not kept waiting.
  let player = null;
  const ask_player = (request) => (player = player || open_worker(module))(request);

  let state = read_address();
  const parts = Object.fromEntries(['estimate', 'suggestion', 'played', 'elsewhere', 'comparison', 'steps', 'lessons', 'lesson', 'tasks', 'task'].map((id) => [id, part(id)]));
  const shown_parts = { plan: ['estimate', 'suggestion', 'played', 'elsewhere'], beside: ['comparison', 'elsewhere'], steps: ['steps'], lessons: ['lesson', 'lessons'], tasks: ['task', 'tasks'] };
  let waiting = 0,
    moves = 0;

  const tell = (data) => take_report({ ...data, ...choices.page, version: choices.version });
  const apply = (changes) => change((plan) => changed(choices, plan, changes), true);

  const play = async (formula, move) => {
    parts.played.classList.add('old');
    const data = await ask_player(request_of('simulate', state.plan, { ranks: 16 }));
    if (!data || move !== moves) return;
    tell(data);
    show_played(parts.played, data, formula);
    parts.played.classList.remove('old');
    say(`Played in ${seconds(data.took / 1000)}.`);
    document.documentElement.dataset.played = String(move);
  };

  const answer_plan = async () => {
    const move = ++moves;
    clearTimeout(waiting);
    // The page holds the first plan's closed form and shows it at once. The core works it out as well, so that it is warm for the first change.
    const known = move === 1 && same_plan(state.plan, plan_of(kFirst)) ? kModule.first.reply : null;
    const asked = ask_now(request_of('estimate', state.plan));
    if (known)
      asked.then(() => {
        document.documentElement.dataset.warm = 'yes';
      });
    const data = known || (await asked);
    if (!data || move !== moves) return;
    document.documentElement.dataset.replied = String(performance.now());
    tell(data);
    show_estimate(parts.estimate, data, apply);
    document.querySelector('.brief').textContent = brief_text(data);
    show_elsewhere(parts.elsewhere, state.plan, data);
    show_derived(data.answer && data.answer.scenario);
    clear(parts.suggestion);
    document.documentElement.dataset.answered = String(move);
    document.documentElement.dataset.took = String(data.took || 0);
    const timed = !data.error && data.answer.step_time_s !== undefined;
    say(data.error ? 'This is no plan.' : `Closed form${known ? '' : ` in ${seconds(data.took / 1000)}`}; ${timed ? 'now it is played …' : 'it does not fit into memory.'}`);
    if (timed) waiting = setTimeout(() => play(data, move), kPlayAfter);
    else clear(parts.played);
    if (!data.error && !timed) suggest(move);
  };

  const suggest = async (move) => {
    const data = await ask_player(request_of('memory', state.plan));
    if (!data || move !== moves) return;
    tell(data);
    show_suggestion(parts.suggestion, data, apply);
  };

  const compare = async () => {
    if (!state.beside) {
      fill_again(parts.comparison, () =>
        main().append(element('h2', { class: 'title' }, 'Two plans'), element('p', { class: 'see' }, 'Keep a plan by "Keep this plan"; change it, and the two stand here side by side.')),
      );
      return;
    }
    say('Playing both …');
    parts.comparison.classList.add('old');
    tell({});
    if (await show_comparison(parts.comparison, ask_player, state.beside, state.plan)) say('Both were played.');
    parts.comparison.classList.remove('old');
    show_elsewhere(parts.elsewhere, state.plan, null);
    document.documentElement.dataset.compared = 'yes';
  };

  const step = async () => {
    const shown = stepping(choices, state.steps);
    const data = await ask_now({ ask: shown.topic, ...shown });
    if (!data) return;
    tell({});
    show_steps(
      parts.steps,
      choices,
      shown,
      data,
      (steps, anew = true) => {
        state = { ...state, steps };
        if (anew) refresh();
        else history.replaceState(null, '', address_of(state));
      },
      (lesson) => {
        state = { ...state, view: 'lessons', lesson, changed: '' };
        refresh();
      },
    );
    say('');
    document.documentElement.dataset.stepped = shown.topic;
  };

  const teach = async () => {
    show_lessons(parts.lessons, choices, state.lesson, (lesson) => {
      state = { ...state, lesson, changed: '' };
      refresh();
      window.scrollTo(0, 0);
    });
    if (!state.lesson) return clear(parts.lesson);
    say('Working the lesson out …');
    const data = await ask_player({ ask: 'lesson', name: state.lesson, set: lines_of(state.changed) });
    if (!data) return undefined;
    tell(data);
    show_lesson(parts.lesson, data, state.changed, (changed) => {
      state = { ...state, changed };
      refresh();
      window.scrollTo(0, 0);
    });
    say('');
    return undefined;
  };

  const set_task = async () => {
    const choose = (task) => {
      state = { ...state, task };
      refresh();
      window.scrollTo(0, 0);
    };
    const list = () => show_tasks(parts.tasks, choices, state.task, choose);
    list();
    if (!state.task) return clear(parts.task);
    const data = await ask_player({ ask: 'task', name: state.task });
    if (!data) return undefined;
    tell(data);
    if (data.error) return fill_again(parts.task, () => refused_part(data.error, () => {}));
    const ask = async (set, predict) => {
      const outcome = await ask_player({ ask: 'task', name: data.answer.task, set, predict });
      if (outcome) setTimeout(list, 0);
      return outcome;
    };
    const given = (set) =>
      plan_of(
        data.answer.scenario.replace(/^.*(?=scenarios\/)/, ''),
        Object.fromEntries([...(data.answer.set || []), ...set].map((s) => [s.slice(0, s.indexOf('=')), s.slice(s.indexOf('=') + 1)])),
      );
    const open = (set) => {
      state = { ...state, view: 'plan', plan: given(set) };
      show_controls(form, choices, () => state.plan, change);
      refresh();
    };
    const told_of = (key) => ({ now: value_of(choices, given([]), key), help: help_of(choices, key), values: offered_values(choices, key) });
    const next = choices.tasks[choices.tasks.findIndex((t) => t.name === data.answer.task) + 1];
    const show_given = show_task(parts.task, data.answer, { ask, open, told_of, next, choose });
    say('');
    document.documentElement.dataset.asked = data.answer.task;
    const start = await ask_player({ ask: 'task', name: data.answer.task, set: [] });
    if (start) show_given(start);
    return undefined;
  };

  const refresh = () => {
    history.replaceState(null, '', address_of(state));
    document.documentElement.dataset.view = state.view;
    view.replaceChildren(...shown_parts[state.view].map((id) => parts[id]));
    for (const button of document.querySelectorAll('.views button')) button.setAttribute('aria-pressed', String(button.dataset.view === state.view));
    if (state.view === 'plan') return answer_plan();
    // A plan that is left is not played any more: it would take the place of what is asked now.
    ++moves;
    clearTimeout(waiting);
    if (state.view === 'beside') compare();
    else if (state.view === 'steps') step();
    else if (state.view === 'lessons') teach();
    else set_task();
  };

  // `anew`: the controls are drawn again, with what the change made of the others.
  const change = (to, anew = false) => {
    state = { ...state, plan: to(state.plan) };
    if (anew) show_controls(form, choices, () => state.plan, change);
    refresh();
  };

  document.querySelector('.masthead').append(...masthead(() => state, (more) => ((state = { ...state, ...more }), refresh())));
  form.addEventListener('submit', (event) => event.preventDefault());
  window.addEventListener('hashchange', () => {
    state = read_address();
    show_controls(form, choices, () => state.plan, change);
    refresh();
  });
  show_controls(form, choices, () => state.plan, change);
  apply_theme();
  follow_the_page();
  refresh();
  document.documentElement.dataset.ready = 'yes';
  await module;
};

const masthead = (state, set) => {
  const views = element('nav', { class: 'views', 'aria-label': 'Views' });
  for (const [name, title] of kViews) {
    const button = element('button', { type: 'button', 'data-view': name }, title);
    button.addEventListener('click', () => set({ view: name }));
    views.append(button);
  }
  const keep = element('button', { type: 'button', class: 'keep' }, 'Keep this plan');
  keep.addEventListener('click', () => {
    set({ beside: state().plan });
    keep.textContent = 'Kept';
    setTimeout(() => {
      keep.textContent = 'Keep this plan';
    }, 1500);
  });
  return [element('h1', {}, 'Rehearse'), views, keep, element('span', { class: 'space' }), theme_switch()];
};

start().catch((error) => {
  console.error(error);
  document.querySelector('.status').textContent = `The playground could not start: ${error.message}`;
});
