#!/usr/bin/env python3
"""Trains a network with this program and with PyTorch, from the same weights on the same batches, and compares every loss.

usage: losses.py PROGRAM NETWORK

For each update rule: in fp64 losses agree within 1e-9 of them, in fp32 within 1e-4; so do the weights that the run leaves in the end, which
PyTorch's module takes by name. Two ranks of DistributedDataParallel (Gloo) give the losses of a run with dp 2.
"""
import json
import os
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

import networks
import tensor_files

STEPS = 20
TOLERANCES = {"fp64": 1e-9, "fp32": 1e-4}
DTYPES = {"fp64": torch.float64, "fp32": torch.float32}
# Of the rate, for ResNet-18 in fp32 and ResNet-50 in fp64. At rates that learn these few images, PyTorch's own losses in fp32 leave its losses in fp64 by 1 % within
# twenty steps (ResNet-18, SGD at 1e-3): what normalisation over few samples makes of a rounding. In fp32 ResNet-50 leaves its own losses in fp64
# by 1 % within four steps even at gentle rates, by OpenBLAS's products as by others.
GENTLE = 5e-4
TRANSFORMER = {"vocab_size": 96, "initializer_range": 0.02}
LLAMA = {**TRANSFORMER, "num_hidden_layers": 2, "hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4, "num_key_value_heads": 2,
         "max_position_embeddings": 32, "attention_dropout": 0.0, "tie_word_embeddings": False}
GPT2 = {**TRANSFORMER, "model_type": "gpt2", "n_layer": 2, "n_embd": 32, "n_head": 4, "n_inner": 128, "n_positions": 32, "embd_pdrop": 0.0,
        "attn_pdrop": 0.0, "resid_pdrop": 0.0}
BERT = {**TRANSFORMER, "model_type": "bert", "num_hidden_layers": 2, "hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4,
        "max_position_embeddings": 32, "type_vocab_size": 2, "attention_probs_dropout_prob": 0.0, "hidden_dropout_prob": 0.0}
SIDE, CLASSES, LENGTH, BATCH = 64, 10, 24, 8


def resnet(depths, widths, kind):
    return {"model_type": "resnet", "depths": depths, "hidden_sizes": widths, "embedding_size": 64, "layer_type": kind, "num_labels": CLASSES,
            "image_size": SIDE}


def unet(levels, width, classes):
    """A layer list of the shape of networks.UNet."""
    def conv(name, out, kernel=3):
        return {"op": "conv2d", "name": name, "out": out, "kernel": kernel, "same": True, "bias": True, "then": ["relu"] if name != "logits" else []}
    blocks = []
    for i in range(1, levels + 1):
        n = width << (i - 1)
        blocks.append({"name": f"down{i}", "layers": [conv("conv1", n), conv("conv2", n), {"op": "max_pool", "kernel": 2, "stride": 2}]})
    blocks.append({"name": "bottom", "layers": [conv("conv1", width << levels), conv("conv2", width << levels)]})
    for i in range(levels, 0, -1):
        n = width << (i - 1)
        blocks.append({"name": f"up{i}", "layers": [{"op": "upsample", "scale": 2}, conv("up", n),
                                                    {"op": "concat", "from": [f"down{i}.conv2.relu", "up.relu"]}, conv("conv1", n), conv("conv2", n)]})
    blocks.append({"name": "head", "layers": [conv("logits", classes, 1), {"op": "softmax_loss", "name": "loss"}]})
    return {"schema": "rehearse/network/v1", "input": {"channels": 1, "height": 16, "width": 16}, "classes": classes, "blocks": blocks}


def numbered(state, blocks):
    """Names of ours for those of networks.UNet: blocks between the first and the last say which they are."""
    out = {}
    for name, value in state.items():
        block, rest = name.split("|")
        at = blocks.index(block)
        out[f"{block}.{rest}" if at in (0, len(blocks) - 1) else f"{block}.{at}.{rest}"] = value
    return out


