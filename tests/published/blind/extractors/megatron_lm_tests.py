"""Megatron-LM's functional tests: expected times and memory of small jobs on eight H100 or GB200."""
import json
import re
import statistics

FOLDER = "tests/functional_tests/test_cases"
GPT_7B = {"model_type": "starcoder2", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
          "num_key_value_heads": 8, "intermediate_size": 16384, "vocab_size": 131584, "max_position_embeddings": 8192,
          "tie_word_embeddings": False}
MLA_MOE = {"model_type": "deepseek_v3", "hidden_size": 1024, "num_hidden_layers": 16, "num_attention_heads": 32,
           "num_key_value_heads": 32, "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
           "qk_rope_head_dim": 64, "v_head_dim": 128, "intermediate_size": 4096, "moe_intermediate_size": 1024,
           "n_routed_experts": 32, "n_shared_experts": 1, "num_experts_per_tok": 4, "n_group": 4, "topk_group": 2,
           "num_nextn_predict_layers": 1, "vocab_size": 51712, "max_position_embeddings": 4096,
           "tie_word_embeddings": False}
INTERLEAVED = {"strategy.schedule": "interleaved_1f1b"}
UNFUSED = {"kernels.attention": "unfused"}
DENSE = {"model": GPT_7B, "training.sequence_length": 8192, "training.global_batch": 8, "strategy.zero_stage": 1,
         "strategy.overlap.param_gather": True, "framework.fused_gradient_accumulation": False}
EXPERTS = UNFUSED | INTERLEAVED | {
    "model": MLA_MOE | {"first_k_dense_replace": 1}, "training.sequence_length": 4096,
    "training.global_batch": 32, "strategy.microbatch": 4, "strategy.tp": 2, "strategy.pp": 2,
    "strategy.ep": 4, "strategy.virtual_stages": 4, "strategy.sequence_parallel": True,
    "strategy.zero_stage": 1, "strategy.overlap.param_gather": True,
    "kernels.fused_cross_entropy": True}
BERT = UNFUSED | {"model": "bert_large", "training.sequence_length": 512, "training.global_batch": 128,
                  "strategy.microbatch": 4, "strategy.overlap.grad_reduce": False,
                  "framework.fused_gradient_accumulation": False}
# By test: its kind, and what its model_config.yaml says.
TESTS = {
    "gpt/gpt3_7b_tp1_pp4_memory_speed": ("dense",
                                         DENSE | INTERLEAVED | {"strategy.pp": 4, "strategy.virtual_stages": 8}),
    "gpt/gpt3_7b_tp4_pp1_memory_speed": ("dense", DENSE | {"strategy.tp": 4, "strategy.microbatch": 2}),
    "moe/gpt3_mcore_te_tp2_pp2_ep4_etp1_memory_speed": ("experts", EXPERTS),
    "moe/gpt3_mcore_te_tp2_pp2_ep4_etp1_mtp_resume_torch_dist_fp8": (
        "experts", EXPERTS | {"training.precision": "fp8_mixed", "training.fp8.recipe": "tensorwise"}),
    "moe/gpt3_mcore_te_tp2_pp2_ep4_etp1_selective_recompute_experimental": (
        "experts", EXPERTS | {"strategy.recompute": "selective",
                              "strategy.recompute_modules": "layernorm,mla_up_proj,mlp,moe_act"}),
    "bert/bert_mcore_tp1_pp2": ("encoders", BERT | {"strategy.pp": 2}),
    "bert/bert_mcore_tp1_pp4_vp2": ("encoders",
                                    BERT | INTERLEAVED | {"strategy.pp": 4, "strategy.virtual_stages": 3}),
    "bert/bert_mcore_tp2_pp2": ("encoders", BERT | {"strategy.tp": 2, "strategy.pp": 2}),
    "bert/bert_mcore_tp2_pp2_local_spec": ("encoders", BERT | {"strategy.tp": 2, "strategy.pp": 2}),
    "bert/bert_mcore_tp4_pp1": ("encoders", BERT | {"strategy.tp": 4}),
}
PLATFORMS = {"dev_dgx_h100": ("h100", {"cluster.machine": "dgx_h100"}),
             "dev_dgx_gb200": ("gb200", {"cluster.machine": "gb200_nvl72", "cluster.gpus_per_node": 8})}
SOURCE = {
    "source": "Megatron-LM, golden values of its functional tests (NVIDIA, 2026)",
    "repository": "NVIDIA/Megatron-LM", "commit": "d98e8a64ddf34856e74b24714e3bedb2f5a39553",
    "files": [f"{FOLDER}/{test}/{part}" for test in TESTS for part in ("model_config.yaml", "golden_values_*.json")],
    "lot": 3,
    "stated": "layers, splits, batches, precision and recomputation by each test's model_config.yaml; eight GPUs by "
              "tests/test_utils/recipes; seconds are the median of iteration-time from the tenth step on; memory is "
              "torch.cuda.max_memory_allocated of the last rank, taken where there is one stage",
    "seen": "nothing",
    "guesses": ["megatron-core 0.19 as the release", "eight GB200 of one rack",
                "GPT's learned positions as rotary ones with grouped keys",
                "deterministic kernels as others, unfused attention where a test asks for it",
                "tokens choose experts evenly", "stages with a layer of prediction as equal ones"],
    "left_out": "models narrower than 1,024, and experts without a gate, which the program does not know; tests that "
                "resume, of inference and of reinforcement learning; release tests, whose GPUs nobody states; values "
                "of platforms on which a test runs no more",
    "base": {"schema": "rehearse/scenario/v1", "framework": "megatron-core@0.19", "cluster": {"nodes": 1},
             "training": {"precision": "bf16_mixed", "optimizer": "adam"}, "strategy": {"microbatch": 1},
             "kernels": {}},
}


def numbers(document, name):
    """Values of a metric from the tenth step on."""
    values = document.get(name, {}).get("values", {})
    return [float(value) for step, value in values.items()
            if int(step) >= 10 and re.fullmatch(r"[0-9.e+]+", str(value))]


def rows(clone):
    known = set(clone.files(FOLDER))
    for test, (kind, keys) in TESTS.items():
        for platform, (label, machine) in PLATFORMS.items():
            path = f"{FOLDER}/{test}/golden_values_{platform}.json"
            if path not in known:
                continue
            document = json.loads(clone.text(path))
            seconds, memory = numbers(document, "iteration-time"), numbers(document, "mem-max-allocated-bytes")
            if not seconds:
                continue
            values = {"step_time": statistics.median(seconds), "stated": {"steps": len(seconds)}}
            if memory and "strategy.pp" not in keys:
                values["peak_memory"] = max(memory)
            yield {"id": f"{test.split('/')[1]}_{label}", "at": path, "kind": kind, "memory": "allocated",
                   "set": keys | machine, "values": values}
