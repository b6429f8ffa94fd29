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
const forget_solved = () => {
  try {
    localStorage.removeItem(kSolvedKey);
  } catch {
    /* There is nothing to forget. */
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
    if (solved.size === 0) return;
    const forget = element('button', { type: 'button', class: 'more' }, 'Forget what was solved in this browser');
    forget.addEventListener('click', () => {
      forget_solved();
      show_tasks(host, choices, chosen, choose);
    });
    main().append(element('p', { class: 'track' }, forget));
  });

// What a guess looks like, by the form of its figure.
const kGuesses = { time: '1.5 s', bytes: '2 GB', gib: '40 GiB', flops: '2 TFLOP', percent: '30 %', times: '1.5', count: '1200', number: '2.5' };

// Text whose words between backticks are code.
const with_code = (text) => text.split('`').map((piece, i) => (i % 2 === 1 ? element('code', {}, piece) : piece));

// What was typed and which hints were asked for, until the page is closed: a look at the plan does not lose it.
const kTyped = new Map();

const memory_text = (p) => `the fullest GPU needs ${text_of('gib', p.needed_bytes)} of ${text_of('gib', p.capacity_bytes)}`;
const plan_text_of = (p) => (p.fits ? `a step takes ${seconds(p.step_time_s)}, and ${memory_text(p)}` : `it does not fit: ${memory_text(p)}`);

// What the plan comes to before anything is tried: without it nobody can guess.
const given_text = ({ answer: a }) => {
  const says = `As it is given, ${plan_text_of(a.plans[0])}.`;
  return a.came_out_text && a.predict_form !== 'times' ? `${says} Before any change the answer to the question below is ${a.came_out_text}.` : says;
};

const field_of = (key, { now, help, values }, typed) => {
  const id = `try-${key.replace(/\./g, '-')}`;
  const label = element('label', { for: id }, element('code', {}, key), ` ${help || ''}`);
  const chosen = typed[key] || '';
  const box =
    values.length > 0
      ? element(
          'select',
          { id },
          [['', `${now}, as it is given`], ...values].map(([value, text]) => element('option', { value, selected: value === chosen ? '' : undefined }, text)),
        )
      : element('input', { id, type: 'text', autocomplete: 'off', spellcheck: 'false', placeholder: `${now}, as it is given`, value: chosen });
  box.addEventListener('input', () => {
    typed[key] = box.value.trim();
  });
  return element('div', { class: 'control' }, label, box);
};

const hints_of = (task, kept) => {
  const list = element('ol', { class: 'hints' });
  const more = element('button', { type: 'button', class: 'more' }, 'A hint');
  const show = (count) => {
    list.replaceChildren(...task.hints.slice(0, count).map((text) => element('li', {}, with_code(text))));
    more.hidden = count === task.hints.length;
  };
  more.addEventListener('click', () => show(++kept.hints));
  show(kept.hints);
  return element('div', {}, list, more);
};

const guess_of = (task, kept) => {
  const box = element('input', { id: 'guess', type: 'text', autocomplete: 'off', placeholder: `such as ${kGuesses[task.predict_form]}`, value: kept.guess });
  box.addEventListener('input', () => {
    kept.guess = box.value.trim();
  });
  return element('div', { class: 'control' }, element('label', { for: 'guess' }, `First guess: ${task.predict}`), box);
};

// `ask` tries: a promise of the reply. `open` shows an attempt as a plan of its own. `told_of` gives what a key is, where it stands
// and what may be chosen. `next` is the task after this one, if there is one, and `choose` goes there.
const show_task = (host, task, { ask, open, told_of, next, choose }) => {
  if (!kTyped.has(task.task)) kTyped.set(task.task, { guess: '', set: {}, hints: 0 });
  const kept = kTyped.get(task.task);
  const attempt = () => task.may_change.filter((key) => kept.set[key]).map((key) => `${key}=${kept.set[key]}`);
  const outcome = element('div', { id: 'outcome', 'aria-live': 'polite' });
  const given = element('p', { class: 'see', id: 'given' }, 'Playing the plan as it is given …');
  let told = false;
  const tell_given = (text) => {
    told = true;
    given.textContent = text;
  };
  fill_again(host, () => {
    const look = element('button', { type: 'button', class: 'more' }, 'See the plan as it is given');
    look.addEventListener('click', () => open([]));
    const form = element(
      'form',
      { class: 'task' },
      task.predict ? guess_of(task, kept) : null,
      task.may_change.map((key) => field_of(key, told_of(key), kept.set)),
      element('div', {}, element('button', { type: 'submit', class: 'apply' }, 'Try it')),
    );
    form.addEventListener('submit', async (event) => {
      event.preventDefault();
      outcome.replaceChildren(element('p', {}, 'Playing …'));
      const data = await ask(attempt(), task.predict ? kept.guess : '');
      if (data && data.answer && !told) tell_given(`As it is given, ${plan_text_of(data.answer.plans[0])}.`);
      if (data) show_outcome(outcome, data, { open: () => open(attempt()), next, choose });
    });
    main().append(
      element(
        'section',
        {},
        element('h2', {}, task.title),
        page_in_course(task.task),
        element('p', { class: 'see' }, task.question),
        element('p', { class: 'plan' }, `The plan: ${[task.scenario.replace(/^.*(?=scenarios\/)/, ''), ...(task.set || [])].join(' ')}`),
        given,
        look,
      ),
      element('h3', { class: 'track' }, 'Goals'),
      element('ul', { class: 'goals' }, task.goals.map((g) => element('li', {}, g.claim))),
      form,
      hints_of(task, kept),
      outcome,
    );
  });
  return (data) => tell_given(data.error ? refusal_text(data.error) : given_text(data));
};

// Where the site holds this page, each task has a page of its own there.
const page_in_course = (name) => {
  const { pages } = document.documentElement.dataset;
  return pages ? element('p', {}, element('a', { href: `${pages}/tasks/${name}.html` }, 'Its page in the course')) : null;
};

const refused_attempt = ({ what, hint }) => [what, hint].filter(Boolean).join('; ');

const show_outcome = (host, data, { open, next, choose }) => {
  if (data.error) return host.replaceChildren(element('p', { class: 'notice', role: 'alert' }, refused_attempt(data.error)));
  const a = data.answer;
  const button = (text, act, kind) => {
    const made = element('button', { type: 'button', class: kind }, text);
    made.addEventListener('click', act);
    return made;
  };
  if (a.solved) remember_solved(a.task);
  const guessed = a.predicted_text ? `You guessed ${a.predicted_text}` : a.predict;
  host.replaceChildren(
    element('h3', {}, a.solved ? 'Solved.' : 'Not yet.'),
    element(
      'ul',
      { class: 'goals' },
      a.goals.map((g) => element('li', { class: g.holds ? 'good' : 'bad' }, `${g.holds ? 'Reached' : 'Not yet'}: ${g.claim}`)),
      a.beyond.map((key) => element('li', { class: 'bad' }, `${key} is to stay as it is`)),
    ),
    a.came_out_text ? element('p', { class: 'see' }, `${guessed}${a.predicted_text ? ';' : ''} it came out as ${a.came_out_text}.`.replace('? it', '? It')) : '',
    a.solved ? '' : element('p', { class: 'see' }, `With what you set, ${plan_text_of(a.plans[1])}.`),
    ...a.says.map((text) => element('p', { class: 'see' }, text)),
    element('div', { class: 'after' }, a.solved && next ? button(`Next: ${next.title}`, () => choose(next.name), 'apply') : '', button('See it as a plan', open, 'more')),
  );
  return undefined;
};
