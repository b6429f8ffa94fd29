# How tests are declared. tests/README.md says which kind to choose.

# rehearse_add_test(NAME name SOURCES a.cpp ... [LIBS lib ...] [LABELS label ...] [ENVIRONMENT NAME=value ...])
# One Catch2 program, test_<name>, linked with the core, and one ctest test of the same name. A program in which a case
# called REHEARSE_SKIP and none failed is reported as skipped: keep cases that need a device in a program of their own.
function(rehearse_add_test)
  cmake_parse_arguments(arg "" "NAME" "SOURCES;LIBS;LABELS;ENVIRONMENT" ${ARGN})
  add_executable(test_${arg_NAME} ${arg_SOURCES})
  target_link_libraries(test_${arg_NAME} PRIVATE rehearse_catch_main rehearse_source_path rehearse::core ${arg_LIBS})
  # Time is spent in the libraries, which are optimised; the tests' own code is half of what there is to compile.
  target_compile_options(test_${arg_NAME} PRIVATE $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:-O0>)
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

# rehearse_add_golden(name file.tesh)
# Runs the commands of a tesh file with the product and compares their output; nothing where the program isn't built.
# Commands run in a temporary directory that links to everything in the source directory, with `rehearse` on PATH.
function(rehearse_add_golden name file)
  if(TARGET rehearse)
    add_test(NAME golden_${name}
      COMMAND golden_runner --scratch --cd "${PROJECT_SOURCE_DIR}" --path "$<TARGET_FILE_DIR:rehearse>"
              "${CMAKE_CURRENT_SOURCE_DIR}/${file}")
    set_tests_properties(golden_${name} PROPERTIES LABELS golden)
  endif()
endfunction()
