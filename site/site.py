"""The site: playground, lessons, tasks, documentation, glossary and API as one static folder, found from one page.

  site.py --source TREE --program REHEARSE --out FOLDER [--playground FOLDER] [--api FOLDER]

Pages of documentation are those that README.md leads to, over any number of links. Every link of every page is checked
at the end: a file that is not there, or a heading, ends the build.
"""
import argparse
import concurrent.futures
import html
import html.parser
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import course as courses

SHOWN_BY_BROWSERS = {".svg", ".png", ".json", ".txt", ".csv", ".md"}
NAVIGATION = [("playground", "playground/index.html"), ("course", "lessons/index.html"), ("tasks", "tasks/index.html"),
              ("documentation", "docs/index.html"), ("mechanisms", "docs/core/price/mechanisms/index.html"),
              ("accuracy", "docs/tests/published/ACCURACY.html"), ("glossary", "docs/topologies/GLOSSARY.html"),
              ("API", "api/index.html")]


def fail(message):
    sys.exit(f"site: {message}")


def run(*command, stdin=None):
    done = subprocess.run([str(c) for c in command], input=stdin, capture_output=True, text=True)
    if done.returncode != 0:
        fail(f"{' '.join(str(c) for c in command)} ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def relative(to, of):
    """The way from the folder of page `of` to `to`, both from the site's own folder."""
    return os.path.relpath(to, os.path.dirname(of) or ".").replace(os.sep, "/")


class Site:
    """What is written: pages in one frame, and files."""

    def __init__(self, out, parts):
        self.out = out
        self.parts = parts

    def frame(self, at, title, body, wide=False):
        links = "".join(f'<a href="{relative(to, at)}"{" aria-current=page" if to == at else ""}>{name}</a>'
                        for name, to in NAVIGATION if to.split("/")[0] in self.parts)
        return (f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
                f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{html.escape(title)}</title>\n'
                f'<link rel="stylesheet" href="{relative("site.css", at)}">\n</head>\n<body>\n'
                f'<header><a class="home" href="{relative("index.html", at)}">Rehearse</a><nav aria-label="Site">{links}</nav></header>\n'
                f'<main{" class=wide" if wide else ""}>\n{body}\n</main>\n</body>\n</html>\n')

    def write(self, at, title, body, wide=False):
        path = self.out / at
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.frame(at, title, body, wide), encoding="utf-8")


# --- Documentation ---------------------------------------------------------------------------------------------------


def place(page):
    """Where a page of the tree lies in the site."""
    folder, name = os.path.split(page)
    return "/".join(filter(None, ["docs", folder, "index.html" if name == "README.md" else name[:-3] + ".html"]))


def anchor(heading):
    """As GitHub makes them: small letters, hyphens for spaces, no other punctuation."""
    text = html.unescape(re.sub(r"<[^>]+>", "", heading)).strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def with_anchors(body):
    seen = {}

    def mark(match):
        level, inside = match.groups()
        name = anchor(inside)
        seen[name] = seen.get(name, -1) + 1
        if seen[name]:
            name += f"-{seen[name]}"
        return f'<h{level} id="{name}">{inside}</h{level}>'

    return re.sub(r"<h([1-6])>(.*?)</h\1>", mark, body, flags=re.S)


def in_scrollers(body):
    """Wide tables scroll by themselves, by keyboard, too."""
    return body.replace("<table>", '<div class="scroll" tabindex="0"><table>').replace("</table>", "</table></div>")


