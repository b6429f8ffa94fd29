// In place of what the build embeds, where the page has its scripts beside it (core/playground).
#include "core/report/html/embedded.hpp"

namespace rehearse::html {

std::string_view page_style() { return {}; }
std::string_view page_script() { return {}; }
std::string_view chart_library() { return {}; }

}  // namespace rehearse::html
