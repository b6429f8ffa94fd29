#!/bin/bash
# All figures of a GPU, in one run: builds without SimGrid, runs the GPU tests on 1, 2 and 4 ranks that share it, times training steps beside PyTorch (eager and
# compiled) and products beside cuBLASLt's best, calibrates, and holds the simulation of four networks to their steps. Usage: h200.sh RESULTS [PREFIX]    from the
# root of the sources; PREFIX as carry.sh makes it. Writes RESULTS/gpu.json and RESULTS/gpu.md, with date, GPU, driver and commit, and the logs beside them.
# SECTIONS chooses, each is done within ten minutes, and what earlier ones left in RESULTS stays: build tests parity share experts images gemm speed calibrate
# validate. NETWORKS names scenarios of tests/bench/gpu.
set -u
results=$(realpath -m "$1")
prefix=${2:-}
sections=${SECTIONS:-build tests parity share experts images gemm speed calibrate validate}
networks=${NETWORKS:-gpt2_124m gpt2_350m gpt2_1.5b llama_1b}
commit=${COMMIT:-$(git rev-parse --short HEAD 2>/dev/null || echo unknown)}
build=build/gpu
mkdir -p "$results"
wants() { case " $sections " in *" $1 "*) return 0 ;; *) return 1 ;; esac; }

if wants build; then
  cmake -S . -B $build -G Ninja -DCMAKE_BUILD_TYPE=Release -DREHEARSE_SIM=OFF -DCMAKE_CUDA_ARCHITECTURES="${ARCHITECTURES:-90}" ${prefix:+-DCMAKE_PREFIX_PATH=$(realpath "$prefix")} >"$results/configure.log" 2>&1 &&
    ninja -C $build rehearse test_gpu_operators test_gpu_devices test_cuda_host bench_gemm >"$results/build.log" 2>&1 || { tail -30 "$results/configure.log" "$results/build.log"; exit 1; }
fi
program=$build/bin/rehearse
export REHEARSE_DATA=$PWD

if wants tests; then
  for test in gpu_devices gpu_operators cuda_host; do
    timeout 600 $build/tests/gpu/test_$test >"$results/test_$test.log" 2>&1
    echo "$test $?"
  done | tee "$results/tests.txt"
fi
# Every strategy and schedule on every network, ranks as threads with a stream each.
if wants parity; then
  timeout 580 $build/tests/gpu/test_gpu_operators "[.slow],[parity]" >"$results/test_gpu_parity.log" 2>&1
  echo "gpu_parity $?" | tee "$results/parity.txt"
fi
# Ranks as processes, joined by NCCL.
if wants share; then timeout 580 sh tests/gpu/share_gpu.sh $program . gpt | tee "$results/share_gpt.txt"; fi
for which in experts images; do
  if wants $which; then timeout 580 sh tests/gpu/share_gpu.sh $program . $which | tee "$results/share_$which.txt"; fi
done
if wants gemm; then $build/tests/bench/bench_gemm 8192 | tee "$results/gemm.jsonl"; fi
if wants speed; then
  for net in $networks; do
    scenario=tests/bench/gpu/$net.json
    : >"$results/$net.speed.jsonl"
    timeout 300 $program run "$scenario" --device cuda --ranks 1 --steps 25 --format json >"$results/$net.rehearse.json" 2>"$results/$net.rehearse.err" || head -3 "$results/$net.rehearse.err"
    for mode in "" --compile; do
      timeout 300 python3 tests/bench/gpu/pytorch_step.py "$scenario" $mode >>"$results/$net.speed.jsonl" 2>"$results/$net.pytorch$mode.err" || tail -2 "$results/$net.pytorch$mode.err"
    done
  done
fi
# Kernels only, before any network is run.
if wants calibrate; then
  timeout 590 $program calibrate --device cuda --ranks 1 --budget 400s --date "$(date +%F)" -o "$results/profile.json" >"$results/calibrate.txt" 2>"$results/calibrate.err" || head -3 "$results/calibrate.err"
fi
if wants validate; then
  for net in $networks; do
    timeout 140 $program validate tests/bench/gpu/$net.json --device cuda --ranks 1 --calibration "$results/profile.json" --backend analytic --format json >"$results/$net.validate.json" 2>"$results/$net.validate.err" ||
      head -3 "$results/$net.validate.err"
  done
fi
python3 tests/gpu/summarise.py "$results" "$commit" "$($program version 2>/dev/null | tr '\n' ';')"
