#!/bin/bash
# first.sh and gpu.sh from start to end on the machine on the CPU, where a GPU machine lacks what this one has: no headers,
# no Boost, nlohmann-json, fmt, CLI11, Catch2, SimGrid, Gloo, OpenBLAS, expat or zlib, and no network. Programs and their
# libraries are carried. Usage: without_libraries.sh BUILD [RESULTS]    from the root of the sources
#
# Exit status 77 where this user may not make namespaces.
set -eu
build=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
results=$(realpath -m "${2:-$work/results}")
if [ -z "${IN_NAMESPACE:-}" ]; then
  unshare -rmn true 2>/dev/null || { echo "skipped: no namespaces for this user"; exit 77; }
  sh tests/gpu/carry.sh "$build" "$work/carried" "$work/programs" on_cpu >"$work/carry.log" 2>&1 || { cat "$work/carry.log"; exit 1; }
  IN_NAMESPACE=1 PROGRAMS=$work/programs unshare -rmn bash "$0" "$build" "$results"
  exit
fi
# The build folder, all headers and packages of CMake, and the libraries themselves.
empty=$work/empty
mkdir "$empty"
for folder in "$build" /usr/include /usr/local/include /usr/lib/cmake /usr/share/cmake-* /usr/lib/*/cmake /usr/local/lib/cmake; do
  [ ! -d "$folder" ] || mount --bind "$empty" "$folder"
done
for library in /usr/lib/*/lib{boost_,fmt,simgrid,gloo,openblas,expat,z,Catch2}*.so* /usr/lib/*/openblas-pthread/*.so*; do
  [ ! -f "$library" ] || mount --bind /dev/null "$library"
done
# Ranks of one machine talk over its loopback; there is no other link.
[ "$(grep -c : /proc/net/dev)" -eq 1 ] || { echo "there is a network"; exit 1; }
python3 - <<'END'
import fcntl, socket, struct
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
    fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", IFF_UP))
END
export PROGRAMS GPU_NAME="machine on the CPU" LONGER=${LONGER:-20} STEPS=2 BUDGET=20s
failed=0
bash tests/gpu/first.sh "$results" || failed=1
SECTIONS="${SECTIONS:-tests speed calibrate validate share parity}" NETWORKS=tests/gpu/scenarios/tiny_gpt2_bf16.json PARITY="[fused]" \
  bash tests/gpu/gpu.sh "$results" || failed=1
exit $failed
