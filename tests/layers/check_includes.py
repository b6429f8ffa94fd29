#!/usr/bin/env python3
"""Holds every include of the product to the modules that its own may see.

usage: check_includes.py SOURCE MODULES

MODULES is a file of lines `module: seen seen ...`, which CMake writes from what rehearse_add_module() was told: the declared order of libraries is
the rule, and this test shows that sources keep to it. Fails with one line for each include that breaks it, and for each source that no list of
sources names.
"""
import pathlib
import re
import sys

INCLUDE = re.compile(r'^\s*#\s*include\s+"((?:core|sim|gpu_backend|tests)/[^"]+)"', re.M)
# Folders beside core, and what they may see of it: DESIGN of the layers in CONTRIBUTING.md.
OUTSIDE = ("sim", "gpu_backend")


def module_of(path):
    """'core/price/kernels/kernel.hpp' belongs to 'price', 'sim/x.hpp' to 'sim', 'core/api.hpp' to 'api'."""
    parts = path.split("/")
    if parts[0] != "core":
        return parts[0]
    return parts[1].removesuffix(".hpp").removesuffix(".cpp")


def rules(file):
    seen = {}
    for line in pathlib.Path(file).read_text().splitlines():
        name, _, others = line.partition(":")
        seen[name] = set(others.split()) | {name}
    return seen


def main():
    source, seen = pathlib.Path(sys.argv[1]), rules(sys.argv[2])
    faults, files = [], 0
    for folder in ("core", *OUTSIDE):
        for path in sorted((source / folder).rglob("*")):
            if path.suffix not in (".cpp", ".hpp", ".cu", ".cuh"):
                continue
            name = path.relative_to(source).as_posix()
            module = module_of(name)
            files += 1
            if module not in seen:
                faults.append(f"{name}: no list of sources names its module '{module}'")
                continue
            for included in INCLUDE.findall(path.read_text()):
                if module_of(included) not in seen[module]:
                    faults.append(f"{name} includes {included}: '{module}' may see {' '.join(sorted(seen[module]))}")
    for fault in faults:
        print(fault)
    print(f"{files} sources of {len(seen)} modules, {len(faults)} faults")
    return 1 if faults or files == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
