"""A simulated and a real step are traced in one form: the same fields, both read by Python's JSON and by our own importer.

usage: same_fields.py REHEARSE SCENARIO
"""
import json
import os
import sys
import tempfile

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
from command_line import Program

rehearse, scenario = Program(sys.argv[1]), sys.argv[2]
failures = []


def fields(path):
    with open(path) as f:
        document = json.load(f)
    out = {"document": set(document), "kernel": set(), "call": set(), "entry": set(), "distributed": set(document["distributedInfo"])}
    kernels = 0
    for e in document["traceEvents"]:
        if e.get("cat") != "kernel":
            continue
        kernels += 1
        out["entry"] |= set(e)
        out["call" if e["name"].startswith("nccl") else "kernel"] |= set(e["args"])
        if not (e["ph"] == "X" and e["dur"] >= 0 and isinstance(e["pid"], int) and isinstance(e["tid"], int)):
            failures.append(f"{path}: {e}")
    return out, kernels


with tempfile.TemporaryDirectory() as where:
    simulated, real = os.path.join(where, "simulated.json"), os.path.join(where, "real.json")
    plan = ["--set", "cluster.machine=dgx_a100_80gb", "--set", "strategy.tp=2", "--set", "strategy.dp=auto", "--set", "strategy.dp_replicate=auto"]
    rehearse.run("simulate", scenario, *plan, "--trace", simulated, "--trace-ranks", "0-1", "--no-fold", "--all-flows", "-o", os.path.join(where, "simulated.txt"))
    rehearse.run("run", scenario, "--ranks", "4", "--set", "strategy.tp=2", "--steps", "3", "--trace", real, "-o", os.path.join(where, "real.txt"))
    (told, _), (did, _) = fields(simulated), fields(real)
    for kind in told:
        if told[kind] != did[kind]:
            failures.append(f"{kind}: only simulated {sorted(told[kind] - did[kind])}, only real {sorted(did[kind] - told[kind])}")
    for path in (simulated, real):
        report = rehearse.ask("import", "trace", path)
        kernels = sum(t["count"] for r in report["ranks"] for k in ("kernels", "calls") for t in r[k].values())
        if kernels < fields(path)[1]:
            failures.append(f"{path}: {kernels} events imported of {fields(path)[1]}")
        if len(report["ranks"]) < 2 or report["matched"] == 0:
            failures.append(f"{path}: ranks do not align: {report['how_matched']}")
print("\n".join(failures) or "the same fields")
sys.exit(1 if failures else 0)
