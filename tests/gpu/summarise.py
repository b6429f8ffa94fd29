#!/usr/bin/env python3
"""Puts what the steps of gpu.sh left in a folder together: gpu.json, and gpu.md for people, in another.

Usage: summarise.py LOGS RESULTS COMMIT VERSION
"""
import datetime
import json
import os
import pathlib
import shutil
import subprocess
import sys

MODES = ("rehearse", "graphs", "apart", "own", "eager", "compile")


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines() if line.startswith("{")] if path.exists() else []


def main():
    logs, results, commit, version = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3], sys.argv[4]
    gpu = os.environ.get("GPU_NAME", "no GPU")
    if shutil.which("nvidia-smi"):
        query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
        gpu = subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip()
    speed = [line for file in sorted(logs.glob("*.speed.jsonl")) for line in lines(file)]
    validated = []
    for file in sorted(logs.glob("*.validate.json")):
        try:
            validated.append({**json.loads(file.read_text()), "scenario": file.name.removesuffix(".validate.json")})
        except ValueError:
            continue
    for file in sorted(file for mode in MODES[:4] for file in logs.glob(f"*.{mode}.json")):
        try:
            own = json.loads(file.read_text())
        except ValueError:
            continue
        scenario, mode = file.name.removesuffix(".json").rsplit(".", 1)
        speed.append({"scenario": scenario, "mode": mode, "steps_replayed": own.get("steps_replayed", 0), "step_time_s": own["step_time_s"], "step_time_p5_s": own["step_time_p5_s"],
                      "step_time_p95_s": own["step_time_p95_s"], "tokens_per_s": own["tokens_per_s"], "peak_bytes": own["memory"][0].get("device_peak_bytes"), "loss": own["loss"]})
    share = [line for file in sorted(logs.glob("share_*.txt")) for line in file.read_text().splitlines()]
    tests = [line for name in ("tests.txt", "parity.txt") if (logs / name).exists() for line in (logs / name).read_text().splitlines()]
    out = {"schema": "rehearse/gpu-results/v1", "date": datetime.date.today().isoformat(), "commit": commit, "gpu": gpu, "version": version, "tests": tests, "shared": share,
           "gemm": lines(logs / "gemm.jsonl"), "attention": lines(logs / "attention.jsonl"), "speed": speed, "validated": validated}
    (results / "gpu.json").write_text(json.dumps(out, indent=2) + "\n")
    text = [f"# {out['gpu']}", "", f"{out['date']}, commit {commit}, {version}", "", "| network | " + " | ".join(("rehearse", "with CUDA graphs", "and tasks one by one", "and own attention", "PyTorch eager", "PyTorch compiled")) + " |", "|---|---|---|---|---|---|---|"]
    for net in sorted({s["scenario"] for s in speed}):
        by = {s["mode"]: s for s in speed if s["scenario"] == net}
        text.append(f"| {net} | " + " | ".join(f"{by[m]['step_time_s'] * 1e3:.2f} ms" if m in by else "-" for m in MODES) + " |")
    text += ["", "| product | m x n x k | TFLOP/s | over cuBLASLt's best |", "|---|---|---|---|"]
    text += [f"| {g['product']} | {g['m']} x {g['n']} x {g['k']} | {g['flops_per_s'] / 1e12:.0f} | {100 * g['over_best']:.1f} % |" for g in out["gemm"]]
    text += ["", "| attention | by | forward | backward | scratch | bits repeat |", "|---|---|---|---|---|---|"]
    for a in (a for a in out["attention"] if "declined" not in a):
        by = a["by"] + ("" if "deterministic" not in a else ", one order" if a["deterministic"] else ", any order")
        text.append(f"| {a['attention']} | {by} | {a['forward_s'] * 1e6:.0f} us | {a['backward_s'] * 1e6:.0f} us | " + (f"{a['scratch_bytes'] / 2**20:.0f} MiB | {'yes' if a['repeats'] else 'no'} |" if "repeats" in a else "- | - |"))
    text += ["", "| network | predicted | measured | error |", "|---|---|---|---|"]
    for v in validated:
        step = v["step"]
        text.append(f"| {v['scenario']} | {step['predicted_s'] * 1e3:.2f} ms | {step['measured_s'] * 1e3:.2f} ms | {100 * (step['predicted_s'] / step['measured_s'] - 1):+.1f} % |")
    for v in validated:
        text += ["", f"{v['scenario']}, by operator:", "", "| operator | predicted | measured |", "|---|---|---|"]
        text += [f"| {r['id']} | {r['predicted'] * 1e3:.3f} ms | {r['measured'] * 1e3:.3f} ms |" for r in v["rows"]]
    text += ["", "Tests (exit status): " + ", ".join(tests), "", "Ranks that share the GPU:", ""] + [f"    {line}" for line in share]
    (results / "gpu.md").write_text("\n".join(text) + "\n")
    print("\n".join(text))


if __name__ == "__main__":
    main()