class Documentation:
    def __init__(self, source, site):
        self.source = source
        self.site = site
        self.waiting, self.known = [], set()

    def page_of(self, path):
        """The page that a link to `path` means, or None: a page, or a folder with a README."""
        if path.endswith(".md") and (self.source / path).is_file():
            return path
        readme = os.path.normpath(os.path.join(path, "README.md"))
        return readme if (self.source / readme).is_file() else None

    def ask(self, page):
        if page not in self.known:
            self.known.add(page)
            self.waiting.append(page)

    def target(self, link, page):
        if re.match(r"[a-z]+:", link) or link.startswith("#"):
            return link
        name, mark, heading = link.partition("#")
        path = os.path.normpath(os.path.join(os.path.dirname(page), name))
        if path.startswith("..") or not (self.source / path).exists():
            fail(f"{page} leads to {link}, which is not there")
        if (found := self.page_of(path)) is not None:
            self.ask(found)
            return relative(place(found), place(page)) + mark + heading
        return relative(self.copy(path), place(page))

    def copy(self, path):
        """A file as it is, or the names in a folder."""
        if (self.source / path).is_dir():
            at = f"docs/{path}/index.html"
            names = sorted(os.listdir(self.source / path))
            items = "".join(f"<li>{html.escape(n)}</li>" for n in names)
            self.site.write(at, path, f"<h1><code>{html.escape(path)}</code></h1>\n<ul>{items}</ul>")
            return at
        at = f"docs/{path}" + ("" if pathlib.Path(path).suffix in SHOWN_BY_BROWSERS else ".txt")
        (self.site.out / at).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(self.source / path, self.site.out / at)
        return at

    def build(self, first):
        for page in first:
            self.ask(page)
        while self.waiting:
            page = self.waiting.pop()
            body = run("cmark-gfm", "--unsafe", "-e", "table", "-e", "strikethrough", "-e", "autolink", self.source / page)
            body = re.sub(r'(href|src)="([^"]*)"',
                          lambda m: f'{m[1]}="{html.escape(self.target(html.unescape(m[2]), page))}"', body)
            title = re.search(r"<h1>(.*?)</h1>", body, re.S)
            self.site.write(place(page), html.unescape(re.sub(r"<[^>]+>", "", title[1])) if title else page,
                            in_scrollers(with_anchors(body)))


# --- Lessons and tasks -----------------------------------------------------------------------------------------------


def answer(program, *words):
    return json.loads(run(program, *words, "--format", "json"))


def make_lesson(program, out, name):
    return json.loads(run(program, "lesson", name, "--backend", "analytic", "--format", "json", "--html", out / f"{name}.html"))


def in_code(text):
    """Words between backticks as code."""
    return re.sub("`([^`]*)`", r"<code>\1</code>", html.escape(text))


