#!/usr/bin/env python3
"""Profiles some steps with torch.profiler on the CPU, and holds what `import trace` makes of the file to the profiler's own totals.

usage: cpu_profile.py PROGRAM
"""
import json
import pathlib
import subprocess
import sys
import tempfile

try:
    import torch
    from torch.profiler import ProfilerActivity, profile
except ImportError as e:
    print(f"skipped: {e} (Debian: python3-torch)")
    sys.exit(77)

STEPS = 3


def profiled(file):
    """Seconds of each operator's own time, by its name, and how many operators ran."""
    module = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10))
    update = torch.optim.SGD(module.parameters(), 0.1)
    with profile(activities=[ProfilerActivity.CPU]) as recorded:
        for _ in range(STEPS):
            loss = torch.nn.functional.cross_entropy(module(torch.randn(64, 256)), torch.randint(0, 10, (64,)))
            update.zero_grad()
            loss.backward()
            update.step()
            recorded.step()
    recorded.export_chrome_trace(str(file))
    return {a.key: a.self_cpu_time_total * 1e-6 for a in recorded.key_averages()}, len(recorded.events())


def check(program):
    with tempfile.TemporaryDirectory() as temporary:
        file = pathlib.Path(temporary) / "rank0.json"
        by_name, events = profiled(file)
        if not events:
            print("skipped: this build of PyTorch records no trace of a CPU")
            return 77
        done = subprocess.run([program, "import", "trace", file, "--format", "json"], capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"import trace ended with {done.returncode}: {done.stderr}")
    kernels = json.loads(done.stdout)["ranks"][0]["kernels"]
    products = sum(s for name, s in by_name.items() if name in ("aten::mm", "aten::addmm"))
    rounding = 2e-6 * events  # The file has whole microseconds.
    good = True
    for what, found, wanted in (("all", sum(k["seconds"] for k in kernels.values()), sum(by_name.values())),
                                ("products", kernels["matmul"]["seconds"], products)):
        print(f"{what}: {found * 1e6:.0f} us, by the profiler {wanted * 1e6:.0f} us, rounding at most {rounding * 1e6:.0f} us")
        good &= abs(found - wanted) <= min(rounding, 0.1 * wanted)
    return 0 if good else 1


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.exit(check(sys.argv[1]))
