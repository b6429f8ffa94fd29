"""Damages traces in many ways: each import ends soon, in little memory, either well or with an error that says what is wrong and where.

usage: damage_traces.py REHEARSE FOLDER_OF_TRACES [FOLDER_TO_KEEP_THE_DAMAGED_FILES_IN]
"""
import gzip
import json
import os
import random
import resource
import subprocess
import sys
import tempfile

rehearse, folder = os.path.abspath(sys.argv[1]), sys.argv[2]
SECONDS, BYTES = 120, 3 << 30  # Of address space: what a file of some MB must never need.
CHANCE = random.Random(1)


def small_trace():
    """What the reader looks at, from a real trace: kernels, calls, launches and marks."""
    with gzip.open(f"{folder}/nccl_data.json.gz") as f:
        document = json.load(f)
    events = document["traceEvents"]
    kinds = ("kernel", "gpu_memcpy", "gpu_memset", "user_annotation")
    kept = [e for e in events if e.get("cat") in kinds][:150] + [e for e in events if e.get("cat") == "cuda_runtime"][:50]
    return {**{k: v for k, v in document.items() if k != "traceEvents"}, "traceEvents": kept}


def kernel(**changes):
    event = {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 1000.0, "dur": 10.0, "args": {"stream": 7, "device": 0, "correlation": 1}}
    event.update(changes)
    return {k: v for k, v in event.items() if v is not None}


def events(*entries):
    return json.dumps({"traceEvents": list(entries)})


def call(**args):
    return kernel(name="ncclDevKernel_AllReduce_Sum_f32_RING_LL", args={"stream": 7, "Collective name": "allreduce", "dtype": "Float", "In msg nelems": 8, "Out msg nelems": 8, "Group size": 2, **args})


def hostile():
    """Name, content, and whether it has to be refused (None: either way)."""
    yield "empty.json", b"", True
    yield "blank.json", b" \n\t ", True
    yield "binary.json", bytes(range(256)) * 64, True
    yield "nothing.json", b"{}", True
    yield "no_events.json", b'{"traceEvents": []}', True
    yield "events_no_list.json", b'{"traceEvents": {"ph": "X"}}', True
    yield "entry_no_object.json", b'{"traceEvents": [[1, 2]]}', True
    yield "deep_lists.json", b'{"traceEvents": ' + b"[" * 1_000_000, True
    yield "deep_objects.json", b'{"traceEvents": [' + b'{"args":' * 1_000_000, True
    yield "deep_outside.json", b'{"a": ' + b"[" * 1_000_000, True
    yield "nan_time.json", events(kernel()).replace("1000.0", "NaN").encode(), True
    yield "huge_time.json", events(kernel()).replace("1000.0", "1e400").encode(), True
    yield "far_time.json", events(kernel(ts=1e30)).encode(), True
    yield "text_time.json", events(kernel(ts="soon")).encode(), True
    yield "no_time.json", events(kernel(ts=None)).encode(), True
    yield "negative_duration.json", events(kernel(dur=-5.0)).encode(), True
    yield "huge_duration.json", events(kernel(dur=1e300)).encode(), True
    yield "no_duration.json", events(kernel(dur=None)).encode(), True
    yield "huge_numbers.json", events(call(**{"In msg nelems": 10 ** 300, "Seq": 10 ** 40, "Group size": 10 ** 40, "stream": 10 ** 40, "correlation": 10 ** 40})).encode(), None
    yield "negative_numbers.json", events(call(**{"In msg nelems": -1, "Seq": -9, "Group size": -5, "stream": -3})).encode(), None
    yield "no_process.json", events(kernel(pid=None, tid=None)).encode(), False
    yield "odd_process.json", events(kernel(pid={"a": 1}, tid=[1])).encode(), None
    yield "control_characters.json", events(kernel(name="a\x00\x01\x1b[31m\x7f\u202e", tid="x\n")).encode(), False
    yield "bare_control_character.json", b'{"traceEvents": [{"name": "a\x01"}]}', True
    yield "broken_utf8.json", events(kernel(name="NAME")).encode().replace(b"NAME", b"\xff\xfe\xc0"), None
    yield "same_ids.json", events(*[kernel(ts=1000.0 + i) for i in range(1000)], *[call(Seq=1) for _ in range(1000)]).encode(), False
    yield "many_arguments.json", events(kernel(args={f"key{i}": i for i in range(1_000_000)})).encode(), False
    yield "long_name.json", events(kernel(name="x" * 20_000_000)).encode(), None
    yield "many_members.json", events(call(**{"Process Group Ranks": str(list(range(200_000)))})).encode(), None
    yield "members_no_numbers.json", events(call(**{"Process Group Ranks": "[1, 2, [3, -4, 99999999999999999999]"})).encode(), None
    yield "huge_rank.json", json.dumps({"distributedInfo": {"rank": 10 ** 30, "world_size": -7}, "traceEvents": [kernel()]}).encode(), None
    yield "rank_no_number.json", json.dumps({"distributedInfo": {"rank": [], "world_size": "two"}, "traceEvents": [kernel()]}).encode(), None
    yield "chakra_nodes_no_objects.json", b'{"nodes": [1, 2]}', True
    yield "chakra_loop.json", json.dumps({"nodes": [{"id": 1, "name": "a", "type": 4, "duration_micros": 1, "data_deps": [2]}, {"id": 2, "name": "b", "type": 4, "duration_micros": 1, "data_deps": [1]}]}).encode(), True
    yield "chakra_same_ids.json", json.dumps({"nodes": [{"id": 1, "name": "a", "type": 4, "duration_micros": 1, "data_deps": [1]}] * 3}).encode(), None
    yield "chakra_huge_id.json", json.dumps({"nodes": [{"id": 10 ** 30, "name": "a", "type": 4, "duration_micros": "nan"}]}).encode(), True
    yield "chakra_long_message.et", b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f" + b"x" * 64, True
    yield "chakra_cut.et", b"\x05\x0a\x03", True
    yield "bomb.json.gz", gzip.compress(b'{"traceEvents": [' + b" " * 300_000_000), True


