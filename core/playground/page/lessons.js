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

const show_lesson = (host, data) =>
  fill_again(host, () => {
    if (data.error) return refused_part(data.error, () => {});
    lesson_page(data.answer);
  });
