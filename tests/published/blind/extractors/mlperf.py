"""Rounds of MLPerf Training: ResNet-50 of MXNet and BERT of PyTorch on NVIDIA GPUs, from all owners' logs.

A round's module has its SOURCE and calls rows().
"""
import json
import re
import statistics

LOG = re.compile(r":::MLL(?:OG)? ?(\{.*\})")
JOBS = {
    "resnet": {"model": "resnet50", "training.precision": "fp16_mixed", "training.optimizer": "sgd",
               "training.clip_gradients": False},
    # All rounds leave out padding (--unpad, --packed_samples), which is half of Wikipedia's sequences of 512 tokens
    # (Krell et al. 2021, arXiv:2107.02027): 256 a sequence go through the network.
    "bert": {"model": "bert_large", "training.precision": "fp16_mixed", "training.optimizer": "lamb",
             "training.sequence_length": 256},
}
# What the flags of NVIDIA's BERT say, by round: attention of one kernel (--unpad_fmha), then kernels that take in
# biases, dropout and additions (--fused_bias_fc, --fused_dropout_add).
FUSED_ATTENTION = {"kernels.attention": "flash"}
FUSED = FUSED_ATTENTION | {"framework": {"name": "pytorch-ddp@1.13", "fused_norm": True}}
# By GPU and GPUs of a node: machine and network of the catalogue, or a machine file of the record.
MACHINES = [
    (r"V100-SXM2-16GB", 8, "dgx1v_16gb", "ib_edr"), (r"V100-SXM2-32GB", 4, "c4140_4xv100", "ib_edr"),
    (r"V100-SXM3", 16, "dgx2", "ib_edr"), (r"A100-SXM4?-40GB", 8, "dgx_a100_40gb", "rail_hdr"),
    (r"A100-SXM4?-40GB", 4, "../../machines/hgx_a100_40gb_4gpu.json", "ib_hdr"),
    (r"A100-SXM4?-80GB", 8, "dgx_a100_80gb", "rail_hdr"), (r"A100-SXM4?-80GB", 4, "hgx_a100_4gpu", "ib_hdr"),
    (r"A100-PCI[eE]-80GB", 8, "pcie8_a100_4sw", "ib_hdr"), (r"A100-PCI[eE]-80GB", 4, "pcie8_a100_4sw", "ib_hdr"),
    (r"A100-PCI[eE]-80GB", 2, "pcie8_a100_4sw", "ib_hdr"), (r"H100-SXM5?-80GB", 8, "dgx_h100", "rail_ndr"),
    (r"H100-SXM5?-80GB", 4, "hgx_h100_4gpu", "ib_ndr"), (r"H100-PCI[eE]-80GB", 8, "pcie8_h100_2sw", "ib_ndr"),
    (r"H100-PCI[eE]-80GB", 4, "pcie8_h100_2sw", "ib_ndr"), (r"H100-PCI[eE]-80GB", 2, "pcie8_h100_2sw", "ib_ndr"),
    (r"H200", 8, "dgx_h200", "rail_ndr"), (r"L40S", 8, "pcie8_l40s_2sw", "ib_hdr"),
    (r"L40S", 4, "pcie8_l40s_2sw", "ib_hdr"), (r"A100 - PCIe - 80 GB", 2, "pcie8_a100_4sw", "ib_hdr"),
]
# Bytes of BERT-large's gradients in fp16, of which NVIDIA's LAMB makes --dwu-num-blocks blocks.
BERT_GRADIENTS = 2 * 336e6
IMAGES = 1281167
FEWEST_SAMPLES = 1000  # Of a count of samples; epochs are fewer.
FEWEST_STEPS = 30  # In an epoch, for its time in the log to be the device's.


def entries(text):
    """What the log says, line by line."""
    out = []
    for found in LOG.finditer(text):
        try:
            out.append(json.loads(found.group(1)))
        except ValueError:
            continue
    return out


def last(log, key):
    found = [entry["value"] for entry in log if entry["key"] == key]
    return found[-1] if found else None


