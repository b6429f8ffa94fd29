#!/usr/bin/env python3
"""What export writes, import reads back: every shipped scenario, by every target that can express it.

usage: round_trip.py REHEARSE SCENARIOS [NAME...]

A scenario is exported with the target's framework, imported, and both are resolved. They must agree in every key but the cluster and those that the
export listed as left out. Scenarios that a target refuses are none of its business. Prints one line a pair, and fails where one differs.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

# Target, framework, the file it writes, and keys that its file does not hold: models and lengths that stand in a training script.
TARGETS = [
    ("megatron", "megatron-core", "pretrain.sh", ()),
    ("torchtitan", "torchtitan@0.2.2", "train.toml", ()),
    ("deepspeed", "deepspeed", "ds_config.json", ("training.sequence_length",)),
]
# What no file of theirs holds: how long to train stands for itself, the cluster is the user's.
APART = ("schema", "cluster", "training.tokens", "calibration", "collective_table", "input")


def run(*words):
    return subprocess.run(words, capture_output=True, text=True)


def flat(value, name=""):
    if isinstance(value, dict) and name not in ("model", "cluster"):
        out = {}
        for key, v in value.items():
            out.update(flat(v, f"{name}.{key}" if name else key))
        return out
    return {name: value}


def resolved(program, scenario, *settings):
    done = run(program, "simulate", scenario, "--dry-run", *settings)
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    return json.loads(done.stdout)


def same_model(program, a, b, folder):
    """A model by its name, by its file or in full is the same network."""
    if a == b:
        return True
    counts = []
    for model in (a, b):
        name = model if isinstance(model, str) else None
        if name:
            counts.append(pathlib.Path(name).parent.name if name.endswith("config.json") else name)
        else:
            counts.append(json.dumps(model, sort_keys=True))
    return counts[0] == counts[1] or (isinstance(a, dict) and isinstance(b, dict) and a.get("model_type") == b.get("model_type"))


def pair(program, scenario, target, framework, file, absent, folder):
    out = folder / f"{scenario.stem}-{target}"
    done = run(program, "export", str(scenario), "--to", target, "-o", str(out), "--set", f"framework={framework}", "--format", "json")
    if done.returncode:
        return None, done.stderr.strip().splitlines()[0][:110] if done.stderr else "refused"
    left_out = {entry["key"] for entry in json.loads(done.stdout)["left_out"]}
    before = resolved(program, str(scenario), "--set", f"framework={framework}")
    if target == "deepspeed" and before["strategy"]["fsdp"]["enabled"] and before["strategy"]["dp_replicate"] == 1:
        return None, "PyTorch's FSDP is ZeRO 3 there"
    if target == "torchtitan" and before["strategy"]["zero_stage"] == 3 and not before["strategy"]["fsdp"]["enabled"]:
        return None, "ZeRO 3 is PyTorch's FSDP there"
    cluster = before["cluster"]
    words = [program, "import", "job", str(out / file), "-o", str(out / "back.json"), "--framework", framework, "--format", "json"]
    gpus = 1
    for axis in ("dp", "cp", "tp", "pp", "tile_h", "tile_w"):
        gpus *= before["strategy"][axis]
    if isinstance(cluster, str):
        words += ["--cluster", cluster]
    elif "machine" in cluster:
        words += ["--cluster", cluster["machine"], "--gpus", str(gpus)] + (["--network", cluster["network"]] if cluster.get("network") else [])
    else:
        return None, "a mixed cluster"
    model = before["model"]
    if "model" in left_out or target == "deepspeed":
        if isinstance(model, str):
            words += ["--model", model]
        else:
            (out / "model").mkdir(exist_ok=True)
            (out / "model" / "config.json").write_text(json.dumps(model))
            words += ["--model", str(out / "model" / "config.json")]
    for key in sorted(left_out | set(absent)):
        if key in ("model", "cluster.parts", "training.tokens"):
            continue
        value = flat(before).get(key)
        if value is not None and value != "auto":
            words += ["--set", f"{key}={json.dumps(value)}"]
    done = run(*words)
    if done.returncode:
        return False, "import: " + " ".join(done.stderr.strip().splitlines()[-2:])[-200:]
    after = flat(resolved(program, str(out / "back.json")))
    wanted = flat(before)
    if wanted["training.weight_decay"] == 0 and {wanted["training.optimizer"], after.get("training.optimizer")} == {"adam", "adamw"}:
        after["training.optimizer"] = wanted["training.optimizer"]  # Without decay the two are one.
    differ = [f"{key}: {wanted[key]} -> {after.get(key)}" for key in wanted
              if key != "model" and not any(key == a or key.startswith(a + ".") for a in APART) and key not in left_out and after.get(key) != wanted[key]]
    if not ("model" in left_out or target == "deepspeed") and not same_model(program, wanted["model"], after["model"], out):
        differ.append(f"model: {json.dumps(wanted['model'])[:60]} -> {json.dumps(after['model'])[:60]}")
    return not differ, "; ".join(differ[:6])


def main():
    program, scenarios, names = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3:]
    same, refused, wrong = 0, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for scenario in sorted(scenarios.glob("*.json")):
            if names and scenario.stem not in names:
                continue
            for target, framework, file, absent in TARGETS:
                try:
                    good, why = pair(program, scenario, target, framework, file, absent, pathlib.Path(folder))
                except RuntimeError as error:
                    good, why = False, str(error)[:200]
                word = "refused" if good is None else "same" if good else "DIFFERS"
                same, refused, wrong = same + (good is True), refused + (good is None), wrong + (good is False)
                print(f"{word:8} {scenario.stem:36} {target:11} {why}")
    print(f"{same} the same, {refused} refused by the target, {wrong} differ")
    return 1 if wrong or not same else 0


if __name__ == "__main__":
    sys.exit(main())
