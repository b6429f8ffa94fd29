"""What `search` says of itself for some spaces, and whether a hint finds what it does not.

usage: planted_hints.py REHEARSE SCENARIOS [--seconds 60] [--hinted 15] [--jobs 2] [--space NAME]... [--no-hints]

For each space, one run without a hint: when the first answer that fits came, plans legal, worked out, excluded by proof, excluded by bounds whose margins are chosen, left, and how far the best plan
is above the least bound of those left. Then one run with each of a dozen `--fix` hints: a hint wins where what it finds is more than 1 % faster. Three models with experts of no publication are
among the spaces. Ends with 1 where a hint wins, nothing fits, or the first answer takes more than 5 s. Times are those of the machine: run it alone.
"""
import argparse
import json
import os
import pty
import select
import subprocess
import sys
import tempfile
import time

HINTS = ["tp=1", "tp=2", "tp=8", "ep=8", "ep=16", "ep=64", "cp=1", "pp=1", "pp=4", "pp=8", "fsdp=true", "zero_stage=1", "recompute=full"]
WINS = 1.01
SOON = 5  # Seconds until an answer that fits.
SHIPPED = {
    "GPT-3, 1,024 A100": "gpt3_175b_a100_1024.json",
    "Llama 3 405B, 16,384 H100": "llama3_405b_h100_16384.json",
    "Llama 3 8B, 64 H100": "llama3_8b_fsdp_h100_64.json",
    "Mixtral 8x7B, 64 H100": "mixtral_8x7b_h100_64.json",
    "Qwen3 235B, 256 H100": "qwen3_235b_a22b_h100_256.json",
    "DeepSeek-V3, 2,048 H800": "deepseek_v3_h800_2048.json",
}


def mixtral(hidden, layers, heads, kv, experts, top, width):
    return {"model_type": "mixtral", "hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": kv, "intermediate_size": width,
            "num_local_experts": experts, "num_experts_per_tok": top, "vocab_size": 131072, "max_position_embeddings": 8192, "hidden_act": "silu", "tie_word_embeddings": False}


def narrow(hidden, layers, heads, kv, experts, top, width):
    return {"model_type": "qwen3_moe", "hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": kv, "head_dim": 128,
            "intermediate_size": 4 * width, "moe_intermediate_size": width, "num_experts": experts, "num_experts_per_tok": top, "norm_topk_prob": True, "decoder_sparse_step": 1,
            "mlp_only_layers": [], "vocab_size": 131072, "max_position_embeddings": 8192, "hidden_act": "silu", "tie_word_embeddings": False}


# Few wide experts; many narrow ones; many layers on few GPUs: none of them of a publication.
OWN = {
    "12 wide experts, 96 H100": (mixtral(5120, 36, 40, 8, 12, 2, 13824), "dgx_h100", 12, "rail_ndr", 384, 4096),
    "128 narrow experts, 128 B200": (narrow(3072, 40, 24, 4, 128, 6, 1024), "dgx_b200", 16, "superpod_b200", 512, 8192),
    "32 experts of 56 layers, 64 A100": (narrow(2048, 56, 16, 4, 32, 4, 2048), "dgx_a100_80gb", 8, "rail_hdr", 256, 4096),
}


def own_scenario(spec, folder, name):
    model, machine, nodes, network, batch, length = spec
    path = os.path.join(folder, "".join(c if c.isalnum() else "_" for c in name) + ".json")
    scenario = {"schema": "rehearse/scenario/v1", "model": model, "cluster": {"machine": machine, "nodes": nodes, "network": network},
                "training": {"global_batch": batch, "sequence_length": length, "precision": "bf16_mixed", "optimizer": "adamw"}}
    with open(path, "w") as f:
        json.dump(scenario, f)
    return path


