"""ms-swift's examples: scripts whose first lines say what their run took, with packed sequences of a stated length."""
import re

MODELS = {"Qwen2.5-7B": ("qwen2_5_7b", 28), "Qwen2.5-14B": ("qwen2_5_14b", 48), "Qwen2.5-32B": ("qwen2_5_32b", 64),
          "Qwen2.5-72B": ("qwen2_5_72b", 80), "Qwen3-14B": ("qwen3_14b", 40), "Qwen3-32B": ("qwen3_32b", 64),
          "Qwen3-30B-A3B": ("qwen3_30b_a3b", 48)}
SOURCE = {
    "source": "ms-swift examples (ModelScope, 2026), comments at the head of its scripts",
    "repository": "modelscope/ms-swift", "commit": "3602360a562313afbf2ef6065fdf61f271a2c5b9",
    "files": ["examples/**.sh"],
    "lot": 1,
    "stated": "the whole command; GPUs where a line says so; memory is torch.cuda.max_memory_reserved "
              "(swift/megatron/callbacks/print.py, swift/utils/torch_utils.py)",
    "seen": "examples/megatron/moe/qwen3_moe.sh and the memory of examples/megatron/base_to_chat.sh: these rows count "
            "in no figure",
    "guesses": ["A100 SXM 80 GB where no GPU is named; A100 and H20 on boards of eight",
                "megatron-core 0.15 and the Trainer of transformers 4.57", "two nodes: eight HDR adapters each",
                "Liger's kernels as a fused loss alone"],
    "left_out": "scripts with images, sound or video, preferences, classifiers, models that the program does not know, "
                "those that do not pack, whose sequences have no stated length, and those of several runs "
                "without a name",
    "base": {"schema": "rehearse/scenario/v1", "cluster": {"machine": "dgx_a100_80gb"},
             "training": {"precision": "bf16_mixed", "optimizer": "adamw"}, "strategy": {}, "kernels": {}},
}
SEEN = {"examples/megatron/moe/qwen3_moe.sh": ("step_time", "peak_memory"),
        "examples/megatron/base_to_chat.sh": ("peak_memory",)}
FLAG = re.compile(r"--([a-z0-9_]+)((?: +[^ \n\\-][^ \n\\]*)*)")


def known(name):
    """The shipped model of a name such as Qwen/Qwen3-14B-FP8; None for others."""
    short = re.sub(r"-(Base|Instruct-2507|Instruct)", "", re.sub(r"-FP8$", "", name.split("/")[-1]))
    return MODELS.get(short)


def figures(text):
    """What the comments say, by run: ("fa3", GPUs, GiB or None, seconds or None)."""
    for line in text.splitlines()[:16]:
        memory = re.search(r"([0-9]+) ?\* ?([0-9.]+) ?Gi?B", line)
        seconds = re.search(r"([0-9.]+) ?s/it", line)
        if not line.startswith("#") or not (memory or seconds):
            continue
        run = re.match(r"# *([A-Za-z0-9 -]+):", line)
        yield (run.group(1).lower().replace(" ", "_") if run and "memory" not in run.group(1).lower() else "",
               int(memory.group(1)) if memory else None, float(memory.group(2)) if memory else None,
               float(seconds.group(1)) if seconds else None)


def megatron(flags, layers):
    keys = {"strategy.tp": int(flags.get("tensor_model_parallel_size", 1)),
            "strategy.pp": int(flags.get("pipeline_model_parallel_size", 1)),
            "strategy.ep": int(flags.get("expert_model_parallel_size", 1)),
            "strategy.microbatch": int(flags["micro_batch_size"]),
            "training.global_batch": int(flags["global_batch_size"]),
            "strategy.zero_stage": 1, "strategy.recompute": flags.get("recompute_granularity", "selective"),
            "kernels.fused_cross_entropy": flags.get("cross_entropy_loss_fusion") == "true",
            "framework": "megatron-core@0.15"}
    if keys["strategy.tp"] > 1 and flags.get("sequence_parallel") == "true":
        keys["strategy.sequence_parallel"] = True
    first = flags.get("decoder_first_pipeline_num_layers")
    if first:
        keys["strategy.layers_per_stage"] = [int(first), layers - int(first)]
    if flags.get("optimizer_cpu_offload") == "true":
        keys["strategy.offload"] = "optimizer"
    if "moe_expert_capacity_factor" in flags:
        keys["training.experts.capacity_factor"] = float(flags["moe_expert_capacity_factor"])
    return keys


def trainer(flags, gpus):
    keys = {"strategy.microbatch": int(flags["per_device_train_batch_size"]), "strategy.recompute": "full",
            "training.global_batch": gpus * int(flags["per_device_train_batch_size"])
            * int(flags.get("gradient_accumulation_steps", 1)), "framework": "huggingface-trainer@4.57",
            "kernels.fused_cross_entropy": flags.get("use_liger_kernel") == "true"}
    if "deepspeed" in flags:
        keys["strategy.zero_stage"] = int(flags["deepspeed"][-1])
    return keys


def job(text, flags, run, gpus):
    name, layers = known(flags["model"])
    keys = {"model": name, "training.sequence_length": int(flags["max_length"])}
    keys |= megatron(flags, layers) if "megatron sft" in text or "megatron pt" in text else trainer(flags, gpus)
    if re.search(r"^#.*H20", text, re.M):
        keys["cluster.machine"] = "hgx_h20"
    keys |= {"cluster.nodes": max(1, gpus // 8), "cluster.gpus_per_node": min(8, gpus)}
    if gpus > 8:
        keys["cluster.network"] = "rail_hdr"
    if flags.get("tuner_type") == "lora":
        keys |= {"training.lora.rank": int(flags["lora_rank"]), "training.lora.alpha": float(flags["lora_alpha"])}
    if "fp8_recipe" in flags and run != "bf16":
        keys |= {"training.precision": "fp8_mixed", "training.fp8.recipe": flags["fp8_recipe"],
                 "training.fp8.parameters": flags.get("fp8_param_gather") == "true"}
    if run in ("fa2", "fa3"):
        keys["kernels.flash"] = "flash" + run[-1]
    return keys


def rows(clone):
    for path in clone.files("examples"):
        if not path.endswith(".sh") or "sft" not in (text := clone.text(path)) and "megatron pt" not in text:
            continue
        commands = FLAG.findall(re.sub(r"(?m)^#.*", "", text))
        flags = {name: value.strip().strip("'\"") for name, value in reversed(commands)}
        if not known(flags.get("model", "")) or flags.get("packing") != "true" or "max_length" not in flags:
            continue
        if "task_type" in flags or "$(" in text:
            continue
        nodes = 2 if "$WORLD_SIZE" in text else 1
        ranks = re.search(r"NPROC_PER_NODE=([0-9]+)", text)
        runs = list(figures(text))
        if len({run for run, *_ in runs}) < len(runs):
            continue
        for run, gpus, memory, seconds in runs:
            if run == "zero3":
                continue
            gpus = gpus or nodes * (int(ranks.group(1)) if ranks else 8)
            values = {"stated": {"GiB": memory, "s_per_iteration": seconds}}
            if seconds:
                values["step_time"] = seconds
            if memory:
                values["peak_memory"] = memory * 2**30
            row = {"id": "_".join(filter(None, [re.sub(r"^examples/|\.sh$", "", path).replace("/", "_"), run])),
                   "at": path, "kind": "experts" if "A3B" in flags["model"] else "dense", "memory": "reserved",
                   "set": job(text, flags, run, gpus), "values": values}
            if path in SEEN:
                row["seen"] = True
            yield row
