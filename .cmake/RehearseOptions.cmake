# What every target of the project compiles with. Targets link rehearse_options; nothing is set globally, because a
# global C++ standard also reaches CUDA sources.
include(FeatureSummary)

# Warnings are errors with the compilers that the project is developed with; others may know more warnings.
set(known_compiler OFF)
if((CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 12 AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
   OR (CMAKE_CXX_COMPILER_ID STREQUAL Clang AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 14 AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 15))
  set(known_compiler ON)
endif()
if(EMSCRIPTEN)
  set(known_compiler OFF)  # Its std::size_t has 32 bits, of which the code makes no secret.
endif()
option(REHEARSE_WERROR "Treat warnings as errors" ${known_compiler})

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

add_library(rehearse_options INTERFACE)
target_compile_features(rehearse_options INTERFACE cxx_std_20)
target_include_directories(rehearse_options INTERFACE "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>" "$<INSTALL_INTERFACE:include/rehearse>")
# Warnings are this project's own: whoever links an installed copy keeps theirs.
target_compile_options(rehearse_options INTERFACE
  "$<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Wshadow;-Wconversion;-Wno-sign-conversion>>"
  "$<BUILD_INTERFACE:$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${REHEARSE_WERROR}>>:-Werror>>")
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 sees overlaps and accesses out of bounds in `"text" + std::string` that cannot happen (GCC bugs 105329 and 105651).
  target_compile_options(rehearse_options INTERFACE
    "$<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict;-Wno-array-bounds;-Wno-stringop-overflow;-Wno-stringop-overread>>")
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # GCC collects its garbage from 128 MB on, which batches of sources pass several times: a twentieth of their compile time.
  target_compile_options(rehearse_options INTERFACE "$<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CXX>:--param=ggc-min-heapsize=1000000>>")
endif()
if(REHEARSE_SANITIZE)
  # GCC 12 takes the sanitizers' own code in std::function and std::regex for uses of uninitialised memory.
  target_compile_options(rehearse_options INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${REHEARSE_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer>
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-maybe-uninitialized>)
  target_link_options(rehearse_options INTERFACE -fsanitize=${REHEARSE_SANITIZE})
endif()

# Objects serve programs, the shared object that tests link, and modules of other languages. Calls within a source stay direct.
if(NOT EMSCRIPTEN)
  set(CMAKE_POSITION_INDEPENDENT_CODE ON)
endif()
target_compile_options(rehearse_options INTERFACE "$<BUILD_INTERFACE:$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fno-semantic-interposition>>")

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(compiler_type auto)
  if(EMSCRIPTEN)
    set(compiler_type clang)  # Its name does not say so.
  endif()
  # Precompiled headers are cached too (ccache's manual, "Precompiled headers"), and clones in other folders find what this one compiled.
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND}" -E env "CCACHE_SLOPPINESS=pch_defines,time_macros"
    "CCACHE_COMPILERTYPE=${compiler_type}" "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}" CCACHE_NOHASHDIR=1 "${CCACHE_PROGRAM}")
endif()

# Headers that most sources include and that take longer to read than many sources' own code, compiled once and reused by targets of the same
# options. No large header that only some need (nlohmann/json.hpp): loading it costs the others more than it saves. A source includes what it
# uses all the same: -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON builds without.
file(WRITE "${CMAKE_BINARY_DIR}/no_source.cpp" "")
add_library(rehearse_headers OBJECT "${CMAKE_BINARY_DIR}/no_source.cpp")
target_precompile_headers(rehearse_headers PRIVATE <algorithm> <array> <cmath> <cstdint> <functional> <map> <memory> <optional> <set> <span>
  <string> <vector> <fmt/format.h> <fmt/ranges.h>)

function(rehearse_precompile_headers target)
  target_precompile_headers(${target} REUSE_FROM rehearse_headers)
  rehearse_ccache_precompiled(${target})
endfunction()

function(rehearse_ccache_precompiled target)
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)  # ccache asks for it.
  endif()
endfunction()
