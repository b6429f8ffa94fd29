#!/usr/bin/env python3
"""Estimates per CPU second from Python, an attribute of each read, and what memory they take. bench_api_estimates runs the same in C++.

usage: PYTHONPATH=build/default/python python_estimates.py [SCENARIO [COUNT]]
"""
import os
import sys
import time

import rehearse


def resident_mb():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def main():
    scenario = sys.argv[1] if len(sys.argv) > 1 else "scenarios/llama3_8b_h100_8.json"
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 10_000
    size = len(rehearse.estimate(scenario).to_json())
    begin, total = time.process_time(), 0.0
    for i in range(1, count + 1):
        total += rehearse.estimate(scenario).step_time_s
        if i == count // 10:
            print(f"after {i:6}: {resident_mb():.1f} MB resident")
    spent = time.process_time() - begin
    print(f"after {count:6}: {resident_mb():.1f} MB resident")
    print(f"{count} estimates of {scenario}: {spent:.1f} CPU s, {count / spent:.0f} a second, {size / 1e3:.1f} kB of JSON each, mean {total / count:.6g} s")


if __name__ == "__main__":
    main()
