#!/bin/bash
# All figures of a GPU: runs the GPU tests on 1, 2 and 4 ranks that share it, times training steps beside PyTorch (eager
# and compiled), products beside cuBLASLt's best and attention beside cuDNN's, calibrates, and holds the simulation of
# networks to their steps. Usage: gpu.sh RESULTS [PREFIX]    from the root of the sources. PROGRAMS names the folder of
# programs that carry.sh filled; without it they are built here, without SimGrid, with what carry.sh put into PREFIX.
#
# Writes RESULTS/gpu.json and RESULTS/gpu.md, with date, GPU, driver and commit; RESULTS/sections.md, with what came of
# each step and its time; RESULTS/profile.json, what calibrate measured; and everything else in RESULTS/logs.tar.gz. All
# are written anew after every step, and one fault does not end the rest.
#
# SECTIONS chooses, and what earlier calls left in RESULTS stays. Every command has a time of its own, so that each of
# these calls ends within ten minutes:
#   SECTIONS="build tests gemm"                  at most 330 + 160 + 80 s
#   SECTIONS="speed" NETWORKS=...                at most 294 s a network: two of them a call
#   SECTIONS="calibrate validate share parity"   at most 230 + 4 x 40 + 110 + 90 s
#   SECTIONS="schedules experts images"          at most 60 + 2 x 260 s
# The last share the GPU between ranks of further plans and networks. NETWORKS names scenarios of tests/bench/gpu, or
# files. STEPS is how many steps are timed, LONGER multiplies all limits, CASES and PARITY choose cases of the operators'
# tests. DRY_RUN=1 says what would be run, and fails where something it needs is not there. Exit status 1 where a step
# failed.
set -u
[ $# -ge 1 ] || { sed -n '2,5s/^# //p' "$0" >&2; exit 2; }
results=$(realpath -m "$1")
prefix=${2:-}
carried=${PROGRAMS:+yes}
. tests/gpu/environment.sh
. tests/gpu/steps.sh
sections=${SECTIONS:-${carried:+tests gemm speed calibrate validate share parity schedules experts images}}
sections=${sections:-build tests gemm speed calibrate validate share parity schedules experts images}
networks=${NETWORKS:-gpt2_124m gpt2_350m gpt2_1.5b llama_1b}
commit=${COMMIT:-$(git rev-parse --short HEAD 2>/dev/null || echo unknown)}
program=$programs/bin/rehearse
steps=${STEPS:-25}
longer=${LONGER:-1}
mkdir -p "$results"
TABLE=$results/sections.md
unpack "$results"
[ -n "${DRY_RUN:-}" ] || table_of

wants() { case " $sections " in *" $1 "*) return 0 ;; *) return 1 ;; esac; }
# within NAME SECONDS COMMAND...    With its standard output in RESULTS/$OUTPUT.
within() { local name=$1 limit=$2; shift 2; step "$name" $((limit * longer)) "$@"; }
to() { OUTPUT=$LOGS/$1; }
# What is known so far goes out.
version=$("$program" version 2>/dev/null | tr '\n' ';')
after_step() { python3 tests/gpu/summarise.py "$LOGS" "$results" "$commit" "$version" >/dev/null; }
begin() { began=$(date +%s.%N) before=$FAILED FAILED=0 OUTPUT=; }
end() {
  OUTPUT=
  if [ -z "${DRY_RUN:-}" ]; then
    row "section $1" "$([ $FAILED -eq 0 ] && echo "done" || echo "with faults")" "$(seconds "$began" "$(date +%s.%N)")"
    pack "$results"
    after_step
  fi
  [ "$before" -eq 0 ] || FAILED=1
}

