#!/bin/bash
# Whether the CUDA back end is alive, within a minute: devices; linear layers, attention and norms, each in a process of its own; a tiny GPT-2 issued and replayed; two
# ranks that share the GPU through NCCL; attention under compute-sanitizer. Usage: first.sh RESULTS    from the root of the sources; environment.sh says what it reads.
# RESULTS/first.md is written after every step, with the time of each, and the whole output beside it. Exit status 1 where a step failed; 77 without a GPU.
set -u
[ $# -eq 1 ] || { sed -n '2,4s/^# //p' "$0" >&2; exit 2; }
results=$(realpath -m "$1")
. tests/gpu/environment.sh
rehearse=$programs/bin/rehearse
operators=$programs/tests/gpu/test_gpu_operators
for program in "$rehearse" "$operators"; do
  [ -x "$program" ] || { echo "there is no $program: build it, or name the folder of the programs in PROGRAMS" >&2; exit 2; }
done
mkdir -p "$results"
table=$results/first.md
failed=0
began=$SECONDS
{
  echo "# $(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null || echo no GPU)"
  echo
  echo "$(date +%F), commit ${COMMIT:-$(git rev-parse --short HEAD 2>/dev/null || echo unknown)}"
  echo
  echo "| step | outcome | s |"
  echo "|---|---|---|"
} >"$table"

# step NAME SECONDS COMMAND...
step() {
  local name=$1 limit=$2 code=0 outcome=passed started ended
  shift 2
  started=$(date +%s.%N)
  timeout -k 2 "$limit" "$@" >"$results/$name.log" 2>&1 || code=$?
  ended=$(date +%s.%N)
  case $code in
    0) ;;
    77) outcome=skipped ;;
    124 | 137) outcome="not done in $limit s" failed=1 ;;
    *) outcome="FAILED ($code)" failed=1 ;;
  esac
  awk -v n="$name" -v o="$outcome" -v b="$started" -v e="$ended" 'BEGIN { printf "| %s | %s | %.1f |\n", n, o, e - b }' | tee -a "$table"
  [ "$code" -eq 0 ] || tail -n "${LINES_OF_FAULT:-12}" "$results/$name.log"
  return $code
}

step devices 15 "$programs/tests/gpu/test_gpu_devices"
[ $? -ne 77 ] || exit 77
step linear 20 "$operators" "linear layers with several outputs"
step norms 15 "$operators" "norms of rows of any width"
step attention 15 "$operators" "attention in one pass*"
step attention_tensor_cores 15 "$operators" "attention on tensor cores*"
tiny() { step "$1" "$2" "$rehearse" run scenarios/tiny_gpt2.json --device cuda --steps 5 "${@:3}"; }
tiny tiny_gpt2 20 --ranks 1
tiny tiny_gpt2_replayed 20 --ranks 1 --set kernels.cuda_graphs=true
tiny two_ranks 30 --ranks 2 --share-gpu --set strategy.tp=2
if command -v compute-sanitizer >/dev/null; then
  step sanitizer 30 compute-sanitizer --error-exitcode 9 "$operators" "attention on tensor cores*"
else
  echo "| sanitizer | there is no compute-sanitizer | |" | tee -a "$table"
fi
echo >>"$table"
echo "$((SECONDS - began)) s in all" | tee -a "$table"
exit $failed