def damaged():
    whole = json.dumps(small_trace()).encode()
    for percent in range(100):
        yield f"cut_at_{percent}.json", whole[:len(whole) * percent // 100], True
    for i in range(150):
        bytes_of = bytearray(whole)
        for _ in range(1 + i % 4):
            bytes_of[CHANCE.randrange(len(bytes_of))] = CHANCE.randrange(256)
        yield f"flipped_{i}.json", bytes(bytes_of), None
    packed = gzip.compress(whole, mtime=0)
    for percent in range(0, 100, 5):
        yield f"cut_at_{percent}.json.gz", packed[:len(packed) * percent // 100], True
    for i in range(40):
        bytes_of = bytearray(packed)
        bytes_of[CHANCE.randrange(len(bytes_of))] ^= 1 << CHANCE.randrange(8)
        yield f"flipped_{i}.json.gz", bytes(bytes_of), None


def limited():
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))


def check(path, must_fail):
    done = subprocess.run([rehearse, "import", "trace", path, "-o", path + ".job", "--format", "csv"], capture_output=True, timeout=SECONDS, preexec_fn=limited)
    said = done.stderr.decode(errors="replace")
    if done.returncode not in (0, 2):
        return f"ended with {done.returncode}: {said[-300:]}"
    if done.returncode == 0 and must_fail:
        return "was taken"
    if done.returncode == 2 and must_fail is False:
        return f"was refused: {said[:300]}"
    if done.returncode == 2 and not (said.startswith("error: ") and os.path.basename(path) in said and len(said) < 2000):
        return f"the error does not say what and where: {said[:300]!r}"
    return None


def main(where):
    failures = []
    for cases in (hostile(), damaged()):
        for name, content, must_fail in cases:
            path = os.path.join(where, name)
            with open(path, "wb") as f:
                f.write(content)
            try:
                wrong = check(path, must_fail)
            except subprocess.TimeoutExpired:
                wrong = f"took more than {SECONDS} s"
            if wrong:
                failures.append(f"{name} {wrong}")
    for path in (where, os.path.join(where, "not_there.json"), "/dev/null"):
        wrong = check(path, True) if path != where else check_folder(path)
        if wrong:
            failures.append(f"{path} {wrong}")
    print("\n".join(failures) or "every damaged trace is refused with its reason, or read")
    sys.exit(1 if failures else 0)


def check_folder(path):
    done = subprocess.run([rehearse, "import", "trace", path], capture_output=True, text=True, timeout=SECONDS)
    return None if done.returncode == 2 and "directory" in done.stderr else f"{done.returncode}: {done.stderr}"


if len(sys.argv) > 3:
    os.makedirs(sys.argv[3], exist_ok=True)
    main(sys.argv[3])
with tempfile.TemporaryDirectory() as folder_of_files:
    main(folder_of_files)
