"""torchao's pages on fp8 training: Llama 3 8B under torchtitan on eight H100 or B200, eager and compiled."""
import re

import reading

COMPILED, EAGER = "docs/source/workflows/training.md", "torchao/prototype/float8nocompile/README.md"
EXPERTS = "torchao/prototype/moe_training/README.md"
SCOUT = {"model_type": "llama4_text", "hidden_size": 5120, "num_hidden_layers": 48, "num_attention_heads": 40,
         "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 8192, "intermediate_size_mlp": 16384,
         "num_local_experts": 16, "num_experts_per_tok": 1, "interleave_moe_layer_step": 1, "vocab_size": 202048,
         "max_position_embeddings": 8192}
SOURCE = {
    "source": "torchao, training benchmarks of its float8, mxfp8 and float8nocompile (PyTorch, 2025)",
    "repository": "pytorch/ao", "commit": "36027d82d1ad9949597ea16002ff4940374b1b94",
    "files": [COMPILED, EAGER, EXPERTS],
    "lot": 3,
    "stated": "eight H100 or B200 under torchtitan with FSDP2; one sequence of 8,192 tokens, torch.compile and "
              "recomputation by the operation on the first page; 4,096 tokens, none, every second layer or all "
              "recomputed on the second, of H100, in February 2025; Llama 4 Scout on 256 GB200 on the third, with "
              "splits and one sequence per GPU; what is scaled how; median tokens per second, of one GPU as "
              "torchtitan counts",
    "seen": "nothing; a page of torchtitan itself on the same model is among the project's older rows",
    "guesses": ["boards of eight as DGX, B200 at full power, which the page says was limited",
                "the second page's model and batch, Llama 3 8B and one sequence, are those of the "
                "first", "torchtitan's records of 2024-12, 0.1.0 and 0.2.0 as the releases",
                "sixteen neighbours share Scout's experts, tokens choose evenly, GB200 in racks of 72",
                "fp8's kernels without compilation as tensorwise scaling", "memory is torchtitan's own line, reserved, "
                "in GiB"],
    "left_out": "AMD",
    "base": {"schema": "rehearse/scenario/v1", "model": "llama3_8b",
             "cluster": {"machine": "dgx_h100", "nodes": 1},
             "training": {"precision": "bf16_mixed", "optimizer": "adamw", "global_batch": 8},
             "strategy": {"microbatch": 1, "fsdp": {"enabled": True}}, "kernels": {}},
}
CHECKPOINTS = {"No AC": {"strategy.recompute": "none"}, "Full AC": {"strategy.recompute": "full"},
               "Selective": {"strategy.recompute": "full", "strategy.recompute_method": "block",
                             "strategy.recompute_layers": 16}}


def fp8(recipe):
    return {"training.precision": "fp8_mixed", "training.fp8.recipe": recipe}


def compiled(name, machine):
    """Keys of a row of the first page."""
    keys = {"framework": "torchtitan@0.1.0" if machine == "dgx_h100" else "torchtitan@0.2.0",
            "cluster.machine": machine, "training.sequence_length": 8192, "kernels.compile": True,
            "strategy.recompute": "selective", "strategy.recompute_modules": "every_second_product"}
    if "none" in name:
        return keys
    keys |= fp8(re.search("mxfp8|tensorwise|rowwise", name).group())
    return keys | {"training.fp8.parameters": re.search("f(loat)?8 all-gather", name) is not None}


def eager(name, heading):
    """Keys of a row of the second page."""
    words = next(words for words in CHECKPOINTS if heading.startswith(words))
    keys = {"framework": "torchtitan@2024-12", "training.sequence_length": 4096} | CHECKPOINTS[words]
    if "compile" in name and "nocompile" not in name:
        keys["kernels.compile"] = True
    return keys if "bfloat16" in name else keys | fp8("tensorwise")


def row(name, at, keys, rate, memory):
    tokens = keys["training.sequence_length"]
    return {"id": re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_"), "at": at, "kind": "dense", "memory": "reserved",
            "set": keys, "values": {"step_time": tokens / rate, "peak_memory": memory * 2**30,
                                    "stated": {"tokens_per_s": rate, "GB": memory}}}


def rows(clone):
    for headings, columns, lines in reading.markdown_tables(clone.text(COMPILED)):
        gpu = re.search("[HB][12]00", headings[-1])
        if columns[:2] != ["Model", "Scaling"] or not gpu:
            continue
        gpu = gpu.group().lower()
        for at, cells in lines:
            yield row(f"{gpu} compiled {cells[1]}", f"{COMPILED}:{at}", compiled(cells[1], f"dgx_{gpu}"),
                      reading.number(cells[3]), reading.number(cells[2]))
    for headings, columns, lines in reading.markdown_tables(clone.text(EAGER)):
        if columns[0] != "Configuration":
            continue
        for at, cells in lines:
            yield row(f"{headings[-1].split('(')[0]} {cells[0]}", f"{EAGER}:{at}", eager(cells[0], headings[-1]),
                      reading.number(cells[1]), reading.number(cells[2]))
    for _, columns, lines in reading.markdown_tables(clone.text(EXPERTS)):
        for at, cells in lines if columns[0] == "Number of GPUs" else ():
            for precision, cell in (("bf16", cells[1]), ("mxfp8", cells[2])):
                rate = reading.number(cell)
                keys = {"model": SCOUT, "framework": "torchtitan@0.2.2", "cluster.machine": "gb200_nvl72",
                        "cluster.nodes": 4, "cluster.gpus_per_node": 64, "cluster.network": "rail_ndr",
                        "training.sequence_length": 8192, "training.global_batch": 256, "strategy.microbatch": 1,
                        "strategy.ep": 16, "kernels.compile": True} | (fp8("mxfp8") if precision == "mxfp8" else {})
                yield {"id": f"scout_{precision}_256g", "at": f"{EXPERTS}:{at}", "kind": "experts", "set": keys,
                       "values": {"step_time": 8192 / rate, "stated": {"tokens_per_s": rate}}}
