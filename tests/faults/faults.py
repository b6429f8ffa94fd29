"""What rehearse does when a call of the operating system fails, or it is killed.

usage: faults.py REHEARSE SCENARIOS [--library ALLOCATIONS.so] [--case NAME]... [--kind NAME]... [--most 40] [--kills 0] [--seed 1]

Each case is a command that leaves files. It is run once as it is, and its calls of each kind are counted; then once for
each call (at most --most of a kind, spread evenly), with that call failing: writes (no space), fsync, rename, opening
files (too many), sends, receives, processes and threads by strace's injection (the n-th of each thread), allocations by
a library loaded before others. The first thread of a process is OpenBLAS's, which ends the process before its main()
where that cannot start: it is left out. Afterwards

- it must have ended within 30 s, by itself, with exit code 0 to 4;
- what it failed at must be said on standard error, in a line that begins with "error:";
- each file under its final name must be absent, or what it was before, or what the run without a fault left;
- with exit code 0 every file must be there, and nothing else may be left behind;
- where it saves checkpoints, a run must be able to go on from the folder.

--kills N: training with checkpoints is killed at N random moments (signal 9 to all ranks); each time the run goes on
from the newest checkpoint, and its losses must be those of a run that nobody killed.

Ends with 1 where anything of this does not hold, and prints each case's points, tries and faults.
"""
import argparse
import filecmp
import glob
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

PATIENCE = 30  # Seconds after which a run hangs.
GOOD_CODES = (0, 1, 2, 3, 4)  # 4: no memory.
# Kind -> system calls, error.
KINDS = {
    "write": ("write,writev,pwrite64", "ENOSPC"),
    "fsync": ("fsync,fdatasync", "EIO"),
    "rename": ("rename,renameat,renameat2", "EIO"),
    "open": ("openat", "EMFILE"),
    "send": ("sendto,sendmsg", "ECONNRESET"),
    "receive": ("recvfrom,recvmsg", "ECONNRESET"),
    "process": ("fork,vfork,clone,clone3", "EAGAIN"),
}


class Case:
    def __init__(self, name, words, files, before=(), trains=False):
        self.name, self.words, self.files, self.before, self.trains = name, words, files, before, trains


def cases(scenarios):
    tiny, moe = os.path.join(scenarios, "tiny_gpt2.json"), os.path.join(scenarios, "gpt3_175b_a100_64.json")
    few = ["--top", "2", "--fix", "pp=1", "--fix", "tp=1", "--fix", "cp=1", "--fix", "fsdp=false"]
    train = ["run", tiny, "--ranks", "2", "--set", "strategy.dp=2", "--steps", "4", "--checkpoint", "saved", "--save-every", "2"]
    return [
        Case("report", ["simulate", tiny, "--html", "page.html", "--trace", "trace.json"], ["page.html", "trace.json"]),
        Case("answer", ["estimate", moe, "--format", "json", "-o", "answer.json"], ["answer.json"]),
        Case("search", ["search", tiny, *few, "-j", "2", "--format", "json", "-o", "found.json"], ["found.json"]),
        Case("sweep", ["sweep", tiny, "--vary", "training.global_batch=8,16", "-j", "2", "--format", "json", "-o", "points.json"], ["points.json"]),
        Case("merge", ["merge", "part0.json", "part1.json", "--format", "json", "-o", "merged.json"], ["merged.json"],
             before=[["search", tiny, *few, "--shard", f"{i + 1}/2", "--format", "json", "-o", f"part{i}.json"] for i in range(2)]),
        Case("train", train, [], trains=True),
    ]


