#!/bin/sh
# Gathers what a GPU machine may lack. Usage: carry.sh BUILD PREFIX [PROGRAMS [on_cpu]]    from the root of the sources
#
# PREFIX: for a build there without SimGrid, the headers of Boost.Graph, nlohmann-json, fmt, CLI11, Catch2, expat and
# zlib, and the static libraries of the last three. BUILD is a folder that was built here, whose record says which headers
# were read. There:
#   cmake -S . -B build/gpu -G Ninja -DCMAKE_BUILD_TYPE=Release -DREHEARSE_SIM=OFF -DCMAKE_PREFIX_PATH=PREFIX
# PROGRAMS: the programs of BUILD that first.sh and gpu.sh run, where they lie in a build folder, and in lib the shared
# libraries that they open, but for the C library's. on_cpu: those that have the machine on the CPU for a GPU.
set -eu
build=$1
prefix=$2
programs=${3:-}
machine=${4:-gpu}
mkdir -p "$prefix/include" "$prefix/lib"
ninja -C "$build" -t deps | sed -n 's|^ *\(/usr/include/\)|\1|p' | grep -E '^/usr/include/(boost|nlohmann|fmt|CLI|catch2|expat|zlib|zconf)' | sort -u | while read -r header; do
  target=$prefix/${header#/usr/}
  mkdir -p "$(dirname "$target")"
  cp "$header" "$target"
done
# Chosen by macros that differ between compilers, and what CMake looks for.
for extra in boost/version.hpp boost/config boost/preprocessor boost/mpl/aux_ expat.h expat_external.h expat_config.h zlib.h zconf.h fmt catch2; do
  [ -e "/usr/include/$extra" ] && mkdir -p "$prefix/include/$(dirname "$extra")" && cp -r "/usr/include/$extra" "$prefix/include/$(dirname "$extra")/"
done
find /usr/include -name expat_config.h -exec cp {} "$prefix/include/" \;
for library in libexpat.a libz.a libCatch2.a libCatch2WithMain.a libCatch2Main.a; do find /usr/lib -name "$library" -exec cp {} "$prefix/lib/" \; ; done
# Where they lie below their prefix says where its headers are.
for package in nlohmann_json CLI11 Catch2; do
  found=$(find /usr/lib /usr/share -type d -path "*cmake/$package" | head -1)
  [ -n "$found" ] && mkdir -p "$prefix/$(dirname "${found#/usr/}")" && cp -r "$found" "$prefix/$(dirname "${found#/usr/}")/"
done
# fmt without its library: all in the headers.
version=$(sed -n 's/^#define FMT_VERSION \([0-9]*\).*/\1/p' /usr/include/fmt/core.h)
mkdir -p "$prefix/lib/cmake/fmt"
cat >"$prefix/lib/cmake/fmt/fmt-config.cmake" <<'END'
get_filename_component(prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
add_library(fmt::fmt INTERFACE IMPORTED)
set_target_properties(fmt::fmt PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${prefix}/include" INTERFACE_COMPILE_DEFINITIONS FMT_HEADER_ONLY=1)
END
cat >"$prefix/lib/cmake/fmt/fmt-config-version.cmake" <<END
set(PACKAGE_VERSION $((version / 10000)).$((version / 100 % 100)).$((version % 100)))
if(NOT PACKAGE_FIND_VERSION VERSION_GREATER PACKAGE_VERSION)
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
endif()
END
du -sh "$prefix"

[ -n "$programs" ] || exit 0
mkdir -p "$programs/bin" "$programs/tests/gpu" "$programs/tests/bench" "$programs/lib"
# put FILE WHERE: where it was built.
put() { if [ -x "$build/$1" ]; then cp "$build/$1" "$programs/$2"; else echo "there is no $build/$1" >&2; fi; }
put tests/gpu/test_cuda_host tests/gpu/test_cuda_host
if [ "$machine" = on_cpu ]; then
  put tests/gpu/rehearse_on_cpu bin/rehearse
  put tests/gpu/test_cuda_on_cpu tests/gpu/test_gpu_operators
  put tests/gpu/test_devices_on_cpu tests/gpu/test_gpu_devices
  put tests/gpu/test_nccl_on_cpu tests/gpu/test_nccl_on_cpu
else
  put bin/rehearse bin/rehearse
  for test in operators devices; do put tests/gpu/test_gpu_$test tests/gpu/test_gpu_$test; done
  for bench in gemm attention; do put tests/bench/bench_$bench tests/bench/bench_$bench; done
fi
find "$programs/bin" "$programs/tests" -type f -perm -u+x | while read -r program; do
  ldd "$program" | sed -n 's/.*=> \(\/[^ ]*\) .*/\1/p'
done | sort -u | grep -vE '/(libc|libm|libdl|libpthread|librt|libresolv|ld-linux[^/]*)\.so' | while read -r library; do
  cp -L "$library" "$programs/lib/"
done
strip --strip-debug "$programs"/lib/* "$programs"/bin/* "$programs"/tests/*/* 2>/dev/null || true
du -sh "$programs"
