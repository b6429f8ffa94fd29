# How a module of the core is declared: an object library of its own, so that registrations (strategies, schedules, formats) are never
# dropped by the linker, with the modules that it may include. core/CMakeLists.txt has their order; tests/layers holds sources and objects to it.

# rehearse_add_module(NAME name [ONCE | PLAIN] SOURCES a.cpp ... [USES module ...] [LIBRARIES target ...])
# The library rehearse_<name>, alias rehearse::<name>. It may see the modules of USES and those that they see. ONCE: its code runs about
# once for each answer. PLAIN: it builds and looks things up rather than computes, and more than -O1 takes half of its compile time and
# no hundredth of an answer's instructions away. Others are compiled with -O3.
function(rehearse_add_module)
  cmake_parse_arguments(arg "ONCE;PLAIN" "NAME" "SOURCES;USES;LIBRARIES" ${ARGN})
  set(target rehearse_${arg_NAME})
  add_library(${target} OBJECT ${arg_SOURCES})
  add_library(rehearse::${arg_NAME} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${arg_NAME})
  target_link_libraries(${target} PUBLIC rehearse_options fmt::fmt ${arg_LIBRARIES})
  set(sees ${arg_USES})
  foreach(used IN LISTS arg_USES)
    get_property(below GLOBAL PROPERTY REHEARSE_SEEN_BY_${used})
    list(APPEND sees ${below})
    target_link_libraries(${target} PUBLIC rehearse_${used})
  endforeach()
  list(REMOVE_DUPLICATES sees)
  set_property(GLOBAL PROPERTY REHEARSE_SEEN_BY_${arg_NAME} "${sees}")
  set_property(GLOBAL APPEND PROPERTY REHEARSE_MODULES ${arg_NAME})
  rehearse_precompile_headers(${target})
  rehearse_unity(${target} 36)
  if(arg_ONCE)
    rehearse_runs_once(${target})
  elseif(arg_PLAIN)
    rehearse_optimise(${target} -O1)
  endif()
endfunction()

# Reading files, laying out tables and command lines: little of an answer's time, and a large part of what is compiled. -Og takes four fifths
# of -O1's time, and answers take no more instructions (tests/bench/results/speed.md).
function(rehearse_runs_once target)
  rehearse_optimise(${target} -Og)
endfunction()

function(rehearse_optimise target level)
  if(EMSCRIPTEN)
    return()  # All of it is as CMAKE_CXX_FLAGS_RELEASE says: what is read slowly takes room, too.
  endif()
  target_compile_options(${target} PRIVATE $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:${level}>)
endfunction()

# Compiles sources in batches: most of a source's compile time goes into headers that its neighbours include as well.
# Off with -DREHEARSE_UNITY=OFF, for whoever works on one file for hours.
# A second argument says how many sources make a batch.
function(rehearse_unity target)
  if(REHEARSE_UNITY)
    set(batch 18)
    if(ARGC GREATER 1)
      set(batch ${ARGV1})
    endif()
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${batch})
    if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
      # A source of a batch is to GCC a header, in which types without linkage would be a fault.
      target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)
    endif()
  endif()
endfunction()
