"""Exports every target of every scenario given, reads the files with real parsers, and holds them to the scenario, field by field, both ways.

usage: check_exports.py REHEARSE FOLDER_OF_SCENARIOS NAME[@KEY=VALUE]...
Leaves with 77 and the reason where a parser is missing.
"""
import json
import os
import subprocess
import sys
import tempfile

try:
    import jsonschema
    import tomllib
    import yaml
except ImportError as missing:
    print(f"skipped: {missing}: apt-get install python3-yaml python3-jsonschema, and Python from 3.11 on")
    sys.exit(77)

import known_targets
import target_checks
from common import expect, failures, flatten, folder, names, rehearse, run, same, text

TARGETS = ("megatron", "torchtitan", "torchtitan_python", "deepspeed", "accelerate", "fsdp1", "fsdp2", "torchrun", "slurm", "kubernetes", "simgrid", "chakra")


def every_key(what, report, scenario, keys):
    """A key of the scenario that is not at its default became a flag, or is listed as left out."""
    accounted = {s["key"] for s in report["settings"]} | {item["key"] for item in report["left_out"]}
    for key, value in flatten(scenario):
        if key.split(".")[0] in ("schema", "model", "cluster", "input", "calibration", "collective_table") or key not in keys:
            continue
        if same(text(value), text(keys[key])) or key in accounted:
            continue
        expect(what, False, f"{key} = {value} is neither a flag nor left out")


def defaults():
    out = {}
    for entry in json.loads(run("list", "keys", "--format", "json"))["entries"]:
        try:
            out[entry["key"]] = json.loads(entry["default"])
        except ValueError:
            out[entry["key"]] = None
    return out


def refused():
    """Networks that a target cannot train."""
    for name in ("resnet50_v100_8.json", "dcgan_v100_8.json"):
        for target in ("megatron", "torchtitan", "torchtitan_python"):
            with tempfile.TemporaryDirectory() as where:
                done = subprocess.run([rehearse, "export", os.path.join(folder, name), "--to", target, "-o", where], capture_output=True, text=True)
                expect(name, done.returncode == 2 and "decoder stacks" in done.stderr and not os.listdir(where), f"{target}: {done.returncode} {done.stderr}")


# Targets whose flags follow the plan: changed plans are tried with them alone.
CHANGED = ("megatron", "torchtitan", "torchtitan_python", "deepspeed", "accelerate", "fsdp1", "fsdp2")
# What makes a plan one that the target's software can run, where it is another.
INSTEAD = {
    "megatron": ["strategy.schedule=1f1b", "strategy.virtual_stages=1"],
    "torchtitan": ["strategy.zero_stage=0", "strategy.fsdp.enabled=true", "training.precision=bf16_mixed", "training.optimizer=adamw"],
    "torchtitan_python": ["strategy.zero_stage=0", "strategy.fsdp.enabled=true", "training.precision=bf16_mixed", "training.optimizer=adamw", "kernels.cuda_graphs=false"],
    "deepspeed": ["strategy.schedule=1f1b", "strategy.virtual_stages=1", "strategy.fsdp.enabled=false"],
    **{
        target: ["strategy.zero_stage=0", "strategy.fsdp.enabled=true", "training.precision=bf16_mixed", "training.optimizer=adamw", "strategy.recompute=none"]
        for target in ("fsdp1", "fsdp2")
    },
    "accelerate": ["strategy.zero_stage=0", "strategy.fsdp.enabled=true", "training.precision=bf16_mixed", "strategy.recompute=none"],
}


# What is said of a plan, or of a network, that a target's software cannot train.
REFUSALS = (" cannot do ", " trains decoder stacks ", " has no words for ", " is a hybrid", " is written for up to ")


def refusal(path, changes, target):
    """Whether the target refuses the plan: then nothing is written, and the reason is said with its source."""
    with tempfile.TemporaryDirectory() as where:
        done = subprocess.run([rehearse, "export", path, *changes, "--to", target, "-o", where], capture_output=True, text=True)
        if done.returncode == 0 or not any(said in done.stderr for said in REFUSALS):
            return False
        expect(target, done.returncode == 2 and not os.listdir(where), f"refused with {done.returncode}: {os.listdir(where)}")
        expect(target, " cannot do " not in done.stderr or "(" in done.stderr, f"no source of the reason: {done.stderr}")
        return True


def within(path, changes, target):
    """The changes, with those of INSTEAD where the target's software cannot run the plan; nothing where it can't run that either."""
    for tried in (changes, changes + [w for c in INSTEAD.get(target, []) for w in ("--set", c)]):
        if not refusal(path, tried, target):
            return tried if tried == changes or is_plan(path, tried) else None
        refusals.append(target)
    return None


def is_plan(path, changes):
    """Whether the drawn settings make a plan at all."""
    return subprocess.run([rehearse, "simulate", path, *changes, "--dry-run"], capture_output=True).returncode == 0


def check(name, target, keys):
    path, *changes = name.split("@")
    path, changes = os.path.join(folder, path), [w for c in changes for w in ("--set", c)]
    if changes and not is_plan(path, changes):
        return
    changes = within(path, changes, target)
    if changes is None:
        return
    with tempfile.TemporaryDirectory() as where:
        scenario, out = run("simulate", path, *changes, "--dry-run"), run("export", path, *changes, "--to", target, "-o", where, "--format", "json")
        if out is None or scenario is None:
            return
        report, scenario = json.loads(out), json.loads(scenario)
        for entry in os.listdir(where):
            with open(os.path.join(where, entry), "rb") as f:
                expect(target, os.path.abspath(folder).encode() not in f.read(), f"{entry} holds a path of this machine")
        found = getattr(target_checks, target)(where, report, scenario)
        exported.append(target)
        if found is not None:
            every_key(target, report, scenario, keys)
            for problem in known_targets.unsaid(target, report, dict(scenario, **{"(layers)": target_checks.layers_of(scenario)}), found):
                expect(target, False, problem)


refusals, exported = [], []
refused()
keys = defaults()
for name in names:
    for target in TARGETS:
        if target == "chakra" and name != names[0] or "@" in name and target not in CHANGED:
            continue  # One plan's nodes are enough: tests/unit/export/test_export.cpp counts them. Changed plans differ in flags.
        before = len(failures)
        check(name, target, keys)
        failures[before:] = [f"{name}: {f}" for f in failures[before:]]
for target in TARGETS:
    print(f"{target}: {exported.count(target)} exports held to their scenarios, {refusals.count(target)} refused")
print("\n".join(failures) or "all exports agree")
sys.exit(1 if failures or not exported else 0)
