#!/usr/bin/env python3
"""Whether tests on the machine on the CPU notice mistakes in kernels (mutations.py).

Usage: mutate.py BUILD [FIRST [END]]    after test_cuda_on_cpu was built in BUILD. Each mutation is compiled by itself
and linked before what it replaces. The tests run in each of the machine's orders (machine.hpp) until one fails. What
was not noticed is printed; exit status 1 where those are more than two.
"""
import os
import re
import shlex
import subprocess
import sys
import tempfile

from mutations import MUTATIONS

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
KERNELS = "gpu_backend/cuda/kernels"
PROGRAM = "tests/gpu/test_cuda_on_cpu"
UNNOTICED = 2
# The exit status of a program that an endless loop holds up.
TOO_LONG = 124
SECONDS = 120


def commands(build):
    """How a kernel is compiled (object and source stand for those of any), and how the program is linked."""
    listed = subprocess.run(["ninja", "-C", build, "-t", "commands", PROGRAM], check=True, capture_output=True, text=True)
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
    linked = next(line for line in reversed(lines) if f"-o {PROGRAM} " in line or line.endswith(f"-o {PROGRAM}"))
    return kept, linked


def build_mutant(build, folder, compiled, linked, file, text, kernel):
    overlay = os.path.join(folder, "overlay", KERNELS)
    os.makedirs(overlay, exist_ok=True)
    changed = os.path.join(overlay, file)
    with open(changed, "w", encoding="utf-8") as out:
        out.write(text)
    source = changed if file == kernel else os.path.join(ROOT, KERNELS, kernel)
    obj, program = os.path.join(folder, "mutant.o"), os.path.join(folder, "mutant")
    call = compiled[:1] + ["-I", os.path.join(folder, "overlay")] + compiled[1:]
    subprocess.run(call + ["-w", "-x", "c++", "-c", source, "-o", obj], cwd=build, check=True)
    # Of two definitions of a launcher the linker takes the first.
    line = linked.replace(f"-o {PROGRAM}", f"-o {program} -Wl,-z,muldefs", 1)
    line = line.replace(" tests/gpu/CMakeFiles/", f" {obj} tests/gpu/CMakeFiles/", 1)
    subprocess.run(line, cwd=build, check=True, shell=True, stdout=subprocess.DEVNULL)
    os.remove(changed)
    return program


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
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    end = int(sys.argv[3]) if len(sys.argv) > 3 else len(MUTATIONS)
    compiled, linked = commands(build)
    missed = []
    for number in range(first, min(end, len(MUTATIONS))):
        file, before, after, tests, *rest = MUTATIONS[number]
        with open(os.path.join(ROOT, KERNELS, file), encoding="utf-8") as source:
            text = source.read()
        if text.count(before) != 1:
            sys.exit(f"mutation {number}: {file} has {text.count(before)} times {before!r}")
        with tempfile.TemporaryDirectory() as folder:
            program = build_mutant(build, folder, compiled, linked, file, text.replace(before, after),
                                   rest[0] if rest else file)
            order = next((o for o in range(4) if fails(program, tests, o) != 0), None)
        outcome = "NOT NOTICED" if order is None else f"noticed in order {order}"
        print(f"{number:3} {outcome}: {file}: {before.strip()!r} -> {after.strip()!r}", flush=True)
        if order is None:
            missed.append(number)
    print(f"{end - first - len(missed)} of {end - first} noticed")
    return 1 if len(missed) > UNNOTICED else 0


if __name__ == "__main__":
    sys.exit(main())
