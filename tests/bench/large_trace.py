"""Writes a Kineto trace of a size, runs `rehearse import trace` on it, prints time and peak memory, and deletes the file.

usage: large_trace.py REHEARSE [GIGABYTES]

Of its entries one in six is a kernel, one in 200 a collective, as in the traces under tests/unit/import/traces; the rest are what the host did.
"""
import os
import resource
import subprocess
import sys
import tempfile
import time

rehearse = sys.argv[1]
size = float(sys.argv[2] if len(sys.argv) > 2 else 1) * 1e9
KERNEL = ('{"ph": "X", "cat": "kernel", "name": "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, at::detail::Array<char*, 3> >(int, %d)", "pid": 0, "tid": 7, "ts": %.3f, '
          '"dur": 4.5, "args": {"External id": %d, "queued": 0, "device": 0, "context": 1, "stream": 7, "correlation": %d, "registers per thread": 40, "shared memory": 400, "blocks per SM": 4.740741, '
          '"warps per SM": 75.851852, "grid": [512, 1, 1], "block": [512, 1, 1], "est. achieved occupancy %%": 63}},\n')
CALL = ('{"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "pid": 0, "tid": 40, "ts": %.3f, "dur": 900.0, "args": {"External id": %d, "stream": 40, '
        '"correlation": %d, "Collective name": "allreduce", "In msg nelems": 2049000, "Out msg nelems": 2049000, "Group size": 2, "dtype": "Float", "Process Group Name": "0", "Process Group Ranks": "[0, 1]"}},\n')
HOST = ('{"ph": "X", "cat": "cpu_op", "name": "autograd::engine::evaluate_function: DivBackward1", "pid": 2910249, "tid": 2919752, "ts": %.3f, "dur": 156.777, "args": {"External id": %d, "Record function id": 1909, '
        '"Sequence number": 1080, "Fwd thread id": 1, "Ev Idx": 0}},\n')
LAUNCH = '{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 2910249, "tid": 2910249, "ts": %.3f, "dur": 12.5, "args": {"External id": %d, "cbid": 211, "correlation": %d}},\n'
FLOW = '{"ph": "s", "id": %d, "pid": 2910249, "tid": 2910249, "ts": %.3f, "cat": "ac2g", "name": "ac2g"},\n'


def write(f):
    f.write('{"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA A100-SXM4-80GB"}], "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 2}, "traceEvents": [\n')
    i, kernels, calls, written = 0, 0, 0, 0
    while written < size:
        block = []
        for _ in range(1000):
            i += 1
            at = 4458676522690.655 + i * 5.5
            block += [HOST % (at, i), LAUNCH % (at, i, i), FLOW % (i, at), KERNEL % (i % 300, at + 3, i, i), HOST % (at + 1, i), FLOW % (i, at)]
            kernels += 1
            if i % 33 == 0:
                block.append(CALL % (at, i, i))
                calls += 1
        text = "".join(block)
        f.write(text)
        written += len(text)
    f.write('{"name": "end", "ph": "i", "s": "g", "pid": "Traces", "tid": "x", "ts": 1}]}\n')
    return kernels, calls


with tempfile.NamedTemporaryFile("w", suffix=".json", delete=False) as f:
    path = f.name
    try:
        kernels, calls = write(f)
        f.close()
        begin = time.monotonic()
        out = subprocess.run([rehearse, "import", "trace", path], capture_output=True, text=True)
        seconds = time.monotonic() - begin
    finally:
        gigabytes = os.path.getsize(path) / 1e9
        os.unlink(path)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(out.stdout or out.stderr)
print(f"{gigabytes:.2f} GB, {kernels} kernels, {calls} calls: {seconds:.1f} s elapsed, {used.ru_utime + used.ru_stime:.1f} s of CPU, {used.ru_maxrss / 1024:.0f} MB at its peak")
sys.exit(out.returncode)
