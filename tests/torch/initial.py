#!/usr/bin/env python3
"""Holds the values that networks begin with to those of PyTorch's, torchvision's and Hugging Face's classes.

usage: initial.py PROGRAM NETWORK

Image networks: parameters of each shape have the mean size of torchvision's and its 99th percentile, and the loss of the first step is that of
torchvision's network within the spread of random numbers. Transformers: parameters have the deviation that the class's _init_weights gives them
(huggingface/transformers, src/transformers/models/NAME/modeling_NAME.py).
"""
import collections
import json
import math
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import torch
    import torchvision
except ImportError as e:
    print(f"skipped: {e} (Debian: python3-torch, python3-torchvision)")
    sys.exit(77)

import tensor_files

# How to make it, and the side of an image.
IMAGES = {"resnet50": (torchvision.models.resnet50, 224), "vgg16": (torchvision.models.vgg16, 224), "alexnet": (torchvision.models.alexnet, 224),
          "inception_v3": (lambda: torchvision.models.inception_v3(init_weights=True), 299)}
LAYERS, STD = 2, 0.02
GPT2 = {"model_type": "gpt2", "n_layer": LAYERS, "n_embd": 128, "n_head": 4, "n_positions": 64, "vocab_size": 512}
LLAMA = {"model_type": "llama", "num_hidden_layers": LAYERS, "hidden_size": 128, "intermediate_size": 384, "num_attention_heads": 4,
         "max_position_embeddings": 64, "vocab_size": 512}
BERT = {"model_type": "bert", "num_hidden_layers": LAYERS, "hidden_size": 128, "intermediate_size": 384, "num_attention_heads": 4,
        "max_position_embeddings": 64, "vocab_size": 512, "type_vocab_size": 2}
TRANSFORMERS = {"gpt2": GPT2, "llama": LLAMA, "bert": BERT, "mixtral": {**LLAMA, "model_type": "mixtral", "num_local_experts": 4}}
BATCH, TOKENS = 4, 64


def begun(program, config, samples):
    """Parameters after one step that changes nothing worth mentioning, and its loss."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        training = {"global_batch": BATCH, "precision": "fp32", "optimizer": "sgd", "learning_rate": 1e-12, "weight_decay": 0.0}
        if "tokens" in samples:
            training["sequence_length"] = TOKENS
        (folder / "scenario.json").write_text(json.dumps({"schema": "rehearse/scenario/v1", "model": config, "training": training,
                                                          "cluster": {"machine": "dgx1v", "nodes": 1}, "strategy": {"microbatch": BATCH}}))
        tensor_files.save(folder / "samples.safetensors", samples)
        words = [program, "run", folder / "scenario.json", "--ranks", 1, "--steps", 1, "--data", folder / "samples.safetensors", "--save-weights",
                 folder / "weights.safetensors", "--format", "json"]
        done = subprocess.run(list(map(str, words)), capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"run ended with {done.returncode}: {done.stderr}")
        return {k: v.copy() for k, v in tensor_files.load(folder / "weights.safetensors")[0].items()}, json.loads(done.stdout)["losses"][0]


def same_size(what, found, wanted, elements):
    """Mean sizes, or their roots of mean squares, of so many random numbers each."""
    spread = 6 / math.sqrt(2 * elements) * max(found, wanted) + 1e-6
    if abs(found - wanted) > spread:
        print(f"{what}: {found:.6f}, wanted {wanted:.6f} within {spread:.6f}")
    return abs(found - wanted) <= spread


def by_shape(parameters):
    """For each shape its parameters' numbers in a row. Windows of a parameter stand for it in any order."""
    out = collections.defaultdict(list)
    for value in parameters:
        out[tuple(value.shape)].append(np.asarray(value).ravel())
    return {shape: np.concatenate(values) for shape, values in out.items()}


def images(program, name):
    make, side = IMAGES[name]
    torch.manual_seed(3)
    module = make()
    rng = np.random.default_rng(3)
    samples = {"image": rng.standard_normal((BATCH, 3, side, side)), "labels": rng.integers(0, 1000, (BATCH,))}
    parameters, loss = begun(program, name, samples)
    ours, theirs = by_shape(parameters.values()), by_shape(p.detach().numpy() for p in module.parameters())
    good = ours.keys() == theirs.keys()
    for shape in ours.keys() & theirs.keys():
        a, b = np.abs(ours[shape]), np.abs(theirs[shape])  # A few of trunc_normal_'s are its bounds: squares would count them alone.
        good &= a.size == b.size and same_size(f"{name} {shape}", float(a.mean()), float(b.mean()), a.size)
        tails = float(np.quantile(a, 0.99)), float(np.quantile(b, 0.99))
        if a.size > 10_000 and abs(tails[0] - tails[1]) > 0.05 * tails[1]:
            print(f"{name} {shape}: 99 % below {tails[0]:.6f}, wanted {tails[1]:.6f}")
            good = False
    module.train()
    with torch.no_grad():
        out = module(torch.tensor(samples["image"], dtype=torch.float32))
        logits = out if isinstance(out, torch.Tensor) else out.logits
        wanted = torch.nn.functional.cross_entropy(logits, torch.tensor(samples["labels"])).item()
    spread = 4 * logits.std().item() * math.sqrt(2 / BATCH)  # Of the difference of two means of the labels' logits.
    print(f"{name}: {len(ours)} shapes, first loss {loss:.3f}, PyTorch's {wanted:.3f} within {spread:.3f}, ln 1000 {math.log(1000):.3f}")
    return good and abs(loss - wanted) < spread + 0.05


def deviation(name, layers):
    """Of a parameter by its name; None: it begins as ones."""
    if name.endswith("bias"):
        return 0.0
    if "norm" in name.lower() or ".ln_" in name:
        return None
    return STD / math.sqrt(2 * layers) if name.endswith("c_proj.weight") else STD


def transformers(program, name):
    rng = np.random.default_rng(3)
    samples = {"tokens": rng.integers(0, 512, (BATCH, TOKENS + 1))}
    if name == "bert":
        samples = {"tokens": samples["tokens"][:, :-1].copy(), "labels": samples["tokens"][:, 1:].copy(),
                   "token_types": np.zeros((BATCH, TOKENS), dtype=np.int64)}
    parameters, loss = begun(program, TRANSFORMERS[name], samples)
    good = all(key.startswith({"gpt2": "transformer.", "bert": ("bert.", "cls.")}.get(name, ("model.", "lm_head."))) for key in parameters)
    for key, value in parameters.items():
        wanted = deviation(key, LAYERS)
        if wanted is None or wanted == 0.0:
            good &= bool(np.abs(value - (1.0 if wanted is None else 0.0)).max() < 1e-6)
        else:
            good &= same_size(key, float(np.sqrt((value.astype(np.float64) ** 2).mean())), wanted, value.size)
    print(f"{name}: {len(parameters)} parameters, first loss {loss:.3f}, ln 512 {math.log(512):.3f}")
    return good


if __name__ == "__main__":
    torch.set_num_threads(1)
    check = images if sys.argv[2] in IMAGES else transformers
    sys.exit(0 if check(sys.argv[1], sys.argv[2]) else 1)
