"""Networks in plain PyTorch, whose parameters have the names of Hugging Face's classes, and of ours where no class has them."""
import math

import torch
import torch.nn.functional as F
from torch import nn


def modules(**named):
    """A module that has these, for names with dots."""
    out = nn.Module()
    for name, module in named.items():
        setattr(out, name, module)
    return out


class Conv1D(nn.Module):
    """A product whose weight is [in, out], as GPT-2's class keeps it."""

    def __init__(self, n_in, n_out):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_in, n_out).normal_(std=0.02))
        self.bias = nn.Parameter(torch.zeros(n_out))

    def forward(self, x):
        return x @ self.weight + self.bias


def attend(q, k, v, causal):
    """Heads [b, n, s, d]; keys and values may have fewer."""
    k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], dim=1) for t in (k, v))
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    if causal:
        s = q.shape[-2]
        scores = scores.masked_fill(torch.ones(s, s, dtype=torch.bool).triu(1), float("-inf"))
    return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)


def heads(x, n):
    return x.unflatten(-1, (n, x.shape[-1] // n)).transpose(1, 2)


def token_loss(logits, labels):
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


class Gpt2(nn.Module):
    def __init__(self, c):
        super().__init__()
        h, inner = c["n_embd"], c["n_inner"]
        self.n = c["n_head"]
        layers = [modules(ln_1=nn.LayerNorm(h), attn=modules(c_attn=Conv1D(h, 3 * h), c_proj=Conv1D(h, h)), ln_2=nn.LayerNorm(h),
                          mlp=modules(c_fc=Conv1D(h, inner), c_proj=Conv1D(inner, h))) for _ in range(c["n_layer"])]
        self.transformer = modules(wte=nn.Embedding(c["vocab_size"], h), wpe=nn.Embedding(c["n_positions"], h), h=nn.ModuleList(layers),
                                   ln_f=nn.LayerNorm(h))
        for table in (self.transformer.wte, self.transformer.wpe):
            table.weight.data.normal_(std=0.02)

    def forward(self, tokens):
        t = self.transformer
        x = t.wte(tokens) + t.wpe.weight[:tokens.shape[1]]
        for layer in t.h:
            q, k, v = layer.attn.c_attn(layer.ln_1(x)).chunk(3, -1)
            x = x + layer.attn.c_proj(attend(heads(q, self.n), heads(k, self.n), heads(v, self.n), True))
            x = x + layer.mlp.c_proj(F.gelu(layer.mlp.c_fc(layer.ln_2(x)), approximate="tanh"))
        return t.ln_f(x) @ t.wte.weight.T

    def loss(self, batch):
        return token_loss(self(batch["tokens"][:, :-1]), batch["tokens"][:, 1:])


class RmsNorm(nn.Module):
    def __init__(self, n, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(n)), eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


def turned(x, theta):
    """Rotary embedding of [b, n, s, d] in halves."""
    d, s = x.shape[-1], x.shape[-2]
    angles = torch.arange(s)[:, None] * theta ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, a * sin + b * cos), -1)


def linear(n_in, n_out, bias=False):
    out = nn.Linear(n_in, n_out, bias=bias)
    out.weight.data.normal_(std=0.02)
    return out


class Llama(nn.Module):
    def __init__(self, c):
        super().__init__()
        h, eps = c["hidden_size"], c.get("rms_norm_eps", 1e-5 if c["model_type"] == "mixtral" else 1e-6)
        self.n, self.kv, self.theta = c["num_attention_heads"], c["num_key_value_heads"], c.get("rope_theta", 1e4)
        d = h // self.n
        layers = []
        for _ in range(c["num_hidden_layers"]):
            attention = modules(q_proj=linear(h, h), k_proj=linear(h, self.kv * d), v_proj=linear(h, self.kv * d), o_proj=linear(h, h))
            layers.append(modules(input_layernorm=RmsNorm(h, eps), self_attn=attention, post_attention_layernorm=RmsNorm(h, eps), **self.mlp_of(c)))
        self.model = modules(embed_tokens=nn.Embedding(c["vocab_size"], h), layers=nn.ModuleList(layers), norm=RmsNorm(h, eps))
        self.lm_head = linear(h, c["vocab_size"])
        self.extra = 0.0  # Losses beside that of the tokens.

    @staticmethod
    def mlp_of(c):
        h, inner = c["hidden_size"], c["intermediate_size"]
        return {"mlp": modules(gate_proj=linear(h, inner), up_proj=linear(h, inner), down_proj=linear(inner, h))}

    def mlp(self, layer, x):
        m = layer.mlp
        return m.down_proj(F.silu(m.gate_proj(x)) * m.up_proj(x))

    def forward(self, tokens):
        m = self.model
        x = m.embed_tokens(tokens)
        for layer in m.layers:
            a, y = layer.self_attn, layer.input_layernorm(x)
            q, k = (turned(heads(p(y), n), self.theta) for p, n in ((a.q_proj, self.n), (a.k_proj, self.kv)))
            x = x + a.o_proj(attend(q, k, heads(a.v_proj(y), self.kv), True))
            x = x + self.mlp(layer, layer.post_attention_layernorm(x))
        return self.lm_head(m.norm(x))

    def loss(self, batch):
        return token_loss(self(batch["tokens"][:, :-1]), batch["tokens"][:, 1:])


