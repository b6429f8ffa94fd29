"""FlagPerf's reference runs on NVIDIA GPUs: language models on 8 to 440 A100, A800, H800 and H100."""
import re

import reading

FOLDER = "training/nvidia"
AQUILA2_7B = {"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
              "intermediate_size": 11008, "vocab_size": 100008, "max_position_embeddings": 2048}
QWEN_MOE = {"model_type": "mixtral", "hidden_size": 2048, "num_hidden_layers": 24, "num_attention_heads": 16,
            "num_key_value_heads": 16, "intermediate_size": 5504, "num_local_experts": 8, "num_experts_per_tok": 2,
            "vocab_size": 151936, "max_position_embeddings": 8192}
GPT3 = {"model_type": "gpt2", "n_positions": 2048, "vocab_size": 50304}
GPT3_6_7B = GPT3 | {"n_embd": 4096, "n_layer": 32, "n_head": 32, "n_inner": 16384}
GPT3_13B = GPT3 | {"n_embd": 5120, "n_layer": 40, "n_head": 40, "n_inner": 20480}
MEGATRON = {"strategy.zero_stage": 1, "kernels.flash": "flash2"}
# By case: what its scripts say of all its rows; microbatch, tokens, and accumulated microbatches or global batch.
CASES = {
    "aquila2_7b-flagscale": (MEGATRON | {"framework": "megatron-core@0.4", "model": AQUILA2_7B}, 1, 2048, (9, None)),
    "llama2_70B-megatron": (MEGATRON | {"framework": "megatron-core@0.4", "model": "llama2_70b",
                                        "strategy.sequence_parallel": True}, 1, 4096, (44, None)),
    "llama3_8B-megatron": (MEGATRON | {"framework": "megatron-core@0.6", "model": "llama3_8b",
                                       "strategy.sequence_parallel": True, "strategy.recompute": "selective"},
                           1, 8192, (None, 512)),
    "llama3_70B-megatron": (MEGATRON | {"framework": "megatron-core@0.6", "model": "llama3_70b",
                                        "strategy.sequence_parallel": True, "strategy.recompute": "selective"},
                            1, 8192, (None, 512)),
    "mixtral_8x7B-megatron": (MEGATRON | {"framework": "megatron-core@0.6", "model": "mixtral_8x7b",
                                          "strategy.sequence_parallel": True, "strategy.recompute": "selective"},
                              3, 4096, (None, 1200)),
    "qwen1.5_MoE-megatron": (MEGATRON | {"framework": "megatron-core@0.6", "model": QWEN_MOE,
                                         "strategy.recompute": "selective"}, 1, 8192, (None, 512)),
    "llama2_7b-deepspeed": ({"framework": "deepspeed@0.11.2", "model": "llama2_7b", "strategy.zero_stage": 3,
                             "kernels.flash": "flash2"}, 1, 4096, (1, None)),
}
PADDLE = {"gpt3_6.7B-paddle": {"GPT3-6.7B": GPT3_6_7B, "GPT3-13B": GPT3_13B},
          "llama1_7B-paddle": {"LLaMA-7B": "llama_7b", "LLaMA-13B": "llama_13b"}}
MACHINES = {"A100": "dgx_a100_80gb", "A800": "hgx_a800", "H100": "dgx_h100", "H800": "hgx_h800"}
PRECISIONS = {"fp32": "tf32", "amp": "bf16_mixed", "bf16": "bf16_mixed", "fp16": "fp16_mixed",
              "bf16+fp8": "fp8_mixed"}
SOURCE = {
    "source": "FlagPerf, reference runs of its language models on NVIDIA GPUs (Beijing Academy of Artificial "
              "Intelligence, 2023 to 2025)",
    "repository": "FlagOpen/FlagPerf", "commit": "1b5a030398ab719e406f77877eb34c9599b17fd2",
    "files": [f"{FOLDER}/{case}/README.md" for case in (*CASES, *PADDLE)],
    "lot": 3,
    "stated": "machines, GPUs, splits, precision, batches and releases by the tables and the text above them; layers, "
              "ZeRO, sequence parallelism and recomputation by training/benchmarks/*/*.sh; memory of the card, in "
              "whole GiB",
    "seen": "half of the peak as the utilisation of Llama 2 7B on A100, in words about another case: those rows are "
            "left out",
    "guesses": ["FlagScale of 2023 as megatron-core 0.4", "fp32 with a peak of 495 TFLOP/s as tf32",
                "the default of flash attention where the scripts ask for it", "boards of eight as DGX or HGX",
                "adapters as the machine has them, each on a rail", "memory is the device's",
                "PaddlePaddle as no framework stated; its O2 as fp16 with fp32 master weights"],
    "left_out": "Llama 2 7B on A800 and A100, Baichuan 2, which names it, ChatGLM, cases without a table, fine-tuning "
                "on samples of any length, image networks and encoders; memory of the Paddle runs, of which nobody "
                "says how it is counted",
    "base": {"schema": "rehearse/scenario/v1", "cluster": {}, "training": {"optimizer": "adamw"},
             "strategy": {"microbatch": 1}, "kernels": {}},
}