def searched(rehearse, scenario, seconds, jobs, fix=()):
    """Answer (or nothing), exit code, seconds until the first answer that fits, seconds in all, complaint."""
    words = [rehearse, "search", scenario, "--seconds", str(seconds), "-j", str(jobs), "--top", "3", "--format", "json"]
    for hint in fix:
        words += ["--fix", hint]
    shown, terminal = pty.openpty()  # Progress is written to a terminal only.
    with tempfile.TemporaryFile("w+") as out:
        begun, first, said = time.monotonic(), None, b""
        program = subprocess.Popen(words, stdout=out, stderr=terminal)
        os.close(terminal)
        while True:
            ready, _, _ = select.select([shown], [], [], 0.1)
            try:
                text = os.read(shown, 65536) if ready else b""
            except OSError:
                text = b""
            said += text
            if first is None and b", best " in text:
                first = time.monotonic() - begun
            if program.poll() is not None and not text:
                break
        os.close(shown)
        wall = time.monotonic() - begun
        out.seek(0)
        text = out.read()
    answer = json.loads(text) if text.strip() else None
    if first is None and answer and answer["candidates"]:
        first = wall
    complaint = said.decode(errors="replace").split("\x1b[K")[-1].strip().replace("\r\n", " ")
    return answer, program.returncode, first, wall, complaint


def best_of(answer):
    return answer["candidates"][0] if answer and answer["candidates"] else None


def report(name, answer, first, wall):
    space, best = answer["space"], best_of(answer)
    left = space["left"]
    gap = f", {100 * (best['step_time_s'] / answer['space']['least_left_s'] - 1):.1f} % above the least bound of those left" if left and space.get("least_left_s") and best else ""
    print(f"{name}: first answer after {first:.1f} s of {wall:.0f}; {space['legal']:,} legal, {space['evaluated']:,} worked out, {space.get('proven', 0):,} excluded by proof, "
          f"{space['bounded'] - space.get('proven', 0):,} by bounds with margins, {left:,} left{gap}", flush=True)
    print(f"  best {best['step_time_s']:.4g} s ({best['label']})", flush=True)


def try_hints(rehearse, scenario, best, asked, faults, name):
    for hint in HINTS:
        answer, code, _, wall, complaint = searched(rehearse, scenario, asked.hinted, asked.jobs, [hint])
        found = best_of(answer)
        if found is None:
            print(f"  {hint:<16} nothing ({code}) in {wall:.0f} s: {complaint[:110]}", flush=True)
            continue
        better = best["step_time_s"] / found["step_time_s"]
        wins = better > WINS
        print(f"  {hint:<16} {found['step_time_s']:.4g} s, {100 * (better - 1):+.1f} %{'  WINS: ' + found['label'] if wins else ''}", flush=True)
        if wins:
            faults.append(f"{name}: {hint} is {100 * (better - 1):.1f} % better")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("rehearse")
    parser.add_argument("scenarios")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--hinted", type=int, default=15)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--space", action="append")
    parser.add_argument("--no-hints", action="store_true")
    asked = parser.parse_args()
    rehearse, faults = os.path.abspath(asked.rehearse), []
    with tempfile.TemporaryDirectory() as folder:
        spaces = {name: os.path.join(asked.scenarios, file) for name, file in SHIPPED.items()}
        spaces.update({name: own_scenario(spec, folder, name) for name, spec in OWN.items()})
        for name, scenario in spaces.items():
            if asked.space and not any(wanted in name for wanted in asked.space):
                continue
            answer, code, first, wall, complaint = searched(rehearse, scenario, asked.seconds, asked.jobs)
            best = best_of(answer)
            if best is None:
                faults.append(f"{name}: nothing fits (exit code {code}): {complaint}")
                print(faults[-1], flush=True)
                continue
            report(name, answer, first, wall)
            if first > SOON:
                faults.append(f"{name}: the first answer took {first:.1f} s")
            if not asked.no_hints:
                try_hints(rehearse, scenario, best, asked, faults, name)
    print("\n".join(faults) if faults else "no hint wins")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
