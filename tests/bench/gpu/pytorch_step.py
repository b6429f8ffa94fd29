#!/usr/bin/env python3
"""Training steps of the networks in models/ in plain PyTorch, for comparison: bf16 autocast over fp32 weights, fused AdamW, clipped gradients.

Usage: pytorch_step.py SCENARIO.json [--compile] [--steps N]    prints one line of JSON, times of steps after warm-up measured with CUDA events.
Exit status 77 where there is no PyTorch.
"""
import argparse
import json
import pathlib
import statistics
import sys

try:
    import torch
    import torch.nn as nn
    import torch.nn.functional as F
except ImportError as missing:
    print(f"skipped: {missing}", file=sys.stderr)
    sys.exit(77)


class GptBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        h, self.heads = c["n_embd"], c["n_head"]
        self.norm1, self.norm2 = nn.LayerNorm(h, c["layer_norm_epsilon"]), nn.LayerNorm(h, c["layer_norm_epsilon"])
        self.qkv, self.out = nn.Linear(h, 3 * h), nn.Linear(h, h)
        self.up, self.down = nn.Linear(h, c["n_inner"]), nn.Linear(c["n_inner"], h)

    def forward(self, x):
        b, s, h = x.shape
        q, k, v = (t.view(b, s, self.heads, -1).transpose(1, 2) for t in self.qkv(self.norm1(x)).split(h, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, s, h))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.words, self.positions = nn.Embedding(c["vocab_size"], c["n_embd"]), nn.Embedding(c["n_positions"], c["n_embd"])
        self.blocks = nn.ModuleList(GptBlock(c) for _ in range(c["n_layer"]))
        self.norm = nn.LayerNorm(c["n_embd"], c["layer_norm_epsilon"])

    def forward(self, tokens):
        x = self.words(tokens) + self.positions.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm(x), self.words.weight)


class LlamaBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        h, self.heads, self.kv = c["hidden_size"], c["num_attention_heads"], c["num_key_value_heads"]
        d = h // self.heads
        self.norm1, self.norm2 = nn.RMSNorm(h, c["rms_norm_eps"]), nn.RMSNorm(h, c["rms_norm_eps"])
        self.q, self.k, self.v, self.o = (nn.Linear(a, b, bias=False) for a, b in ((h, h), (h, self.kv * d), (h, self.kv * d), (h, h)))
        self.gate, self.up, self.down = (nn.Linear(a, b, bias=False) for a, b in ((h, c["intermediate_size"]),) * 2 + ((c["intermediate_size"], h),))

    def forward(self, x, cosine, sine):
        b, s, h = x.shape
        y = self.norm1(x)
        q, k, v = self.q(y).view(b, s, self.heads, -1), self.k(y).view(b, s, self.kv, -1), self.v(y).view(b, s, self.kv, -1)
        q, k = (turned(t, cosine, sine).transpose(1, 2) for t in (q, k))
        y = F.scaled_dot_product_attention(q, k, v.transpose(1, 2), is_causal=True, enable_gqa=True)
        x = x + self.o(y.transpose(1, 2).reshape(b, s, h))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


def turned(x, cosine, sine):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cosine - b * sine, a * sine + b * cosine), dim=-1).to(x.dtype)


class Llama(nn.Module):
    def __init__(self, c):
        super().__init__()
        h = c["hidden_size"]
        self.words, self.head = nn.Embedding(c["vocab_size"], h), nn.Linear(h, c["vocab_size"], bias=False)
        self.blocks = nn.ModuleList(LlamaBlock(c) for _ in range(c["num_hidden_layers"]))
        self.norm = nn.RMSNorm(h, c["rms_norm_eps"])
        d = h // c["num_attention_heads"]
        angles = torch.outer(torch.arange(c["max_position_embeddings"]), c["rope_theta"] ** (-torch.arange(0, d, 2) / d))
        self.register_buffer("cosine", angles.cos()[:, None, :])
        self.register_buffer("sine", angles.sin()[:, None, :])

    def forward(self, tokens):
        x, s = self.words(tokens), tokens.shape[1]
        for block in self.blocks:
            x = block(x, self.cosine[:s], self.sine[:s])
        return self.head(self.norm(x))


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("scenario", type=pathlib.Path)
    arguments.add_argument("--compile", action="store_true")
    arguments.add_argument("--steps", type=int, default=30)
    a = arguments.parse_args()
    scenario = json.loads(a.scenario.read_text())
    c = json.loads((a.scenario.parent / scenario["model"]).read_text())
    batch, length = scenario["training"]["global_batch"], scenario["training"]["sequence_length"]
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    with torch.device("cuda"):
        model = (Gpt if c["model_type"] == "gpt2" else Llama)(c)
    run = torch.compile(model) if a.compile else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)

    def step():
        tokens = torch.randint(0, c["vocab_size"], (batch, length + 1), device="cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = run(tokens[:, :-1])
            loss = F.cross_entropy(logits.view(-1, logits.shape[-1]), tokens[:, 1:].reshape(-1))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss

    for _ in range(5):
        loss = step()
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(a.steps + 1)]
    marks[0].record()
    for m in marks[1:]:
        loss = step()
        m.record()
    torch.cuda.synchronize()
    seconds = sorted(x.elapsed_time(y) * 1e-3 for x, y in zip(marks, marks[1:]))
    print(json.dumps({"scenario": a.scenario.stem, "mode": "compile" if a.compile else "eager", "torch": torch.__version__, "step_time_s": statistics.median(seconds),
                      "step_time_p5_s": seconds[len(seconds) // 20], "step_time_p95_s": seconds[-1 - len(seconds) // 20],
                      "tokens_per_s": batch * length / statistics.median(seconds), "peak_bytes": torch.cuda.max_memory_allocated(), "loss": float(loss)}))


if __name__ == "__main__":
    main()
