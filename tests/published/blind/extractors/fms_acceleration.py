"""IBM's benchmarks of fms-acceleration: fine-tuning by the Hugging Face Trainer on one to eight A100 80 GB."""
import re

import reading

FOLDER = "scripts/benchmarks/refs"
POWERLM = {"model_type": "granite", "hidden_size": 2304, "num_hidden_layers": 40, "num_attention_heads": 36,
           "num_key_value_heads": 36, "intermediate_size": 9216, "vocab_size": 49152, "tie_word_embeddings": True,
           "max_position_embeddings": 4096}
SANTACODER = {"model_type": "gpt_bigcode", "n_embd": 2048, "n_layer": 24, "n_head": 16, "n_inner": 8192,
              "n_positions": 2048, "vocab_size": 49280, "multi_query": True}
GRANITE_MOE = {"model_type": "granitemoe", "hidden_size": 1536, "num_hidden_layers": 32, "num_attention_heads": 24,
               "num_key_value_heads": 8, "intermediate_size": 512, "num_local_experts": 40, "num_experts_per_tok": 8,
               "vocab_size": 49155, "tie_word_embeddings": True, "max_position_embeddings": 4096}
GRANITE_SHARED = GRANITE_MOE | {"model_type": "granitemoeshared", "num_hidden_layers": 40, "num_local_experts": 62,
                                "num_experts_per_tok": 6, "shared_intermediate_size": 1024, "vocab_size": 49152}
# By name: the model, and tokens of a packed sequence.
DENSE = {"mistralai/Mistral-7B-v0.1": ("mistral_7b", 4096), "meta-llama/Meta-Llama-3-8B": ("llama3_8b", 4096),
         "ibm/PowerLM-3b": (POWERLM, 4096), "bigcode/gpt_bigcode-santacoder": (SANTACODER, 2048),
         "NousResearch/Llama-2-70b-hf": ("llama2_70b", 4096),
         "mistralai/Mixtral-8x7B-Instruct-v0.1": ("mixtral_8x7b", 4096)}
EXPERTS = {"ibm-granite/granite-3.0-3b-a800m-instruct": GRANITE_MOE,
           "ibm-research/moe-7b-1b-active-shared-experts": GRANITE_SHARED,
           "mistralai/Mixtral-8x7B-Instruct-v0.1": "mixtral_8x7b"}
ALPACA_TOKENS = 217
KERNELS = {"framework.fused_norm": True, "kernels.fused_cross_entropy": True}
SOURCE = {
    "source": "fms-acceleration, reference results of its benchmarks (IBM, 2024 and 2025)",
    "repository": "foundation-model-stack/fms-acceleration", "commit": "876e2ed6fc4e966785e3f4315f5ee3cdf8e3d097",
    "files": [f"{FOLDER}/a100_80gb{part}.csv" for part in ("", "_granite", "_liger", "_moe")],
    "lot": 3,
    "stated": "A100-SXM4-80GB; model, GPUs, sequences per GPU and plugins by the row; Alpaca packed to 4,096 tokens, "
              "FlashAttention 2, gradient checkpointing, AdamW, weights in bf16 (scenarios*.yaml, defaults.yaml, "
              "benchmark.py), FSDP 1 on several GPUs (accelerate.yaml), adapters of rank 16 on q, k, v and o; seconds "
              "are those of 100 steps, the first and its compilation of kernels among them; memory is PyTorch's peak "
              "of allocations of the first rank",
    "seen": "nothing but epochs, which say how many sequences there are",
    "guesses": ["boards of eight as DGX", "with bf16 asked for, FSDP holds trained weights in fp32",
                "SantaCoder packs to its 2,048 positions",
                "where nothing is packed, samples have the 217 tokens that epochs of packed runs give",
                "sizes of PowerLM-3b, SantaCoder and the two Granites with experts as their model cards have them",
                "ScatterMoE's experts run as grouped products, expert ranks neighbours, tokens choose evenly",
                "fast kernels: a fused norm and a fused loss; Liger's: a loss by chunks of logits"],
    "left_out": "weights in 4 bits; runs that failed; padded batches, whose length nobody states; Granite 4, whose "
                "layers the program does not know; memory of unpacked runs, which hangs on their longest batch",
    "base": {"schema": "rehearse/scenario/v1", "framework": "huggingface-trainer@4.46",
             "cluster": {"machine": "dgx_a100_80gb", "nodes": 1},
             "training": {"precision": "bf16", "optimizer": "adamw"},
             "strategy": {"recompute": "full"}, "kernels": {"flash": "flash2"}},
}


