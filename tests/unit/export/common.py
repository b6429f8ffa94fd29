"""What all checks of exports use: the program, and what went wrong so far."""
import os
import subprocess
import sys

rehearse, folder, names = os.path.abspath(sys.argv[1]), sys.argv[2], sys.argv[3:]
failures = []


def expect(what, good, detail=""):
    if not good:
        failures.append(f"{what}: {detail}")


def run(*words):
    done = subprocess.run([rehearse, *words], capture_output=True, text=True)
    if done.returncode != 0:
        failures.append(f"{' '.join(words)}: {done.stderr.strip()}")
        return None
    return done.stdout


def flatten(value, prefix=""):
    if isinstance(value, dict) and value:
        for key, v in value.items():
            yield from flatten(v, f"{prefix}.{key}" if prefix else key)
    else:
        yield prefix, value


def text(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return " ".join(text(v) for v in value)
    return str(value)


def same(a, b):
    """Equal as text, or as numbers."""
    if a == b:
        return True
    try:
        return float(a) == float(b)
    except ValueError:
        return False


def both_ways(what, report, found):
    """Every flag of the report stands in the file with its value, and every flag of the file is in the report."""
    told = {s["flag"]: s["text"] for s in report["settings"] if s["flag"]}
    for flag, value in told.items():
        expect(what, flag in found, f"{flag} is told of and not written")
        if flag in found:
            expect(what, same(found[flag], value), f"{flag} is {found[flag]}, told {value}")
    for flag in found:
        expect(what, flag in told, f"{flag} is written and not told of")
