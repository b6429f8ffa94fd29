"""Files of a shared cluster of 100 MB, good and bad: an answer or a clear error, soon and within memory.

usage: fleet_files.py REHEARSE
"""

import os
import resource
import subprocess
import sys
import tempfile
import time

REHEARSE = sys.argv[1]
MEGABYTES = 100
SECONDS = 120  # Of CPU; a hundred megabytes take a few.
GIGABYTES = 4
problems = []

HEAD = """{"schema": "rehearse/fleet/v1", "pools": [{"gpus": 8, "nodes": 64}], "queues": [{"name": "a"}, {"name": "b"}],
"until": "2h", "jobs": [
"""


def job(i, more=""):
    return f'{{"name": "{i}-{"x" * 900}", "queue": "{"ab"[i % 2]}", "gpus": {1 + i % 8}, "arrival": "{i}s", "duration": "30min"{more}}}'


def jobs(last="", tail="]}", ends=True):
    """As many jobs as fill the file; `last` stands in the last one."""
    count = MEGABYTES * 1_000_000 // len(job(99_999))
    text = HEAD + ",\n".join([job(i) for i in range(count)] + [job(count, last)])
    return text + tail if ends else text


def table(value):
    rows = ["name,gpus,arrival,duration,note"]
    count = MEGABYTES * 1_000_000 // 1000
    rows += [f"{i},{1 + i % 8},{i},600,{'y' * 970}" for i in range(count)] + [f"last,1,9,{value},y"]
    return "\n".join(rows) + "\n"


def run(what, folder, name, text, code, says, *options):
    path = os.path.join(folder, name)
    with open(path, "w") as f:
        f.write(text)
    megabytes = os.path.getsize(path) / 1e6
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin = time.monotonic()
    try:
        out = subprocess.run([REHEARSE, *(o.replace("@", path) for o in options)], capture_output=True, text=True,
                             timeout=1800, errors="replace")
    except subprocess.TimeoutExpired:
        problems.append(f"{what}: it hangs")
        return
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    print(f"{what}: {megabytes:.0f} MB, exit {out.returncode}, {time.monotonic() - begin:.1f} s, {cpu:.1f} s of CPU, "
          f"{used.ru_maxrss / 1e6:.2f} GB at the peak so far; {out.stderr[:160].strip()!r}")
    if out.returncode != code:
        problems.append(f"{what}: exit {out.returncode}, not {code}")
    if says not in out.stdout + out.stderr:
        problems.append(f"{what}: does not say {says!r}: {out.stderr[:300]}")
    if len(out.stderr) > 5000:
        problems.append(f"{what}: an error of {len(out.stderr)} characters")
    if cpu > SECONDS:
        problems.append(f"{what}: {cpu:.0f} s of CPU")
    if used.ru_maxrss > GIGABYTES * 1_000_000:
        problems.append(f"{what}: {used.ru_maxrss / 1e6:.1f} GB of memory")
    os.unlink(path)


def main():
    played = ("fleet", "@", "--format", "csv")
    with tempfile.TemporaryDirectory() as folder:
        run("jobs", folder, "jobs.json", jobs(), 0, "fleet,job,queue", *played)
        run("a negative time in the last job", folder, "negative.json", jobs(', "estimate": "-1h"'), 2, "/estimate", *played)
        run("an unknown key in the last job", folder, "key.json", jobs(', "que": 1'), 2, "unknown key 'que'", *played)
        run("the same name twice", folder, "names.json", jobs().replace('"name": "7-', '"name": "9-', 1), 2,
            "two jobs are called", *played)
        run("cut off", folder, "cut.json", jobs(ends=False), 2, "cut.json", *played)
        run("brackets alone", folder, "deep.json", "[" * (MEGABYTES * 1_000_000), 2, "deep.json", *played)
        run("one word", folder, "word.json", "z" * (MEGABYTES * 1_000_000), 2, "word.json", *played)
        run("manifests of nothing", folder, "yaml.yaml", "kind: Job\n---\n" * (MEGABYTES * 1_000_000 // 14 // 20), 0,
            "no job was found", "import", "fleet", "@", "--nodes", "2")
        csv = os.path.join(folder, "good.csv")
        fleet = ('{"schema": "rehearse/fleet/v1", "pools": [{"gpus": 8, "nodes": 64}], "until": "2h", "table": {"file": "%s",'
                 ' "columns": {"name": "name", "gpus": "gpus", "arrival": "arrival", "duration": "duration"}}}')
        run("a table of jobs", folder, "good.csv", table(600), 0, "fleet,job,queue", "fleet", fleet % csv, "--format", "csv")
        run("a table with a word for a time", folder, "good.csv", table("soon"), 2, "soon", "fleet", fleet % csv)
    for p in problems:
        print(f"FAILED {p}")
    return 1 if problems else 0


sys.exit(main())
