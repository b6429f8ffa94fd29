# How tests are declared. tests/README.md says which kind to choose.

# Headers that most tests include and that take longer to read than their own code. Compiled once. A test should include what it uses all the
# same: -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON builds without.
function(rehearse_precompile_test_headers)
  add_library(rehearse_test_headers OBJECT "${PROJECT_SOURCE_DIR}/tests/support/catch.cpp")
  target_link_libraries(rehearse_test_headers PRIVATE rehearse_catch_main rehearse_options fmt::fmt)
  rehearse_test_options(rehearse_test_headers)
  target_precompile_headers(rehearse_test_headers PRIVATE
    "${PROJECT_SOURCE_DIR}/tests/support/catch.hpp" <algorithm> <array> <cmath> <functional> <map> <memory> <optional> <set> <string> <variant> <vector>
    <fmt/format.h> <nlohmann/json.hpp>)
endfunction()

# Time is spent in the libraries, which are optimised; the tests' own code is half of what there is to compile.
function(rehearse_test_options target)
  # As the compiler's default has it, for libraries and programs alike: they share one precompiled header.
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${target} PRIVATE $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:-O0>)
  rehearse_ccache_precompiled(${target})
endfunction()

# rehearse_add_tool(name source.cpp ...)
# A program that no test runs (speed, fits). The default build leaves it out; the target `tools` builds all of them.
function(rehearse_add_tool name)
  add_executable(${name} EXCLUDE_FROM_ALL ${ARGN})
  if(NOT TARGET tools)
    add_custom_target(tools)
  endif()
  add_dependencies(tools ${name})
endfunction()

# Cases of a target, with these libraries beside the core.
function(rehearse_compile_test target)
  target_link_libraries(${target} PRIVATE rehearse_catch_main rehearse_source_path rehearse_core_shared ${ARGN})
  rehearse_unity(${target})
  rehearse_test_options(${target})
  target_precompile_headers(${target} REUSE_FROM rehearse_test_headers)
endfunction()

# rehearse_add_test_objects(NAME name SOURCES a.cpp ... [LIBS lib ...])
# Cases that several programs share: the object library test_<name>, whose objects they take as sources.
function(rehearse_add_test_objects)
  cmake_parse_arguments(arg "" "NAME" "SOURCES;LIBS" ${ARGN})
  add_library(test_${arg_NAME} OBJECT ${arg_SOURCES})
  rehearse_compile_test(test_${arg_NAME} ${arg_LIBS})
endfunction()

# rehearse_add_test(NAME name SOURCES a.cpp ... [LIBS lib ...] [LABELS label ...] [ENVIRONMENT NAME=value ...])
# One Catch2 program, test_<name>, linked with the core, and one ctest test of the same name. A program in which a case
# called REHEARSE_SKIP and none failed is reported as skipped: keep cases that need a device in a program of their own.
function(rehearse_add_test)
  cmake_parse_arguments(arg "" "NAME" "SOURCES;LIBS;LABELS;ENVIRONMENT" ${ARGN})
  add_executable(test_${arg_NAME} ${arg_SOURCES})
  rehearse_compile_test(test_${arg_NAME} ${arg_LIBS})
  add_test(NAME ${arg_NAME} COMMAND test_${arg_NAME})
  set_tests_properties(${arg_NAME} PROPERTIES SKIP_RETURN_CODE 77)
  if(arg_LABELS)
    set_tests_properties(${arg_NAME} PROPERTIES LABELS "${arg_LABELS}")
  endif()
  if(arg_ENVIRONMENT)
    set_tests_properties(${arg_NAME} PROPERTIES ENVIRONMENT "${arg_ENVIRONMENT}")
  endif()
endfunction()

# rehearse_add_property_test(NAME name SOURCES a.cpp ... [LIBS lib ...])
# The same with RapidCheck, named properties_<name>; nothing where RapidCheck is missing. The seed is fixed, so that a run can be
# repeated; RC_PARAMS="seed=N max_success=M" before the program's own name explores further.
function(rehearse_add_property_test)
  cmake_parse_arguments(arg "" "NAME" "SOURCES;LIBS" ${ARGN})
  if(TARGET rapidcheck)
    rehearse_add_test(NAME properties_${arg_NAME} SOURCES ${arg_SOURCES} LIBS rapidcheck ${arg_LIBS}
      LABELS property ENVIRONMENT "RC_PARAMS=seed=1")
  endif()
endfunction()

# rehearse_add_golden(name file.tesh [AT_ROOT])
# Runs the commands of a tesh file with the product and compares their output; nothing where the program isn't built.
# Commands run in a temporary directory that links to everything in this one, or with AT_ROOT in the source directory, with
# `rehearse` on PATH.
function(rehearse_add_golden name file)
  cmake_parse_arguments(arg "AT_ROOT" "" "" ${ARGN})
  set(directory "${CMAKE_CURRENT_SOURCE_DIR}")
  if(arg_AT_ROOT)
    set(directory "${PROJECT_SOURCE_DIR}")
  endif()
  if(TARGET rehearse)
    add_test(NAME golden_${name}
      COMMAND golden_runner --scratch --cd "${directory}" --path "$<TARGET_FILE_DIR:rehearse>"
              "${CMAKE_CURRENT_SOURCE_DIR}/${file}")
    set_tests_properties(golden_${name} PROPERTIES LABELS golden)
  endif()
endfunction()
