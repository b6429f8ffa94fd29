#!/usr/bin/env python3
"""What export writes, import reads back: every shipped scenario, by every target that can express it.

usage: round_trip.py REHEARSE SCENARIOS [NAME...]

A target refuses a scenario, or names the keys that it leaves out; all others must come back as they went, and with them
the step and the memory that follow. A job is exported for the framework of its target, and for that which import finds
in what was written. What is left out is given to import as a user would give it. The cluster is the user's own.
Prints one line for each pair, and fails where one differs.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

# How to predict is the user's own, too; a file's schema is none of its settings.
APART = ("schema", "cluster", "calibration", "collective_table", "input")


class Failed(Exception):
    """Something that should have worked did not."""


class Refused(Failed):
    """The target cannot express the scenario, and export said why."""


def run(program, *words):
    done = subprocess.run([program, *map(str, words)], capture_output=True, text=True)
    if done.returncode not in (0, 3):  # 3: more memory than there is, which is no matter of words.
        errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
        raise Failed(errors[-1] if errors else f"{words[0]} ended with {done.returncode} and no error")
    return done.stdout


def flat(value, name=""):
    if isinstance(value, dict) and name not in ("model", "cluster"):
        out = {}
        for key, v in value.items():
            out.update(flat(v, f"{name}.{key}" if name else key))
        return out
    return {name: value}


def content(value):
    """What a value that names a file comes to, wherever the file lies; any other as it is."""
    return pathlib.Path(value).read_text() if isinstance(value, str) and pathlib.Path(value).is_file() else value


def under(key, names):
    return any(key == name or key.startswith(name + ".") for name in names)


def machines_of(scenario):
    """Options that name machines for the scenario's ranks: its own, or the first of a mixed cluster."""
    ranks = 1
    for axis in ("dp", "cp", "tp", "pp", "tile_h", "tile_w"):
        ranks *= scenario["strategy"][axis]
    cluster = scenario["cluster"]
    if isinstance(cluster, str):
        return ["--cluster", cluster]
    part = cluster["parts"][0] if "parts" in cluster else cluster
    network = ["--network", cluster["network"]] if cluster.get("network") else []
    return ["--cluster", part["machine"], "--gpus", ranks, *network]


