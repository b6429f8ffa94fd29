#include "core/model/model_file.hpp"

#include <string_view>

#include <nlohmann/json.hpp>

#include "core/config/json_file.hpp"

namespace rehearse {

namespace {

/// Python writes numbers that JSON has no words for: they become null. Nothing in a text changes.
std::string without_python_numbers(std::string text) {
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (quoted && text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      quoted = !quoted;
    } else if (!quoted) {
      for (const std::string_view word : {"-Infinity", "Infinity", "NaN"})
        if (text.compare(i, word.size(), word) == 0) text.replace(i, word.size(), "null");
    }
  }
  return text;
}

}  // namespace

nlohmann::json read_model_file(const std::string& path) {
  return parse_json(without_python_numbers(read_text(path)), path);
}

}  // namespace rehearse
