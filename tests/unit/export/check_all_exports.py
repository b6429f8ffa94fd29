"""check_exports.py over every shipped scenario, and over drawn plans of every decoder stack in the library.

usage: check_all_exports.py REHEARSE FOLDER_OF_SCENARIOS SEED COUNT
A draw fits axes to heads, layers, experts and batch, and takes its settings at random; what a target cannot start must be refused with the
place in the target's code that says so."""
import json
import os
import pathlib
import random
import subprocess
import sys

FOLDER = pathlib.Path(sys.argv[2])
BASE = "llama3_8b_h100_8.json"
# Machines that variants run on, and what joins several of them.
NETWORKS = {"dgx_h100": "superpod_h100", "dgx_a100_80gb": "superpod_a100", "dgx_b200": "superpod_b200", "dgx1v": "ib_edr"}


def shipped():
    for path in sorted(FOLDER.rglob("*.json")):
        if '"rehearse/scenario/v1"' in path.read_text():
            yield str(path.relative_to(FOLDER))


def stacks():
    """Name, query heads, key and value heads, layers and experts of each model that has them."""
    for path in sorted((FOLDER / "models").glob("*/config.json")):
        config = json.loads(path.read_text())
        heads, layers = (config.get(a, config.get(b)) for a, b in (("num_attention_heads", "n_head"), ("num_hidden_layers", "n_layer")))
        if heads and layers:
            experts = next((config[k] for k in ("num_local_experts", "num_experts", "n_routed_experts") if config.get(k)), 0)
            yield path.parent.name, heads, config.get("num_key_value_heads") or heads, layers, experts


def axes(draw, model):
    """tp, pp, cp, ep, dp, microbatch and batch that this model can have on `nodes` machines of eight."""
    _, heads, kv_heads, layers, experts = model
    while True:
        nodes, tp, pp, cp = draw.choice([1, 2, 4, 8]), draw.choice([1, 1, 2, 4, 8]), draw.choice([1, 1, 1, 2, 4]), draw.choice([1, 1, 1, 2])
        ep = draw.choice([1, 2, 4, 8]) if experts else 1
        if heads % tp or kv_heads % tp or layers < pp or 8 * nodes % (tp * pp * cp):
            continue
        dp, microbatch, batch = 8 * nodes // (tp * pp * cp), draw.choice([1, 1, 2]), draw.choice([128, 256, 512])
        if dp * cp * tp % ep == 0 and (not experts or experts % ep == 0) and batch % (microbatch * dp) == 0:
            return nodes, tp, pp, cp, ep, dp, microbatch, batch


def variant(draw, models):
    model = draw.choice(models)
    nodes, tp, pp, cp, ep, dp, microbatch, batch = axes(draw, model)
    chunks = draw.choice([2, 2, 4]) if pp > 1 and model[3] % pp == 0 and draw.random() < 0.4 else 1
    fsdp, machine = draw.random() < 0.4, draw.choice(["dgx_h100", *NETWORKS])
    out = {
        "model": model[0], "cluster.machine": machine, "cluster.nodes": nodes, **({"cluster.network": NETWORKS[machine]} if nodes > 1 else {}),
        "strategy.dp": "auto", "strategy.dp_replicate": "auto", "strategy.tp": tp, "strategy.pp": pp, "strategy.cp": cp, "strategy.ep": ep,
        "strategy.microbatch": microbatch, "training.global_batch": batch, "training.sequence_length": draw.choice([512, 1000, 1024, 2048]) if cp == 1 else 1024,
        "strategy.schedule": "interleaved_1f1b" if chunks > 1 else draw.choice(["1f1b", "1f1b", "gpipe"]) if pp > 1 else "1f1b",
        "strategy.virtual_stages": chunks, "strategy.sequence_parallel": str(tp > 1 and draw.random() < 0.7).lower(),
        "strategy.context": draw.choice(["ring", "ulysses", "allgather"]), "strategy.fsdp.enabled": str(fsdp).lower(),
        "strategy.dp_shard": draw.choice([dp, dp, max(1, dp // 2)]) if fsdp else 1, "strategy.zero_stage": 0 if fsdp else draw.choice([0, 1, 2, 3]),
        "strategy.recompute": draw.choice(["none", "none", "full", "selective"]),
        "strategy.recompute_modules": draw.choice(["core_attn", "layernorm", "moe_act", "every_second_product"]),
        "training.precision": draw.choice(["bf16_mixed", "bf16_mixed", "fp16_mixed", "fp32", "fp8_mixed"]),
        "training.fp8.recipe": draw.choice(["delayed", "tensorwise", "rowwise", "mxfp8"]), "training.fp8.parameters": draw.choice(["true", "false"]),
        "training.gradient_dtype": draw.choice(["fp32", "fp32", "model"]), "training.optimizer": draw.choice(["adam", "adamw", "adamw", "sgd", "lamb"]),
        "strategy.offload": draw.choice(["none", "none", "none", "optimizer", "activations"]), "kernels.cuda_graphs": draw.choice(["true", "false"]),
        "kernels.compile": draw.choice(["true", "false"]), "strategy.overlap.tp": draw.choice(["true", "false"]),
    }
    return "@".join([BASE, *(f"{key}={value}" for key, value in out.items())])


def is_plan(name):
    """Whether the drawn settings make a plan at all."""
    path, *changes = name.split("@")
    words = [w for c in changes for w in ("--set", c)]
    return subprocess.run([sys.argv[1], "simulate", str(FOLDER / path), *words, "--dry-run"], capture_output=True).returncode == 0


def drawn(draw, models, count):
    """So many plans; fails where most draws are none."""
    out = []
    for _ in range(8 * count):
        name = variant(draw, models)
        if is_plan(name):
            out.append(name)
        if len(out) == count:
            return out
    sys.exit(f"only {len(out)} of {8 * count} draws are plans")


def main():
    draw, models = random.Random(int(sys.argv[3])), list(stacks())
    names = [*shipped(), *drawn(draw, models, int(sys.argv[4]))]
    print(f"{len(names)} plans")
    sys.stdout.flush()
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "check_exports.py")
    os.execv(sys.executable, [sys.executable, script, sys.argv[1], str(FOLDER), *names])


main()
