#!/bin/sh
# Gathers what a build without SimGrid needs and a GPU machine may lack: the headers of Boost.Graph, nlohmann-json, fmt, CLI11 and Catch2, and the static libraries
# of fmt and expat. Usage: carry.sh BUILD_FOLDER PREFIX. BUILD_FOLDER is one that was built here, whose record says which headers were read. There:
#   cmake -S . -B build/gpu -G Ninja -DCMAKE_BUILD_TYPE=Release -DREHEARSE_SIM=OFF -DCMAKE_PREFIX_PATH=PREFIX
set -eu
build=$1
prefix=$2
mkdir -p "$prefix/include" "$prefix/lib"
ninja -C "$build" -t deps | sed -n 's|^ *\(/usr/include/\)|\1|p' | grep -E '^/usr/include/(boost|nlohmann|fmt|CLI|catch2|expat)' | sort -u | while read -r header; do
  target=$prefix/${header#/usr/}
  mkdir -p "$(dirname "$target")"
  cp "$header" "$target"
done
# Chosen by macros that differ between compilers, and what CMake looks for.
for extra in boost/version.hpp boost/config boost/preprocessor boost/mpl/aux_ expat.h expat_external.h expat_config.h fmt catch2; do
  [ -e "/usr/include/$extra" ] && mkdir -p "$prefix/include/$(dirname "$extra")" && cp -r "/usr/include/$extra" "$prefix/include/$(dirname "$extra")/"
done
find /usr/include -name expat_config.h -exec cp {} "$prefix/include/" \;
for library in libfmt.a libexpat.a; do find /usr/lib -name "$library" -exec cp {} "$prefix/lib/" \; ; done
for package in fmt nlohmann_json CLI11 Catch2; do
  found=$(find /usr/lib /usr/share -type d -path "*cmake/$package" | head -1)
  [ -n "$found" ] && mkdir -p "$prefix/lib/cmake" && cp -r "$found" "$prefix/lib/cmake/"
done
du -sh "$prefix"