def between(points):
    """Rates between points (samples so far, milliseconds), those apart that are in order."""
    points = sorted(points)
    return [1000 * (many - few) / (after - before) for (few, before), (many, after) in zip(points, points[1:])
            if many > few and after > before]


def rates(log):
    """Samples per second, as the log counts them: epoch by epoch without the first, where it states their rate; else
    between evaluations, of which later rounds say the samples so far; else by the times of epochs; else of the whole
    run, by the samples that it trained. BERT's `training_sequences_per_second` is none of these: it divides the samples
    that were planned by the time that was taken, and runs end before their plan does."""
    stated = [entry["value"] for entry in log if entry["key"] == "throughput"]
    tracked = [entry["value"] for entry in log if entry["key"] == "tracked_stats" and isinstance(entry["value"], dict)]
    tracked = [value["throughput"] for value in tracked if "throughput" in value]
    if stated or tracked:
        return stated[1:] or tracked[1:] or tracked
    counted = between((entry["metadata"]["epoch_num"], entry["time_ms"]) for entry in log
                      if entry["key"] == "eval_accuracy" and entry["metadata"].get("epoch_num", 0) >= FEWEST_SAMPLES)
    if counted:
        return counted
    times = {key: [entry["time_ms"] for entry in log if entry["key"] == key]
             for key in ("epoch_start", "epoch_stop", "run_start", "run_stop")}
    if len(times["epoch_start"]) >= 3:
        return [1000 * IMAGES / (stop - start)
                for start, stop in zip(times["epoch_start"][1:], times["epoch_stop"][1:])]
    samples = last(log, "train_samples")
    if samples and times["run_start"] and times["run_stop"]:
        return [1000 * samples / (times["run_stop"][-1] - times["run_start"][0])]
    return []


def by_catalogue(system, gpus):
    """Machine and network; None where the catalogue has none."""
    name = system["accelerator_model_name"]
    fitting = [row for row in MACHINES if re.search(row[0], name) and row[1] == gpus]
    return fitting[0][2:] if fitting else None


def readable(clone, path):
    """The text of a log; nothing where a copy of the repository lacks it, as of logs of 4 MiB and more."""
    try:
        return clone.text(path)
    except OSError:
        return ""


def on_hopper(system):
    return "H100" in str(system.get("accelerator_model_name")).upper()


def exports(text):
    """Whole numbers that a configuration exports by name; what it adds to the command."""
    numbers = dict(re.findall(r"^export (\w+)=([0-9]+)", text, re.MULTILINE))
    return {name: int(value) for name, value in numbers.items()}, " ".join(
        re.findall(r"^export (?:EXTRA_PARAMS|SBATCH_NETWORK)=(.*)", text, re.MULTILINE))


def flags_of(clone, paths, owner, name, nodes, per_gpu):
    """Flags of the owner's configuration of BERT for so many nodes and samples of a GPU; that of the submission's own
    folder where there is one. None where no configuration says so."""
    found = []
    for path in paths:
        if re.match(rf"{owner}/benchmarks?/bert/.*/config_[^/]*\.sh$", path):
            numbers, extra = exports(readable(clone, path))
            packed = 2 if "packed_samples" in extra else 1
            if numbers.get("DGXNNODES") == nodes and per_gpu in (numbers.get("BATCHSIZE"),
                                                                 packed * numbers.get("BATCHSIZE", 0)):
                found.append((f"/{name}/" not in path, path, extra))
    return min(found)[2] if found else None


def keys_of_flags(flags, nodes, gpus):
    """What flags of NVIDIA's BERT say, of rounds from 1.1 on."""
    keys = {"strategy.dp_shard": gpus} if nodes > 1 else {}
    if "use_transformer_engine2" in flags:
        keys |= {"training.precision": "fp8_mixed", "training.fp8.attention": True}
    if re.search(r"\bsharp\b", flags):
        keys["cluster.network"] = "../../machines/eos_sharp.json"
    if "dwu-overlap-reductions" in flags:
        blocks = int(re.search(r"dwu-num-blocks=([0-9]+)", flags).group(1))
        keys |= {"strategy.overlap.grad_reduce": True, "strategy.bucket": f"{BERT_GRADIENTS / blocks:.0f}B"}
    if "pad_fmha" not in flags:
        keys["kernels.attention"] = "unfused"
    return keys | {"kernels.cuda_graphs": "use_cuda_graph" in flags}