class Course:
    """What it holds (course.json), each lesson's and task's result by (kind, name), and how long each takes."""

    def __init__(self, source, program, site):
        self.program, self.site = program, site
        self.data = json.loads((source / "scenarios/lessons/course.json").read_text())
        self.results, self.minutes = {}, {}
        path = courses.path(self.data)
        self.near = {at[1:]: (at[0], path[i - 1][1:] if i else None, path[i + 1][1:] if i + 1 < len(path) else None)
                     for i, at in enumerate(path)}
        self.part = {(kind, name): part for part in self.data["parts"] for kind in ("lessons", "tasks")
                     for name in part[kind] + part["further"][kind]}

    def read(self):
        """Plays each lesson, which writes its page, and asks for each task."""
        (self.site.out / "lessons").mkdir(parents=True, exist_ok=True)
        lessons = [entry["lesson"] for entry in answer(self.program, "list", "lessons")["entries"]]
        tasks = [entry["task"] for entry in answer(self.program, "list", "tasks")["entries"]]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            played = pool.map(lambda n: make_lesson(self.program, self.site.out / "lessons", n), lessons)
            asked = pool.map(lambda n: answer(self.program, "task", n, "--hint", "3"), tasks)
            self.results = {("lessons", n): r for n, r in zip(lessons, played)} | {("tasks", n): r for n, r in zip(tasks, asked)}
        self.minutes = {(kind, name): (courses.lesson_minutes if kind == "lessons" else courses.task_minutes)(result)
                        for (kind, name), result in self.results.items()}
        for fault in courses.faults(self.data, lessons, tasks, self.minutes):
            fail(fault)

    def title(self, kind, name):
        return self.results[kind, name]["title"]

    def bar(self, kind, name):
        """Where a lesson or a task stands in the course, as a line of links; empty where it is not in it."""
        if (kind, name) not in self.part:
            return ""
        links = [f'<a href="../lessons/index.html">The course</a>: {html.escape(self.part[kind, name]["title"])}',
                 f'<a href="../{place("topologies/GLOSSARY.md")}">words</a>']
        if kind == "lessons" and "playground" in self.site.parts:
            links.append(f'<a href="../playground/index.html#view=lessons&amp;lesson={name}">change it in the playground</a>')
        _, before, after = self.near.get((kind, name), (None, None, None))
        for word, other in (("before", before), ("next", after)):
            if other:
                links.append(f'{word}: <a href="../{other[0]}/{other[1]}.html">{html.escape(self.title(*other))}</a>')
        if (kind, name) not in self.near:
            links.append("for who has more time")
        return f'<nav class="course" aria-label="The course">{" · ".join(links)}</nav>'

    def add_bars(self):
        """To pages of lessons, which the program wrote: above and below."""
        style = "<style>.course{max-width:1240px;margin:0 auto;padding:14px clamp(16px,3vw,40px);font-size:14.5px}</style>"
        for kind, name in self.results:
            if kind != "lessons":
                continue
            page = self.site.out / "lessons" / f"{name}.html"
            bar = self.bar(kind, name)
            text = page.read_text(encoding="utf-8")
            text = re.sub(r"(<body[^>]*>)", lambda m: m[1] + style + bar, text, count=1)
            end = text.rindex("</body>")
            page.write_text(text[:end] + bar.replace('aria-label="The course"', 'aria-label="On in the course"') + text[end:], encoding="utf-8")

    def entry(self, kind, name):
        what = "Lesson" if kind == "lessons" else "Task"
        about = self.results[kind, name].get("question", "")
        return (f'<li><a href="../{kind}/{name}.html">{html.escape(self.title(kind, name))}</a> '
                f'<span class=minutes>{what}, {round(self.minutes[kind, name])} minutes</span><p>{html.escape(about)}</p></li>')

    def part_minutes(self, part):
        return sum(self.minutes[kind, name] for of, kind, name in courses.path(self.data) if of is part)

    def index(self):
        """The course's page: the path with its minutes, and below each part what there is for more time."""
        c = self.data
        first = next(iter(self.near))
        playground = ('Open <a href="../playground/index.html">the playground</a>, move a slider, and see what becomes of the step. '
                      if "playground" in self.site.parts else "")
        total = round(courses.MINUTES_TO_BEGIN + sum(map(self.part_minutes, c["parts"])))
        body = [f"<h1>{html.escape(c['title'])}: a course in {c['minutes']} minutes</h1>", f"<p class=lead>{html.escape(c['summary'])}</p>",
                f"<p>{playground}Then begin with <a href=\"../{first[0]}/{first[1]}.html\">{html.escape(self.title(*first))}</a>, and follow "
                "<b>next</b> at the top and the end of every page. Read a lesson, and change one thing in it by its link to the playground. "
                "In a task, guess first; then try, and read why. Words that you don't know are in "
                f'<a href="../{place("topologies/GLOSSARY.md")}">the glossary</a>.</p>']
        for number, part in enumerate(c["parts"], 1):
            body.append(f"<h2>{number}. {html.escape(part['title'])}</h2>\n<p class=minutes>{round(self.part_minutes(part))} minutes. "
                        f"{html.escape(part['summary'])}</p>\n<ol class=cards>")
            body += [self.entry(kind, name) for kind in ("lessons", "tasks") for name in part[kind]]
            body.append("</ol>")
            further = [(kind, name) for kind in ("lessons", "tasks") for name in part["further"][kind]]
            if further:
                links = ", ".join(f'<a href="../{kind}/{name}.html">{html.escape(self.title(kind, name))}</a> ({round(self.minutes[kind, name])})'
                                  for kind, name in further)
                body.append(f"<p>With more time (minutes): {links}.</p>")
        body.append(f"<h2>How the minutes were counted</h2>\n<p>The course comes to {total} minutes. That is an estimate, and nobody's average: "
                    f"{courses.WORDS_A_MINUTE} words are read in a minute, a picture with its table takes {60 * courses.MINUTES_A_PICTURE:.0f} seconds, "
                    f"a change in the playground after a lesson {60 * courses.MINUTES_A_CHANGE:.0f} seconds, and a guess with two attempts at a task "
                    f"{60 * courses.MINUTES_A_TASK:.0f} seconds. The course's own page and a first slider are counted with "
                    f"{60 * courses.MINUTES_TO_BEGIN:.0f} seconds.</p>")
        self.site.write("lessons/index.html", "The course", "\n".join(body), wide=True)

    def task_page(self, name):
        task = self.results["tasks", name]
        hints = "".join(f"<details><summary>Hint {i}</summary><p>{in_code(h)}</p></details>" for i, h in enumerate(task["hints"], 1))
        goals = "".join(f"<li>{html.escape(g['claim'])}</li>" for g in task["goals"])
        guess = f'<h2>First guess</h2><p>{html.escape(task["predict"])}</p>' if task["predict"] else ""
        given = " ".join([re.sub("^.*(?=scenarios/)", "", task["scenario"]), *task["set"]])
        typed = f"<code>rehearse task {name} --set {html.escape(task['may_change'][0])}=VALUE</code>"
        here = f"<p>Type {typed}.</p>"
        if "playground" in self.site.parts:
            here = f'<p><a href="../playground/index.html#view=tasks&amp;task={name}"><b>Try it in the playground</b></a>, or type {typed}.</p>'
        self.site.write(f"tasks/{name}.html", task["title"],
                        f"{self.bar('tasks', name)}\n<h1>{html.escape(task['title'])}</h1>\n<p>{html.escape(task['question'])}</p>\n{here}\n{guess}\n"
                        f"<h2>Goals</h2><ul>{goals}</ul>\n<p>It begins with <code>{html.escape(given)}</code>. "
                        f"You may set {', '.join('<code>' + html.escape(k) + '</code>' for k in task['may_change'])}.</p>\n{hints}")

    def task_pages(self):
        tracks = {}
        for kind, name in self.results:
            if kind == "tasks":
                tracks.setdefault(self.results[kind, name]["track"], []).append(name)
                self.task_page(name)
        body = ["<h1>Tasks</h1>", "<p>Each is a plan to change until it reaches its goals: guess first, try, and read what came out. "
                "The playground checks what you try and keeps what you solved.</p>"]
        for track, names in tracks.items():
            body.append(f"<h2>{html.escape(track.replace('_', ' ').capitalize())}</h2>\n<ol class=cards>")
            body += [f'<li><a href="{name}.html">{html.escape(self.title("tasks", name))}</a></li>' for name in names]
            body.append("</ol>")
        self.site.write("tasks/index.html", "Tasks", "\n".join(body), wide=True)


