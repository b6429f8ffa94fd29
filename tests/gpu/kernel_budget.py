#!/usr/bin/env python3
"""Whether kernels keep to their budget of registers, shared memory and stack.

Usage: kernel_budget.py BUILD [--table]    after rehearse_cuda was built in BUILD. It reads the device code in the
objects, so it needs no tool of CUDA's. Of each kernel the largest over all architectures and types counts.
kernel_budget.json has, by source and kernel, the registers, the bytes of static shared memory and those of the stack
that it may take; --table prints what there is, with a little room for another compiler, in that form. Registers that
are spilled go to the stack, and so do arrays that are not indexed by constants. A kernel over its budget, and a kernel
or entry without the other, fail.
"""
import json
import pathlib
import re
import struct
import sys

HERE = pathlib.Path(__file__).resolve().parent
CUDA_MACHINE = 190  # ELF's e_machine of device code.
# Attributes of .nv.info, whose values are pairs (symbol, number).
SIZED, FRAME_SIZE, REGISTERS = 4, 0x11, 0x2F
# The namespace of kernels here, as names of symbols begin with it.
OURS = "_ZN8rehearse"


def text_at(data, at):
    return data[at:data.index(b"\0", at)].decode()


class DeviceCode:
    """An ELF image of kernels for one architecture."""

    def __init__(self, data):
        self.data = data
        at, size, count, names = struct.unpack_from("<40xQ10xHHH", data)
        rows = [struct.unpack_from("<IIQQQQIIQQ", data, at + i * size) for i in range(count)]
        strings = rows[names][4]
        self.sections = {text_at(data, strings + r[0]): r for r in rows}

    def symbol(self, number):
        _, _, _, _, offset, _, link, *_ = self.sections[".symtab"]
        name, = struct.unpack_from("<I", self.data, offset + 24 * number)
        return text_at(self.data, self.sections[".strtab"][4] + name)

    def attributes(self, wanted):
        """(symbol, number) of each such attribute."""
        at, size = self.sections[".nv.info"][4:6]
        end = at + size
        while at < end:
            form, what, value = struct.unpack_from("<BBH", self.data, at)
            at += 4
            if form == SIZED:
                if what == wanted:
                    symbol, number = struct.unpack_from("<II", self.data, at)
                    yield self.symbol(symbol), number
                at += value

    def shared(self, kernel):
        return self.sections[f".nv.shared.{kernel}"][5] if f".nv.shared.{kernel}" in self.sections else 0


def device_code(obj):
    data = obj.read_bytes()
    at = data.find(b"\x7fELF", 1)
    while at >= 0:
        if struct.unpack_from("<H", data, at + 18)[0] == CUDA_MACHINE:
            yield DeviceCode(data[at:])
        at = data.find(b"\x7fELF", at + 1)


def kernel_of(mangled):
    """`adam_kernel` of `_ZN8rehearse4cuda...11adam_kernelIfff...`."""
    names = []
    for match in re.finditer(r"\d+", mangled):
        digits = match.group()
        for cut in range(len(digits)):
            begin, length = match.end(), int(digits[cut:])
            name = mangled[begin:begin + length]
            if length > 6 and len(name) == length and re.fullmatch(r"[a-z][a-z0-9_]*kernel", name):
                names.append(name)
    # Digits of what the compiler puts before it may seem to begin a longer one.
    return min(names, key=len) if names else mangled


def used(build):
    """{source: {kernel: [registers, shared bytes, stack bytes]}}."""
    objects = sorted(pathlib.Path(build).glob("gpu_backend/CMakeFiles/rehearse_cuda.dir/cuda/kernels/*.cu.o"))
    if not objects:
        sys.exit(f"{build}: rehearse_cuda was not built there")
    table = {}
    for obj in objects:
        kernels = table.setdefault(obj.name.removesuffix(".o"), {})
        for code in device_code(obj):
            for mangled, registers in code.attributes(REGISTERS):
                if OURS not in mangled:  # CUB's have budgets of their own.
                    continue
                entry = kernels.setdefault(kernel_of(mangled), [0, 0, 0])
                entry[:2] = [max(entry[0], registers), max(entry[1], code.shared(mangled))]
            for mangled, size in code.attributes(FRAME_SIZE):
                if kernel_of(mangled) in kernels:
                    kernels[kernel_of(mangled)][2] = max(kernels[kernel_of(mangled)][2], size)
    return table


def main():
    table, faults = used(sys.argv[1]), []
    if "--table" in sys.argv:
        for kernels in table.values():
            for takes in kernels.values():
                takes[0], takes[2] = min(-(-(takes[0] + 4) // 16) * 16, 255), -(-takes[2] // 64) * 64
        rows = [f'  "{s}": {{\n' + ",\n".join(f'    "{k}": {json.dumps(v)}' for k, v in sorted(kernels.items())) + "\n  }"
                for s, kernels in sorted(table.items())]
        print("{\n" + ",\n".join(rows) + "\n}")
        return 0
    budget = json.loads((HERE / "kernel_budget.json").read_text(encoding="utf-8"))
    for source in sorted(table.keys() | budget.keys()):
        kernels, allowed = table.get(source, {}), budget.get(source, {})
        for name in sorted(kernels.keys() | allowed.keys()):
            if name not in allowed:
                faults.append(f"{source}: {name} has no budget")
            elif name not in kernels:
                faults.append(f"{source}: there is no kernel {name}")
            else:
                for what, takes, may in zip(("registers", "bytes of shared memory", "bytes of stack"), kernels[name], allowed[name]):
                    if takes > may:
                        faults.append(f"{source}: {name} takes {takes} {what} of {may}")
    print("\n".join(faults) or f"{sum(map(len, table.values()))} kernels keep to their budgets")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
