#!/bin/bash
# Whether the CUDA back end is alive, within a minute: devices; linear layers, attention and norms, each in a process of
# its own; a tiny GPT-2 issued and replayed; two ranks that share the GPU through NCCL; attention under
# compute-sanitizer. Usage: first.sh RESULTS    from the root of the sources; environment.sh says what it reads.
#
# RESULTS/first.md is written after every step, with the time of each, and all output in logs.tar.gz. Exit status 1
# where a step failed; 77 without a GPU. LONGER multiplies all limits, OPTIONS are further ones of the runs. Where a step of a network fails,
# REHEARSE_ONE_BY_ONE=1 names its tasks as they are issued and waits for each.
set -u
[ $# -eq 1 ] || { sed -n '2,4s/^# //p' "$0" >&2; exit 2; }
results=$(realpath -m "$1")
. tests/gpu/environment.sh
. tests/gpu/steps.sh
rehearse=$programs/bin/rehearse
operators=$programs/tests/gpu/test_gpu_operators
for program in "$rehearse" "$operators"; do
  [ -x "$program" ] || { echo "there is no $program: build it, or name the folder of the programs in PROGRAMS" >&2; exit 2; }
done
mkdir -p "$results"
TABLE=$results/first.md
unpack "$results"
began=$SECONDS
longer=${LONGER:-1}
table_of

step devices $((15 * longer)) "$programs/tests/gpu/test_gpu_devices"
[ $? -ne 77 ] || exit 77
step linear $((20 * longer)) "$operators" "linear layers with several outputs"
step norms $((15 * longer)) "$operators" "norms of rows of any width"
step attention $((15 * longer)) "$operators" "attention in one pass*"
step attention_tensor_cores $((15 * longer)) "$operators" "attention on tensor cores*"
step fused $((15 * longer)) "$operators" "[fused]"
tiny() { step "$1" $(($2 * longer)) "$rehearse" run scenarios/tiny_gpt2.json --device cuda --steps "${STEPS:-5}" ${OPTIONS:-} "${@:3}"; }
tiny tiny_gpt2 20 --ranks 1
tiny tiny_gpt2_replayed 20 --ranks 1 --set kernels.cuda_graphs=true
if [ -x "$programs/tests/gpu/test_nccl_on_cpu" ]; then
  # Ranks of the machine on the CPU are threads of one process.
  step two_ranks $((30 * longer)) "$programs/tests/gpu/test_nccl_on_cpu" "[first]"
else
  tiny two_ranks 30 --ranks 2 --share-gpu --set strategy.tp=2
fi
step sanitizer $((30 * longer)) compute-sanitizer --error-exitcode 9 "$operators" "attention on tensor cores*"
echo >>"$TABLE"
echo "$((SECONDS - began)) s in all" | tee -a "$TABLE"
exit $FAILED
