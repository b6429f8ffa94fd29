#!/usr/bin/env python3
"""Jobs as a user would write them, in ten lines with a framework, against the prediction of the measured row that each
describes.

usage: check_jobs.py PROGRAM DATA

jobs/rows.json says which row of which file of DATA each job is. Prints the difference of each; exit code 1 where one is
above 0.1 %.
"""
import json
import pathlib
import subprocess
import sys

JOBS = pathlib.Path(__file__).parent / "jobs"
MOST = 1e-3


def answer(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, 3):  # 3: the plan needs more memory than there is.
        sys.exit(done.stderr.strip())
    return json.loads(done.stdout)


def main():
    program, data = sys.argv[1], pathlib.Path(sys.argv[2])
    wanted = json.loads((JOBS / "rows.json").read_text())
    files = sorted({str(data / job["file"]) for job in wanted.values()})
    rows = {row["id"]: row for row in answer(program, "validate", "--format", "json", "--measurements", *files)["rows"]}
    wrong = 0
    for name, job in wanted.items():
        result = answer(program, "estimate", str(JOBS / f"{name}.json"), "--despite-memory", "--format", "json")
        step = result.get("modelled_step_time_s") or result["step_time_s"]
        row = rows[job["row"]]
        off = step / row["predicted"] - 1
        wrong += abs(off) > MOST
        print(f"{name}: {step:.4g} s, the row {row['predicted']:.4g} s ({100 * off:+.3f} %), measured {row['measured']:.4g} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