build() {
  # PyTorch's packages bring an NCCL of their own, where the toolkit has none.
  nccl=$(python3 -c 'import nvidia.nccl; print(list(nvidia.nccl.__path__)[0])' 2>/dev/null)
  [ -e "${nccl:-}/include/nccl.h" ] || nccl=
  within configure 60 cmake -S . -B "$programs" -G Ninja -DCMAKE_BUILD_TYPE=Release -DREHEARSE_SIM=OFF \
    -DCMAKE_CUDA_ARCHITECTURES="${ARCHITECTURES:-90}" ${prefix:+-DCMAKE_PREFIX_PATH=$(realpath "$prefix")} ${nccl:+-DNCCL_ROOT=$nccl} || return 1
  [ -n "${DRY_RUN:-}" ] || grep -q REHEARSE_CUDA_RUNS:INTERNAL=ON "$programs/CMakeCache.txt" ||
    { echo "this build runs nothing on GPUs: configure.log in logs.tar.gz says what was found"; return 1; }
  # The program first: without it nothing else makes sense.
  within build 270 ninja -C "$programs" rehearse test_gpu_operators test_gpu_devices test_cuda_host bench_gemm bench_attention
  code=$?
  version=$("$program" version 2>/dev/null | tr '\n' ';')
  return $code
}
tests() {
  for test in gpu_devices:20 cuda_host:20 gpu_operators:120; do
    cases=()
    [ "$test" != gpu_operators:120 ] || cases=(${CASES:+"$CASES"})
    within "test_${test%:*}" "${test#*:}" "$programs/tests/gpu/test_${test%:*}" "${cases[@]}"
    code=$?
    [ -n "${DRY_RUN:-}" ] || echo "${test%:*} $code" >>"$LOGS/tests.txt"
  done
}
gemm() {
  to gemm.jsonl; within gemm 40 "$programs/tests/bench/bench_gemm" 8192
  to attention.jsonl; within attention 40 "$programs/tests/bench/bench_attention"
}
scenario_of() { case $1 in */*) echo "$1" ;; *) echo "tests/bench/gpu/$1.json" ;; esac; }
name_of() { basename "$1" .json; }
speed() {
  local net scenario name
  for net in $networks; do
    scenario=$(scenario_of "$net") name=$(name_of "$net")
    timed() { to "$name.$1.json"; within "$name.$1" 36 "${@:2}" "$program" run "$scenario" --device cuda --ranks 1 --steps "$steps" --format json "${graphs[@]}"; }
    graphs=()
    timed rehearse env
    graphs=(--set kernels.cuda_graphs=true)
    timed graphs env
    timed apart env REHEARSE_FUSE=off
    timed own env REHEARSE_CUDNN=off
    to "$name.eager.speed.jsonl"; within "$name.eager" 30 python3 tests/bench/gpu/pytorch_step.py "$scenario"
    to "$name.compile.speed.jsonl"; within "$name.compile" 120 python3 tests/bench/gpu/pytorch_step.py "$scenario" --compile
  done
}
# Kernels only, before any network is predicted.
calibrate() {
  within calibrate 230 "$program" calibrate --device cuda --ranks 1 --budget "${BUDGET:-180s}" --date "$(date +%F)" -o "$LOGS/profile.json"
  code=$?
  [ ! -e "$LOGS/profile.json" ] || cp "$LOGS/profile.json" "$results/"
  return $code
}
validate() {
  local net
  for net in $networks; do
    to "$(name_of "$net").validate.json"
    within "$(name_of "$net").validate" 40 "$program" validate "$(scenario_of "$net")" --device cuda --ranks 1 --steps "${STEPS:-12}" \
      --calibration "$LOGS/profile.json" --backend analytic --format json
  done
}
# Ranks as processes, joined by NCCL; those of the machine on the CPU are threads.
shared() {
  if [ -x "$programs/tests/gpu/test_nccl_on_cpu" ]; then
    within "share_$1" "$2" "$programs/tests/gpu/test_nccl_on_cpu" "[share_$1]"
  else
    to "share_$1.txt"; within "share_$1" "$2" sh tests/gpu/share_gpu.sh "$program" . "$1"
    [ -n "${DRY_RUN:-}" ] || tail -30 "$LOGS/share_$1.txt"
  fi
}
share() { shared gpt 110; }
schedules() { shared schedules 60; }
experts() { shared experts 260; }
images() { shared images 260; }
# Every strategy and schedule on every network, ranks as threads with a stream each.
parity() {
  within parity 90 "$programs/tests/gpu/test_gpu_operators" "${PARITY:-[.slow],[parity]}"
  code=$?
  [ -n "${DRY_RUN:-}" ] || echo "gpu_parity $code" >"$LOGS/parity.txt"
}

[ -n "${DRY_RUN:-}" ] || ! wants tests || : >"$LOGS/tests.txt"
for section in build tests gemm speed calibrate validate share parity schedules experts images; do
  wants "$section" || continue
  begin
  $section || [ "$section" != build ] || { end build; exit 1; }
  end "$section"
done
[ -n "${DRY_RUN:-}" ] || { cat "$results/gpu.md"; echo; cat "$TABLE"; }
exit $FAILED
