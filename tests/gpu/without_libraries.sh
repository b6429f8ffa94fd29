#!/bin/bash
# first.sh and gpu.sh from start to end on the machine on the CPU, where a GPU machine lacks what this one has: no headers,
# no Boost, nlohmann-json, fmt, CLI11, Catch2, SimGrid, Gloo, OpenBLAS, expat or zlib, and no network. Programs and their
# libraries are carried. Usage: without_libraries.sh BUILD [RESULTS]    from the root of the sources
#
# One program of gpu.sh fails on purpose: that must be said, and all else be done. Exit status 1 where tables say
# otherwise; 77 where this user may not make namespaces.
set -eu
build=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
results=$(realpath -m "${2:-$work/results}")
if [ -z "${IN_NAMESPACE:-}" ]; then
  unshare -rmn true 2>/dev/null || { echo "skipped: no namespaces for this user"; exit 77; }
  sh tests/gpu/carry.sh "$build" "$work/carried" "$work/programs" on_cpu >"$work/carry.log" 2>&1 || { cat "$work/carry.log"; exit 1; }
  IN_NAMESPACE=1 PROGRAMS=$work/programs unshare -rmn bash "$0" "$build" "$results"
  exit
fi
# The build folder, all headers and packages of CMake, and the libraries themselves.
empty=$work/empty
mkdir "$empty"
for folder in "$build" /usr/include /usr/local/include /usr/lib/cmake /usr/share/cmake-* /usr/lib/*/cmake /usr/local/lib/cmake; do
  [ ! -d "$folder" ] || mount --bind "$empty" "$folder"
done
for library in /usr/lib/*/lib{boost_,fmt,simgrid,gloo,openblas,expat,z,Catch2}*.so* /usr/lib/*/openblas-pthread/*.so*; do
  [ ! -f "$library" ] || mount --bind /dev/null "$library"
done
# Ranks of one machine talk over its loopback; there is no other link.
[ "$(grep -c : /proc/net/dev)" -eq 1 ] || { echo "there is a network"; exit 1; }
python3 - <<'END'
import fcntl, socket, struct
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
    fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", IFF_UP))
END

failed=0
wrong() { echo "WRONG: $*"; failed=1; }
# says TABLE STEP OUTCOME: with the time it took.
says() { grep -qE "^\| $2 \| $3 \| [0-9]+\.[0-9] \|$" "$results/$1" || wrong "$1 does not say: $2 $3"; }
logged() { tar -tzf "$results/logs.tar.gz" "./$1" >/dev/null 2>&1 || wrong "logs.tar.gz has no $1"; }
# A short calibration: what comes after the first seconds is attention as large as GPUs have it, minutes a call here.
export GPU_NAME="machine on the CPU" LONGER=${LONGER:-20} STEPS=2 BUDGET=${BUDGET:-8s}

OPTIONS="--set training.global_batch=4 --set training.sequence_length=16" bash tests/gpu/first.sh "$results" || wrong "first.sh ended with status $?"
first_steps="devices linear norms attention attention_tensor_cores fused tiny_gpt2 tiny_gpt2_replayed two_ranks"
for step in $first_steps; do says first.md "$step" passed; done
grep -qE "^[0-9]+ s in all$" "$results/first.md" || wrong "first.md does not say how long it took"

# A switch that names each task before it is issued.
. tests/gpu/environment.sh
REHEARSE_ONE_BY_ONE=1 "$PROGRAMS/bin/rehearse" run tests/gpu/scenarios/tiny_gpt2_bf16.json --device cuda --ranks 1 --steps 1 \
  >/dev/null 2>"$work/tasks" || wrong "a run that names its tasks ends with status $?"
[ "$(grep -c '^rank 0: ' "$work/tasks")" -gt 50 ] || wrong "tasks are not named: $(head -3 "$work/tasks")"

printf '#!/bin/sh\necho "this program fails on purpose"\nexit 3\n' >"$PROGRAMS/tests/gpu/test_cuda_host"
code=0
SECTIONS="${SECTIONS:-tests speed calibrate validate share parity schedules experts images}" PARITY="[fused]" \
  CASES="linear layers*,norms of rows*,updates of many*,[graphs]" \
  NETWORKS=tests/gpu/scenarios/tiny_gpt2_bf16.json bash tests/gpu/gpu.sh "$results" || code=$?
[ $code -eq 1 ] || wrong "gpu.sh ended with status $code after a fault"
says sections.md test_cuda_host 'FAILED \(3\)'
says sections.md "section tests" "with faults"
for section in speed calibrate validate share parity schedules experts images; do says sections.md "section $section" "done"; done
for step in test_gpu_devices test_gpu_operators calibrate share_gpt parity share_schedules share_experts share_images; do
  says sections.md "$step" passed
done
for step in rehearse graphs apart own validate; do says sections.md "tiny_gpt2_bf16.$step" passed; done
for log in $first_steps test_gpu_operators share_schedules; do logged "$log.log"; done
for log in graphs validate; do logged "tiny_gpt2_bf16.$log.json"; done
grep -q "tiny_gpt2_bf16 | [0-9.]* ms | [0-9.]* ms | [-+][0-9.]* %" "$results/gpu.md" || wrong "gpu.md has no predicted step"
left=$(cd "$results" && echo *)
[ "$left" = "first.md gpu.json gpu.md logs.tar.gz profile.json sections.md" ] || wrong "results are $left"
exit $failed
