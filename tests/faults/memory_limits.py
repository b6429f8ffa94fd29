"""Every verb where a process may take 1 GiB or 4 GiB of addresses (ulimit -v): an answer, or an error that says why.

usage: memory_limits.py REHEARSE SCENARIOS [--gib 1 4]

Each command must end by itself within five minutes with exit code 0, or with 4 and a line on standard error that begins
with "error:". Prints what each took, and ends with 1 where one did not.
"""
import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time

PATIENCE = 300  # Seconds.
GOOD_CODES = (0, 4)  # 4: no memory.


def commands(scenarios, folder):
    """Of each verb the heaviest of what is shipped, or what is usual where nothing is heavy."""
    at = lambda name: os.path.join(scenarios, name)
    part = lambda index: ["search", at("gpt3_175b_a100_64.json"), "--shard", f"{index}/2", "--seconds", "5", "-j", "2",
                          "-o", os.path.join(folder, f"part{index}.json")]
    return [
        ["simulate", at("deepseek_v3_h800_2048.json")],
        ["simulate", at("megatron_1t_h100_102400.json")],
        ["simulate", at("llama3_8b_h100_8.json"), "--trace", os.path.join(folder, "trace.json"), "--html",
         os.path.join(folder, "page.html")],
        ["estimate", at("llama3_405b_128k_h100_16384.json")],
        ["memory", at("gpt3_175b_a100_16384.json")],
        ["compare", at("gpt3_175b_a100_1024.json"), at("llama3_70b_h100_64.json")],
        ["search", at("mixtral_8x7b_h100_64.json"), "--seconds", "15", "-j", "2"],
        part(1), part(2),
        ["merge", os.path.join(folder, "part1.json"), os.path.join(folder, "part2.json")],
        ["sweep", at("tiny_gpt2.json"), "--vary", "strategy.microbatch=1,2"],
        ["plan", at("plans/llama3_8b_two_weeks.json")],
        ["fleet", at("fleets/two_teams.json")],
        ["lesson", "schedules"],
        ["task", "larger_microbatch"],
        ["replay", "goyal_p100"],
        ["run", at("tiny_gpt2.json"), "--steps", "2"],
        ["validate", "--measurements", at("../tests/published/data/torchtitan.json")],
        ["topology", "show", "selene"],
        ["import", "trace", os.path.join(folder, "trace.json"), "-o", os.path.join(folder, "workload.json")],
        ["export", at("llama3_8b_fsdp_h100_64.json"), "--to", "torchtitan", "-o", os.path.join(folder, "export")],
        ["export", at("llama3_8b_h100_8.json"), "--to", "chakra", "-o", os.path.join(folder, "traces")],
        ["collectives", "--cluster", "eos", "--nodes", "16"],
        ["list", "gpus"],
        ["explain", "strategy.pp"],
        ["version"],
    ]


def run(rehearse, words, gib, folder):
    limit = int(gib * 2**30)
    began = time.monotonic()
    try:
        done = subprocess.run([rehearse, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=folder,
                              timeout=PATIENCE, check=False, env={**os.environ, "OPENBLAS_NUM_THREADS": "2"},
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
    except subprocess.TimeoutExpired:
        return f"no end in {PATIENCE} s", ""
    said = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    took = f"{time.monotonic() - began:.1f} s, exit code {done.returncode}" + (f": {said[0]}" if said else "")
    if done.returncode not in GOOD_CODES:
        return "neither an answer nor an error of memory", took
    if done.returncode != 0 and not said:
        return "says nothing of why", took
    return "", took


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rehearse")
    parser.add_argument("scenarios")
    parser.add_argument("--gib", type=float, nargs="+", default=[1, 4])
    options = parser.parse_args()
    failed = 0
    for gib in options.gib:
        with tempfile.TemporaryDirectory() as folder:
            for words in commands(os.path.abspath(options.scenarios), folder):
                fault, took = run(os.path.abspath(options.rehearse), words, gib, folder)
                failed += bool(fault)
                shown = " ".join(os.path.basename(word) for word in words[:3])
                print(f"{gib:g} GiB  {shown}: {took}{'  FAULT: ' + fault if fault else ''}", flush=True)
    print(f"{failed} faults")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
