"""Another reader of Chrome traces, speedscope in a headless Chromium, finds in our traces what stands in them: each stream, its operations and their time.

usage: read_by_speedscope.py REHEARSE SCENARIO FOLDER_OF_SPEEDSCOPE
Leaves with 77 and the reason where there is no Chromium or no speedscope.
"""
import base64
import collections
import html
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
from command_line import Program

rehearse, scenario, package = Program(sys.argv[1]), sys.argv[2], os.path.abspath(sys.argv[3])
release = os.path.join(package, "dist", "release")
failures = []

# What is saved would become a download: it goes into the page instead. Ctrl+S saves, once the trace has been read.
HOOK = """<script>
URL.createObjectURL = blob => { blob.text().then(t => { const p = document.createElement("pre"); p.id = "read"; p.textContent = t; document.body.appendChild(p); }); return "#"; };
setInterval(() => { if (!document.getElementById("read")) window.dispatchEvent(new KeyboardEvent("keydown", {key: "s", ctrlKey: true})); }, 200);
</script>"""


def skip(reason):
    print("skipped:", reason)
    sys.exit(77)


def speedscope(browser, trace, where):
    """The trace as speedscope writes it in its own format after it has read it."""
    with open(os.path.join(release, "index.html")) as f:
        page = f.read().replace("<head>", f'<head><base href="file://{release}/">').replace("<body>", "<body>" + HOOK)
    paths = {name: os.path.join(where, name) for name in ("page.html", "trace.js", "browser")}
    with open(paths["page.html"], "w") as f:
        f.write(page)
    with open(trace, "rb") as f:
        content = base64.b64encode(f.read()).decode()
    with open(paths["trace.js"], "w") as f:
        f.write(f'speedscope.loadFileFromBase64("trace.json", {json.dumps(content)})')
    done = subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--allow-file-access-from-files", f"--user-data-dir={paths['browser']}",
                           "--virtual-time-budget=30000", "--dump-dom", f"file://{paths['page.html']}#localProfilePath={paths['trace.js']}"], capture_output=True, text=True)
    read = re.search(r'<pre id="read">(.*?)</pre>', done.stdout, re.S)
    return json.loads(html.unescape(read.group(1))) if read else None


def counted(path):
    """Operations and their time by process and thread, and how often each name occurs. Speedscope passes over what takes no time."""
    with open(path) as f:
        events = [e for e in json.load(f)["traceEvents"] if e["ph"] == "X" and e["dur"] > 0]
    threads, names = collections.defaultdict(lambda: [0, 0.0]), collections.Counter()
    for e in events:
        threads[e["pid"], e["tid"]][0] += 1
        threads[e["pid"], e["tid"]][1] += e["dur"]
        names[e["name"]] += 1
    return sorted((n, round(t)) for n, t in threads.values()), names


def check(browser, what, path, where):
    threads, names = counted(path)
    document = speedscope(browser, path, where)
    if document is None:
        failures.append(f"{what}: speedscope cannot read it")
        return
    frames = [f["name"] for f in document["shared"]["frames"]]
    found, found_names = [], collections.Counter()
    for profile in document["profiles"]:
        opened = [e for e in profile["events"] if e["type"] == "O"]
        if not opened:
            continue
        time = sum(e["at"] * (1 if e["type"] == "C" else -1) for e in profile["events"])
        found.append((len(opened), round(time)))
        # Speedscope writes an operation's arguments after its name.
        found_names.update(re.sub(r" \{.*\}$", "", frames[e["frame"]]) for e in opened)
    if [n for n, _ in sorted(found)] != [n for n, _ in threads] or any(abs(a[1] - b[1]) > 1 for a, b in zip(sorted(found), threads)):
        failures.append(f"{what}: operations and microseconds by stream {sorted(found)}, written {threads}")
    if found_names != names:
        failures.append(f"{what}: names {found_names - names} more and {names - found_names} fewer than written")


browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
if browser is None:
    skip("no browser: apt-get install chromium")
if not os.path.exists(os.path.join(release, "index.html")):
    skip("no speedscope: npm install --prefix build/npm speedscope")
with tempfile.TemporaryDirectory() as where:
    simulated, real = os.path.join(where, "simulated.json"), os.path.join(where, "real.json")
    plan = ["--set", "cluster.machine=dgx_a100_80gb", "--set", "strategy.tp=2", "--set", "strategy.dp=auto", "--set", "strategy.dp_replicate=auto"]
    rehearse.run("simulate", scenario, *plan, "--trace", simulated, "--trace-ranks", "0-1", "-o", os.path.join(where, "simulated.txt"))
    check(browser, "simulated", simulated, where)
    rehearse.run("run", scenario, "--ranks", "2", "--set", "strategy.tp=2", "--steps", "2", "--trace", real, "-o", os.path.join(where, "real.txt"))
    check(browser, "real", real, where)
print("\n".join(failures) or "another reader finds the same")
sys.exit(1 if failures else 0)
