"""prime-rl's baselines of its trainer: Qwen3 and INTELLECT-3 on one to eight A6000, H100, H200 and B200."""
import json
import re

FOLDER = "benchmarks/baselines"
QWEN3 = {"model_type": "qwen3", "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
         "vocab_size": 151936, "tie_word_embeddings": True}
QWEN3_MOE = {"model_type": "qwen3_moe", "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128,
             "vocab_size": 151936, "num_experts": 128, "num_experts_per_tok": 8, "norm_topk_prob": True,
             "decoder_sparse_step": 1, "mlp_only_layers": [], "tie_word_embeddings": False}
MODELS = {
    "Qwen3-0.6B": QWEN3 | {"hidden_size": 1024, "num_hidden_layers": 28, "num_attention_heads": 16,
                           "intermediate_size": 3072},
    "Qwen3-4B-Instruct-2507": QWEN3 | {"hidden_size": 2560, "num_hidden_layers": 36, "intermediate_size": 9728},
    "Qwen3-30B-A3B-Instruct-2507": QWEN3_MOE | {"hidden_size": 2048, "num_hidden_layers": 48,
                                                "intermediate_size": 6144, "moe_intermediate_size": 768},
    "Qwen3-235B-A22B-Instruct-2507": QWEN3_MOE | {"hidden_size": 4096, "num_hidden_layers": 94,
                                                  "num_attention_heads": 64, "intermediate_size": 12288,
                                                  "moe_intermediate_size": 1536},
    "INTELLECT-3": {"model_type": "glm4_moe", "hidden_size": 4096, "num_hidden_layers": 46, "num_attention_heads": 96,
                    "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 10944, "vocab_size": 151552,
                    "partial_rotary_factor": 0.5, "attention_bias": True, "n_routed_experts": 128,
                    "num_experts_per_tok": 8, "moe_intermediate_size": 1408, "n_shared_experts": 1,
                    "first_k_dense_replace": 1, "tie_word_embeddings": False},
}
MACHINES = {"a6000": "pcie4_a6000_nvlink", "h100": "dgx_h100", "h200": "dgx_h200", "b200": "dgx_b200"}
SOURCE = {
    "source": "prime-rl, baselines of its trainer's benchmark (Prime Intellect, 2026)",
    "repository": "PrimeIntellect-ai/prime-rl", "commit": "559b44772e471d1538537b8805cc77f3824a5e64",
    "files": [f"{FOLDER}/*.json"],
    "lot": 4,
    "stated": "model, GPUs, length, kind of attention, activations recomputed by the layer or offloaded besides, "
              "adapters' rank and two microbatches of one sequence by the file; torch.compile by the layer, FSDP2 of "
              "fp32 weights with products in bf16 and fp32 reductions, AdamW, clipping, adapters on all products "
              "(benchmarks/scripts/run_single_benchmark.py, src/prime_rl/trainer/{model,config,optim}.py at d8f290ef, "
              "the commit of the runs); seconds are the mean of three steps after the first, of the whole step; memory "
              "is torch.cuda.max_memory_reserved (src/prime_rl/trainer/{rl,sft}/train.py)",
    "seen": "nothing",
    "guesses": ["torchtitan 0.2 as the framework, whose experts, clipping and order of checkpoints, compilation and "
                "sharding the trainer has", "boards of eight as DGX; A6000 in pairs with NVLink",
                "the loss of reinforcement learning, which takes logits of 2,048 words at a time and again in "
                "backward, as one on chip; logits stored in supervised runs, as their default has it",
                "one adapter where the trainer keeps room for four", "INTELLECT-3 has GLM-4.5-Air's layers",
                "tokens choose experts evenly"],
    "left_out": "runs that failed",
    "base": {"schema": "rehearse/scenario/v1", "framework": "torchtitan@0.2.0", "cluster": {"nodes": 1},
             "training": {"precision": "bf16_mixed", "optimizer": "adamw", "gradient_dtype": "fp32"},
             "strategy": {"microbatch": 1, "fsdp": {"enabled": True}, "recompute": "full"},
             "kernels": {"compile": True}},
}


def keys_of(config, board):
    gpus, name = config["num_gpus"], config["model_name"].split("/")[-1]
    keys = {"model": MODELS[name] | {"max_position_embeddings": max(config["seq_len"], 40960)},
            "cluster.machine": MACHINES[board], "cluster.gpus_per_node": gpus,
            "training.sequence_length": config["seq_len"],
            "training.global_batch": config["micro_batches"] * gpus,
            "kernels.flash": "flash" + config["attention"][-1]}
    if config["type"] == "rl":
        keys["framework.linear_loss"] = "on_chip"
    if config["ac"] == "Offload":
        keys["strategy.offload"] = "activations"
    if config["lora_rank"]:
        keys |= {"training.lora.rank": config["lora_rank"], "training.lora.alpha": 32}
    return keys


def rows(clone):
    for path in clone.files(FOLDER):
        document = json.loads(clone.text(path))
        config, metrics = document["config"], document["metrics"]
        if not config["success"]:
            continue
        name, board = re.search(r"benchmark-(\dx(\w+?)-.*)-cp1-ep1\.json$", path).groups()
        values = {"step_time": metrics["step_time"]["mean"], "peak_memory": metrics["peak_memory"]["gib"] * 2**30,
                  "stated": {"s_per_step": metrics["step_time"]["mean"], "GiB": metrics["peak_memory"]["gib"]}}
        kind = "dense" if MODELS[config["model_name"].split("/")[-1]]["model_type"] == "qwen3" else "experts"
        yield {"id": re.sub(r"[^a-z0-9.]+", "_", name.lower()), "at": path, "kind": kind, "memory": "reserved",
               "set": keys_of(config, board), "values": values}
