"""InternEvo's own table of scaling: a 7B model on 8 to 1,024 A100."""
import re

import reading

PAGE = "doc/en/train_performance.md"
SOURCE = {
    "source": "InternEvo, training performance (Shanghai AI Laboratory, 2023)",
    "repository": "InternLM/InternEvo", "commit": "c628a8c87411258e90c50f6a49f6a5e1f507ddb8", "files": [PAGE],
    "lot": 1,
    "stated": "nodes of 8 x A100-SXM4-80GB with 4 x 100 Gb/s RoCE; batch, tp, range of the optimizer's state, "
              "checkpointing; model of configs/7B_sft.py",
    "seen": "the page's last table, of memory, which is left out",
    "guesses": ["one switch between nodes", "the optimizer's state is divided over all replicas, where the source says "
                "over 8 or 4 of a node", "bf16"],
    "base": {"schema": "rehearse/scenario/v1", "framework": "internevo@0.2.1dev20231121",
             "model": {"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
                       "intermediate_size": 11008, "vocab_size": 103168, "max_position_embeddings": 2048,
                       "attention_bias": True},
             "cluster": {"machine": "machine.json"},
             "training": {"precision": "bf16_mixed", "optimizer": "adamw", "sequence_length": 2048},
             "strategy": {"zero_stage": 1}},
}


def row_of(name, at, gpus, tp, zero, batch, count, recompute, rate):
    total = batch * count * gpus // tp
    keys = {"cluster.nodes": gpus // 8, "strategy.tp": tp, "strategy.microbatch": batch,
            "training.global_batch": total, "strategy.recompute": "full" if recompute else "none"}
    if gpus > 8:
        keys["cluster.network"] = "single_switch"
    return {"id": name, "at": f"{PAGE}:{at}", "kind": "dense", "zero1": zero, "set": keys,
            "values": {"step_time": total * 2048 / (rate * gpus), "stated": {"tokens_per_s_per_gpu": rate}}}


def rows(clone):
    for _, columns, lines in reading.markdown_tables(clone.text(PAGE)):
        if columns[0] == "Parallel Configuration":
            for at, cells in lines:
                tp, zero = (int(word) for word in re.findall(r"=(-?[0-9]+)", cells[0]))
                for column, cell in zip(columns[1:], cells[1:]):
                    gpus = int(column.split()[0])
                    yield row_of(f"tp{tp}_zero{zero}_{gpus}g", at, gpus, tp, zero, 2 * tp, 4, False,
                                 reading.number(cell))
        elif columns[:2] == ["TP", "Zero1"]:
            for at, cells in lines:
                tp, zero, _, saved, gpus, _, batch, count = cells[:8]
                recompute = saved == "TRUE"
                yield row_of(f"packed_{'ckpt_' * recompute}b{batch}x{count}_{gpus}g", at, int(gpus), int(tp), int(zero),
                             int(batch), int(count), recompute, reading.number(cells[columns.index("TGS")]))
