"""Qwen's own profile of fine-tuning: seconds and memory by method and sequence."""
import re

import reading

SIZES = {"1.8B": (2048, 24, 16, 5504, 151936), "7B": (4096, 32, 32, 11008, 151936),
         "14B": (5120, 40, 40, 13696, 152064), "72B": (8192, 80, 64, 24576, 152064)}
INEXPRESSIBLE = {"LoRA (emb)": "adapters beside a trained embedding and output layer", "Q-LoRA": "weights in 4 bits"}
SOURCE = {
    "source": "Qwen README, Profiling of Memory and Speed (Alibaba, 2023)",
    "repository": "QwenLM/Qwen", "commit": "2df8e8ac450fa185c421a08b0090ef81826caa6e",
    "files": ["README.md"],
    "lot": 1,
    "stated": "A100-SXM4-80G; a batch of 1 and 8 accumulated; FlashAttention 2; PyTorch 2.0; full-parameter training "
              "by finetune_ds.sh (ZeRO-3), adapters of rank 64 on all products, gradient checkpointing (finetune/*.sh)",
    "seen": "14B, LoRA (emb), 256 tokens, which is refused anyway; how many digits a value has",
    "left_out": "memory of jobs on several GPUs: more than one GPU has, so a sum, and the page does not say of what",
    "guesses": ["memory is the device's", "two nodes of two GPUs: one HDR adapter's switch between them",
                "1.8B full-parameter training without ZeRO's traffic, on its one GPU",
                "the layer of Qwen2, whose biases and sizes are Qwen's", "weights in bf16 under adapters"],
    "base": {"schema": "rehearse/scenario/v1", "framework": "huggingface-trainer@4.32",
             "cluster": {"machine": "dgx_a100_80gb"},
             "training": {"precision": "bf16_mixed", "optimizer": "adamw"},
             "strategy": {"microbatch": 1, "recompute": "full"}, "kernels": {"attention": "flash"}},
}


def model_of(size):
    hidden, layers, heads, inner, vocabulary = SIZES[size]
    return {"model_type": "qwen2", "hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads,
            "intermediate_size": inner, "vocab_size": vocabulary, "max_position_embeddings": 8192}


def keys_of(size, method, nodes, gpus, tokens):
    keys = {"model": model_of(size), "cluster.nodes": nodes, "cluster.gpus_per_node": gpus,
            "training.sequence_length": tokens, "training.global_batch": 8 * nodes * gpus}
    if nodes > 1:
        keys["cluster.network"] = "ib_hdr"
    if "LoRA" in method:
        keys |= {"training.lora.rank": 64, "training.lora.alpha": 16, "training.lora.dropout": 0.05}
    if "Zero3" in method or (method == "Full-parameter" and gpus > 1):
        keys["strategy.zero_stage"] = 3
    return keys


def rows(clone):
    text = clone.text("README.md")
    start = text.index("### Profiling of Memory and Speed")
    table = text[text.index("<table>", start):text.index("</table>", start)]
    size, lengths = None, []
    for row in re.findall(r"<tr>(.*?)</tr>", table, re.S):
        heads = [reading.plain(cell) for cell in re.findall(r"<th[^>]*>(.*?)</th>", row, re.S)]
        cells = [reading.plain(cell) for cell in re.findall(r"<td[^>]*>(.*?)</td>", row, re.S)]
        if not cells:
            lengths = [int(head) for head in heads if head.isdigit()] or lengths
            continue
        size = heads[0] if heads else size
        method, nodes, gpus = cells[0], int(cells[1]), int(cells[2])
        for tokens, cell in zip(lengths, cells[3:]):
            found = re.fullmatch(r"([0-9.]+)G? / ([0-9.]+)s/it", cell)
            if not found:
                continue
            out = {"id": "_".join([size, re.sub(r"[^a-z0-9]+", "_", method.lower()).strip("_"), f"s{tokens}"]),
                   "at": "README.md, Profiling of Memory and Speed", "kind": "dense", "memory": "needed",
                   "set": keys_of(size, method, nodes, gpus, tokens),
                   "values": {"step_time": float(found.group(2)), "peak_memory": float(found.group(1)) * 2**30,
                              "stated": {"s_per_iteration": float(found.group(2)), "GB": float(found.group(1))}}}
            if nodes * gpus > 1:
                del out["values"]["peak_memory"]
            if method in INEXPRESSIBLE:
                out["inexpressible"] = INEXPRESSIBLE[method]
            yield out