# --- The first page, and links ----------------------------------------------------------------------------------------


def first_page(site, source, course):
    minutes = course["minutes"]
    cards = [("Playground", "playground/index.html", "Sliders and pickers for a plan; the step time, the pipeline, memory and what bounds it, worked out in your browser."),
             ("Lessons, as a course", "lessons/index.html", f"From one GPU to clusters that people share, in {minutes} minutes. Every figure is worked out from a plan that you can change."),
             ("Tasks", "tasks/index.html", "Plans to change until they reach a goal, in six tracks, with a guess first and three hints."),
             ("Documentation", "docs/index.html", "Install it, try a plan, bring your own job, find the best plan, choose machines, run it for real."),
             ("Mechanisms", "docs/core/price/mechanisms/index.html", "What the cost model is made of. Each page has its formula, its source and what it changes."),
             ("Accuracy", "docs/tests/published/ACCURACY.html", "Predictions beside what others measured, by source, the bad ones too."),
             ("Glossary", "docs/topologies/GLOSSARY.html", "The words of the field."),
             ("API", "api/index.html", "The library's public headers, for C++.")]
    body = ["<h1>How long does a training step take, and why?</h1>",
            "<p class=lead>Rehearse simulates a training step of your model on a description of your GPU cluster, before anybody pays for it.</p>",
            f'<p>New to this? <a href="lessons/index.html"><b>Begin with the course</b></a>: {minutes} minutes in this browser, and nothing to install.</p>',
            "<ul class=cards>"]
    body += [f'<li><a href="{to}">{name}</a><p>{html.escape(what)}</p></li>' for name, to, what in cards if to.split("/")[0] in site.parts]
    body.append("</ul>")
    shutil.copyfile(source / "core/report/html/screenshot.png", site.out / "report.png")
    body.append('<figure><img src="report.png" alt="The report of a training step of GPT-3 175B on 1,024 A100: step time, MFU, memory, and the pipeline of its stages over time">'
                "<figcaption>The report of one step: <code>rehearse simulate scenarios/gpt3_175b_a100_1024.json --html report.html</code></figcaption></figure>")
    site.write("index.html", "Rehearse", "\n".join(body), wide=True)


