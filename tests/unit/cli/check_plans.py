"""Plans: each candidate's step is what playing it says, whatever is called in time is in time at the slow end, and the lines under the answer run as they stand.

usage: check_plans.py REHEARSE PLAN...
"""
import json
import os
import shlex
import subprocess
import sys
import tempfile

failures = []


def run(words, folder=None):
    done = subprocess.run(words, capture_output=True, text=True, cwd=folder)
    return done.returncode, done.stdout, done.stderr


def expect(true, what):
    if not true:
        failures.append(what)


def check_played(rehearse, plan, a):
    """The line that a candidate comes with, run as it stands: the same step, on the same back end."""
    name = f"{os.path.basename(plan)}, {a['name']}"
    code, out, err = run([rehearse, *shlex.split(a["play"])[1:], "--format", "json"])
    expect(code in (0, 3), f"{name}: '{a['play']}' ends with {code}: {err}")
    if code not in (0, 3):
        return
    step = json.loads(out)
    expect(a["played_by"] != "", f"{name}: was not played")
    expect(abs(step["step_time_s"] - a["step_time_s"]) <= 1e-6 * a["step_time_s"], f"{name}: {a['step_time_s']} s printed, {step['step_time_s']} s played")
    expect(step["fits"], f"{name}: does not fit when played")


def check_text(rehearse, plan, answer):
    """Where closed form and player differ by over 2 %, the text has both."""
    code, out, err = run([rehearse, "plan", plan, "--format", "md"])
    expect(code in (0, 3), f"{plan}: --format md ends with {code}: {err}")
    apart = [a for a in answer["candidates"] if a.get("played_by") and abs(a["closed_form_step_time_s"] / a["modelled_step_time_s"] - 1) > 0.02]
    said = out.count("(closed form ")
    expect(said == len(apart), f"{plan}: {len(apart)} steps are 2 % off their closed forms, {said} say so")


def check_exported(rehearse, plan, answer):
    expect("export" in answer, f"{plan}: no line exports it")
    if "export" not in answer:
        return
    with tempfile.TemporaryDirectory() as folder:
        code, _, err = run([rehearse, *shlex.split(answer["export"])[1:], "-o", folder])
        expect(code == 0, f"{plan}: '{answer['export']}' ends with {code}: {err}")
        expect(os.listdir(folder), f"{plan}: '{answer['export']}' writes nothing")


def check(rehearse, plan):
    code, out, err = run([rehearse, "plan", plan, "--format", "json"])
    if code not in (0, 3):
        failures.append(f"{plan}: ends with {code}: {err}")
        return
    answer = json.loads(out)
    ran = [a for a in answer["candidates"] if a["gpus"]]
    expect(ran, f"{plan}: no candidate runs")
    for a in ran:
        check_played(rehearse, plan, a)
        # Of the odds asked for, 0.9, the slow end of the 80 % range is the end.
        late = a["days_p90"] > answer["deadline_days"] * (1 + 1e-9)
        expect(late != a["meets_deadline_p90"], f"{plan}, {a['name']}: takes {a['days_p90']} days at the slow end, in time: {a['meets_deadline_p90']}")
        expect(a["memory_needed_bytes"] <= a["memory_capacity_bytes"], f"{plan}, {a['name']}: does not fit")
    if ran and code == 0:
        expect(ran[0]["meets_deadline_p90"], f"{plan}: {ran[0]['name']} is recommended, and may be late")
    if ran:
        check_text(rehearse, plan, answer)
        check_exported(rehearse, plan, answer)


def main():
    rehearse, plans = os.path.abspath(sys.argv[1]), sys.argv[2:]
    for plan in plans:
        check(rehearse, plan)
    for failure in failures:
        print(failure)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
