"""EasyContext: Llama 2 7B on eight A100, data parallel and by ring attention."""
import reading

SOURCE = {
    "source": "EasyContext README, Speed (Peiyuan Zhang, 2024)",
    "repository": "jzhang38/EasyContext", "commit": "6b0d31047e4e326cbd603f89d57cf8b1db3ff762",
    "files": ["README.md"],
    "lot": 1,
    "stated": "eight A100; length and mode by the table; ZeRO-3 with optimizer and parameters offloaded to the host "
              "(accelerate_configs/single_node.yaml), gradient checkpointing, bf16, FlashAttention 2 (train.py)",
    "seen": "nothing",
    "guesses": ["the A100 has 80 GB", "about a million tokens a step, as all of train_scripts have it",
                "K is 1,024 in 64K and 1,000 beyond, as train_scripts have it"],
    "base": {"schema": "rehearse/scenario/v1", "framework": "deepspeed@0.14.0",
             "model": {"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
                       "intermediate_size": 11008, "vocab_size": 32000},
             "cluster": {"machine": "dgx_a100_80gb", "nodes": 1},
             "training": {"precision": "bf16_mixed", "optimizer": "adamw"},
             "strategy": {"microbatch": 1, "zero_stage": 3, "recompute": "full", "offload": "optimizer",
                          "offload_parameters": True}},
}


def rows(clone):
    for _, columns, lines in reading.markdown_tables(clone.text("README.md")):
        if columns[0] != "Setup":
            continue
        for at, cells in lines:
            length, mode = (word.strip() for word in cells[0].split(","))
            tokens, rate = int(length[:-1]) * (1024 if length == "64K" else 1000), reading.number(cells[1])
            ring = mode == "ring attention"
            batch = max(1, round(2**20 / tokens))
            keys = {"training.sequence_length": tokens, "training.global_batch": batch,
                    "model.max_position_embeddings": tokens}
            if ring:
                keys |= {"strategy.cp": 8, "strategy.context": "ring"}
            yield {"id": f"{length}_{mode.replace(' ', '_')}".lower(), "at": f"README.md:{at}", "kind": "dense",
                   "set": keys, "values": {"step_time": batch * tokens / rate, "stated": {"tokens_per_s": rate}}}
