// Tasks: a question, a guess, attempts, hints one by one; what was solved is kept in this browser.

const kTracks = {
  one_gpu: 'One GPU',
  memory: 'Memory',
  data_parallel: 'Data parallel',
  tensor_pipeline: 'Tensor and pipeline parallel',
  experts_and_long: 'Experts and long sequences',
  buying: 'Buying',
};
const kSolvedKey = 'rehearse-solved';
const solved_tasks = () => {
  try {
    return new Set(JSON.parse(localStorage.getItem(kSolvedKey) || '[]'));
  } catch {
    return new Set();
  }
};
const remember_solved = (name) => {
  try {
    localStorage.setItem(kSolvedKey, JSON.stringify([...solved_tasks().add(name)]));
  } catch {
    /* A page without storage forgets. */
  }
};

const show_tasks = (host, choices, chosen, choose) =>
  fill_again(host, () => {
    const solved = solved_tasks();
    main().append(
      element('h2', { class: 'title' }, 'Tasks'),
      element('p', { class: 'see' }, `Predict, try, and read why. ${plural(choices.tasks.filter((t) => solved.has(t.name)).length, 'task')} of ${choices.tasks.length} solved in this browser.`),
    );
    for (const [track, title] of Object.entries(kTracks)) {
      const buttons = choices.tasks
        .filter((t) => t.track === track)
        .map((t) => {
          const button = element('button', { type: 'button', 'aria-pressed': String(t.name === chosen) }, `${solved.has(t.name) ? '✓ ' : ''}${t.title}`);
          if (solved.has(t.name)) button.append(element('span', { class: 'unseen' }, ' (solved)'));
          button.addEventListener('click', () => choose(t.name));
          return element('li', {}, button);
        });
      main().append(element('section', { class: 'track' }, element('h3', {}, title), element('ul', { class: 'lessons' }, buttons)));
    }
  });

// `ask` tries: a promise of the reply. `open` shows the attempt as a plan of its own. `told_of` gives what a key is, where it stands
// and what may be typed.
const show_task = (host, task, ask, open, told_of) =>
  fill_again(host, () => {
    const outcome = element('div', { id: 'outcome', 'aria-live': 'polite' });
    const guess = task.predict ? element('input', { id: 'guess', type: 'text', autocomplete: 'off' }) : null;
    const field = (key) => {
      const id = `try-${key.replace(/\./g, '-')}`,
        { now, help, values } = told_of(key);
      const list = values.length > 0 ? element('datalist', { id: `${id}-values` }, values.map((value) => element('option', { value }))) : null;
      const box = element('input', { id, type: 'text', autocomplete: 'off', spellcheck: 'false', placeholder: now, list: list ? list.id : undefined });
      return { key, box, parts: [element('label', { for: id }, element('code', {}, key), ` ${help || ''}`), box, list] };
    };
    const fields = task.may_change.map(field);
    const attempt = () => fields.filter(({ box }) => box.value.trim() !== '').map(({ key, box }) => `${key}=${box.value.trim()}`);
    const hints = element('ol', { class: 'hints' });
    const hint = element('button', { type: 'button', class: 'more' }, 'A hint');
    hint.addEventListener('click', () => {
      hints.append(element('li', {}, task.hints[hints.childElementCount]));
      hint.hidden = hints.childElementCount === task.hints.length;
    });
    const form = element(
      'form',
      { class: 'task' },
      guess ? element('div', { class: 'control' }, element('label', { for: 'guess' }, `First guess: ${task.predict}`), guess) : null,
      fields.map((f) => element('div', { class: 'control' }, f.parts)),
      element('div', {}, element('button', { type: 'submit', class: 'apply' }, 'Try it')),
    );
    form.addEventListener('submit', async (event) => {
      event.preventDefault();
      outcome.replaceChildren(element('p', {}, 'Playing …'));
      const data = await ask({ ask: 'task', name: task.task, set: attempt(), predict: guess ? guess.value.trim() : '' });
      if (data) show_outcome(outcome, data, () => open(attempt()));
    });
    main().append(
      element('section', {}, element('h2', {}, task.title), element('p', { class: 'see' }, task.question), element('p', { class: 'plan' }, [task.scenario.replace(/^.*(?=scenarios\/)/, ''), ...(task.set || [])].join(' '))),
      element('ul', { class: 'goals' }, task.goals.map((g) => element('li', {}, g.claim))),
      form,
      element('div', {}, hints, hint),
      outcome,
    );
  });

const show_outcome = (host, data, open) => {
  if (data.error) return host.replaceChildren(element('p', { class: 'notice', role: 'alert' }, refusal_text(data.error)));
  const a = data.answer;
  if (a.solved) remember_solved(a.task);
  const look = element('button', { type: 'button', class: 'more' }, 'See it as a plan');
  look.addEventListener('click', open);
  host.replaceChildren(
    element('h3', {}, a.solved ? 'Solved.' : 'Not yet.'),
    element(
      'ul',
      { class: 'goals' },
      a.goals.map((g) => element('li', { class: g.holds ? 'good' : 'bad' }, `${g.holds ? 'Reached' : 'Not yet'}: ${g.claim}`)),
      a.beyond.map((key) => element('li', { class: 'bad' }, `${key} is to stay as it is`)),
    ),
    a.predicted_text ? element('p', { class: 'see' }, `You guessed ${a.predicted_text}; it came out as ${a.came_out_text}.`) : '',
    ...a.says.map((text) => element('p', { class: 'see' }, text)),
    look,
  );
  return undefined;
};