def lead_back(page):
    """In the site the playground's first link is to the course, and it knows where the other pages are."""
    head = '<header class="masthead">'
    text = page.read_text(encoding="utf-8")
    if head not in text:
        fail(f"{page} has no {head}")
    text = text.replace("<html ", '<html data-pages=".." ', 1)
    page.write_text(text.replace(head, head + '<a href="../lessons/index.html">The course</a>'), encoding="utf-8")


class Links(html.parser.HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.links, self.names = [], set()

    def handle_starttag(self, tag, attributes):
        for key, value in attributes:
            if key in ("href", "src") and value and tag != "base":
                self.links.append(value)
            if key in ("id", "name") and value:
                self.names.add(value)


def read_links(path, cache={}):
    if path not in cache:
        parser = Links()
        parser.feed(path.read_text(encoding="utf-8", errors="replace"))
        cache[path] = parser
    return cache[path]


def broken_links(out):
    """(page, link) for each that leads nowhere. Addresses elsewhere are not asked, nor headings in Doxygen's pages."""
    own = [p for p in sorted(out.rglob("*.html"))]
    for page in own:
        for link in read_links(page).links:
            if re.match(r"[a-zA-Z]+:|//", link):
                continue
            name, _, heading = link.partition("#")
            file = (page.parent / name.split("?")[0]) if name else page
            if file.is_dir() or not file.is_file():
                yield page.relative_to(out), link
            elif heading and "=" not in heading and "api" not in page.relative_to(out).parts[:1] and file.suffix == ".html" and heading not in read_links(file.resolve()).names:
                yield page.relative_to(out), link


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("--source", type=pathlib.Path, required=True)
    arguments.add_argument("--program", required=True)
    arguments.add_argument("--out", type=pathlib.Path, required=True)
    arguments.add_argument("--playground", type=pathlib.Path, help="its folder; without it the site has none")
    arguments.add_argument("--api", type=pathlib.Path, help="Doxygen's pages; without them the site has none")
    a = arguments.parse_args()
    parts = {"lessons", "tasks", "docs"}
    shutil.rmtree(a.out, ignore_errors=True)
    a.out.mkdir(parents=True)
    for part, folder in (("playground", a.playground), ("api", a.api)):
        if folder and (folder / "index.html").is_file():
            shutil.copytree(folder, a.out / part)
            parts.add(part)
            if part == "playground":
                lead_back(a.out / part / "index.html")
        else:
            print(f"site: without {part}", file=sys.stderr)
    site = Site(a.out, parts)
    shutil.copyfile(pathlib.Path(__file__).with_name("site.css"), a.out / "site.css")
    Documentation(a.source, site).build(["README.md", "core/price/mechanisms/README.md", "tests/published/ACCURACY.md", "topologies/GLOSSARY.md"])
    course = Course(a.source, a.program, site)
    course.read()
    course.add_bars()
    course.index()
    course.task_pages()
    first_page(site, a.source, course.data)
    broken = list(broken_links(a.out))
    for page, link in broken:
        print(f"site: {page} leads to {link}, which is not there", file=sys.stderr)
    print(f"{sum(1 for _ in a.out.rglob('*.html'))} pages in {a.out}, {len(broken)} broken links")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
