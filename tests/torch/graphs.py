#!/usr/bin/env python3
"""Writes networks of PyTorch as graphs, and holds what `import graph` makes of them to PyTorch's own count and to the shipped network.

usage: graphs.py PROGRAM SCRIPTS NETWORK

SCRIPTS is the folder of rehearse_graph.py. Parameters are equal, multiply-adds of a forward pass within 0.1 %, the model FLOPs of a step within
0.1 % of those of the shipped network, and the imported network simulates under data parallelism, a pipeline and FSDP.
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

try:
    import torch
    import torchvision
except ImportError as e:
    print(f"skipped: {e} (Debian: python3-torch, python3-torchvision)")
    sys.exit(77)

import networks

sys.path.insert(0, sys.argv[2])
import rehearse_graph  # noqa: E402  The folder is an argument.

GPT2 = {"vocab_size": 50257, "n_layer": 12, "n_embd": 768, "n_head": 12, "n_inner": 3072, "n_positions": 1024}
BERT = {"vocab_size": 30522, "num_hidden_layers": 24, "hidden_size": 1024, "intermediate_size": 4096, "num_attention_heads": 16,
        "max_position_embeddings": 512, "type_vocab_size": 2}
LLAMA = {"vocab_size": 1024, "num_hidden_layers": 8, "hidden_size": 256, "intermediate_size": 512, "num_attention_heads": 8, "num_key_value_heads": 4,
         "model_type": "llama"}


class Pair(torch.nn.Module):
    """BERT with one input: all tokens are of the first sentence."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, tokens):
        return self.network(tokens, torch.zeros_like(tokens))


# How to make it, sides or tokens of a sample, the shipped network that it is.
NETWORKS = {"resnet50": (torchvision.models.resnet50, 224, "resnet50"), "vgg16": (torchvision.models.vgg16, 224, "vgg16"),
            "inception_v3": (lambda: torchvision.models.inception_v3(init_weights=False), 299, "inception_v3"),
            "deeplab_v3": (lambda: torchvision.models.segmentation.deeplabv3_resnet50(weights_backbone=None), 224, None),
            "gpt2": (lambda: networks.Gpt2(GPT2), 64, "gpt2"), "bert": (lambda: Pair(networks.Bert(BERT)), 64, "bert_large"),
            "llama": (lambda: networks.Llama(LLAMA), 64, None)}
TOKENS = ("gpt2", "bert", "llama")
PLANS = {"dp": ["strategy.dp=8"], "pipeline": ["strategy.pp=4"], "fsdp": ["strategy.fsdp.enabled=true"]}


class MultiplyAdds(torch.overrides.TorchFunctionMode):
    """Of convolutions and products of a sample, counted as they run."""

    def __init__(self):
        super().__init__()
        self.total = 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        out, name = func(*args, **(kwargs or {})), getattr(func, "__name__", "")
        if name in ("linear", "conv2d"):
            self.total += out.numel() * args[1][0].numel()
        elif name == "matmul":
            self.total += out.numel() * args[0].shape[-1]
        return out


def run(program, *words):
    done = subprocess.run([program, *map(str, words)], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, words))}\nended with {done.returncode}: {done.stderr}")
    return done


def imported(program, graph, folder):
    told = run(program, "import", "graph", graph, "-o", folder / "model.json").stderr
    parameters, operations = re.search(r"(\d+) parameters, ([\d.]+) G multiply-adds", told).groups()
    print(told, end="")
    return int(parameters), float(operations) * 1e9


def scenario(name, model):
    training = {"global_batch": 64, "precision": "fp32", "optimizer": "sgd"}
    if name in TOKENS:
        training["sequence_length"] = 64
    return {"schema": "rehearse/scenario/v1", "model": model, "cluster": {"machine": "dgx_a100_80gb", "nodes": 1}, "training": training,
            "strategy": {"microbatch": 2}}


def steps(program, folder, name, model):
    """By plan: seconds of a step, and model FLOPs of all devices in it."""
    (folder / "scenario.json").write_text(json.dumps(scenario(name, model)))
    out = {}
    for plan, settings in PLANS.items():
        sets = [w for s in settings for w in ("--set", s)]
        found = json.loads(run(program, "simulate", folder / "scenario.json", *sets, "--format", "json").stdout)
        out[plan] = (found["step_time_s"], found["step_time_s"] * found["model_flops_per_s_per_gpu"] * 8)
    return out


def close(what, found, wanted):
    print(f"  {what}: {found:.6g}, wanted {wanted:.6g}")
    return abs(found / wanted - 1) < 1e-3


def simulates(program, folder, name, shipped):
    ours, good = steps(program, folder, name, "model.json"), True
    theirs = steps(program, folder, name, shipped) if shipped else {}
    for plan, (seconds, flops) in ours.items():
        print(f"  {plan}: {seconds * 1e3:.2f} ms")
        good &= 0 < seconds < 10
        if shipped:
            good &= close(f"model FLOPs of a step, as {shipped}", flops, theirs[plan][1])
    return good


def check(program, name):
    make, size, shipped = NETWORKS[name]
    shape, dtype = ((2, size), torch.int64) if name in TOKENS else ((2, 3, size, size), torch.float32)
    module, good = make(), True
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        rehearse_graph.write(module, shape, folder / "graph.json", dtype)
        with torch.no_grad(), MultiplyAdds() as counted:
            module(torch.zeros(shape, dtype=dtype))
        wanted = sum(p.numel() for p in module.parameters())
        parameters, found = imported(program, folder / "graph.json", folder)
        good &= parameters == wanted
        good &= close("multiply-adds", found, counted.total / shape[0])
        good &= simulates(program, folder, name, shipped)
        if name in ("resnet50", "vgg16", "inception_v3"):
            module.eval()  # Without auxiliary outputs, as networks are exported.
            torch.onnx.export(module, torch.zeros(1, *shape[1:]), folder / "graph.onnx", training=torch.onnx.TrainingMode.PRESERVE,
                              do_constant_folding=False)
            parameters, found = imported(program, folder / "graph.onnx", folder)
            auxiliary = sum(p.numel() for n, p in module.named_parameters() if n.startswith("AuxLogits"))
            good &= parameters == wanted - auxiliary
    return good


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.exit(0 if check(sys.argv[1], sys.argv[3]) else 1)
