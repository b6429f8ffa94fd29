"""Counts what a trace holds by itself, and compares `rehearse import trace --format json` with it.

usage: count_traces.py REHEARSE FOLDER
"""
import collections
import gzip
import json
import os
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
from command_line import Program

rehearse, folder = Program(sys.argv[1]), sys.argv[2]
failures = []


def expect(what, got, wanted, tolerance=1e-9):
    if isinstance(wanted, float):
        good = abs(got - wanted) <= tolerance * max(1e-9, abs(wanted)) + 1e-12
    else:
        good = got == wanted
    if not good:
        failures.append(f"{what}: {got}, counted {wanted}")


def load(name):
    return json.load(gzip.open(f"{folder}/{name}"))["traceEvents"]


def imported(*names):
    return rehearse.ask("import", "trace", *[f"{folder}/{n}" for n in names])


OPERATION = {"AllReduce": "all_reduce", "Broadcast": "broadcast", "SendRecv": "send_recv", "AllGather": "all_gather", "ReduceScatter": "reduce_scatter"}
MARK = {"nccl:all_reduce": "all_reduce", "nccl:all_to_all": "all_to_all", "nccl:_all_gather_base": "all_gather", "nccl:broadcast": "broadcast"}
BYTES = {"float": 4, "Float": 4, "long": 8, "Long": 8, "int": 4, "unsigned char": 1, "signed char": 1}


def calls_of(events):
    """(operation, bytes or None, begin, end) of every NCCL kernel, in order of begin; fields first, then the mark around its launch."""
    launch = {e["args"]["correlation"]: (e["tid"], e["ts"]) for e in events if e.get("cat") == "cuda_runtime" and "LaunchKernel" in e["name"]}
    marks = [e for e in events if e.get("ph") == "X" and e["name"].startswith("nccl:") and e["cat"] == "user_annotation"]
    out = []
    for e in events:
        if e.get("cat") != "kernel" or not e["name"].startswith("nccl"):
            continue
        args = e["args"]
        if "Collective name" in args:
            operation = {"allreduce": "all_reduce", "broadcast": "broadcast"}[args["Collective name"]]
            size = BYTES[args["dtype"]] * max(args["In msg nelems"], args["Out msg nelems"])
        else:
            operation, size = OPERATION[e["name"].split("_")[1]], None
            thread, at = launch.get(args["correlation"], (None, None))
            around = [m for m in marks if m["tid"] == thread and m["ts"] <= at <= m["ts"] + m["dur"]]
            if around:
                mark = max(around, key=lambda m: m["ts"])
                operation = MARK[mark["name"]]
                elements = 1
                for n in mark["args"]["Input Dims"][0]:
                    elements *= n
                size = elements * BYTES[mark["args"]["Input type"][0]]
        out.append((operation, size, e["ts"], e["ts"] + e["dur"]))
    return sorted(out, key=lambda c: c[2])


def check_rank(name, events, rank):
    device = [e for e in events if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
    compute = [e for e in device if not e["name"].startswith("nccl")]
    kernels = rank["kernels"]
    expect(f"{name}: kernels", sum(k["count"] for k in kernels.values()), len(compute))
    expect(f"{name}: kernel time", sum(k["seconds"] for k in kernels.values()), sum(e["dur"] for e in compute) / 1e6)
    copies = [e for e in compute if e["cat"] != "kernel"]
    expect(f"{name}: copies", kernels["memory"]["count"], len(copies))
    expect(f"{name}: copy time", kernels["memory"]["seconds"], sum(e["dur"] for e in copies) / 1e6)
    counted = collections.defaultdict(lambda: [0, 0.0, 0])
    for operation, size, begin, end in calls_of(events):
        counted[operation][0] += 1
        counted[operation][1] += (end - begin) / 1e6
        counted[operation][2] += size or 0
    expect(f"{name}: operations", sorted(rank["calls"]), sorted(counted))
    for operation, (count, seconds, size) in counted.items():
        if operation in rank["calls"]:
            expect(f"{name}: {operation} calls", rank["calls"][operation]["count"], count)
            expect(f"{name}: {operation} time", rank["calls"][operation]["seconds"], seconds, 1e-6)
            expect(f"{name}: {operation} bytes", rank["calls"][operation]["bytes"], float(size))


def check_alone(name):
    report = imported(name)
    expect(f"{name}: ranks", len(report["ranks"]), 1)
    check_rank(name, load(name), report["ranks"][0])
    for operation, total in report["ranks"][0]["calls"].items():
        expect(f"{name}: waiting of one rank alone in {operation}", total["waiting_s"], 0.0)


def check_together(first, second):
    """Calls of two ranks belong together where they overlap, are the same operation and, but for all-to-all, of one size."""
    report = imported(first, second)
    events = [load(first), load(second)]
    a, b = (calls_of(e) for e in events)
    pairs = []
    for x in a:
        for y in b:
            if x[0] == y[0] and (x[0] == "all_to_all" or x[1] == y[1]) and x[2] < y[3] and y[2] < x[3]:
                pairs.append((x, y))
    expect("matched", report["matched"], len(pairs))
    if not pairs:
        failures.append("no calls of the two ranks belong together")
    offset = sorted(x[3] - y[3] for x, y in pairs)[len(pairs) // 2]
    expect("clock", report["ranks"][1]["clock_s"], offset / 1e6, 1e-6)
    waiting = [0.0, 0.0]
    for x, y in pairs:
        entered = [x[2], y[2] + offset]
        waiting[0] += min(x[3] - x[2], max(entered) - entered[0])
        waiting[1] += min(y[3] - y[2], max(entered) - entered[1])
    if not sum(waiting) > 0:
        failures.append("nobody ever waits")
    for r in (0, 1):
        check_rank((first, second)[r], events[r], report["ranks"][r])
        expect(f"rank {r}: waiting", sum(c["waiting_s"] for c in report["ranks"][r]["calls"].values()), waiting[r] / 1e6, 1e-6)


for trace in ("sampled_rank-0.json.gz", "sampled_rank-1.json.gz", "nccl_data.json.gz", "benchmark_result_2869224_1695835535_trace.json.gz"):
    check_alone(trace)
check_together("sampled_rank-0.json.gz", "sampled_rank-1.json.gz")
print("\n".join(failures) or "all totals agree")
sys.exit(1 if failures else 0)
