# The core compiled to WebAssembly: Debian's emscripten takes its own C library's headers for the host's, so that nothing of /usr/include
# may be seen but the libraries that are headers alone. A folder of links in the build shows emcc these, and targets have the names that
# find_package gives them elsewhere. What has to be linked (expat, yaml-cpp, zlib) is left out, and with it what reads other programs' files.
set(headers "${CMAKE_BINARY_DIR}/host_headers")
set(REHEARSE_HOST_HEADERS /usr/include CACHE PATH "Where Boost, fmt and nlohmann-json are")
file(MAKE_DIRECTORY "${headers}")
foreach(library boost fmt nlohmann)
  if(NOT EXISTS "${REHEARSE_HOST_HEADERS}/${library}")
    message(FATAL_ERROR "${REHEARSE_HOST_HEADERS}/${library} is not there: ./bootstrap install-deps installs what the core includes")
  endif()
  file(CREATE_LINK "${REHEARSE_HOST_HEADERS}/${library}" "${headers}/${library}" SYMBOLIC)
endforeach()

foreach(target fmt::fmt nlohmann_json::nlohmann_json Threads::Threads)
  add_library(${target} INTERFACE IMPORTED GLOBAL)
endforeach()
target_compile_definitions(fmt::fmt INTERFACE FMT_HEADER_ONLY)
target_include_directories(rehearse_options SYSTEM INTERFACE "$<BUILD_INTERFACE:${headers}>")
# Errors are exceptions: those of the engine, which cost nothing until one is thrown.
target_compile_options(rehearse_options INTERFACE -fwasm-exceptions)
target_link_options(rehearse_options INTERFACE -fwasm-exceptions)
# Its linker's JavaScript uses Debian's packages of node modules, where a node that is not Debian's does not look.
set_property(GLOBAL PROPERTY RULE_LAUNCH_LINK "${CMAKE_COMMAND} -E env NODE_PATH=/usr/share/nodejs")