def on_nvidia(system):
    return "NVIDIA" in str(system.get("accelerator_model_name")).upper()


def system_of(clone, paths, owner, name):
    path = f"{owner}/systems/{name}.json"
    try:
        return json.loads(clone.text(path)) if path in paths else {}
    except ValueError:
        return {}


def rows(clone, frameworks, machine_of=by_catalogue, bert=None, flags=False, known_logs=()):
    """Rows of a round. `frameworks` has the profile of each benchmark that is read: {"resnet": "mxnet@mlperf-3.0"}.
    `bert`: keys of BERT's rows alone, or a function that gives them of a system. `flags`: whether BERT's rows have the
    keys of their owner's configuration; without one they are left out. `known_logs`: Git's hashes of first logs that
    other rounds published, too; their rows are left out."""
    paths = clone.files()
    known = set(paths)
    pattern = re.compile(rf"([^/]+)/results/([^/]+)/({'|'.join(frameworks)})/result_0\.txt")
    for owner, name, benchmark in (found.groups() for found in map(pattern.fullmatch, paths) if found):
        system = system_of(clone, known, owner, name)
        library = "mxnet" if benchmark == "resnet" else "pytorch"
        if library not in str(system.get("framework")).lower() or not on_nvidia(system):
            continue
        folder = f"{owner}/results/{name}/{benchmark}"
        logs = [entries(readable(clone, path)) for path in paths if path.startswith(folder + "/result_")]
        logs = [log for log in logs if last(log, "global_batch_size")]
        measured = [rate for log in logs for rate in rates(log)]
        if measured and clone.hash(f"{folder}/result_0.txt") not in known_logs:
            found = row(folder, owner, name, benchmark, system, logs[0], measured, frameworks, machine_of)
            if benchmark == "bert" and bert:
                found["set"] |= bert(system) if callable(bert) else bert
            if benchmark == "bert" and flags:
                nodes, gpus = found["set"]["cluster.nodes"], found["set"]["cluster.gpus_per_node"]
                per_gpu = found["set"]["training.global_batch"] // (nodes * gpus)
                of = flags_of(clone, paths, owner, name, nodes, per_gpu)
                if of is None:
                    continue
                found["set"] |= keys_of_flags(of, nodes, gpus)
            yield found


def row(folder, owner, name, benchmark, system, log, measured, frameworks, machine_of):
    counted = re.match(r"([0-9]+)x", name)
    nodes = int(system.get("number_of_nodes") or (counted.group(1) if counted else 1))
    gpus, total = int(system["accelerators_per_node"]), last(log, "global_batch_size")
    shares = (last(log, "gradient_accumulation_steps") or 1) * nodes * gpus
    keys = JOBS[benchmark] | {"framework": frameworks[benchmark], "cluster.nodes": nodes, "cluster.gpus_per_node": gpus,
                              "training.global_batch": total, "strategy.microbatch": max(1, total // shares)}
    found = machine_of(system, gpus)
    if found:
        keys["cluster.machine"] = found[0]
        if nodes > 1:
            keys["cluster.network"] = found[1]
    rate = statistics.median(measured)
    out = {"id": f"{owner}_{name}_{benchmark}".lower(), "at": folder,
           "kind": "images" if benchmark == "resnet" else "encoders", "set": keys,
           "values": {"step_time": total / rate, "stated": {"samples_per_s": rate, "epochs": len(measured)}}}
    if benchmark == "resnet" and IMAGES < FEWEST_STEPS * total:
        out["inexpressible"] = "epochs of so few steps that their times are those of the host that runs ahead"
    if not found:
        out["inexpressible"] = f"no machine of the catalogue has {gpus} x {system['accelerator_model_name']}"
    return out
