"""Constants are measured again; what only behaviour may change must not notice.

usage: check_constants.py BUILD_FOLDER SOURCE_FOLDER REHEARSE

Transcripts (ctest -L golden) run against a copy of the data directory in which every constant of topologies/calibration
is 1 % larger, and must pass: none may enter them. The front page shows real machines, with a tolerance: ten constants
are drawn, the one that matters most stands beside them, and the page must stay true with each of them 1 % larger. So
that this means something, it must fail with 10 %. tests/published/ACCURACY.md is the opposite: it must change with 1 %
of a constant that matters, while its baseline fails beyond the stated tolerance only.
"""
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile

build, source, rehearse = (os.path.abspath(path) for path in sys.argv[1:4])
CALIBRATION = os.path.join("topologies", "calibration")
ACCURACY = os.path.join(source, "tests", "published", "accuracy.py")
MATTERS = ("ampere.json", "kernels", "gemm", "constants", "bandwidth_fraction", "value")
MATTERS_MOST = ("ampere.json", "kernels", "gemm", "constants", "efficiency", "value")
failures = []


def constants_of(document, path=()):
    """Where the values of constants stand in a calibration file. Nothing is 1 % of zero."""
    if not isinstance(document, (dict, list)):
        return
    for key, member in document.items() if isinstance(document, dict) else enumerate(document):
        if key == "value" and member:
            yield (*path, key)
        else:
            yield from constants_of(member, (*path, key))


def read(name):
    with open(os.path.join(source, CALIBRATION, name), encoding="utf-8") as file:
        return json.load(file)


def every():
    files = sorted(name for name in os.listdir(os.path.join(source, CALIBRATION)) if name.endswith(".json"))
    return [(name, *path) for name in files for path in constants_of(read(name))]


def drawn(count):
    return random.Random(1).sample(every(), count)


def name_of(constant):
    file, *path = constant
    if file == "steps.json":
        step = read(file)["constants"][path[1]]
        return f"{file} {step['group']}.{step['constant']}"
    return f"{file} {'.'.join(key for key in path if key not in ('kernels', 'constants', 'value'))}"


class Changed:
    """A data directory like the shipped one, but for some constants."""

    def __init__(self, factor, *constants):
        self.factor, self.constants = factor, constants

    def __enter__(self):
        self.root = tempfile.mkdtemp(prefix="rehearse_constants_")
        for folder in ("topologies", "scenarios"):
            shutil.copytree(os.path.join(source, folder), os.path.join(self.root, folder))
        for file in {constant[0] for constant in self.constants}:
            self.change(file, [path for name, *path in self.constants if name == file])
        return self.root

    def change(self, file, paths):
        document = read(file)
        for path in paths:
            place = document
            for key in path[:-1]:
                place = place[key]
            place[path[-1]] *= self.factor
        with open(os.path.join(self.root, CALIBRATION, file), "w", encoding="utf-8") as out:
            json.dump(document, out)

    def __exit__(self, *_):
        shutil.rmtree(self.root)


def tests_pass(data, *which):
    """Whether those of ctest do with the data directory, and what it prints."""
    command = ["ctest", "--test-dir", build, "--output-on-failure", "--no-tests=error", "--parallel",
               str(os.cpu_count())]
    done = subprocess.run([*command, *which], env={**os.environ, "REHEARSE_DATA": data}, capture_output=True, text=True)
    return done.returncode == 0, done.stdout + done.stderr


def accuracy(*words):
    done = subprocess.run([sys.executable, ACCURACY, *words, "--program", rehearse], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def transcripts_stay():
    with Changed(1.01, *every()) as data:
        passed, output = tests_pass(data, "-L", "golden", "-E", "^readme$")
    print(f"{'pass' if passed else 'FAIL'}  transcripts, all {len(every())} constants + 1 %", flush=True)
    if not passed:
        failures.append(f"a constant of topologies/calibration enters a transcript: run it on the toys\n{output}")


def front_page_stays():
    for constant in [MATTERS_MOST, *drawn(10)]:
        with Changed(1.01, constant) as data:
            passed, output = tests_pass(data, "-R", "^readme$")
        print(f"{'pass' if passed else 'FAIL'}  front page, {name_of(constant)} + 1 %", flush=True)
        if not passed:
            failures.append(f"{name_of(constant)} + 1 % makes the front page untrue: mark the block numbers=3%, or show "
                            f"less of it\n{output}")


def front_page_notices():
    with Changed(1.1, MATTERS_MOST) as data:
        passed, _ = tests_pass(data, "-R", "^readme$")
    if passed:
        failures.append(f"{name_of(MATTERS_MOST)} + 10 % goes by unnoticed on the front page: does it run on the "
                        f"changed data?")


def page_of_accuracy_moves():
    with open(os.path.join(source, "tests", "published", "ACCURACY.md"), encoding="utf-8") as file:
        shipped = file.read()
    with Changed(1.01, MATTERS) as data, tempfile.TemporaryDirectory() as to:
        status, output = accuracy("write", "--data", data, "--to", to)
        if status != 0:
            failures.append(f"accuracy.py write: {output}")
            return
        with open(os.path.join(to, "ACCURACY.md"), encoding="utf-8") as file:
            if file.read() == shipped:
                failures.append(f"{name_of(MATTERS)} + 1 % leaves ACCURACY.md as it is")
        status, output = accuracy("check", "--data", data)
        if status != 0:
            failures.append(f"{name_of(MATTERS)} + 1 % is outside the baseline's tolerance:\n{output}")
    with Changed(1.1, MATTERS_MOST) as data:
        status, output = accuracy("check", "--data", data)
        if status != 1 or "step time, all: bias % was" not in output or "accuracy.py write" not in output:
            failures.append(f"{name_of(MATTERS_MOST)} + 10 % isn't reported as it should be:\n{output}")


transcripts_stay()
front_page_stays()
front_page_notices()
page_of_accuracy_moves()
sys.exit("\n".join(failures) if failures else 0)
