#!/bin/sh
# What `rehearse run` does when machines fail. Usage: run_faults.sh PROGRAM SOURCE_DIR. Prints what went wrong and exits 1.
set -u
program=$1
scenario=$2/scenarios/tiny_gpt2.json
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*"; cat "$work"/out "$work"/err 2>/dev/null; exit 1; }
small="--ranks 2 --set training.global_batch=4 --set training.sequence_length=16"

# The same losses with ranks as processes as in one process.
"$program" run "$scenario" --ranks 1 --numerics fp64 --steps 3 --set training.global_batch=4 --set training.sequence_length=16 >"$work/one" 2>"$work/err" || fail "one rank"
for split in dp=2 tp=2 "pp=2"; do
  "$program" run "$scenario" $small --numerics fp64 --steps 3 --set "strategy.$split" >"$work/out" 2>"$work/err" || fail "$split"
  [ "$(sed -n 's/.*\(loss [0-9.]*\) .*/\1/p' "$work/one")" = "$(sed -n 's/.*\(loss [0-9.]*\) .*/\1/p' "$work/out")" ] || fail "losses of $split"
done

# A rank is killed: all end, the message names it, checkpoints stay complete.
"$program" run "$scenario" $small --steps 1000000 --checkpoint "$work/run" --save-every 5 >"$work/out" 2>"$work/err" &
launcher=$!
tries=0
until [ -e "$work/run/step-000010/complete" ]; do
  tries=$((tries + 1)); [ $tries -lt 600 ] || fail "no checkpoint"
  sleep 0.1
done
victim=$(ps -o pid= --ppid $launcher | tail -1 | tr -d ' ')
kill -9 "$victim"
tries=0
while kill -0 $launcher 2>/dev/null; do
  tries=$((tries + 1)); [ $tries -lt 300 ] || fail "still running 30 s after a kill"
  sleep 0.1
done
wait $launcher
[ $? -eq 1 ] || fail "exit code after a kill"
grep -q "rank 1 was killed by signal 9" "$work/err" || fail "the message does not name the rank"
"$program" run "$scenario" $small --steps 12 --checkpoint "$work/run" --resume >"$work/out" 2>"$work/err" || fail "resuming"

# The disk is full: files may not grow beyond 64 KiB here. What was complete before stays so.
"$program" run "$scenario" $small --steps 2 --checkpoint "$work/full" >"$work/out" 2>"$work/err" || fail "a checkpoint with room for it"
( ulimit -f 128; trap '' XFSZ; exec timeout 30 "$program" run "$scenario" $small --steps 3 --checkpoint "$work/full" --resume ) >"$work/out" 2>"$work/err"
[ $? -eq 1 ] || fail "exit code with a full disk"
grep -q "rank [01].*cannot write checkpoint" "$work/err" || fail "the message does not name the cause"
[ ! -e "$work/full/step-000003/complete" ] || fail "an incomplete checkpoint counts"
"$program" run "$scenario" $small --steps 3 --checkpoint "$work/full" --resume >"$work/out" 2>"$work/err" || fail "resuming after a full disk"
grep -q "^step *2 " "$work/out" && ! grep -q "^step *1 " "$work/out" || fail "the checkpoint of step 2 was not taken up"

# Half of a run under another plan and another number of ranks: the losses are those of one run.
losses() { sed -n 's/^\(step.*loss [0-9.]*\) .*/\1/p' "$1"; }
doubles="--numerics fp64 --set training.global_batch=4 --set training.sequence_length=16"
"$program" run "$scenario" --ranks 1 $doubles --steps 4 >"$work/whole" 2>"$work/err" || fail "four steps on one rank"
"$program" run "$scenario" --ranks 2 $doubles --set strategy.zero_stage=1 --steps 2 --checkpoint "$work/half" >"$work/out" 2>"$work/err" || fail "two steps"
losses "$work/out" >"$work/both"
for plan in strategy.tp=2 strategy.pp=2; do
  cp -r "$work/half" "$work/rest"
  "$program" run "$scenario" --ranks 2 $doubles --set $plan --steps 4 --checkpoint "$work/rest" --resume >"$work/out" 2>"$work/err" || fail "resuming under $plan"
  grep -q "step 2 is of 2 ranks under another plan" "$work/err" || fail "it does not say that $plan is another plan"
  [ "$(losses "$work/whole")" = "$(cat "$work/both"; losses "$work/out")" ] || fail "losses resumed under $plan"
  rm -r "$work/rest"
done
"$program" run "$scenario" --ranks 2 $doubles --set strategy.tp=2 --set training.optimizer=sgd --steps 4 --checkpoint "$work/half" --resume >"$work/out" 2>"$work/err"
[ $? -eq 2 ] || fail "exit code for another optimizer"
[ "$(grep -c "another optimizer: adamw there, sgd here" "$work/err")" -eq 1 ] || fail "another optimizer is not told once"

# A rank has the threads that the user says for a BLAS. Those that the BLAS began before it was told otherwise sleep
# beside them.
if grep -q "OpenBLAS" "$work/whole" && [ "$(nproc)" -ge 2 ]; then
  for threads in 1 2; do
    rm -f "$work/out"
    OPENBLAS_NUM_THREADS=$threads "$program" run "$scenario" --ranks 1 --steps 1000000 >"$work/out" 2>"$work/err" &
    launcher=$!
    tries=0
    until grep -q "^step" "$work/out" 2>/dev/null; do
      tries=$((tries + 1)); [ $tries -lt 600 ] || fail "no step with OPENBLAS_NUM_THREADS=$threads"
      sleep 0.1
    done
    seen=$(sed -n 's/^Threads:[[:space:]]*//p' /proc/$launcher/status)
    kill $launcher
    wait $launcher 2>/dev/null
    [ "$seen" = $((2 * threads - 1)) ] || fail "$seen threads with OPENBLAS_NUM_THREADS=$threads"
  done
fi

# A device that is not there.
if ! "$program" version | grep -qi "compute capability"; then
  "$program" run "$scenario" --device cuda >"$work/out" 2>"$work/err"
  [ $? -eq 4 ] || fail "exit code without a GPU"
  grep -q "hint:" "$work/err" || fail "no next step"
fi
