"""gdGPT's table: LLaMA 7B on eight A100 40 GB by ZeRO-3 and by DeepSpeed's pipeline, 256 to 4,096 tokens."""
import re

import reading

LLAMA_7B = {"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
            "intermediate_size": 11008, "vocab_size": 32000, "max_position_embeddings": 4096}
SOURCE = {
    "source": "gdGPT README, benchmark of its pipeline (CoinCheung, 2023)",
    "repository": "CoinCheung/gdGPT", "commit": "f5aa4a4c132ad5103bbbf91fcd7ea1e5b07fc9ed",
    "files": ["README.md", "configs/ds_config_pp.yml", "configs/ds_config_zero.yml"],
    "lot": 3,
    "stated": "eight A100 SXM 40 GB beside an EPYC 7742; LLaMA 7B, one sequence a microbatch, 128 a step, fp16; "
              "length and mode by the table; layers of stages, buckets, AdamW, no checkpointing by the configurations; "
              "samples per second over 20 steps",
    "seen": "nothing; which cells ran out of memory",
    "guesses": ["the board as DGX", "DeepSpeed 0.9.2", "samples fill the length", "attention without flash unless the "
                "row names it", "fp32 master weights"],
    "left_out": "ZeRO++, whose quantized gathers a scenario cannot say",
    "base": {"schema": "rehearse/scenario/v1", "framework": "deepspeed@0.9.2", "model": LLAMA_7B,
             "cluster": {"machine": "dgx_a100_40gb", "nodes": 1},
             "training": {"precision": "fp16_mixed", "optimizer": "adamw", "global_batch": 128},
             "strategy": {"microbatch": 1}, "kernels": {"attention": "unfused"}},
}
ZERO = {"strategy.zero_stage": 3, "strategy.bucket": "20MB", "strategy.overlap.grad_reduce": True}
PIPELINE = {"strategy.pp": 8, "strategy.layers_per_stage": [4] * 8}
MODES = {"zero3 (aka fsdp)": ZERO, "pipeline": PIPELINE,
         "pipeline (flash-attn)": PIPELINE | {"kernels.attention": "flash", "kernels.flash": "flash2"}}


def rows(clone):
    text = clone.text("README.md")
    lengths = []
    for line in re.findall(r"<tr.*?</tr>", text[:text.index("We can see that")], re.S):
        cells = [" ".join(re.sub(r"<[^>]+>", " ", cell).split())
                 for cell in re.findall(r"<td[^>]*>(.*?)</td>", line, re.S)]
        if cells and cells[0] == "max_seq_len":
            lengths = [int(cell) for cell in cells[1:]]
        if not cells or cells[0] not in MODES:
            continue
        for tokens, cell in zip(lengths, cells[1:]):
            rate = reading.number(cell)
            if rate is not None:
                name = re.sub(r"[^a-z0-9]+", "_", cells[0]).strip("_")
                yield {"id": f"{name}_s{tokens}", "at": "README.md, benchmark", "kind": "dense",
                       "set": {"training.sequence_length": tokens} | MODES[cells[0]],
                       "values": {"step_time": 128 / rate, "stated": {"samples_per_s": rate}}}
