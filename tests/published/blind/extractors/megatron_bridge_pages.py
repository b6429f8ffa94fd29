"""Megatron-Bridge's pages on tuning: Moonlight, Nemotron 3 Nano and Qwen3 30B with experts on 8 and 16 H100."""
import re

import reading

RECOMPUTE = "skills/nemo-mbridge-perf-activation-recompute/SKILL.md"
OVERLAP = "skills/nemo-mbridge-perf-expert-parallel-overlap/SKILL.md"
MOONLIGHT = {"model_type": "deepseek_v3", "hidden_size": 2048, "num_hidden_layers": 27, "num_attention_heads": 16,
             "num_key_value_heads": 16, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
             "v_head_dim": 128, "intermediate_size": 11264, "moe_intermediate_size": 1408, "n_routed_experts": 64,
             "n_shared_experts": 2, "num_experts_per_tok": 6, "n_group": 1, "topk_group": 1,
             "first_k_dense_replace": 1, "num_nextn_predict_layers": 0, "vocab_size": 163840,
             "max_position_embeddings": 8192, "tie_word_embeddings": False}
NANO = {"model": "nemotron_3_nano_30b_a3b", "cluster.nodes": 2, "cluster.network": "rail_ndr",
        "training.sequence_length": 8192, "training.global_batch": 16, "strategy.ep": 8,
        "kernels.cuda_graphs": True}
QWEN = {"model": "qwen3_30b_a3b", "cluster.nodes": 2, "cluster.network": "rail_ndr",
        "training.sequence_length": 4096, "training.global_batch": 1024, "strategy.ep": 16,
        "strategy.dispatch": "hierarchical", "strategy.dispatch_node": 8}
SMALL = {"model": MOONLIGHT, "cluster.nodes": 1, "training.sequence_length": 4096, "training.global_batch": 4,
         "strategy.tp": 2, "strategy.ep": 8, "strategy.sequence_parallel": True}
SOURCE = {
    "source": "Megatron-Bridge, measured evidence on its pages on recomputation and overlap of experts (NVIDIA, 2026)",
    "repository": "NVIDIA-NeMo/Megatron-Bridge", "commit": "067f987df03b8355b03192d88d70f1709fedf51a",
    "files": [RECOMPUTE, OVERLAP],
    "lot": 3,
    "stated": "8 or 16 H100 80 GB, bf16, lengths, splits, batches, dispatchers and what is recomputed by the page; "
              "seconds are means over late steps; memory is the peak of allocations of the first rank",
    "seen": "39 MB between two rows of the first table; nothing else of these rows; of the same repository's summary "
            "of performance, which is left out, older rows of the project are made",
    "guesses": ["boards of eight as DGX", "megatron-bridge 0.6 as the release", "sizes of Moonlight as its model card "
                "has them", "HybridEP as one copy of a token for each node, "
                "all-to-all inside one", "graphs of attention and Mamba as of all, "
                "graphs of the router alone as none", "sequence parallelism beside tensor parallelism",
                "Moonlight's experts by all-to-all, GB as 10^9 bytes"],
    "left_out": "runs that ended out of memory, fine-tuning on samples of no stated length, and Llama 3 70B, one of "
                "whose values was met",
    "base": {"schema": "rehearse/scenario/v1", "framework": "megatron-bridge@0.6", "cluster": {"machine": "dgx_h100"},
             "training": {"precision": "bf16_mixed", "optimizer": "adam"},
             "strategy": {"microbatch": 1, "zero_stage": 1}},
}


def modules(cell):
    """Keys of a cell such as "`layernorm`, `moe_act`"; "`[]`" names none."""
    names = re.findall(r"`([a-z_]+)`", cell)
    return names, ({"strategy.recompute": "selective", "strategy.recompute_modules": ",".join(names)} if names
                   else {"strategy.recompute": "none"})


def row(name, at, keys, seconds, memory):
    values = {"step_time": seconds, "stated": {"s": seconds, "GB": memory}}
    if memory:
        values["peak_memory"] = memory * 1e9
    return {"id": name, "at": at, "kind": "experts", "memory": "allocated", "set": keys, "values": values}


def recomputed(clone):
    for _, columns, lines in reading.markdown_tables(clone.text(RECOMPUTE)):
        for at, cells in lines if columns[0] == "Selective modules" else ():
            names, keys = modules(cells[0])
            small = columns[1].startswith("Peak allocated")
            if not small and "completed" not in cells[1]:
                continue
            name = "_".join(["moonlight" if small else "nemotron_3_nano", *(names or ["none"])])
            seconds = reading.number(cells[2]) if small else float(re.search(r"([0-9.]+) ms", cells[3]).group(1))
            memory = reading.number(cells[1] if small else cells[2])
            yield row(name, f"{RECOMPUTE}:{at}", (SMALL if small else NANO) | keys, seconds / 1000, memory)


def overlapped(clone):
    for _, columns, lines in reading.markdown_tables(clone.text(OVERLAP)):
        for at, cells in lines if "Steady window" in columns else ():
            name = "qwen3_30b_" + re.sub(r"[^a-z]+", "_", cells[0].lower())
            found = row(name, f"{OVERLAP}:{at}", QWEN, reading.number(cells[2]), None)
            if "off" not in cells[0]:
                found["inexpressible"] = "exchanges of experts under the work of another microbatch"
            yield found


def rows(clone):
    yield from recomputed(clone)
    yield from overlapped(clone)
