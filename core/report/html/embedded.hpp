#pragma once
// What the build put into the program for its pages.

#include <string_view>

namespace rehearse::html {

[[nodiscard]] std::string_view page_style();
[[nodiscard]] std::string_view page_script();
/// ECharts; empty where the build found none.
[[nodiscard]] std::string_view chart_library();

}  // namespace rehearse::html
