"""The course: lessons and tasks in an order, and the minutes that each takes a new learner.

Minutes are estimated from what is on the pages, and from nothing else: words at the pace at which technical text is
read, pictures, and what is done by hand. tests/playground/learner.mjs counts the same on the pages as a browser draws
them.
"""
WORDS_A_MINUTE = 200
MINUTES_TO_BEGIN = 2.0  # The course's own page, and one slider of the playground.
MINUTES_A_PICTURE = 0.5  # With its caption and the table below it.
MINUTES_A_CHANGE = 1.0  # One thing changed in the playground after a lesson, and what became of it.
MINUTES_A_TASK = 2.0  # Besides reading: a look at the plan, a guess, and two attempts.
LEAST_FULL = 0.8  # Of the time that a course promises, its path takes at least so much.


def words(*texts):
    return sum(len(text.split()) for text in texts)


def lesson_minutes(result):
    """Of a lesson's result: its words, its pictures, and one change. Where time is shown, each plan's step is drawn, too."""
    pictures = len(result["pictures"])
    if {"time", "steps"} & {picture["kind"] for picture in result["pictures"]}:
        pictures += len(result["plans"])
    read = words(result["title"], result.get("question", ""), *result["says"], *(plan["title"] for plan in result["plans"]))
    return read / WORDS_A_MINUTE + pictures * MINUTES_A_PICTURE + MINUTES_A_CHANGE


def task_minutes(task):
    """Of a task with all its hints: its words, and what is done by hand."""
    read = words(task["title"], task["question"], task["predict"] or "", *task["hints"], *(goal["claim"] for goal in task["goals"]))
    return read / WORDS_A_MINUTE + MINUTES_A_TASK


def path(course):
    """(part, kind, name) of what the course's time is for, in its order; kind is "lessons" or "tasks"."""
    return [(part, kind, name) for part in course["parts"] for kind in ("lessons", "tasks") for name in part[kind]]


def entries(course, kind):
    """All lessons, or tasks, that the course names, those for more time as well."""
    return [name for part in course["parts"] for name in part[kind] + part["further"][kind]]


def faults(course, lessons, tasks, minutes):
    """What is wrong with the course, as sentences; `minutes` is by (kind, name)."""
    named = entries(course, "lessons")
    if set(named) != set(lessons) or len(named) != len(lessons):
        yield f"the course and the lessons differ: {sorted(set(named) ^ set(lessons)) or 'one is there twice'}"
    for name in entries(course, "tasks"):
        if name not in tasks:
            yield f"the course has a task {name}, which is not there"
    total = MINUTES_TO_BEGIN + sum(minutes.get((kind, name), 0) for _, kind, name in path(course))
    if not LEAST_FULL * course["minutes"] <= total <= course["minutes"]:
        yield f"the course takes {total:.0f} minutes and promises {course['minutes']}"
