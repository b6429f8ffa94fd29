#!/usr/bin/env python3
"""Holds scenarios that `validate --write-scenarios` wrote to the scoreboard: `estimate` on each must give the row's step
time, and `memory` its peak memory where the row has one.

usage: check.py PROGRAM [--every N] FILE...

FILE: measured rows, as --measurements takes them. Every N-th predicted row is tried (default: each). Prints what
differs, then how many were tried; exit code 1 where any differs.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile


def answer(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, 3):  # 3: the plan needs more memory than there is.
        return None, done.stderr.strip().split("\n")[0]
    return json.loads(done.stdout), ""


def step_difference(program, path, row):
    result, fault = answer(program, "estimate", path, "--despite-memory", "--format", "json")
    if result is None:
        return fault
    found = result.get("modelled_step_time_s") or result.get("step_time_s")
    # A bias that is applied to the step is taken off again here, which may round the last bit.
    return "" if abs(found / row["predicted"] - 1) < 1e-15 else f"estimate {found}, scoreboard {row['predicted']}"


def memory_difference(program, path, row):
    result, fault = answer(program, "memory", path, "--format", "json")
    if result is None:
        return fault
    peak = row["memory"]
    key = {"peak_allocated": "allocated_bytes", "peak_reserved": "reserved_bytes"}[peak["quantity"]]
    found = max(stage[key] for stage in result["memory"])
    wanted = peak["predicted"] * 2**30
    return "" if abs(found - wanted) <= 1 else f"memory {found}, scoreboard {wanted}"


def difference(program, path, row):
    return step_difference(program, path, row) or (memory_difference(program, path, row) if row.get("memory") else "")


def name_of(row_id):
    return "".join("_" if c in "/: " else c for c in row_id) + ".json"


def main():
    arguments = argparse.ArgumentParser(add_help=False)
    arguments.add_argument("program")
    arguments.add_argument("files", nargs="+")
    arguments.add_argument("--every", type=int, default=1)
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        board, fault = answer(given.program, "validate", "--format", "json", "--write-scenarios", folder,
                              "--measurements", *given.files)
        if board is None:
            sys.exit(fault)
        written = {path.name: path for path in pathlib.Path(folder).rglob("*.json")}
        rows = [row for row in board["rows"] if row.get("predicted") is not None and name_of(row["id"]) in written]
        with_memory = [row["id"] for row in rows if row.get("memory")]
        # Ten times as many of those with a measured peak: there are few.
        peaks = set(with_memory[:: max(1, given.every // 10)])
        tried = [row for at, row in enumerate(rows) if at % given.every == 0 or row["id"] in peaks]
        faults = [(row["id"], text) for row in tried if (text := difference(given.program, written[name_of(row["id"])], row))]
    for row_id, text in faults:
        print(f"{row_id}: {text}")
    print(f"{len(tried)} of {len(rows)} scenarios tried, {len(faults)} differ")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
