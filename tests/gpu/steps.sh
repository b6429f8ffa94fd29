# Read by first.sh and gpu.sh: runs steps, each with a time limit of its own, and writes what came of them to a table.
#
# TABLE is the file. LOGS is a folder for the steps' output, which goes out as one file, written anew after each step:
# RESULTS/logs.tar.gz. FAILED is 1 once a step has failed or ran out of time.

FAILED=0
LOGS=$(mktemp -d)
trap 'rm -rf "$LOGS"' EXIT
# What earlier calls left in RESULTS.
unpack() { [ ! -e "$1/logs.tar.gz" ] || tar -xzf "$1/logs.tar.gz" -C "$LOGS"; }
pack() { tar -C "$LOGS" -czf "$1/logs.new" . && mv "$1/logs.new" "$1/logs.tar.gz"; }
# What gpu.sh does besides when a step is done.
after_step() { :; }
# seconds FROM TO: with one decimal.
seconds() { awk -v b="$1" -v e="$2" 'BEGIN { printf "%.1f", e - b }'; }
row() { printf '| %s | %s | %s |\n' "$1" "$2" "$3" | tee -a "$TABLE"; }

table_of() {
  {
    echo "# $(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null || echo "${GPU_NAME:-no GPU}")"
    echo
    echo "$(date +%F), commit ${COMMIT:-$(git rev-parse --short HEAD 2>/dev/null || echo unknown)}"
    echo
    echo "| step | outcome | s |"
    echo "|---|---|---|"
  } >"$TABLE"
}

# step NAME SECONDS COMMAND...    Output goes to LOGS/NAME.log, or to $OUTPUT and its errors to LOGS/NAME.err. A program
# that is not there is said, and so is one that has no work here (exit status 77). Returns the exit status.
step() {
  local name=$1 limit=$2 code=0 outcome=passed started log=$LOGS/$1.log
  shift 2
  if [ -n "${DRY_RUN:-}" ]; then
    echo "$limit s: $*"
    command -v "$1" >/dev/null || { echo "  there is no $1"; FAILED=1; }
    return 0
  fi
  if ! command -v "$1" >/dev/null; then
    row "$name" "there is no $(basename "$1")" ""
    return 127
  fi
  started=$(date +%s.%N)
  if [ -n "${OUTPUT:-}" ]; then
    log=$LOGS/$name.err
    timeout -k 2 "$limit" "$@" >"$OUTPUT" 2>"$log" || code=$?
  else
    timeout -k 2 "$limit" "$@" >"$log" 2>&1 || code=$?
  fi
  case $code in
    0) ;;
    77) outcome=skipped ;;
    124 | 137) outcome="not done in $limit s" FAILED=1 ;;
    *) outcome="FAILED ($code)" FAILED=1 ;;
  esac
  row "$name" "$outcome" "$(seconds "$started" "$(date +%s.%N)")"
  pack "$results"
  after_step
  [ "$code" -eq 0 ] || tail -n "${LINES_OF_FAULT:-12}" "$log"
  return $code
}
