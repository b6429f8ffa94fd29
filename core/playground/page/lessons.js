// Lessons: questions with an answer that is worked out when it is asked for.

const show_lessons = (host, choices, chosen, choose) =>
  fill_again(host, () => {
    main().append(
      element('h2', { class: 'title' }, 'Lessons'),
      element(
        'ul',
        { class: 'lessons' },
        choices.lessons.map((l) => {
          const button = element('button', { type: 'button', 'aria-pressed': String(l.name === chosen) }, l.title);
          button.addEventListener('click', () => choose(l.name));
          return element('li', {}, button, element('p', {}, l.question));
        }),
      ),
    );
  });

// `changed` is what the reader set in all plans, one KEY=VALUE a line; `change` works the lesson out with another text.
const show_lesson = (host, data, changed, change) =>
  fill_again(host, () => {
    if (data.error) refused_part(data.error, () => {});
    else lesson_page(data.answer);
    const box = element('textarea', { id: 'lesson-changes', rows: 2, spellcheck: 'false', placeholder: 'training.precision=fp32' }, changed);
    const form = element(
      'form',
      { class: 'task control' },
      element('h2', {}, 'What if?'),
      element('label', { for: 'lesson-changes' }, 'Set in all its plans, one KEY=VALUE a line'),
      box,
      element('button', { type: 'submit', class: 'apply' }, 'Work it out again'),
    );
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      change(box.value.trim());
    });
    main().append(element('section', {}, form));
  });
const lines_of = (text) => text.split('\n').map((line) => line.trim()).filter(Boolean);
