#!/usr/bin/env python3
"""Run libFuzzer over the targets of the preset `fuzz`, and add up what was run.

    cmake --preset fuzz && cmake --build --preset fuzz
    python3 tests/fuzz/fuzz.py run --runs 1000000 --answers 20000      # goes on from what RECORD.json counts
    python3 tests/fuzz/fuzz.py run --seconds 60 --target scenarios
    python3 tests/fuzz/fuzz.py show

A target goes on until it has the runs asked for, in pieces of so many seconds, each of which RECORD.json counts as soon
as it ends. Corpora lie in the build folder, and so do the inputs of findings (`findings/`). A target with a finding
stops; mend it, keep its input under tests/fuzz/found/TARGET and run again.
"""

import argparse
import datetime
import json
import os
import pathlib
import re
import resource
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
RECORD = HERE / "RECORD.json"
SECONDS = 10  # Of one input.
MEGABYTES = 2048  # Of resident memory.
PIECE = 60  # Seconds of one call of libFuzzer.


def targets(build):
    """Names and longest inputs, readers first."""
    text = subprocess.run([build / "tests/fuzz/fuzz_corpus", "--list"], capture_output=True, text=True, check=True).stdout
    readers, answers = text.split("\n\n")
    lines = [(line.split(), False) for line in readers.splitlines()] + [(line.split(), True) for line in answers.splitlines()]
    return [(words[0], int(words[1]), is_answer) for words, is_answer in lines if words]


def read_record():
    return json.loads(RECORD.read_text()) if RECORD.exists() else {"targets": {}}


def write_record(record):
    part = RECORD.with_suffix(".part")
    part.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")
    part.replace(RECORD)


def prepared(build, name):
    """Corpus and dictionary of a target, made where they are missing."""
    corpus = build / "corpus" / name
    words = build / "corpus" / f"{name}.dict"
    program = build / "tests/fuzz/fuzz_corpus"
    if not words.exists():
        corpus.mkdir(parents=True, exist_ok=True)
        subprocess.run([program, "--seeds", name, corpus], check=True)
        words.write_bytes(subprocess.run([program, "--words", name], capture_output=True, check=True).stdout)
    return corpus, words


def cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run_piece(build, name, longest, runs, seconds):
    """One call of libFuzzer: runs, processor seconds, the text of a finding."""
    corpus, words = prepared(build, name)
    findings = build / "findings"
    findings.mkdir(exist_ok=True)
    before = cpu_seconds()
    done = subprocess.run(
        [build / "tests/fuzz/fuzz_one", corpus, f"-max_len={longest}",
         *([f"-dict={words}"] if words.stat().st_size else []), f"-runs={runs}",
         f"-max_total_time={seconds}", f"-timeout={SECONDS}", f"-rss_limit_mb={MEGABYTES}", "-print_final_stats=1",
         "-verbosity=1", f"-artifact_prefix={findings}/{name}-"],
        env={**os.environ, "REHEARSE_FUZZ": name, "ASAN_OPTIONS": "detect_leaks=1:allocator_may_return_null=0",
             "UBSAN_OPTIONS": "print_stacktrace=1"},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False)
    log = done.stderr
    counted = re.search(r"stat::number_of_executed_units: (\d+)", log)
    if counted is None:
        counted = re.search(r"Done (\d+) runs", log)
    units = int(counted.group(1)) if counted else max([int(n) for n in re.findall(r"^#(\d+)\t", log, re.M)], default=0)
    covered = re.findall(r"cov: (\d+)", log)
    if done.returncode != 0:
        (findings / f"{name}.log").write_text(log[-20000:])
    return units, cpu_seconds() - before, int(covered[-1]) if covered else 0, "" if done.returncode == 0 else summary(log)


def summary(log):
    """The line that says what a sanitizer or an assertion saw."""
    for pattern in (r"(.*runtime error: .*)", r"what\(\): +(.*)", r"SUMMARY: (.*)", r"ERROR: (.*)"):
        found = re.search(pattern, log)
        if found:
            return found.group(1)[-300:]
    return log[-300:]


def run(options):
    record = read_record()
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=HERE, capture_output=True, text=True, check=False)
    failed = []
    for name, longest, is_answer in targets(options.build):
        if options.target and name not in options.target:
            continue
        counts = record["targets"].setdefault(name, {"runs": 0, "cpu_seconds": 0.0})
        wanted = counts["runs"] + 10**9 if options.seconds else options.answers if is_answer else options.runs
        left = options.seconds or 10**9
        while counts["runs"] < wanted and left > 0:
            seconds = min(PIECE, left)
            left -= seconds
            units, cpu, covered, finding = run_piece(options.build, name, longest, wanted - counts["runs"], seconds)
            counts["runs"] += units
            counts["cpu_seconds"] = round(counts["cpu_seconds"] + cpu, 1)
            counts["edges"] = max(covered, counts.get("edges", 0))
            counts["last"] = f"{datetime.date.today()} at {commit.stdout.strip()}"
            print(f"{name}: {counts['runs']} runs, {counts['cpu_seconds']:.0f} s, {units / max(cpu, 0.01):.0f} a second,"
                  f" {covered} edges {finding}", flush=True)
            write_record(record)
            if finding:
                failed.append(name)
                break
            if units == 0:
                break
    show(options)
    sys.exit(f"findings: {', '.join(failed)}" if failed else 0)


def show(_):
    counted = read_record()["targets"]
    runs = sum(c["runs"] for c in counted.values())
    hours = sum(c["cpu_seconds"] for c in counted.values()) / 3600
    for name, c in sorted(counted.items()):
        print(f"{name:22} {c['runs']:12,} runs {c['cpu_seconds'] / 3600:8.2f} h {c['runs'] / max(c['cpu_seconds'], 1):8.0f} a second")
    print(f"{len(counted)} targets, {runs:,} runs, {hours:.2f} processor hours")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parents[1] / "build/fuzz")
    verbs = parser.add_subparsers(dest="verb", required=True)
    more = verbs.add_parser("run")
    more.add_argument("--runs", type=int, default=1_000_000, help="of each reader, those counted before included")
    more.add_argument("--answers", type=int, default=20_000, help="whole answers, those counted before included")
    more.add_argument("--seconds", type=int, default=0, help="of each target, in place of a number of runs")
    more.add_argument("--target", action="append")
    verbs.add_parser("show")
    options = parser.parse_args()
    {"run": run, "show": show}[options.verb](options)


if __name__ == "__main__":
    main()
