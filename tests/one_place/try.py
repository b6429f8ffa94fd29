"""Adds one toy of each kind to a copy of the sources, counts the files that it takes, builds the copy, and looks for
the toy wherever the product shows such things.

usage: try.py --source FOLDER --work FOLDER [--jobs N] [--option=-DNAME=VALUE ...]

The new files lie in toys/KIND, at the places where they go; edits/KIND.patch holds changes of files that are there, and
lists.patch the lines that CMakeLists.txt files get. The most files per kind are in counts.json: an upper bound, so that
the number can fall but not rise.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
KINDS = ("strategy", "schedule", "operator", "algorithm", "key", "format", "family", "gpu")
# Tests that walk a registry meet the toys there: the program, and its cases where not all are wanted.
TESTS = (("core_schedule", []), ("core_collective", ["an algorithm moves*,NCCL's algorithms*"]), ("core_config", []),
         ("core_model", []), ("core_report", []), ("core_strategy", ["every*"]), ("core_search", ["*space*,*plan*"]),
         ("executor_operators", ["gradients*,every backward*"]),
         ("parity", ["[one_place],every registered strategy*"]))
SCENARIO = "scenarios/llama3_8b_h100_8.json"


def fail(message):
    sys.exit("one_place: " + message)


def run(command, cwd, **options):
    done = subprocess.run(command, cwd=cwd, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                          **options)
    return done.returncode, done.stdout


def apply(patch, copy):
    # The copy may lie inside another repository, which git must not find.
    environment = dict(os.environ, GIT_CEILING_DIRECTORIES=str(copy.parent))
    code, said = run(["git", "apply", "-C1", str(patch)], copy, env=environment)
    if code:
        fail(f"{patch.name} does not apply: bring its context up to date\n{said}")
    code, said = run(["git", "apply", "--numstat", str(patch)], copy, env=environment)
    return [line.split("\t")[2] for line in said.splitlines()]


def add_toys(copy):
    """Puts every toy into the copy; returns the files per kind, lists of sources apart."""
    touched = {kind: [] for kind in KINDS}
    for kind in KINDS:
        toys = HERE / "toys" / kind
        for file in sorted(toys.rglob("*")) if toys.exists() else []:
            if file.is_file():
                place = copy / file.relative_to(toys)
                if place.exists():
                    fail(f"{place} is there already")
                shutil.copyfile(file, place)
                touched[kind].append(str(file.relative_to(toys)))
        patch = HERE / "edits" / f"{kind}.patch"
        if patch.exists():
            touched[kind] += apply(patch, copy)
    lists = apply(HERE / "lists.patch", copy)
    if any(pathlib.Path(name).name != "CMakeLists.txt" for name in lists):
        fail("lists.patch changes more than lists")
    return touched


def check_counts(touched):
    most = json.loads((HERE / "counts.json").read_text())
    for kind in KINDS:
        print(f"{kind:10} {len(touched[kind])} file(s): {', '.join(touched[kind])}")
        if len(touched[kind]) > most[kind]:
            fail(f"a {kind} takes {len(touched[kind])} files, and took {most[kind]}")


class Product:
    """The program of the copy; remembers what was missing, so that one run names all of it."""

    def __init__(self, program, copy):
        self.program, self.copy, self.missing = program, copy, []

    def says(self, arguments, *words, code=0):
        command = "rehearse " + " ".join(arguments)
        environment = dict(os.environ, REHEARSE_DATA=str(self.copy), COLUMNS="200")
        left, said = run([str(self.program), *arguments], self.copy, env=environment)
        for word in words:
            if word not in said:
                self.missing.append(f"'{word}' in {command}\n      {said[:400]!r}")
        if code is not None and left != code:
            self.missing.append(f"exit code {code}, not {left}, of {command}\n      {said[:400]!r}")
        return said


def look(product):
    """Every place that follows a registry, for every kind."""
    says = product.says
    completion = says(["completion", "bash"])
    for kind, name, listing in (("strategy", "zero_toy", "strategies"), ("schedule", "toy_schedule", "schedules"),
                                ("operator", "toy_softplus", "operators"), ("layer", "toy_softplus", "layers"),
                                ("algorithm", "ToyDirect", "algorithms"), ("format", "toy", "formats"),
                                ("family", "toy_family", "families"), ("gpu", "toy_gpu", "gpus")):
        says(["list", listing], name)
        says(["explain", f"{kind}:{name}"], "oy")
        if f" {name} " not in completion.replace("'", " "):
            product.missing.append(f"{name} in the completion")
    for key in ("strategy.zero_toy", "kernels.toy_graphs"):
        says(["list", "keys"], key)
        says(["explain", key], key, "default")
        says(["explain", "--help"], "strategy")
        says(["simulate", SCENARIO, "--set", key[:-1] + "=1"], f"did you mean '{key}'", code=2)
        if key not in completion:
            product.missing.append(f"{key} in the completion")
    look_at_scenarios(product)
    look_at_search(product)
    look_at_export(product)


def look_at_scenarios(product):
    says = product.says
    schema = json.loads(says(["explain", "--json-schema"]))["properties"]
    for group, name in (("strategy", "zero_toy"), ("kernels", "toy_graphs")):
        if name not in schema[group]["properties"]:
            product.missing.append(f"{group}.{name} in the JSON Schema")
    resolved = json.loads(says(["simulate", SCENARIO, "--set", "kernels.toy_graphs=true", "--dry-run"]))
    if resolved["kernels"].get("toy_graphs") is not True:
        product.missing.append("kernels.toy_graphs in the resolved scenario")
    whole = ["--set", "strategy.zero_stage=3", "--set", "strategy.zero_toy=100000000"]
    says(["simulate", SCENARIO, *whole, "--format", "toy"], "step_time")
    says(["simulate", SCENARIO, "--set", "strategy.zero_stage=0", "--set", "strategy.zero_toy=9"],
         "zero_toy keeps whole", code=2)
    model = json.dumps({"model_type": "toy_family", "depth": 2, "width": 256, "heads": 4, "words": 1000,
                        "positions": 512})
    says(["simulate", SCENARIO, "--set", "model=" + model, "--set", "training.sequence_length=512"], "step time")
    says(["collectives", "--cluster", "dgx_h100", "--algo", "toydirect", "-b", "1M", "-e", "1M"],
         "ToyDirect", "every other at once")
    says(["collectives", "--cluster", "dgx_h100", "--algo", "toydirect", "--op", "broadcast", "-b", "1M", "-e", "1M"],
         "does not run broadcast", code=2)


def look_at_search(product):
    """Fixed, tried where it is open, and in the label of a plan."""
    says = product.says
    said = says(["search", SCENARIO, "--fix", "pp=1", "--fix", "zero_stage=3", "--fix", "zero_toy=1000000",
                 "--format", "json"])
    if '"zero_toy"' not in said:
        product.missing.append("zero_toy among the settings of a plan that search found")
    fixed = ("pp=2", "tp=4", "microbatch=1", "recompute=full", "zero_stage=0", "schedule=toy_schedule")
    # Of 128 microbatches none fits: the toy keeps all of them.
    says(["search", SCENARIO, "--set", "training.global_batch=16",
          *[word for setting in fixed for word in ("--fix", setting)]], "toy_schedule", code=None)


def look_at_export(product):
    says = product.says
    out = str(product.copy / "exported")
    plan = ["--set", "strategy.zero_stage=3", "--set", "strategy.zero_toy=1000000", "--set", "strategy.tp=1",
            "--set", "strategy.sequence_parallel=false", "-o", out]
    says(["export", SCENARIO, "--to", "deepspeed", *plan], "deepspeed", code=None)
    if "toy_threshold" not in (product.copy / "exported" / "ds_config.json").read_text():
        product.missing.append("toy_threshold in the exported ds_config.json")
    says(["export", SCENARIO, "--to", "megatron", *plan], "strategy.zero_toy", code=None)


def build(copy, folder, options, jobs):
    # A copy elsewhere finds what this one compiled: ccache takes paths relative to the sources (RehearseOptions.cmake).
    code, said = run(["cmake", "-S", str(copy), "-B", str(folder), "-G", "Ninja", *options], copy)
    if code:
        fail("the copy is not configured\n" + said[-4000:])
    targets = ["rehearse"] + ["test_" + name for name, _ in TESTS]
    code, said = run(["cmake", "--build", str(folder), "-j", str(jobs), "--target", *targets], copy)
    if code:
        fail("the copy does not build\n" + said[-6000:])


def check_tests(folder):
    for name, what in TESTS:
        program = next(folder.rglob("test_" + name))
        code, said = run([str(program), *what], program.parent)
        if code:
            fail(f"test_{name} fails with toys in the registries\n{said[-4000:]}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--option", action="append", default=[], help="of cmake, -DNAME=VALUE")
    parser.add_argument("--count-only", action="store_true", help="build nothing")
    a = parser.parse_args()
    copy, folder = a.work.resolve() / "source", a.work.resolve() / "build"
    shutil.rmtree(copy, ignore_errors=True)
    left_out = shutil.ignore_patterns("build", ".git", "*.pyc", "__pycache__")
    shutil.copytree(a.source, copy, ignore=left_out, symlinks=True)
    check_counts(add_toys(copy))
    if a.count_only:
        return
    build(copy, folder, a.option, a.jobs)
    product = Product(next(folder.rglob("bin/rehearse")), copy)
    look(product)
    if product.missing:
        fail("not everywhere:\n  " + "\n  ".join(product.missing))
    check_tests(folder)
    print("one place each, and everywhere")


main()
