#!/usr/bin/env python3
"""Times training steps of `run` beside PyTorch's, in fp32 on one core and on two, and prints them as a table.

usage: beside_torch.py PROGRAM [--rounds N] [--cores N] [NETWORK...]

Networks: small (GPT-2 of 4 layers and 256 channels), gpt2 (12 and 768), resnet18. Both programs take turns, bound to the same cores, and read the
same samples, which neither draws; the fastest step of all rounds counts, as other load only adds. The processor's time a step, all threads
together, stands beside it: on one core it tells the work apart from waiting for others.
"""
import argparse
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "torch"))
import tensor_files  # noqa: E402  From the tests beside PyTorch.

GPT2 = {"model_type": "gpt2", "n_positions": 64, "vocab_size": 50257, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "resid_pdrop": 0.0}
NETWORKS = {"small": ({**GPT2, "n_layer": 4, "n_embd": 256, "n_head": 8, "n_inner": 1024}, 4, 8),
            "gpt2": ({**GPT2, "n_layer": 12, "n_embd": 768, "n_head": 12, "n_inner": 3072}, 4, 4),
            "resnet18": ({"model_type": "resnet", "depths": [2, 2, 2, 2], "hidden_sizes": [64, 128, 256, 512], "embedding_size": 64,
                          "layer_type": "basic", "num_labels": 1000, "image_size": 224}, 8, 4)}
TOKENS, WARM_UP = 64, 1


def processor_seconds(of):
    used = resource.getrusage(of)
    return used.ru_utime + used.ru_stime


def scenario(config, batch):
    training = {"global_batch": batch, "precision": "fp32", "optimizer": "adamw", "clip_gradients": True}
    if config["model_type"] == "gpt2":
        training["sequence_length"] = TOKENS
    return {"schema": "rehearse/scenario/v1", "model": config, "cluster": {"machine": "dgx1v", "nodes": 1}, "training": training,
            "strategy": {"microbatch": batch}}


def bound(cores, words, environment=None):
    before = processor_seconds(resource.RUSAGE_CHILDREN)
    done = subprocess.run(["taskset", "-c", ",".join(map(str, cores)), *map(str, words)], capture_output=True, text=True,
                          env={**os.environ, **(environment or {})})
    if done.returncode:
        raise SystemExit(f"{words}\nended with {done.returncode}: {done.stderr}")
    return done.stdout, processor_seconds(resource.RUSAGE_CHILDREN) - before


def samples_of(name):
    """One batch, from which every step learns."""
    config, batch, _ = NETWORKS[name]
    rng = np.random.default_rng(1)
    if name == "resnet18":
        return {"image": rng.standard_normal((batch, 3, config["image_size"], config["image_size"])).astype(np.float32),
                "labels": rng.integers(0, config["num_labels"], batch)}
    return {"tokens": rng.integers(0, config["vocab_size"], (batch, TOKENS + 1))}


def ours(program, name, cores):
    """Seconds of the fastest step, and of the processor for each. What a run takes beside its steps is timed with fewer."""
    config, batch, steps = NETWORKS[name]
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "scenario.json"
        file.write_text(json.dumps(scenario(config, batch)))
        samples = pathlib.Path(folder) / "samples.safetensors"
        tensor_files.save(samples, samples_of(name))
        words = [program, "run", file, "--data", samples, "--ranks", 1, "--format", "json", "--steps"]
        out, long = bound(cores, [*words, steps + WARM_UP])
        _, short = bound(cores, [*words, WARM_UP])
    return json.loads(out)["step_time_p5_s"], (long - short) / steps


def theirs(_, name, cores):
    out, _ = bound(cores, [sys.executable, "-B", __file__, "--torch", name], {"OMP_NUM_THREADS": str(len(cores))})
    return json.loads(out)


def torch_steps(name):
    """Trains with PyTorch, in a process of its own."""
    import torch
    import networks
    config, _, steps = NETWORKS[name]
    samples = {k: torch.tensor(v) for k, v in samples_of(name).items()}
    if name == "resnet18":
        import torchvision
        module = networks.Classifier(torchvision.models.resnet18())
    else:
        module = networks.Gpt2(config)
    update, fastest, used = torch.optim.AdamW(module.parameters(), lr=1e-3), float("inf"), 0.0
    for step in range(steps + WARM_UP):
        begin, before = time.perf_counter(), processor_seconds(resource.RUSAGE_SELF)
        update.zero_grad()
        module.loss(samples).backward()
        torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        update.step()
        if step >= WARM_UP:
            fastest = min(fastest, time.perf_counter() - begin)
            used += processor_seconds(resource.RUSAGE_SELF) - before
    print(json.dumps([fastest, used / steps]))


def table(program, names, rounds, numbers):
    cores = sorted(os.sched_getaffinity(0))
    print("ms a step           cores   run  PyTorch  ratio   processor: run  PyTorch  ratio")
    for name in names:
        for n in numbers:
            if n > len(cores):
                continue
            times = taking_turns(program, name, cores[-n:], rounds)
            (a, b), (c, d) = (tuple(min(t[i] for t in times[f]) * 1e3 for i in (0, 1)) for f in (ours, theirs))
            print(f"{name:<20}{n:>5}{a:>6.0f}{c:>9.0f}{a / c:>7.2f}{b:>17.0f}{d:>9.0f}{b / d:>7.2f}", flush=True)


def taking_turns(program, name, cores, rounds):
    times = {ours: [], theirs: []}
    for _ in range(rounds):
        for f in times:
            times[f].append(f(program, name, cores))
    return times


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("networks", nargs="*")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cores", type=int, action="append", help="of one measurement; 1 and 2 where none is said")
    if sys.argv[1] == "--torch":
        torch_steps(sys.argv[2])
    else:
        a = parser.parse_intermixed_args()
        table(a.program, a.networks or NETWORKS, a.rounds, a.cores or (1, 2))