def axes(text):
    return {name.lower(): int(size) for name, size in re.findall(r"(TP|PP|DP|EP)([0-9]+)", text)}


def cluster(gpu, gpus):
    keys = {"cluster.machine": MACHINES[gpu], "cluster.nodes": max(1, gpus // 8)}
    if gpus > 8:
        keys["cluster.network"] = "rail_hdr" if gpu in ("A100", "A800") else "rail_ndr"
    return keys


def job(case, of):
    """Keys of a row, its GPUs, and the tokens of its global batch."""
    keys, micro, tokens, (accumulated, total) = CASES[case]
    split, notes, keys = axes(of.get("parallel", "")), of["fix_hp"], dict(keys)
    gpu = re.search(r"[AH][0-9]00", of["配置"]).group()
    nodes, each = (int(size) for size in re.search(r"（([0-9]+)x([0-9]+)）", of["配置"]).groups())
    micro = int((re.search(r"LBS=([0-9]+)", notes) or [0, micro])[1])
    tokens = int((re.search(r"MPE=([0-9]+)", notes) or [0, tokens])[1])
    accumulated = int((re.search(r"GAS=([0-9]+)", notes) or [0, accumulated or 0])[1])
    total = int((re.search(r"gbs=([0-9]+)", notes) or [0, total or 0])[1])
    replicas = split.get("dp", nodes * each)
    total = total or micro * accumulated * replicas
    keys |= cluster(gpu, nodes * each) | {
        "strategy.tp": split.get("tp", 1), "strategy.pp": split.get("pp", 1), "strategy.microbatch": micro,
        "training.global_batch": total, "training.sequence_length": tokens,
        "training.precision": PRECISIONS[of.get("precision", "bf16")]}
    if keys["strategy.tp"] == 1:
        keys.pop("strategy.sequence_parallel", None)
    if "recompute=True" in notes:
        keys["strategy.recompute"] = "selective"
    return keys, nodes * each, total * tokens


def row(case, at, of, kind):
    rate = reading.number(of["token/p/s"])
    if rate is None or not re.search(r"[AH][0-9]00", of["配置"]):
        return None
    keys, gpus, tokens = job(case, of)
    notes = "" if of["fix_hp"] == "/" else of["fix_hp"]
    words = [case, keys["cluster.machine"], f"{gpus}g", of.get("precision"), of.get("parallel"), notes]
    values = {"step_time": tokens / (rate * gpus), "stated": {"tokens_per_s_per_gpu": rate, "mem": of["mem"]}}
    if reading.number(of["mem"]):
        values["peak_memory"] = reading.number(of["mem"]) * 2**30
    return {"id": re.sub(r"[^a-z0-9.]+", "_", " ".join(filter(None, words)).lower()).strip("_"), "at": at,
            "kind": kind, "memory": "needed", "set": keys, "values": values}


def paddle(case, at, of, model):
    rate = re.search(r"= *([0-9.]+) *tokens/s", of["throughput"])
    tp, pp, stage, memory = re.search(r"TP([0-9])PP([0-9])SH([0-9])SP[0-9]A100([48]0)G", of["config"]).groups()
    micro, count = (int(size) for size in re.search(r"per_device_bs=([0-9]+), accumulate=([0-9]+)",
                                                    of["fix_hp"]).groups())
    total = micro * count * 8 // (int(tp) * int(pp))
    keys = {"model": PADDLE[case][model], "cluster.machine": f"dgx_a100_{memory}gb", "cluster.nodes": 1,
            "training.precision": "fp16_mixed", "training.sequence_length": 2048, "training.global_batch": total,
            "strategy.microbatch": micro, "strategy.tp": int(tp), "strategy.pp": int(pp),
            "strategy.zero_stage": int(stage),
            "strategy.recompute": "full" if "recompute=True" in of["parallel_strategy"] else "none"}
    rate = float(rate.group(1))
    return {"id": f"paddle_{model}_tp{tp}_pp{pp}_zero{stage}_{memory}gb".lower().replace("-", "_"), "at": at,
            "kind": "dense", "set": keys,
            "values": {"step_time": total * 2048 / (rate * 8), "stated": {"tokens_per_s_per_gpu": rate}}}


def tables(text):
    """Rows of the tables of runs, as (line, {column: cell})."""
    for _, columns, lines in reading.markdown_tables(text):
        for at, cells in lines if columns[0] == "配置" else ():
            yield at, dict(zip(columns, cells))


def rows(clone):
    for case in CASES:
        path = f"{FOLDER}/{case}/README.md"
        kind = "experts" if "mixtral" in case or "MoE" in case else "dense"
        for at, of in tables(clone.text(path)):
            if case == "llama2_7b-deepspeed" and "H800" not in of["配置"]:
                continue
            found = row(case, f"{path}:{at}", of, kind)
            if found:
                yield found
    for case in PADDLE:
        path, model = f"{FOLDER}/{case}/README.md", None
        for at, of in tables(clone.text(path)):
            model = of["配置"] if of["配置"] in PADDLE[case] else model
            if of["config"].startswith("config_"):
                yield paddle(case, f"{path}:{at}", of, model)