def sharding(gpus):
    return {"cluster.gpus_per_node": gpus} | ({"strategy.fsdp.enabled": True} if gpus > 1 else {})


def packed(row):
    """Keys of a run whose sequences are packed; None where weights are in 4 bits."""
    plugins, name, gpus = row["framework_config"], row["model_name_or_path"], int(row["num_gpus"])
    if name not in DENSE or not re.fullmatch(r"none|foak-fast-kernels(-liger)?", plugins):
        return None
    (model, tokens), batch = DENSE[name], int(row["per_device_train_batch_size"])
    keys = {"model": model, "training.sequence_length": tokens, "training.global_batch": batch * gpus,
            "strategy.microbatch": batch} | sharding(gpus)
    if plugins != "none":
        keys |= KERNELS
    if plugins.endswith("liger"):
        keys |= {"framework.linear_loss": "chunks"}
    if row["peft_method"]:
        keys |= {"training.lora.rank": 16, "training.lora.alpha": 16, "training.lora.dropout": 0.1,
                 "training.lora.targets": "qkv,proj"}
    elif row["bf16"] and gpus > 1:
        keys["training.precision"] = "bf16_mixed"
    return keys


def unpacked(row):
    """Keys of a run with experts whose samples are neither packed nor padded; None for others."""
    plugins, name, gpus = row["framework_config"], row["model_name_or_path"], int(row["num_gpus"])
    batch, count = int(row["per_device_train_batch_size"]), int(row["gradient_accumulation_steps"])
    if name not in EXPERTS or "scattermoe" not in plugins or not (batch == 1 or "padding-free" in plugins):
        return None
    keys = {"model": EXPERTS[name], "framework": "huggingface-trainer@4.51",
            "training.sequence_length": ALPACA_TOKENS, "strategy.microbatch": batch,
            "training.global_batch": batch * count * gpus,
            "strategy.ep": int(re.search(r"-ep([0-9])", plugins).group(1))} | sharding(gpus)
    return keys | (KERNELS if plugins.endswith("foak") else {})


def rows(clone):
    for path in SOURCE["files"]:
        moe = path.endswith("_moe.csv")
        for at, row in reading.csv_rows(clone.text(path)):
            keys = unpacked(row) if moe else packed(row)
            if keys is None or not row["train_runtime"]:
                continue
            seconds = float(row["train_runtime"]) / 100
            values = {"step_time": seconds, "stated": {"train_runtime": float(row["train_runtime"])}}
            if not moe:
                values["peak_memory"] = float(row["mem_peak_torch_mem_alloc_in_bytes"])
            name = row["model_name_or_path"].split("/")[-1]
            parts = [re.sub(r"^a100_80gb_?|\.csv$", "", path.split("/")[-1]), name, row["framework_config"],
                     row.get("peft_method"), f"b{row['per_device_train_batch_size']}", f"{row['num_gpus']}g"]
            yield {"id": re.sub(r"[^a-z0-9.]+", "_", "_".join(filter(None, parts)).lower()), "at": f"{path}:{at}",
                   "kind": "experts" if moe or "Mixtral" in name else "dense", "memory": "allocated", "set": keys,
                   "values": values}
