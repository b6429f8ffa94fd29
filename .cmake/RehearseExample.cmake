# The C++ example of the front page, as tests compile it.

# rehearse_extract_example(README.md to.cpp): writes the page's first ```cpp block, as it stands, to to.cpp.
function(rehearse_extract_example page to)
  file(READ "${page}" text)
  string(FIND "${text}" "```cpp\n" begin)
  if(begin EQUAL -1)
    message(FATAL_ERROR "${page} has no block of C++")
  endif()
  math(EXPR begin "${begin} + 7")
  string(SUBSTRING "${text}" ${begin} -1 text)
  string(FIND "${text}" "```" end)
  string(SUBSTRING "${text}" 0 ${end} text)
  file(WRITE "${to}" "${text}")
endfunction()
