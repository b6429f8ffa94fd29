"""The files of the blind record: one folder a source, and what is worked out from them.

sources/SOURCE/configurations.json  what was trained, on what, row by row; nothing measured
sources/SOURCE/predictions.json     frozen before the values are opened, with the SHA-256 of both other files
sources/SOURCE/values.json          what was measured; committed after the predictions
sources/SOURCE/errors.json          the first errors: predicted / measured - 1
sources/SOURCE/met.json             rows of which it came out later that somebody had met their values; may be missing
sources/SOURCE/doubted.json         rows whose log turned out to time something else than steps; may be missing
sources/SOURCE/reread.json          values of rows whose log was read wrongly, read again; may be missing
sources/SOURCE/restated.json        keys that scenarios got after the prediction, as the source states them; may be missing
"""
import copy
import hashlib
import json
import os
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCES = os.path.join(HERE, "sources")
PARTS = ("configurations", "predictions", "values", "errors")
QUANTITIES = ("step_time", "peak_memory")


class Refused(Exception):
    """The record would no longer be blind, or no longer be what was frozen."""


def path_of(source, part, folder=SOURCES):
    return os.path.join(folder, source, part + ".json")


def read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def write(path, document):
    """JSON with a line for each row."""
    head = {key: value for key, value in document.items() if key != "rows"}
    rows = document["rows"]
    pairs = rows.items() if isinstance(rows, dict) else ((None, row) for row in rows)
    names = (("" if key is None else f"{json.dumps(key)}: ", row) for key, row in pairs)
    lines = [name + json.dumps(row, ensure_ascii=False) for name, row in names]
    ends = "{}" if isinstance(rows, dict) else "[]"
    text = json.dumps(head, indent=1, ensure_ascii=False)[:-2] + f',\n "rows": {ends[0]}\n  ' + ",\n  ".join(lines)
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"{text}\n {ends[1]}\n}}\n")


def sha256(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def sources(folder=SOURCES):
    """Names of all sources that have configurations."""
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    return [name for name in names if os.path.exists(path_of(name, "configurations", folder))]


def met(source, folder=SOURCES):
    """Rows that count in no figure, and why: {id: words}. Their values turned out afterwards to have been met before, or
    to be no time of steps."""
    paths = [path_of(source, part, folder) for part in ("met", "doubted")]
    return {row: why for path in paths if os.path.exists(path) for row, why in read(path)["rows"].items()}


def opened(source, folder=SOURCES):
    return os.path.exists(path_of(source, "values", folder))


def scenario_of(configurations, row):
    """The scenario of a row: the source's base with the row's keys, which have dots, set in it."""
    scenario = copy.deepcopy(configurations["base"])
    for key, value in row["set"].items():
        place = scenario
        *outer, last = key.split(".")
        for word in outer:
            if not isinstance(place.get(word), dict):
                place[word] = {}
            place = place[word]
        place[last] = value
    return scenario


# First errors

def compared(predicted, measured, quantity):
    """Of one quantity of a row: the error of the answer and of the model behind it, and whether the likely range holds
    the measurement."""
    answer = predicted[quantity]
    out = {"error": round(answer["value"] / measured - 1, 6)}
    if "modelled" in answer:
        out["modelled_error"] = round(answer["modelled"] / measured - 1, 6)
    if "p10" in answer:
        out["inside"] = answer["p10"] <= measured <= answer["p90"]
    return out


def first_errors(predictions, values):
    """By row: the errors of each measured quantity; the reason of rows that were refused."""
    out = {}
    for name, measured in values["rows"].items():
        predicted = predictions["rows"][name]
        if "refused" in predicted:
            out[name] = {"refused": predicted["refused"]}
            continue
        out[name] = {quantity: compared(predicted, measured[quantity], quantity)
                     for quantity in QUANTITIES if quantity in measured and quantity in predicted}
    return out


def reread(source, folder=SOURCES):
    """Values of rows whose log was read wrongly, as it has to be read: {id: values}."""
    path = path_of(source, "reread", folder)
    return read(path)["rows"] if os.path.exists(path) else {}


def measured(source, folder=SOURCES):
    """What was measured, by row, with what was read again in the place of what was first read."""
    return {**read(path_of(source, "values", folder))["rows"], **reread(source, folder)}


def errors_of(source, folder=SOURCES):
    """The errors of the frozen predictions, by row: against what was read again where something was."""
    again = reread(source, folder)
    predictions = read(path_of(source, "predictions", folder))
    return {**read(path_of(source, "errors", folder))["rows"], **first_errors(predictions, {"rows": again})}


# What git says

def git(*words, at=HERE):
    """What git answers; a failure where it is not installed."""
    try:
        return subprocess.run(["git", "-C", at, *words], capture_output=True)
    except FileNotFoundError:
        return subprocess.CompletedProcess(words, 127, b"", b"")


def committed(path):
    """Whether HEAD holds the file just as it lies here."""
    folder, name = os.path.split(os.path.abspath(path))
    shown = git("show", f"HEAD:./{name}", at=folder)
    with open(path, "rb") as file:
        return shown.returncode == 0 and shown.stdout == file.read()


def commits_of(path):
    """Commits that changed the file, the newest first; none where there is no history."""
    folder, name = os.path.split(os.path.abspath(path))
    done = git("log", "--format=%H", "--", name, at=folder)
    return done.stdout.decode().split() if done.returncode == 0 else []
