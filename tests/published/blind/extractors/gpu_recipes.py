"""Google's recipes for GPU clusters: a step of GPT-3 175B, Llama 3.1 70B and Mixtral 8x7B on 256 H100 or H200."""
import re

TRAINING, CONFIGS = "training", "src/frameworks"
LLAMA_70B = {"model_type": "llama", "hidden_size": 8192, "num_hidden_layers": 80, "num_attention_heads": 64,
             "num_key_value_heads": 8, "intermediate_size": 28672, "vocab_size": 50432,
             "max_position_embeddings": 8192}
MIXTRAL = {"model_type": "mixtral", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
           "num_key_value_heads": 8, "intermediate_size": 14336, "num_local_experts": 8, "num_experts_per_tok": 2,
           "vocab_size": 50304, "max_position_embeddings": 4096}
H200 = {"cluster.machine": "gcp_a3_ultragpu_8g", "cluster.network": "gcp_roce_400g"}
FP8 = {"training.precision": "fp8_mixed", "training.fp8.recipe": "delayed"}
# By recipe: its NeMo configuration, the kind, and what the configuration says.
RECIPES = {
    "a3mega/gpt3_175b/nemo-gke/nemo2507": (
        "a3mega/nemo-configs/gpt3-175b-256gpus-fp8.yaml", "dense", FP8 | {
            "cluster.machine": "gcp_a3_megagpu_8g", "cluster.network": "roce_400g", "model": "gpt3_175b",
            "training.sequence_length": 2048, "training.global_batch": 2048, "strategy.microbatch": 1,
            "strategy.tp": 4, "strategy.pp": 8, "strategy.virtual_stages": 2, "strategy.sequence_parallel": True,
            "strategy.schedule": "interleaved_1f1b"}),
    "a3ultra/llama3_70b/nemo-gke/nemo2407": (
        "a3ultra/nemo-configs/llama3-1-70b-256gpus-a3ultra-fp8.yaml", "dense", H200 | FP8 | {
            "model": LLAMA_70B, "training.sequence_length": 8192, "training.global_batch": 1024,
            "training.fp8.parameters": True, "strategy.microbatch": 1, "strategy.tp": 2, "strategy.pp": 4,
            "strategy.virtual_stages": 20, "strategy.sequence_parallel": True,
            "strategy.schedule": "interleaved_1f1b"}),
    "a3ultra/mixtral_8x7b/nemo-gke/nemo2407": (
        "a3ultra/nemo-configs/mixtral-8x7b-256gpus-a3u-bf16.yaml", "experts", H200 | {
            "model": MIXTRAL, "training.sequence_length": 4096, "training.global_batch": 1024,
            "strategy.microbatch": 2, "strategy.ep": 8, "training.experts.capacity_factor": 1.0,
            "training.experts.pad_to_capacity": True}),
}
SOURCE = {
    "source": "AI Hypercomputer's recipes for GPU clusters, entries of logs in their READMEs (Google Cloud, 2024)",
    "repository": "AI-Hypercomputer/gpu-recipes", "commit": "2e1fd5efbf1af9c08f8ac50b9d7fef2cfa675b68",
    "files": [f"{TRAINING}/{recipe}/recipe/README.md" for recipe in RECIPES]
             + [f"{CONFIGS}/{config}" for config, _, _ in RECIPES.values()],
    "lot": 3,
    "stated": "256 GPUs of A3 Mega or A3 Ultra by the recipe; layers, splits, batches, fp8, padding of experts "
              "and GPT-2's vocabulary by its configuration, whose batch the entry's samples confirm; seconds of one "
              "late step",
    "seen": "the utilisation that the MaxText recipes of Llama 3.1 405B on A3 Ultra and 70B on A4 show: those are left "
            "out",
    "guesses": ["NeMo 24.05 as the release of the containers", "A3 Mega's fabric as one of 400 Gb/s Ethernet"],
    "left_out": "recipes without a log, and MaxText's",
    "base": {"schema": "rehearse/scenario/v1", "framework": "nemo@24.05", "cluster": {"nodes": 32},
             "training": {"precision": "bf16_mixed", "optimizer": "adam"},
             "strategy": {"zero_stage": 1, "overlap": {"param_gather": True}}},
}


def rows(clone):
    for recipe, (_, kind, keys) in RECIPES.items():
        path = f"{TRAINING}/{recipe}/recipe/README.md"
        seconds = float(re.search(r'"train_step_timing in s": ([0-9.]+)', clone.text(path)).group(1))
        yield {"id": re.sub(r"[^a-z0-9]+", "_", "_".join(recipe.split("/")[:2])), "at": path, "kind": kind, "set": keys,
               "values": {"step_time": seconds, "stated": {"train_step_timing": seconds}}}
