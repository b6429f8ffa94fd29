#!/bin/sh
# Calibrates this machine, kernels and collectives only, then runs networks whose shapes the calibration has not seen, on 1 and 2 CPU
# ranks, and prints how far the simulated step is off. Usage: run.sh REHEARSE [FOLDER [BUDGET]]; keep the machine idle otherwise.
set -e
rehearse=${1:?path of the program}
folder=${2:-$(mktemp -d)}
budget=${3:-60s}
here=$(dirname "$0")
[ -f "$folder/profile.json" ] || "$rehearse" calibrate --device cpu --ranks 2 --budget "$budget" -o "$folder/profile.json"
for network in gpt llama wide_gpt deep_llama short_gpt plain_gpt; do
  for plan in "1" "2 strategy.dp=2" "2 strategy.tp=2"; do
    set -- $plan
    name="$network, $1 rank$([ "$1" = 1 ] || echo s, ${2#strategy.})"
    "$rehearse" validate "$here/$network.json" --device cpu --ranks "$1" --calibration "$folder/profile.json" ${2:+--set "$2"} --format csv -o "$folder/$network.$1.${2:-alone}.csv" 2>/dev/null
    awk -F, -v name="$name" '$1 == "step" || $1 == "\"step\"" { printf "%-28s predicted %9.3f ms  measured %9.3f ms  error %+6.1f %%\n", name, $2 * 1e3, $3 * 1e3, $4 * 100 }' "$folder/$network.$1.${2:-alone}.csv"
  done
done