def token_batches(config, rng, encoder=False):
    tokens = rng.integers(0, config["vocab_size"], (3 * BATCH, LENGTH + 1))
    tokens[:, 1::2] = (5 * tokens[:, :-1:2] + 7) % config["vocab_size"]  # Something to learn.
    if not encoder:
        return {"tokens": tokens}
    return {"tokens": tokens[:, :-1], "labels": tokens[:, 1:], "token_types": np.tile((np.arange(LENGTH) >= LENGTH // 2).astype(np.int64), (3 * BATCH, 1))}


def image_batches(rng, shape, labels, classes):
    return {"image": rng.standard_normal((3 * BATCH, *shape)), "labels": rng.integers(0, classes, (3 * BATCH, *labels))}


class Case:
    """A configuration of ours, the module that is the same network, and its samples."""

    def __init__(self, name):
        rng = np.random.default_rng(1)
        torch.manual_seed(1)
        self.rename = dict
        self.sequences = name in ("gpt2", "llama", "bert", "mixtral")
        if name == "gpt2":
            self.config, self.make = GPT2, lambda: networks.Gpt2(GPT2)
        elif name == "llama":
            self.config = {**LLAMA, "model_type": "llama"}
            self.make = lambda: networks.Llama(self.config)
        elif name == "mixtral":
            self.config = {**LLAMA, "model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2, "router_aux_loss_coef": 0.02}
            self.make = lambda: networks.Mixtral(self.config)
        elif name == "bert":
            self.config, self.make = BERT, lambda: networks.Bert(BERT)
        elif name == "resnet18":
            self.config = resnet([2, 2, 2, 2], [64, 128, 256, 512], "basic")
            self.make = lambda: networks.Classifier(torchvision.models.resnet18(num_classes=CLASSES))
        elif name == "resnet50":
            self.config = resnet([3, 4, 6, 3], [256, 512, 1024, 2048], "bottleneck")
            self.make = lambda: networks.Classifier(torchvision.models.resnet50(num_classes=CLASSES))
        else:
            self.config, self.make = unet(2, 8, 3), lambda: networks.UNet(2, 8, 3)
            blocks = [b["name"] for b in self.config["blocks"]]
            self.rename = lambda state: numbered(state, blocks)
        if name.startswith("resnet"):
            self.rename = lambda state: {k.removeprefix("network."): v for k, v in state.items()}
        if self.sequences:
            self.batches = token_batches(self.config, rng, encoder=name == "bert")
        else:
            image, labels = ((3, SIDE, SIDE), ()) if name != "unet" else ((1, 16, 16), (16, 16))
            self.batches = image_batches(rng, image, labels, CLASSES if name != "unet" else 3)

    def scenario(self, rule):
        training = {"global_batch": BATCH, "precision": "fp32", "optimizer": rule["optimizer"], "learning_rate": rule["rate"],
                    "weight_decay": rule["decay"], "clip_gradients": rule["clip"]}
        if self.sequences:
            training["sequence_length"] = LENGTH
        return {"schema": "rehearse/scenario/v1", "model": "model.json", "cluster": {"machine": "dgx1v", "nodes": 1}, "training": training,
                "strategy": {"microbatch": BATCH}}


RULES = {"adamw": {"optimizer": "adamw", "rate": 1e-3, "decay": 0.1, "clip": True},
         "sgd": {"optimizer": "sgd", "rate": 0.02, "decay": 1e-3, "clip": False}}


def updates_of(module, rule):
    """What changes weights: matrices decay, vectors do not."""
    groups = [{"params": [p for p in module.parameters() if (p.dim() >= 2) == wide], "weight_decay": rule["decay"] if wide else 0.0}
              for wide in (True, False)]
    if rule["optimizer"] == "adamw":
        return torch.optim.AdamW(groups, lr=rule["rate"])
    return torch.optim.SGD(groups, lr=rule["rate"], momentum=0.9)


def train(module, call, batches, rule, rank=0, ranks=1):
    """Losses of the steps, of this rank's part of each batch."""
    update, losses, share = updates_of(module, rule), [], BATCH // ranks
    for step in range(STEPS):
        first = (step * BATCH + rank * share) % (3 * BATCH)
        loss = call({k: v[first:first + share] for k, v in batches.items()})
        update.zero_grad()
        extra = getattr(module, "extra", 0.0)
        (loss + extra).backward()
        if hasattr(module, "extra"):
            module.extra = 0.0
        if rule["clip"]:
            torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        update.step()
        losses.append(loss.item())
    return losses


def tensors_of(case, precision):
    return {k: torch.tensor(v, dtype=DTYPES[precision] if v.dtype.kind == "f" else torch.int64) for k, v in case.batches.items()}


def by_torch(case, state, precision, rule):
    module = case.make().to(DTYPES[precision])
    module.load_state_dict(state)
    module.train()
    losses = train(module, module.loss, tensors_of(case, precision), rule)
    return losses, case.rename(module.state_dict())


class Loss(torch.nn.Module):
    """The loss as a module's own result, as DistributedDataParallel wants it."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, batch):
        return self.module.loss(batch)


def ddp_rank(name, state_file, precision, rule_name):
    """One rank of two; prints its losses."""
    case, rule, rank = Case(name), RULES[rule_name], int(os.environ["RANK"])
    torch.distributed.init_process_group("gloo")
    module = case.make().to(DTYPES[precision])
    module.load_state_dict(torch.load(state_file))
    module.train()
    wrapped = torch.nn.parallel.DistributedDataParallel(Loss(module))
    print(json.dumps(train(module, wrapped, tensors_of(case, precision), rule, rank, 2)), flush=True)
    torch.distributed.destroy_process_group()


def by_ddp(name, state_file, precision, rule_name):
    environment = {**os.environ, "MASTER_ADDR": "127.0.0.1", "WORLD_SIZE": "2", "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo",
                   "MASTER_PORT": str(20000 + os.getpid() % 20000)}
    ranks = [subprocess.Popen([sys.executable, "-B", __file__, "--rank", name, state_file, precision, rule_name], stdout=subprocess.PIPE,
                              env={**environment, "RANK": str(r)}) for r in range(2)]
    printed = [r.communicate()[0] for r in ranks]
    if any(r.returncode for r in ranks):
        raise SystemExit("a rank of PyTorch's failed")
    return [(a + b) / 2 for a, b in zip(*map(json.loads, printed))]


def by_rehearse(program, folder, case, rule, precision, ranks=1):
    scenario = case.scenario(rule)
    scenario["strategy"]["microbatch"] = BATCH // ranks
    (folder / "scenario.json").write_text(json.dumps(scenario))
    (folder / "model.json").write_text(json.dumps(case.config))
    command = [program, "run", folder / "scenario.json", "--ranks", str(ranks), "--steps", str(STEPS), "--numerics", precision, "--init",
               folder / "begin.safetensors", "--data", folder / "samples.safetensors", "--save-weights", folder / "end.safetensors", "--format", "json"]
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}\nended with {done.returncode}: {done.stderr}")
    if done.stderr:
        print(done.stderr, end="")
    return json.loads(done.stdout)


def furthest(ours, theirs):
    return max(abs(a - b) / abs(b) for a, b in zip(ours, theirs, strict=True))


def weights_differ(ours, theirs):
    """Largest difference of a tensor over the largest of its numbers; both have the same names, but for statistics that no update changes."""
    theirs = {k: v for k, v in theirs.items() if not k.endswith(("running_mean", "running_var", "num_batches_tracked"))}
    if ours.keys() != theirs.keys():
        raise SystemExit(f"names differ: {sorted(ours.keys() ^ theirs.keys())}")
    return max(float(np.abs(ours[k] - v.numpy()).max() / max(1e-3, np.abs(v.numpy()).max())) for k, v in theirs.items())


def compare(what, value, limit):
    print(f"{what}: {value:.2e} (at most {limit:.0e})")
    return value <= limit


def check(program, name):
    case, good = Case(name), True
    module = case.make()
    for precision, limit in TOLERANCES.items():
        state = {k: v.to(DTYPES[precision]) if v.is_floating_point() else v for k, v in module.state_dict().items()}
        for rule_name, rule in RULES.items():
            if name == "resnet50" and (precision, rule_name) != ("fp64", "sgd"):
                continue  # Seconds a step: what is told apart here, and by two ranks, ResNet-18 tells in all four.
            if name == "resnet50" or (precision == "fp32" and name == "resnet18"):
                rule = {**rule, "rate": rule["rate"] * GENTLE}
            with tempfile.TemporaryDirectory() as temporary:
                folder = pathlib.Path(temporary)
                tensor_files.save(folder / "begin.safetensors", {k: v.numpy() for k, v in case.rename(state).items()})
                tensor_files.save(folder / "samples.safetensors",
                                  {k: v if v.dtype.kind == "i" else v.astype(np.float64) for k, v in case.batches.items()})
                ours = by_rehearse(program, folder, case, rule, precision)
                theirs, weights = by_torch(case, state, precision, rule)
                label = f"{name} {precision} {rule_name}"
                good &= compare(f"{label}: losses from {theirs[0]:.4f} to {theirs[-1]:.4f}", furthest(ours["losses"], theirs), limit)
                left, words = tensor_files.load(folder / "end.safetensors")
                good &= words["format"] == "pt"
                good &= compare(f"{label}: weights under the names of {ours['saved_names']}", weights_differ(left, weights), 1e3 * limit)
                if precision == "fp64" and rule_name == "sgd" and name != "resnet50":
                    torch.save(state, folder / "state.pt")
                    twice = by_rehearse(program, folder, case, rule, precision, ranks=2)
                    good &= compare(f"{label}: two ranks", furthest(twice["losses"], by_ddp(name, folder / "state.pt", precision, rule_name)), limit)
    return good


if __name__ == "__main__":
    torch.set_num_threads(1)
    if sys.argv[1] == "--rank":
        ddp_rank(*sys.argv[2:])
    else:
        sys.exit(0 if check(sys.argv[1], sys.argv[2]) else 1)