class Trying:
    def __init__(self, rehearse, library):
        self.rehearse, self.library, self.faults = os.path.abspath(rehearse), library, []

    def run(self, words, folder, around=(), extra=None):
        environment = dict(os.environ, **(extra or {}))
        child = subprocess.Popen([*around, self.rehearse, *words], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, start_new_session=True)
        try:
            out, err = child.communicate(timeout=PATIENCE)
            return child.returncode, out, err.decode(errors="replace")
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.communicate()
            return None, b"", ""

    def prepare(self, case, folder):
        for words in case.before:
            code, _, err = self.run(words, folder)
            if code != 0:
                raise SystemExit(f"{case.name}: {' '.join(words)} fails without a fault: {err}")

    def count(self, case, kind, folder):
        """Calls of the process or thread that makes most of them."""
        if kind == "allocate":
            counts = os.path.join(folder, "counts")
            self.run(case.words, folder, extra={"LD_PRELOAD": self.library, "REHEARSE_ALLOCATION_COUNT": counts})
            with open(counts) as f:
                numbers = [int(line) for line in f]
            os.remove(counts)
            return max(numbers)
        log = os.path.join(folder, "log")
        self.run(case.words, folder, around=["strace", "-f", "-qq", "-o", log, "-e", f"trace={KINDS[kind][0]}"])
        made = {}
        with open(log, errors="replace") as f:
            for line in f:
                found = re.match(r"(\d+) +\w+\(", line)
                if found:
                    made[found[1]] = made.get(found[1], 0) + 1
        os.remove(log)
        return max(made.values(), default=0)

    def fault(self, case, kind, n, folder):
        if kind == "allocate":
            return self.run(case.words, folder, extra={"LD_PRELOAD": self.library, "REHEARSE_FAILING_ALLOCATION": str(n)})
        calls, error = KINDS[kind]
        around = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={calls}", "-e", f"inject={calls}:error={error}:when={n}"]
        return self.run(case.words, folder, around=around)

    def complain(self, where, what):
        self.faults.append(f"{where}: {what}")
        print(f"  {where}: {what}", flush=True)

    def judge(self, case, where, answer, folder, clean, had):
        code, _, err = answer
        if code is None:
            return self.complain(where, f"hangs for {PATIENCE} s")
        if code not in GOOD_CODES:
            return self.complain(where, f"exit code {code}: {err[-200:].strip()!r}")
        if code != 0 and not re.search(r"^(error|rehearse): ", err, re.M):
            self.complain(where, f"exit code {code} without a line that says why: {err[-200:].strip()!r}")
        for name in case.files:
            file, whole = os.path.join(folder, name), os.path.join(clean, name)
            if not os.path.exists(file):
                if code == 0:
                    self.complain(where, f"exit code 0 without {name}")
            elif not filecmp.cmp(file, whole, shallow=False):
                self.complain(where, f"{name} is half written or another than without a fault")
        if case.trains:
            if os.path.isdir(os.path.join(folder, "saved")) and os.listdir(os.path.join(folder, "saved")):
                code, _, err = self.run(case.words + ["--resume"], folder)
                if code != 0 and not (code == 2 and "no complete checkpoint" in err):
                    self.complain(where, f"does not go on from what was saved ({code}): {err[-200:].strip()!r}")
        elif left := sorted(set(os.listdir(folder)) - had - set(case.files)):
            self.complain(where, f"leaves {', '.join(left)}")

    def try_case(self, case, kinds, most):
        with tempfile.TemporaryDirectory() as clean:
            self.prepare(case, clean)
            code, _, err = self.run(case.words, clean)
            if code != 0:
                raise SystemExit(f"{case.name} fails without a fault: {err}")
            ready = os.path.join(clean, "ready")
            os.mkdir(ready)
            self.prepare(case, ready)
            for kind in kinds:
                with tempfile.TemporaryDirectory() as folder:
                    shutil.copytree(ready, folder, dirs_exist_ok=True)
                    calls = self.count(case, kind, folder)
                points = sorted({1 + i * calls // most for i in range(most)} if calls > most else range(1, calls + 1))
                points = [n for n in points if n > 1 or kind != "process"]
                begun, before = time.monotonic(), len(self.faults)
                for n in points:
                    with tempfile.TemporaryDirectory() as folder:
                        shutil.copytree(ready, folder, dirs_exist_ok=True)
                        had = set(os.listdir(folder))
                        self.judge(case, f"{case.name}, {kind} {n} of {calls}", self.fault(case, kind, n, folder), folder, clean, had)
                print(f"{case.name:<8} {kind:<9} {calls:>8} points, {len(points):>4} tries, {len(self.faults) - before} faults, {time.monotonic() - begun:.0f} s", flush=True)


def losses(text):
    return {int(step): loss for step, loss in re.findall(r"^step +(\d+).*?loss +([\d.]+)", text, re.M)}


def kill_and_go_on(trying, scenarios, kills, seed):
    """Training that is killed at random moments and goes on from its newest checkpoint, until it is done."""
    chance, lost, tries, done = random.Random(seed), 0, 0, 0
    words = ["run", os.path.join(scenarios, "tiny_gpt2.json"), "--ranks", "2", "--set", "strategy.dp=2", "--steps", "60", "--checkpoint", "saved", "--save-every", "1"]
    with tempfile.TemporaryDirectory() as folder:
        begun = time.monotonic()
        code, out, err = trying.run(words, folder)
        whole, length = losses(out.decode()), time.monotonic() - begun
        if code != 0 or len(whole) < 2:
            raise SystemExit(f"training fails without a fault ({code}): {err} {out.decode()[-500:]}")
    while tries < kills:
        with tempfile.TemporaryDirectory() as folder:
            resume = []
            while tries < kills:
                child = subprocess.Popen([trying.rehearse, *words, *resume], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
                time.sleep(chance.uniform(0, 1.1 * length))
                killed = child.poll() is None
                if killed:
                    os.killpg(child.pid, signal.SIGKILL)
                    tries += 1
                out, err = child.communicate()
                for step, loss in losses(out.decode()).items():
                    if whole.get(step) != loss:
                        lost += 1
                        trying.complain("kill", f"step {step} has loss {loss}, {whole.get(step)} in a run that nobody killed")
                if not killed:
                    done += 1
                    if child.returncode != 0:
                        lost += 1
                        trying.complain("kill", f"does not go on ({child.returncode}): {err.decode()[-300:].strip()!r}")
                    break
                resume = ["--resume"] if glob.glob(os.path.join(glob.escape(folder), "saved", "step-*", "complete")) else []
    print(f"kills: {tries} at random moments, {done} runs carried to their end, {lost} lost", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("rehearse")
    parser.add_argument("scenarios")
    parser.add_argument("--library")
    parser.add_argument("--case", action="append")
    parser.add_argument("--kind", action="append")
    parser.add_argument("--most", type=int, default=40)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    trying, scenarios = Trying(asked.rehearse, asked.library and os.path.abspath(asked.library)), os.path.abspath(asked.scenarios)
    kinds = [k for k in (*KINDS, "allocate") if (not asked.kind or k in asked.kind) and (k != "allocate" or asked.library)]
    for case in cases(scenarios):
        if not asked.case or case.name in asked.case:
            trying.try_case(case, kinds, asked.most)
    if asked.kills:
        kill_and_go_on(trying, scenarios, asked.kills, asked.seed)
    print(f"{len(trying.faults)} faults")
    return 1 if trying.faults else 0


if __name__ == "__main__":
    sys.exit(main())
