#!/bin/bash
# All figures of a GPU: builds without SimGrid, runs the GPU tests on 1, 2 and 4 ranks that share it, times training steps beside PyTorch (eager and compiled) and
# products beside cuBLASLt's best and attention beside cuDNN's, calibrates, and holds the simulation of four networks to their steps. Usage: h200.sh RESULTS [PREFIX]    from the root of the
# sources; PREFIX as carry.sh makes it. Writes RESULTS/gpu.json and RESULTS/gpu.md, with date, GPU, driver and commit, and the logs beside them.
#
# SECTIONS chooses, and what earlier calls left in RESULTS stays. Every command has a time of its own, so that each of these calls ends within ten minutes:
#   SECTIONS="build tests gemm"                  at most 330 + 160 + 80 s
#   SECTIONS="speed" NETWORKS=...                at most 285 s a network: two of them a call
#   SECTIONS="calibrate validate share parity"   at most 230 + 4 x 40 + 110 + 90 s
# "experts" and "images" (at most 280 s each) share the GPU between ranks of further networks. NETWORKS names scenarios of tests/bench/gpu. DRY_RUN=1 says what
# would be run, and fails where something it needs is not there. gpu.json, gpu.md and logs.tar.gz are all that a later call, or another machine, needs; only the build
# has to be made anew there.
set -u
results=$(realpath -m "$1")
prefix=${2:-}
sections=${SECTIONS:-build tests gemm speed calibrate validate share parity experts images}
networks=${NETWORKS:-gpt2_124m gpt2_350m gpt2_1.5b llama_1b}
commit=${COMMIT:-$(git rev-parse --short HEAD 2>/dev/null || echo unknown)}
build=${BUILD:-build/gpu}
program=$build/bin/rehearse
missing=0
mkdir -p "$results"
# What earlier calls left may come as one file: all that is no table.
[ ! -e "$results/logs.tar.gz" ] || tar -xzf "$results/logs.tar.gz" -C "$results"
export REHEARSE_DATA=$PWD
wants() { case " $sections " in *" $1 "*) return 0 ;; *) return 1 ;; esac; }