class Mixtral(Llama):
    def __init__(self, c):
        super().__init__(c)
        self.k, self.balance = c["num_experts_per_tok"], c["router_aux_loss_coef"]

    @staticmethod
    def mlp_of(c):
        h, inner = c["hidden_size"], c["intermediate_size"]
        experts = [modules(w1=linear(h, inner), w2=linear(inner, h), w3=linear(h, inner)) for _ in range(c["num_local_experts"])]
        return {"block_sparse_moe": modules(gate=linear(h, c["num_local_experts"]), experts=nn.ModuleList(experts))}

    def mlp(self, layer, x):
        m, rows = layer.block_sparse_moe, x.flatten(0, 1)
        p = m.gate(rows).softmax(-1)
        weights, chosen = p.topk(self.k, -1)
        weights = weights / weights.sum(-1, keepdim=True)
        out = torch.zeros_like(rows)
        for e, expert in enumerate(m.experts):
            token, place = (chosen == e).nonzero(as_tuple=True)
            y = expert.w2(F.silu(expert.w1(rows[token])) * expert.w3(rows[token]))
            out = out.index_add(0, token, y * weights[token, place, None])
        # Fedus et al. 2021, eq. 4: E sum_e f_e P_e, f_e the share of all choices.
        share = F.one_hot(chosen, p.shape[-1]).to(p.dtype).sum((0, 1)) / chosen.numel()
        self.extra = self.extra + self.balance * p.shape[-1] * (share * p.mean(0)).sum()
        return out.view_as(x)


class Bert(nn.Module):
    def __init__(self, c):
        super().__init__()
        h, inner, eps = c["hidden_size"], c["intermediate_size"], 1e-12
        self.n = c["num_attention_heads"]
        def norm():
            return nn.LayerNorm(h, eps)
        layers = []
        for _ in range(c["num_hidden_layers"]):
            own = modules(query=linear(h, h, True), key=linear(h, h, True), value=linear(h, h, True))
            attention = nn.Module()
            setattr(attention, "self", own)
            attention.output = modules(dense=linear(h, h, True), LayerNorm=norm())
            layers.append(modules(attention=attention, intermediate=modules(dense=linear(h, inner, True)),
                                  output=modules(dense=linear(inner, h, True), LayerNorm=norm())))
        embeddings = modules(word_embeddings=nn.Embedding(c["vocab_size"], h), position_embeddings=nn.Embedding(c["max_position_embeddings"], h),
                             token_type_embeddings=nn.Embedding(c["type_vocab_size"], h), LayerNorm=norm())
        for table in (embeddings.word_embeddings, embeddings.position_embeddings, embeddings.token_type_embeddings):
            table.weight.data.normal_(std=0.02)
        self.bert = modules(embeddings=embeddings, encoder=modules(layer=nn.ModuleList(layers)))
        predictions = modules(transform=modules(dense=linear(h, h, True), LayerNorm=norm()))
        predictions.bias = nn.Parameter(torch.zeros(c["vocab_size"]))
        self.cls = modules(predictions=predictions)

    def forward(self, tokens, types):
        e = self.bert.embeddings
        x = e.LayerNorm(e.word_embeddings(tokens) + e.position_embeddings.weight[:tokens.shape[1]] + e.token_type_embeddings(types))
        for layer in self.bert.encoder.layer:
            a = getattr(layer.attention, "self")
            y = attend(*(heads(p(x), self.n) for p in (a.query, a.key, a.value)), False)
            x = layer.attention.output.LayerNorm(x + layer.attention.output.dense(y))
            x = layer.output.LayerNorm(x + layer.output.dense(F.gelu(layer.intermediate.dense(x))))
        p = self.cls.predictions
        return p.transform.LayerNorm(F.gelu(p.transform.dense(x))) @ e.word_embeddings.weight.T + p.bias

    def loss(self, batch):
        return token_loss(self(batch["tokens"], batch["token_types"]), batch["labels"])


class UNet(nn.Module):
    """Ronneberger et al. 2015 with padded convolutions and `levels` halvings, under the names of our layer list."""

    def __init__(self, levels, width, classes, channels=1):
        super().__init__()
        self.levels = levels

        def conv(block, name, n_in, n_out, kernel=3):
            self.add_module(f"{block}|{name}", nn.Conv2d(n_in, n_out, kernel, padding="same" if kernel > 1 else 0))

        n = channels
        for i in range(1, levels + 1):
            conv(f"down{i}", "conv1", n, width << (i - 1))
            n = width << (i - 1)
            conv(f"down{i}", "conv2", n, n)
        conv("bottom", "conv1", n, 2 * n)
        conv("bottom", "conv2", 2 * n, 2 * n)
        for i in range(levels, 0, -1):
            n = width << (i - 1)
            conv(f"up{i}", "up", 2 * n, n)
            conv(f"up{i}", "conv1", 2 * n, n)
            conv(f"up{i}", "conv2", n, n)
        conv("head", "logits", width, classes, 1)

    def run(self, block, name, x):
        return F.relu(getattr(self, f"{block}|{name}")(x))

    def forward(self, x):
        kept = []
        for i in range(1, self.levels + 1):
            x = self.run(f"down{i}", "conv2", self.run(f"down{i}", "conv1", x))
            kept.append(x)
            x = F.max_pool2d(x, 2)
        x = self.run("bottom", "conv2", self.run("bottom", "conv1", x))
        for i in range(self.levels, 0, -1):
            x = self.run(f"up{i}", "up", F.interpolate(x, scale_factor=2))
            x = torch.cat((kept.pop(), x), 1)
            x = self.run(f"up{i}", "conv2", self.run(f"up{i}", "conv1", x))
        return getattr(self, "head|logits")(x)

    def loss(self, batch):
        return F.cross_entropy(self(batch["image"]), batch["labels"])


class Classifier(nn.Module):
    """A network of torchvision with its loss."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def loss(self, batch):
        return F.cross_entropy(self.network(batch["image"]), batch["labels"])
