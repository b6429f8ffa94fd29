#!/usr/bin/env bash
# Writes what a program answers to everything that ships, as JSON, into a folder: every scenario (estimate, simulate, memory), every plan, lesson
# and replay, and every row of the scoreboard, file by file. Two programs that predict alike write folders that `diff -r` finds equal:
#
#   tests/same_results/collect.sh OLD/build/default/bin/rehearse OLD before
#   tests/same_results/collect.sh build/default/bin/rehearse . after
#   diff -r before after && echo identical
#
# usage: collect.sh PROGRAM DATA FOLDER; DATA holds scenarios/, topologies/ and tests/published/data. JOBS=n runs n at once (default: all cores);
# ONLY=REGEX takes the answers whose line matches.
set -euo pipefail
program=$(realpath "$1") data=$(realpath "$2")
mkdir -p "$3"
out=$(realpath "$3")
export REHEARSE_DATA="$data" program out
cd "$data"

# answer NAME ARGUMENT...: NAME.json holds what the program printed, NAME.code how it ended. A fault is an answer, too.
answer() {
  local name=$1 code=0
  shift
  "$program" "$@" --format json >"$out/$name.json" 2>"$out/$name.err" || code=$?
  echo "$code" >"$out/$name.code"
  [ -s "$out/$name.err" ] || rm "$out/$name.err"
}
export -f answer

{
  for scenario in scenarios/*.json scenarios/published/*.json; do
    name=$(basename "$scenario" .json)
    for verb in estimate simulate memory; do printf '%s.%s\t%s\t%s\n' "$name" "$verb" "$verb" "$scenario"; done
  done
  for plan in scenarios/plans/*.json; do printf 'plan.%s\tplan\t%s\n' "$(basename "$plan" .json)" "$plan"; done
  for lesson in scenarios/lessons/*/; do printf 'lesson.%s\tlesson\t%s\n' "$(basename "$lesson")" "$(basename "$lesson")"; done
  for replay in scenarios/published/*/; do printf 'replay.%s\treplay\t%s\n' "$(basename "$replay")" "$(basename "$replay")"; done
  for rows in tests/published/data/*.json tests/published/data/*.csv; do
    printf 'validate.%s\tvalidate\t--measurements\t%s\n' "$(basename "$rows")" "$rows"
  done
} | grep -E "${ONLY:-.}" | tr '\t\n' ' \0' | xargs -0 -P "${JOBS:-$(nproc)}" -I{} bash -c 'answer {}'
echo "$(ls "$out" | wc -l) files in $out" >&2
