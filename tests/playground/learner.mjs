// The course as a new learner takes it: from the site's first page by what can be seen and clicked, each lesson read and
// changed, each task guessed, tried and solved by its three hints alone. Then all other tasks, in the playground.
// usage: learner.mjs SITE CHROMIUM [--pictures FOLDER]. Prints what each page takes; ends with 1 where the learner is stuck.
import { existsSync, mkdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { open_browser, open_page } from './browser.mjs';
import { open_hand } from './hand.mjs';
import { skip } from './module.mjs';

const [site, chromium, ...options] = process.argv.slice(2);
const pictures = options.includes('--pictures') ? options[options.indexOf('--pictures') + 1] : '';
if (!chromium) skip('no browser: chromium was not found when the build was configured');
if (!existsSync(join(site, 'playground', 'index.html'))) skip(`${site} has no playground: ./bootstrap playground builds it, where emscripten is`);
if (pictures) mkdirSync(pictures, { recursive: true });

// How a learner's minutes are counted on a page as it is drawn; site/course.py counts them before there is one.
const kWordsAMinute = 200,
  kLook = 1 / 3, // Minutes for a picture, whose caption is read as well.
  kChange = 1,
  kByHand = 2,
  kBegin = 2;
const kApart = 0.15; // Of the minutes that the course promises: by how much the two counts may differ.

const failures = [];
const check = (holds, what) => {
  if (!holds) {
    failures.push(what);
    console.log(`FAILED ${what}`);
  }
};

const browser = await open_browser(chromium);
const began = Date.now();
let minutes = 0;
try {
  const page = await open_page(browser, pathToFileURL(resolve(site, 'index.html')).href);
  const hand = open_hand(page);
  const picture = async (name) => {
    if (!pictures) return;
    for (const [width, dark] of [[390, true], [1280, false]]) {
      await page.look(width, dark);
      await page.picture(join(pictures, `${name}_${width}.png`));
    }
  };
  const tell = (name, seen, counted) => {
    minutes += counted;
    console.log(`${name}: ${seen.words} words, ${seen.pictures} pictures, ${counted.toFixed(1)} minutes`);
  };
  const solved = new Set();

  const lesson = async (name) => {
    await page.until("document.querySelector('.chart[data-drawn], main section')");
    const seen = await hand.reading('main :is(h1, h2, p, dl)');
    await picture(`lesson_${name}`);
    await hand.follow('change it in the playground');
    await page.until("document.documentElement.dataset.ready && document.querySelector('#part-lesson #lesson-changes') && document.querySelector('.status').textContent === ''");
    const before = await page.value("document.querySelector('#part-lesson').textContent");
    await hand.type('#lesson-changes', await page.value("document.querySelector('#lesson-changes').placeholder"));
    await hand.press('Work it out again');
    await page.until("location.hash.includes('changed=') && document.querySelector('.status').textContent === ''");
    const after = await page.value("document.querySelector('#part-lesson').textContent");
    check(after.length > 200 && !/could not|undefined|NaN/.test(after), `${name} is told anew after a change`);
    check(before !== after, `${name} is told otherwise after a change`);
    await hand.back();
    await page.until(`location.pathname.endsWith('/lessons/${name}.html') && document.readyState === 'complete'`);
    tell(`lesson ${name}`, seen, seen.words / kWordsAMinute + seen.pictures * kLook + kChange);
  };

  // In the playground: what its page says of the task is all that is known.
  const solve = async (name) => {
    await page.until(`document.documentElement.dataset.asked === '${name}' && document.querySelector('#given').textContent.startsWith('As it is given')`);
    await hand.type('#guess', (await page.value("document.querySelector('#guess').placeholder")).replace('such as ', ''));
    await hand.press('Try it');
    await page.until("document.querySelector('#outcome h3, #outcome .notice')");
    check((await hand.text('#outcome h3')) === 'Not yet.', `${name} is not solved as it is given`);
    for (let count = 1; count <= 3; ++count) {
      await hand.press('A hint');
      check((await page.value("document.querySelectorAll('.hints li').length")) === count, `${name} gives its hint ${count}`);
    }
    for (const [, key, value] of (await hand.text('.hints li:last-child')).matchAll(/([\w.]+)=([\w.]*\w)/g)) await hand.set(key, value);
    await page.value("document.querySelector('#outcome').replaceChildren()");
    await hand.press('Try it');
    await page.until("document.querySelector('#outcome h3, #outcome .notice')");
    const outcome = await hand.text('#outcome');
    check(/^Solved\./.test(outcome) && !/Not yet/.test(outcome), `${name} is solved by its last hint: ${outcome.replace(/\s+/g, ' ')}`);
    check(/You guessed .+; it came out as .+/.test(outcome), `${name} sets the guess beside what came out`);
    check((await hand.words('#outcome > p')) > 12, `${name} is explained`);
    await page.until("[...document.querySelectorAll('.track button[aria-pressed=true]')].some((b) => b.textContent.startsWith('✓'))");
    solved.add(name);
    const seen = await hand.reading('#part-task :is(h2, h3, p, li, label)');
    await picture(`task_${name}`);
    tell(`task ${name}`, { ...seen, pictures: 0 }, seen.words / kWordsAMinute + kByHand);
  };

  await picture('first');
  await hand.follow('Begin with the course');
  await page.until("location.pathname.endsWith('/lessons/index.html') && document.querySelector('ol.cards')");
  const promised = Number((await hand.text('h1')).match(/in (\d+) minutes/)[1]);
  const stated = await page.value("[...document.querySelectorAll('h2 + .minutes')].reduce((sum, p) => sum + Number(p.textContent.match(/^\\d+/)[0]), 0)");
  const listed = await page.value("document.querySelectorAll('ol.cards > li').length");
  minutes = kBegin;
  await picture('course');
  await page.value("document.querySelector('ol.cards a').scrollIntoView()");
  await hand.follow(await hand.text('ol.cards a'));

  let steps = 0;
  for (let more = true; more; ++steps) {
    await page.until("/\\/(lessons|tasks)\\/\\w+\\.html$/.test(location.pathname) && !location.pathname.endsWith('index.html') && document.querySelector('nav.course')");
    const [, kind, name] = (await page.value('location.pathname')).match(/\/(lessons|tasks)\/(\w+)\.html$/);
    if (kind === 'lessons') await lesson(name);
    else {
      await hand.follow('Try it in the playground');
      await page.until("document.querySelector('#part-task form')");
      await solve(name);
      await hand.follow('Its page in the course');
      await page.until(`location.pathname.endsWith('/tasks/${name}.html') && document.querySelector('nav.course')`);
    }
    more = await hand.follow_next();
  }
  check(steps === listed, `"next" leads over all ${listed} lessons and tasks of the course: ${steps}`);
  console.log(`the course: ${minutes.toFixed(0)} minutes counted here, ${stated} stated by its parts, ${promised} promised`);
  check(Math.abs(minutes - promised) <= kApart * promised, `the course takes the ${promised} minutes that it promises: ${minutes.toFixed(0)}`);

  // All other tasks, in their order.
  await hand.follow('playground');
  await page.until("document.documentElement.dataset.ready");
  await hand.press('Tasks');
  await page.until("document.querySelector('.track button')");
  const in_all = await page.value("document.querySelectorAll('.track li').length");
  for (;;) {
    const left = await page.value("[...document.querySelectorAll('.track li button')].find((b) => !b.textContent.startsWith('✓'))?.textContent ?? ''");
    if (!left) break;
    await hand.press(left);
    await page.until(`document.querySelector('#part-task h2')?.textContent === ${JSON.stringify(left)} && document.querySelector('#given').textContent.startsWith('As it is given')`);
    const before = solved.size;
    await solve(await page.value('document.documentElement.dataset.asked'));
    if (solved.size === before) break;
  }
  check(solved.size === in_all, `all ${in_all} tasks are solved: ${solved.size}`);
  // The page that is left may still answer for a while: it is marked.
  await page.value('window.before = true');
  await page.send('Page.reload');
  await page.until("!window.before && document.documentElement.dataset.ready && document.querySelector('.track button')");
  const kept = await hand.text('#part-tasks .see');
  check(kept.includes(`${in_all} tasks of ${in_all} solved`), `the browser keeps what was solved: ${kept}`);
  await hand.press('Forget what was solved in this browser');
  check((await hand.text('#part-tasks .see')).includes(`0 tasks of ${in_all} solved`), 'and forgets it when it is told to');
  check(page.complaints.length === 0, `the console complains of nothing: ${page.complaints.join('; ')}`);
} finally {
  await browser.close();
}
console.log(`${failures.length === 0 ? 'ok' : `${failures.length} failures`}, in ${((Date.now() - began) / 1000).toFixed(0)} s`);
process.exit(failures.length > 0 ? 1 : 0);
