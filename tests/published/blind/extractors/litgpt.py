"""LitGPT's tables of resources: peak memory of fine-tuning on A100 and A10G."""
import re

import reading

TABLES, HUB = "tutorials/resource-tables.md", "config_hub/finetune"
NEOX_3B = {"model_type": "gpt_neox", "num_hidden_layers": 16, "hidden_size": 4096, "intermediate_size": 16384,
           "num_attention_heads": 32, "vocab_size": 50688, "max_position_embeddings": 4096, "rotary_pct": 0.25}
PHI_15 = {"model_type": "phi", "num_hidden_layers": 24, "hidden_size": 2048, "intermediate_size": 8192,
          "num_attention_heads": 32, "vocab_size": 51200, "max_position_embeddings": 2048,
          "partial_rotary_factor": 0.5}
PHI_2 = PHI_15 | {"num_hidden_layers": 32, "hidden_size": 2560, "intermediate_size": 10240,
                  "partial_rotary_factor": 0.4}
PHI_3 = {"model_type": "phi3", "num_hidden_layers": 32, "hidden_size": 3072, "intermediate_size": 8192,
         "num_attention_heads": 32, "num_key_value_heads": 32, "vocab_size": 32064, "max_position_embeddings": 4096}
FALCON_7B = {"model_type": "falcon", "num_hidden_layers": 32, "hidden_size": 4544, "num_attention_heads": 71,
             "multi_query": True, "new_decoder_architecture": False, "parallel_attn": True, "bias": False,
             "vocab_size": 65024}
GEMMA_2B = {"model_type": "gemma", "num_hidden_layers": 18, "hidden_size": 2048, "intermediate_size": 16384,
            "num_attention_heads": 8, "num_key_value_heads": 1, "head_dim": 256, "vocab_size": 256000,
            "max_position_embeddings": 8192}
GEMMA_7B = GEMMA_2B | {"num_hidden_layers": 28, "hidden_size": 3072, "intermediate_size": 24576,
                       "num_attention_heads": 16, "num_key_value_heads": 16}
TINY_LLAMA = {"model_type": "llama", "num_hidden_layers": 22, "hidden_size": 2048, "intermediate_size": 5632,
              "num_attention_heads": 32, "num_key_value_heads": 4, "vocab_size": 32000,
              "max_position_embeddings": 2048}
# By name: the model, and tokens of the longest sample of Alpaca where the tables say so.
MODELS = {"phi-1.5": (PHI_15, 1044), "StableLM Alpha": (NEOX_3B, 1034), "7 B Llama 2": ("llama2_7b", 1304),
          "13 B Llama 2": ("llama2_13b", 1304), "falcon-7b": (FALCON_7B, None), "gemma-2b": (GEMMA_2B, None),
          "gemma-7b": (GEMMA_7B, None), "llama-2-7b": ("llama2_7b", None), "llama-3-8b": ("llama3_8b", None),
          "llama-3.1-8b": ("llama3_1_8b", None), "llama-3.2-1b": ("llama3_2_1b", None),
          "llama-3.2-3b": ("llama3_2_3b", None), "mistral-7b": ("mistral_7b", None),
          "mistral-7b-v0.2": ("mistral_7b", None), "phi-2": (PHI_2, None), "Phi-3-mini-4k-instruct": (PHI_3, None),
          "stablelm-base-alpha-3b": (NEOX_3B, None), "tiny-llama": (TINY_LLAMA, None)}
SOURCE = {
    "source": "LitGPT, tutorials/resource-tables.md and config_hub/finetune (Lightning AI, 2024)",
    "repository": "Lightning-AI/litgpt", "commit": "26857050fe3ff627cd714fe92f5838f51a3d5efa",
    "files": [TABLES, f"{HUB}/README.md", f"{HUB}/*/*.yaml"],
    "lot": 3,
    "stated": "all in bf16; A100 SXM 40 GB in the tutorial, A10G in the hub; microbatch; tokens of the longest sample "
              "in the tutorial, 512 at most in the hub; rank and products of adapters in the hub's files; memory is "
              "torch.cuda.max_memory_allocated (litgpt/finetune/lora.py)",
    "seen": "nothing",
    "guesses": ["the peak is that of a microbatch of longest samples", "a batch of 8 microbatches",
                "adapters of rank 8 on queries and values in the tutorial; adapters on queries and values are on the "
                "whole product", "AdamW of PyTorch", "FSDP over several GPUs"],
    "left_out": "rows in 4 bits, of inference, of prefix adapters, of models that the program does not know, and "
                "times, which hang on the mean length of samples",
    "base": {"schema": "rehearse/scenario/v1", "cluster": {"nodes": 1},
             "training": {"precision": "bf16", "optimizer": "adamw", "clip_gradients": False}, "strategy": {}},
}


