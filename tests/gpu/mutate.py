#!/usr/bin/env python3
"""Whether tests on the machine on the CPU notice mistakes in kernels and at the edges of CUDA (mutations.py).

Usage: mutate.py BUILD [FIRST [END]]    after test_cuda_on_cpu and test_nccl_on_cpu were built in BUILD. Each mutation
is compiled by itself and linked before what it replaces. The tests run in each of the machine's orders (machine.hpp)
until one fails. What was not noticed is printed; exit status 1 where those are more than two in kernels, or one at an
edge.
"""
import functools
import os
import re
import shlex
import subprocess
import sys
import tempfile

from mutations import EDGES, MUTATIONS, OPERATORS

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
KERNELS = "gpu_backend/cuda/kernels"
UNNOTICED = 2
# The exit status of a program that an endless loop holds up.
TOO_LONG = 124
SECONDS = 120


def mistakes():
    """Of each: the file that is changed, what it holds and what it holds then, the tests, what is compiled, the program."""
    for file, before, after, tests, *rest in MUTATIONS:
        yield f"{KERNELS}/{file}", before, after, tests, f"{KERNELS}/{rest[0] if rest else file}", OPERATORS
    for file, before, after, tests, program, *rest in EDGES:
        yield file, before, after, tests, rest[0] if rest else file, program


@functools.cache
def commands(build, program):
    """How a kernel is compiled (object and source stand for those of any), and how the program is linked."""
    listed = subprocess.run(["ninja", "-C", build, "-t", "commands", program], check=True, capture_output=True, text=True)
    lines = listed.stdout.splitlines()
    compiled = next(line for line in lines if "rehearse_cuda_on_cpu.dir/Unity/unity_updates" in line)
    words = [w for w in shlex.split(compiled) if not w.startswith("CCACHE")]
    words = words[next(i for i, w in enumerate(words) if re.search(r"(\+\+|clang\+\+)[-0-9.]*$", w)):]
    kept, skip = [], 0
    for word in words:
        if skip:
            skip -= 1
        elif word in ("-MF", "-MT", "-o", "-c"):
            skip = 1
        elif word != "-MD":
            kept.append(word)
    linked = next(line for line in reversed(lines) if f"-o {program} " in line or line.endswith(f"-o {program}"))
    return kept, linked


def build_mutant(build, folder, file, text, compiled_file, program):
    compiled, linked = commands(build, program)
    changed = os.path.join(folder, "overlay", file)
    os.makedirs(os.path.dirname(changed), exist_ok=True)
    with open(changed, "w", encoding="utf-8") as out:
        out.write(text)
    group = "/Unity/" in compiled_file
    source = changed if file == compiled_file else os.path.join(build if group else ROOT, compiled_file)
    obj, mutant = os.path.join(folder, "mutant.o"), os.path.join(folder, "mutant")
    call = compiled[:1] + ["-I", os.path.join(folder, "overlay")] + compiled[1:]
    subprocess.run(call + ["-w", "-x", "c++", "-c", source, "-o", obj], cwd=build, check=True)
    # A group takes its own place. Of two definitions of a function the linker takes the first.
    line = linked.replace(f"-o {program}", f"-o {mutant} -Wl,-z,muldefs", 1)
    if group:
        line = line.replace(f" {compiled_file}.o", f" {obj}", 1)
    else:
        line = line.replace(" tests/gpu/CMakeFiles/", f" {obj} tests/gpu/CMakeFiles/", 1)
    subprocess.run(line, cwd=build, check=True, shell=True, stdout=subprocess.DEVNULL)
    return mutant


def fails(program, tests, order):
    environment = dict(os.environ, REHEARSE_MACHINE=str(order))
    try:
        done = subprocess.run([program, tests, "--abort"], env=environment, cwd=ROOT, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return TOO_LONG
    return done.returncode


def main():
    build = os.path.realpath(sys.argv[1])
    every = list(mistakes())
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    end = min(int(sys.argv[3]), len(every)) if len(sys.argv) > 3 else len(every)
    missed = []
    for number, (file, before, after, tests, compiled, program) in enumerate(every[first:end], first):
        with open(os.path.join(ROOT, file), encoding="utf-8") as source:
            text = source.read()
        if text.count(before) != 1:
            sys.exit(f"mutation {number}: {file} has {text.count(before)} times {before!r}")
        with tempfile.TemporaryDirectory() as folder:
            mutant = build_mutant(build, folder, file, text.replace(before, after), compiled, program)
            order = next((o for o in range(4) if fails(mutant, tests, o) != 0), None)
        outcome = "NOT NOTICED" if order is None else f"noticed in order {order}"
        print(f"{number:3} {outcome}: {file}: {before.strip()!r} -> {after.strip()!r}", flush=True)
        if order is None:
            missed.append(number)
    print(f"{end - first - len(missed)} of {end - first} noticed")
    return 1 if len(missed) > UNNOTICED or any(number >= len(MUTATIONS) for number in missed) else 0


if __name__ == "__main__":
    sys.exit(main())
