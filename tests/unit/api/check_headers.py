"""core/api.hpp compiles by itself, and no header that it reads is nlohmann's, Boost's, CUDA's, SimGrid's or one of
core/cli, sim or gpu_backend."""
import subprocess
import sys

FOREIGN = ("nlohmann/", "boost/", "cuda", "nccl", "simgrid/", "xbt/", "core/cli/", "gpu_backend/", "/sim/")


def main(compiler, root):
    listed = subprocess.run([compiler, "-std=c++20", "-I" + root, "-M", "-x", "c++", root + "/core/api.hpp"],
                            capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        print(listed.stderr)
        return 1
    headers = [word for word in listed.stdout.replace("\\\n", " ").split()[1:]]
    shown = [h[len(root):] if h.startswith(root) else h for h in headers]
    wrong = [h for h in shown if any(f in h for f in FOREIGN)]
    print("\n".join(wrong) or f"core/api.hpp reads {len(headers)} headers, none of them foreign")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