class Trip:
    """One scenario by one target."""

    def __init__(self, program, scenario, target, folder):
        self.program, self.scenario, self.target = program, scenario, target
        self.folder = folder / f"{scenario.stem}-{target}"

    def resolved(self, scenario, *settings):
        return json.loads(run(self.program, "simulate", scenario, "--dry-run", *settings))

    def export(self, *settings):
        try:
            return json.loads(run(self.program, "export", self.scenario, "--to", self.target, "-o", self.folder, *settings, "--format", "json"))
        except Failed as why:
            raise Refused(why) from why

    def framework_in(self, file):
        """What import takes the file for. Without machines it asks for them, and reports on standard error."""
        done = subprocess.run([self.program, "import", "job", file, "--format", "json"], capture_output=True, text=True)
        if not done.stderr.startswith("{"):
            raise Failed(done.stderr.strip().splitlines()[0])
        return json.JSONDecoder().raw_decode(done.stderr)[0]["framework"]

    def import_job(self, file, framework, before, left_out):
        """What comes back, all that was left out being given."""
        words = ["--framework", framework, *machines_of(before)]
        if under("model", left_out):
            model = before["model"]
            if not isinstance(model, str):
                model, text = self.folder / "model" / "config.json", json.dumps(model)
                model.parent.mkdir(exist_ok=True)
                model.write_text(text)
            words += ["--model", model]
        values = flat(before)
        for key in sorted(left_out):
            if key in values and key != "model" and not under(key, APART) and values[key] not in (None, "auto"):
                value = values[key]
                if content(value) is not value:
                    value = str(pathlib.Path(value).resolve())
                words += ["--set", f"{key}={json.dumps(value)}"]
        back = self.folder / "back.json"
        run(self.program, "import", "job", file, "-o", back, *words, "--format", "json")
        return back

    def differences(self, before, after, left_out):
        wanted, found = flat(before), flat(after)
        out = [f"{key}: {wanted[key]} -> {found.get(key)}" for key in wanted
               if key != "model" and not under(key, APART) and not under(key, left_out) and content(found.get(key)) != content(wanted[key])]
        return out + [f"{key} is new" for key in found if key not in wanted and not under(key, APART)]

    def prediction(self, scenario, *settings):
        """What follows from a scenario: the closed form's step, and memory by stage and category."""
        answer = json.loads(run(self.program, "estimate", scenario, "--despite-memory", *settings, "--format", "json"))
        return answer["modelled_step_time_s"], answer["memory"]

    def by(self, framework):
        """What differs; nothing where all comes back."""
        setting = ("--set", f"framework={framework}")
        report = self.export(*setting)
        left_out = {entry["key"] for entry in report["left_out"]}
        before = self.resolved(self.scenario, *setting)
        back = self.import_job(self.folder / report["files"][0], framework, before, left_out)
        after = self.resolved(back)
        out = self.differences(before, after, left_out)
        if not out and all(before.get(key) == after.get(key) for key in APART):
            wanted, found = self.prediction(self.scenario, *setting), self.prediction(back)
            if wanted != found:
                out.append(f"the network: a step of {wanted[0]} s -> {found[0]} s")
        return "; ".join(out[:6])

    def carried(self):
        """A launcher takes the scenario along, whole."""
        before, after = flat(self.resolved(self.scenario)), flat(self.resolved(self.folder / "scenario.json"))
        return "; ".join(f"{key}: {before[key]} -> {after.get(key)}" for key in before
                         if key not in ("model", "cluster") and content(after.get(key)) != content(before[key]))

    def outcome(self, what, *arguments):
        """A word, and why."""
        try:
            why = what(*arguments)
            return ("DIFFERS" if why else "same", why)
        except Refused as why:
            return ("refused", str(why))
        except Failed as why:
            return ("DIFFERS", str(why))

    def all(self):
        """Framework, word and reason of each pair."""
        try:
            report = self.export()
        except Refused as why:
            return [("", "refused", str(why))]
        if "scenario.json" in report["files"]:
            return [("", *self.outcome(self.carried))]
        if report["files"][0].endswith(".py"):
            return [("", "refused", "writes Python, which is code and no data")]
        if {"model", "training", "strategy"} <= {entry["key"] for entry in report["left_out"]}:
            return [("", "refused", "holds no job, and says so")]
        try:
            found = self.framework_in(self.folder / report["files"][0])
        except Failed as why:
            return [("", "DIFFERS", str(why))]
        return [(name, *self.outcome(self.by, name)) for name in dict.fromkeys((report["framework"], found))]


def trips(program, scenarios, names, folder):
    targets = [entry["export target"] for entry in json.loads(run(program, "list", "targets", "--format", "json"))["entries"]]
    for scenario in sorted(scenarios.rglob("*.json")):
        if names and scenario.stem not in names:
            continue
        if '"rehearse/scenario/v1"' not in scenario.read_text():
            continue
        for target in targets:
            yield Trip(program, scenario, target, folder)


def main():
    program, scenarios, names = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3:]
    counted = {"same": 0, "refused": 0, "DIFFERS": 0}
    with tempfile.TemporaryDirectory() as folder:
        for trip in trips(program, scenarios, names, pathlib.Path(folder)):
            for framework, word, why in trip.all():
                counted[word] += 1
                print(f"{word:8} {trip.scenario.stem:34} {trip.target:10} {framework:24} {why[:200]}", flush=True)
    print(f"{counted['same']} the same, {counted['refused']} refused by the target, {counted['DIFFERS']} differ")
    return 1 if counted["DIFFERS"] or not counted["same"] else 0


if __name__ == "__main__":
    sys.exit(main())