# within SECONDS OUTPUT ERRORS COMMAND...    124 where its time was over, which is said.
within() {
  local seconds=$1 output=$2 errors=$3 code=0
  shift 3
  if [ -n "${DRY_RUN:-}" ]; then
    echo "$seconds s: $*"
    for file in "$@"; do
      case $file in
        cmake | ninja | python3 | sh) command -v "$file" >/dev/null || { echo "  there is no $file"; missing=1; } ;;
        "$build"/* | tests/*) [ -e "$file" ] || { echo "  there is no $file"; missing=1; } ;;
      esac
    done
    return 0
  fi
  timeout -k 5 "$seconds" "$@" >"$output" 2>"$errors" || code=$?
  if [ $code -eq 124 ] || [ $code -eq 137 ]; then echo "not done within $seconds s: $*"; fi
  if [ $code -ne 0 ] && [ "$output" != "$errors" ]; then head -3 "$errors"; fi
  return $code
}

if wants build; then
  # PyTorch's packages bring an NCCL of their own, where the toolkit has none.
  nccl=$(python3 -c 'import nvidia.nccl; print(list(nvidia.nccl.__path__)[0])' 2>/dev/null)
  [ -e "${nccl:-}/include/nccl.h" ] || nccl=
  within 60 "$results/configure.log" "$results/configure.err" cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DREHEARSE_SIM=OFF \
    -DCMAKE_CUDA_ARCHITECTURES="${ARCHITECTURES:-90}" ${prefix:+-DCMAKE_PREFIX_PATH=$(realpath "$prefix")} ${nccl:+-DNCCL_ROOT=$nccl} || exit 1
  [ -n "${DRY_RUN:-}" ] || grep -q REHEARSE_CUDA_RUNS:INTERNAL=ON "$build/CMakeCache.txt" || { echo "this build runs nothing on GPUs: $results/configure.log says what was found"; exit 1; }
  # The program first: without it nothing else makes sense.
  within 270 "$results/build.log" "$results/build.err" ninja -C "$build" rehearse test_gpu_operators test_gpu_devices test_cuda_host bench_gemm bench_attention || { tail -20 "$results/build.log"; exit 1; }
fi

if wants tests; then
  [ -n "${DRY_RUN:-}" ] || : >"$results/tests.txt"
  for test in gpu_devices:20 cuda_host:20 gpu_operators:120; do
    name=${test%:*}
    within "${test#*:}" "$results/test_$name.log" "$results/test_$name.err" "$build/tests/gpu/test_$name"
    code=$?
    [ -n "${DRY_RUN:-}" ] || echo "$name $code" | tee -a "$results/tests.txt"
  done
fi
if wants gemm; then within 40 "$results/gemm.jsonl" "$results/gemm.err" "$build/tests/bench/bench_gemm" 8192; fi
if wants gemm; then within 40 "$results/attention.jsonl" "$results/attention.err" "$build/tests/bench/bench_attention"; fi
if wants speed; then
  for net in $networks; do
    scenario=tests/bench/gpu/$net.json
    within 45 "$results/$net.rehearse.json" "$results/$net.rehearse.err" "$program" run "$scenario" --device cuda --ranks 1 --steps 25 --format json
    within 45 "$results/$net.graphs.json" "$results/$net.graphs.err" "$program" run "$scenario" --device cuda --ranks 1 --steps 25 --format json --set kernels.cuda_graphs=true
    REHEARSE_CUDNN=off within 45 "$results/$net.own.json" "$results/$net.own.err" "$program" run "$scenario" --device cuda --ranks 1 --steps 25 --format json --set kernels.cuda_graphs=true
    within 30 "$results/$net.eager.speed.jsonl" "$results/$net.eager.err" python3 tests/bench/gpu/pytorch_step.py "$scenario"
    within 120 "$results/$net.compile.speed.jsonl" "$results/$net.compile.err" python3 tests/bench/gpu/pytorch_step.py "$scenario" --compile
  done
fi
# Kernels only, before any network is predicted.
if wants calibrate; then
  within 230 "$results/calibrate.txt" "$results/calibrate.err" "$program" calibrate --device cuda --ranks 1 --budget 180s --date "$(date +%F)" -o "$results/profile.json"
fi
if wants validate; then
  for net in $networks; do
    within 40 "$results/$net.validate.json" "$results/$net.validate.err" "$program" validate "tests/bench/gpu/$net.json" --device cuda --ranks 1 --steps 12 --calibration "$results/profile.json" \
      --backend analytic --format json
  done
fi
# Ranks as processes, joined by NCCL.
share() {
  within "$2" "$results/share_$1.txt" "$results/share_$1.err" sh tests/gpu/share_gpu.sh "$program" . "$1"
  [ -n "${DRY_RUN:-}" ] || tail -30 "$results/share_$1.txt"
}
if wants share; then share gpt 110; fi
# Every strategy and schedule on every network, ranks as threads with a stream each.
if wants parity; then
  within 90 "$results/test_gpu_parity.log" "$results/test_gpu_parity.err" "$build/tests/gpu/test_gpu_operators" "[.slow],[parity]"
  code=$?
  [ -n "${DRY_RUN:-}" ] || echo "gpu_parity $code" | tee "$results/parity.txt"
fi
if wants experts; then share experts 280; fi
if wants images; then share images 280; fi
if [ -n "${DRY_RUN:-}" ]; then exit $missing; fi
tar -C "$results" -czf "$results/logs.tar.gz" --exclude='*.tar.gz' --exclude=gpu.json --exclude=gpu.md . 2>/dev/null
python3 tests/gpu/summarise.py "$results" "$commit" "$("$program" version 2>/dev/null | tr '\n' ';')"
