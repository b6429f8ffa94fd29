"""torchtune's README: memory and tokens per second of fine-tuning on RTX 4090, RTX A6000 and A100."""
import re

import reading

SOURCE = {
    "source": "torchtune README, Memory and training speed, Optimization flags (PyTorch, 2024)",
    "repository": "pytorch/torchtune", "commit": "bd2a0fc7c31430972728494fa01aaeeb0ebf1ba1",
    "files": ["README.md", "recipes/configs/llama3_1/*.yaml", "recipes/configs/llama3_2/3B_*.yaml"],
    "lot": 3,
    "stated": "models, GPUs and methods by the tables; two sequences of 2,048 tokens packed and compiled in the first, "
              "of 4,096 in the second, nothing accumulated; all in bf16, optimizers, adapters and checkpointing by the "
              "configurations; memory of the second table is torch.cuda.memory_stats' active peak",
    "seen": "by how much tokens per second change from row to row of the second table, and memory by its first step "
            "and in all: of that table memory alone is taken, from its third row on",
    "guesses": ["active memory, of both tables, as allocated", "A100 of 80 GB on boards as DGX; tokens per second "
                "of one GPU", "release 0.4, of November 2024, when the tables came",
                "adapters on queries and values as on the whole product", "paged 8-bit AdamW stays on the GPU",
                "the second table's AdamW, of PyTorch, in bf16 as its weights"],
    "left_out": "weights in 4 bits; rows that are not packed, whose samples have no stated length",
    "base": {"schema": "rehearse/scenario/v1", "framework": "torchtune@0.4.0",
             "cluster": {"machine": "dgx_a100_80gb", "nodes": 1, "gpus_per_node": 1},
             "training": {"precision": "bf16", "optimizer": "adamw", "clip_gradients": False},
             "strategy": {"microbatch": 2}, "kernels": {}},
}
MACHINES = {"4090": "rtx4090_2x", "A6000": "pcie4_a6000_nvlink", "A100": "dgx_a100_80gb"}
CHECKPOINT = {"strategy.recompute": "full"}
EIGHT_BITS = {"training.optimizer_states": "int8"}
IN_BACKWARD = {"strategy.optimizer_in_backward": True}
CHUNKS = {"framework.linear_loss": "chunks"}


def lora(rank):
    return {"training.lora.rank": rank, "training.lora.alpha": 2 * rank}


METHODS = {("Llama 3.1 8B", "Full finetune"): {"model": "llama3_1_8b"} | EIGHT_BITS | IN_BACKWARD,
           ("Llama 3.1 8B", "LoRA"): {"model": "llama3_1_8b"} | lora(8),
           ("Llama 3.1 70B", "Full finetune"): {"model": "llama3_70b", "strategy.offload": "optimizer",
                                                "strategy.offload_parameters": True},
           ("Llama 3.1 70B", "LoRA"): {"model": "llama3_70b"} | lora(16)}
# What each row of the second table adds to the one above it; LoRA starts anew.
STEPS = [("Compile", {"kernels.compile": True}), ("Chunked Cross Entropy", CHUNKS),
         ("Activation Checkpointing", CHECKPOINT), ("Fuse optimizer step into backward", IN_BACKWARD),
         ("Activation Offloading", {"strategy.offload": "activations"}), ("8-bit AdamW", EIGHT_BITS)]


def speeds(columns, lines):
    for at, cells in lines:
        of = dict(zip(columns, cells))
        method = METHODS.get((of["Model"], of["Finetuning Method"]))
        if method is None:
            continue
        gpus, gpu = re.match(r"([0-9])x ([A-Z0-9]+)", of["Runnable On"]).groups()
        gpus, rate, memory = int(gpus), reading.number(of["Tokens/sec *"]), reading.number(of["Peak Memory per GPU"])
        keys = {"cluster.machine": MACHINES[gpu], "cluster.gpus_per_node": gpus, "training.sequence_length": 2048,
                "training.global_batch": 2 * gpus, "kernels.compile": True} | CHECKPOINT | CHUNKS | method
        if gpus > 1:
            keys["strategy.fsdp.enabled"] = True
        name = " ".join((of["Model"], of["Finetuning Method"], of["Runnable On"]))
        yield {"id": re.sub(r"[^a-z0-9.]+", "_", name.lower()), "at": f"README.md:{at}", "kind": "dense",
               "memory": "allocated", "set": keys,
               "values": {"step_time": 2 * 2048 / rate, "peak_memory": memory * 2**30,
                          "stated": {"tokens_per_s": rate, "GiB": memory}}}


def flags(columns, lines):
    added = {}
    for at, cells in lines:
        name, memory = reading.plain(cells[0]), reading.number(cells[1])
        more = next((keys for words, keys in STEPS if words in name), None)
        if more is None and name != "LoRA":
            continue
        if name == "LoRA":
            added = {key: value for key, value in added.items() if key not in IN_BACKWARD | EIGHT_BITS} | lora(64)
        else:
            added |= more
        yield {"id": "flags_" + re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_"), "at": f"README.md:{at}",
               "kind": "dense", "memory": "allocated",
               "set": {"model": "llama3_2_3b", "training.sequence_length": 4096, "training.global_batch": 2} | added,
               "values": {"peak_memory": memory * 2**30, "stated": {"GiB": memory}}}


def rows(clone):
    for _, columns, lines in reading.markdown_tables(clone.text("README.md")):
        if "Peak Memory per GPU" in columns:
            yield from speeds(columns, lines)
        elif columns[0] == "Technique":
            yield from flags(columns, lines)
