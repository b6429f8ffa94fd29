#pragma once
// Forms of output by name. To add one: a file that registers a function from Document to text.

#include <functional>
#include <string>

#include "core/base/registry.hpp"
#include "core/report/formats/document.hpp"

namespace rehearse {

/// The whole output; ends in a newline.
using Format = std::function<std::string(const Document&, const TextStyle&)>;

/// "table", "json", "csv", "md".
[[nodiscard]] Registry<Format>& formats();

/// Columns that `text` takes on a terminal: UTF-8 characters, without ANSI escapes.
[[nodiscard]] int columns_of(const std::string& text);
/// Breaks at spaces so that no line is longer than `width`, a longer word alone excepted. Lines after the first start
/// with `indent` spaces, which don't count.
[[nodiscard]] std::string wrap(const std::string& text, int width, int indent = 0);

}  // namespace rehearse
