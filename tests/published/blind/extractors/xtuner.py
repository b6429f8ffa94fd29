"""XTuner's speed benchmark: Llama 2 and Yi on 8 to 64 A100, sequences of 8k to 1M tokens."""
import re

import reading

PAGE = "docs/zh_cn/legacy/acceleration/benchmark.rst"
CONFIGS = "xtuner/configs/llama_speed_benchmark"
YI_34B = {"model_type": "llama", "hidden_size": 7168, "num_hidden_layers": 60, "num_attention_heads": 56,
          "num_key_value_heads": 8, "intermediate_size": 20480, "vocab_size": 64000}
LLAMA2 = {"model_type": "llama", "vocab_size": 32000}
MODELS = {
    "Llama2-7B": LLAMA2 | {"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
                           "intermediate_size": 11008},
    "Llama2-70B": LLAMA2 | {"hidden_size": 8192, "num_hidden_layers": 80, "num_attention_heads": 64,
                            "num_key_value_heads": 8, "intermediate_size": 28672},
    "Yi-34B-200K": YI_34B,
}
SOURCE = {
    "source": "XTuner, speed benchmark (InternLM, 2024)",
    "repository": "InternLM/xtuner", "commit": "b934f462095c1e750229de35367c50ae36caa786", "files": [PAGE, CONFIGS],
    "lot": 1,
    "stated": "A100-SXM4-80GB; GPUs and length by the table; slices of a sequence and accumulated batches by the "
              "configuration that a row names; sequences packed",
    "seen": "nothing of these rows; of the same repository's page on experts all, which is left out",
    "guesses": ["ZeRO-3 by DeepSpeed with gradient checkpointing, as its quick start runs it",
                "slices as Ulysses has them, two groups of heads where a row has more slices than heads",
                "nodes with eight HDR adapters", "fp16"],
    "base": {"schema": "rehearse/scenario/v1", "framework": "deepspeed@0.13.0",
             "cluster": {"machine": "dgx_a100_80gb"},
             "training": {"precision": "fp16_mixed", "optimizer": "adamw"},
             "strategy": {"microbatch": 1, "zero_stage": 3, "recompute": "full", "context": "ulysses"}},
}


def list_tables(text):
    """Rows of every list-table as (line, cells)."""
    row = None
    for at, line in enumerate(text.splitlines() + [""], 1):
        found = re.match(r"  (\*| ) - (.*)", line)
        if found and found.group(1) == "*":
            row = (at, [found.group(2).strip()])
        elif found and row:
            row[1].append(found.group(2).strip())
        elif row and not line.strip():
            row = None
        if row and len(row[1]) == 6:
            yield row
            row = None


def accumulated(clone, name, slices):
    paths = [path for path in clone.files(CONFIGS) if path.endswith(f"/{name}.py")]
    if not paths:
        return slices
    return int(re.search(r"^accumulative_counts = ([0-9]+)", clone.text(paths[0]), re.M).group(1))


def rows(clone):
    for at, (model, gpus, length, rate, _, link) in list_tables(clone.text(PAGE)):
        if model not in MODELS:
            continue
        name = re.search(r"`(\S+?)\.py", link).group(1)
        gpus, slices = int(gpus), int(re.search(r"_sp([0-9]+)$", name).group(1))
        tokens = 2**20 if length == "1M" else int(length[:-1]) * 1024
        batch = gpus // slices * accumulated(clone, name, slices)
        keys = {"model": MODELS[model] | {"max_position_embeddings": tokens}, "cluster.nodes": gpus // 8,
                "training.sequence_length": tokens, "training.global_batch": batch}
        if slices > 1:
            keys["strategy.cp"] = slices
        if gpus > 8:
            keys["cluster.network"] = "rail_hdr"
        rate = reading.number(rate)
        yield {"id": f"{model}_{length}_{gpus}g".lower(), "at": f"{PAGE}:{at}", "kind": "dense", "set": keys,
               "values": {"step_time": batch * tokens / (rate * gpus), "stated": {"tokens_per_s_per_gpu": rate}}}
