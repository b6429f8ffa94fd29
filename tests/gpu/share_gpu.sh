#!/bin/sh
# Plans on 1, 2 and 4 ranks that share one GPU, joined by NCCL, give the loss of one rank on the CPU: in fp64 to
# rounding; for a GPT, experts and images, and for schedules whose ranks send both ways.
# Usage: share_gpu.sh PROGRAM SOURCE_DIR [WHICH]
# WHICH: gpt, schedules, experts, images, all of these, or shortest: one plan per rank count.
# Exit status 77 where there is no GPU, 1 with what differed.
set -u
program=$1
which=${3:-all}
wants() { [ "$which" = all ] || [ "$which" = "$1" ]; }
gpt=$2/scenarios/tiny_gpt2.json
experts=$(cd "$2" && pwd)/scenarios/models/tiny_mixtral/config.json
images=$2/tests/gpu/scenarios/tiny_cnn.json
scenario=$gpt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$program" run "$scenario" --device cuda --ranks 1 --steps 1 >"$work/out" 2>"$work/err"
code=$?
if [ $code -eq 4 ]; then echo "skipped: $(head -1 "$work/err")"; exit 77; fi
[ $code -eq 0 ] || { cat "$work/err"; exit 1; }

steps=5
common="--numerics fp64 --steps $steps --format json"
short="--set training.global_batch=8 --set training.sequence_length=16"
small="$common $short"
value() { sed -n "s/^  \"$2\": \([-0-9.e+]*\),*\$/\1/p" "$1"; }
run() {  # ranks, settings...
  ranks=$1; shift
  set -- $(for s in "$@"; do printf -- '--set %s ' "$s"; done)
  timeout "${SECONDS_PER_RUN:-60}" "$program" run "$scenario" --device cuda --share-gpu --ranks "$ranks" $small "$@" >"$work/out" 2>"$work/err"
}
failed=0 passed=0
# The same on the CPU: GPU kernels against plain loops, over whole steps. Scenario, options of all its runs.
on() {
  scenario=$1; shift
  small="$common $*"
  # shellcheck disable=SC2086
  "$program" run "$scenario" --device cpu --ranks 1 $small >"$work/cpu" 2>"$work/err" || { cat "$work/err"; exit 1; }
  expected=$(value "$work/cpu" loss)
}
# shellcheck disable=SC2086
on "$gpt" $short
check() {
  name="$*"
  if ! run "$@"; then echo "FAILED $name: $(head -3 "$work/err")"; failed=$((failed + 1)); return; fi
  actual=$(value "$work/out" loss)
  if awk -v a="$actual" -v b="$expected" 'BEGIN { d = (a - b) / b; if (d < 0) d = -d; exit !(a != "" && d <= 1e-9) }'; then
    echo "ok     $name: loss $actual"; passed=$((passed + 1))
  else
    echo "FAILED $name: loss $actual instead of $expected"; failed=$((failed + 1))
  fi
}
if [ "$which" = shortest ]; then
  check 1
  check 2 strategy.tp=2
  check 4 strategy.dp=2 strategy.tp=2
elif wants gpt; then
  check 1
  for one in "strategy.dp=2" "strategy.tp=2" "strategy.pp=2" "strategy.tp=2 strategy.sequence_parallel=true" "strategy.dp=2 strategy.zero_stage=1" "strategy.dp=2 strategy.zero_stage=2" \
             "strategy.dp=2 strategy.zero_stage=3" "strategy.pp=2 strategy.schedule=gpipe" "strategy.pp=2 strategy.overlap.pp=false" "strategy.dp=2 strategy.recompute=full"; do
    # shellcheck disable=SC2086
    check 2 $one
  done
  for one in "strategy.dp=4" "strategy.tp=4" "strategy.dp=2 strategy.tp=2" "strategy.dp=2 strategy.pp=2" "strategy.tp=2 strategy.pp=2" "strategy.dp=2 strategy.tp=2 strategy.zero_stage=1" \
             "strategy.tp=2 strategy.sequence_parallel=true strategy.pp=2 strategy.recompute=full"; do
    # shellcheck disable=SC2086
    check 4 $one
  done
  # Two steps issued, three replayed as CUDA graphs.
  check 1 kernels.cuda_graphs=true
  check 2 strategy.tp=2 kernels.cuda_graphs=true
  check 2 strategy.pp=2 kernels.cuda_graphs=true
  check 2 strategy.dp=2 strategy.zero_stage=3 kernels.cuda_graphs=true
  check 4 strategy.dp=2 strategy.tp=2 kernels.cuda_graphs=true
fi
if wants schedules; then
  echo "schedules:"
  on "$2/tests/gpu/scenarios/gpt2_4_layers.json"
  check 2 strategy.pp=2 strategy.schedule=dualpipe
  check 2 strategy.pp=2 strategy.schedule=zb_v strategy.virtual_stages=2
  check 4 strategy.pp=4 strategy.schedule=dualpipe
  check 4 strategy.pp=2 strategy.dp=2 strategy.schedule=zb_v strategy.virtual_stages=2
fi
if wants experts; then
  echo "experts:"
  # shellcheck disable=SC2086
  on "$gpt" $short --set "model=$experts"
  check 1
  check 2 strategy.dp=2
  check 2 strategy.tp=2 strategy.sequence_parallel=true
  check 2 strategy.dp=2 strategy.ep=2
  check 4 strategy.dp=4 strategy.ep=2
  check 4 strategy.dp=4 strategy.ep=4
fi
if wants images; then
  echo "images:"
  on "$images"
  check 1
  check 2 strategy.dp=2 strategy.microbatch=1
  check 2 strategy.tile_h=2
  check 2 strategy.tile_w=2
  check 4 strategy.tile_h=2 strategy.tile_w=2
  check 2 strategy.pp=2
fi
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