def keys_of(model, tokens, micro, gpus, machine):
    keys = {"model": model, "training.sequence_length": tokens, "cluster.machine": machine,
            "cluster.gpus_per_node": gpus, "strategy.microbatch": micro, "training.global_batch": 8 * micro * gpus}
    return keys | ({"framework": "pytorch-fsdp1@2.2", "strategy.fsdp.enabled": True} if gpus > 1
                   else {"framework": "pytorch-ddp@2.2"})


def row(name, at, keys, cell):
    memory = reading.number(cell)
    if memory is None or "GB" not in cell:
        return None
    return {"id": name.lower().replace(" ", "_"), "at": at, "kind": "dense", "memory": "allocated", "set": keys,
            "values": {"peak_memory": memory * 1e9, "stated": {"GB": memory}}}


def tutorial(clone):
    for headings, columns, lines in reading.markdown_tables(clone.text(TABLES)):
        if "LoRA" not in headings[-1] or "Max GPU RAM" not in columns:
            continue
        for at, cells in lines:
            of = dict(zip(columns, cells))
            name = of["Model"] if of["Model"] in MODELS else f"{of['Size']} {of['Model']}"
            if name not in MODELS or of["Quantization"] != "None":
                continue
            model, tokens = MODELS[name]
            gpus, micro = int(of.get("GPU", "1 x")[0]), int(of["Microbatch size"])
            keys = keys_of(model, tokens, micro, gpus, "dgx_a100_40gb")
            keys |= {"training.lora.rank": 8, "training.lora.targets": "qkv"}
            yield row(f"tutorial {name} lora mb{micro} {gpus}g", f"{TABLES}:{at}", keys, of["Max GPU RAM"])


def adapters(text):
    """Rank and products of a file's adapters; None where the head has one."""
    flags = dict(re.findall(r"(?m)^lora_(\w+): *(\w+)", text))
    groups = {"qkv": ("query", "key", "value"), "proj": ("projection",), "fc1,fc2": ("mlp",)}
    targets = [group for group, words in groups.items() if any(flags.get(word) == "true" for word in words)]
    return {"training.lora.rank": int(flags["r"]), "training.lora.targets": ",".join(targets)}, flags["head"] == "true"


def hub(clone):
    counts, files = {}, {path.lower(): path for path in clone.files(HUB)}
    for _, columns, lines in reading.markdown_tables(clone.text(f"{HUB}/README.md")):
        for at, cells in lines if "Config" in columns else ():
            of = dict(zip(columns, cells))
            config, name = of["Config"], of["Model"]
            if name not in MODELS or "qlora" in config or config.startswith("gemma2"):
                continue
            gpus, micro = int(of["Machine"][0]), int(of["Micro batch size"])
            keys = keys_of(MODELS[name][0], int(of["Max seq length"]), micro, gpus, "aws_g5_48xlarge")
            reason = None
            if "lora" in config:
                lora, head = adapters(clone.text(files[f"{HUB}/{config}".lower()]))
                keys |= lora
                reason = "an adapter on the output layer" if head else None
            label = f"hub {config.replace('/', ' ').replace('.yaml', '')} mb{micro} {gpus}g"
            counts[label] = counts.get(label, 0) + 1
            found = row(label + f" {counts[label]}" * (counts[label] > 1), f"{HUB}/README.md:{at}", keys,
                        of["Peak memory"])
            if found and reason:
                found["inexpressible"] = reason
            yield found


def rows(clone):
    yield from filter(None, tutorial(clone))
    yield from filter(None, hub(clone))
