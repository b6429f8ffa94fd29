#include "core/config/override.hpp"

#include <charconv>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/config/json_file.hpp"
#include "core/config/json_text.hpp"
#include "core/config/object_reader.hpp"

namespace rehearse {

namespace {

using nlohmann::json;

constexpr std::size_t kShown = 80;  // Of an override, in messages.

json value_of(const std::string& text, const std::string& origin) {
  const bool compound = text.starts_with('{') || text.starts_with('[');
  try {
    return parse_json(text, origin);
  } catch (const Error& e) {
    if (compound || e.where.find(": /") != std::string::npos) throw;
  }
  if (!is_utf8(text)) throw Error(ErrorKind::usage, "the value is not UTF-8 text", origin);
  return text;
}

json& element(json& list, const std::string& word, const std::string& origin) {
  std::size_t index = 0;
  const auto [end, status] = std::from_chars(word.data(), word.data() + word.size(), index);
  if (status != std::errc{} || end != word.data() + word.size() || index >= list.size())
    throw Error(ErrorKind::usage, fmt::format("'{}' is no element of a list of {}", word, list.size()), origin,
                list.empty() ? "" : fmt::format("they are 0 to {}", list.size() - 1));
  return list[index];
}

}  // namespace

Override parse_override(const std::string& text, const std::string& example,
                        const std::function<std::string(const std::string&)>& full) {
  const auto equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    throw Error(ErrorKind::usage, fmt::format("'{}' is not KEY=VALUE", text.substr(0, kShown)), "--set",
                "example: --set " + example);
  Override out{{}, {}, "--set " + text.substr(0, kShown)};
  try {
    out.key = full(text.substr(0, equals));
  } catch (Error& e) {
    e.where = out.origin;
    throw;
  }
  out.value = value_of(text.substr(equals + 1), out.origin);
  return out;
}

void place(json& document, const Override& change) {
  const std::string& key = change.key;
  json* at = &document;
  for (std::size_t start = 0; start <= key.size();) {
    const std::size_t dot = std::min(key.find('.', start), key.size());
    const std::string word = key.substr(start, dot - start);
    if (at->is_null()) *at = json::object();
    if (!at->is_object() && !at->is_array()) {
      const std::string before = key.substr(0, start == 0 ? 0 : start - 1);
      throw Error(ErrorKind::usage,
                  fmt::format("'{}' is {}, which has no member '{}'", before, describe_value(*at), key.substr(start)),
                  change.origin, fmt::format("set '{}' itself to an object", before));
    }
    at = at->is_array() ? &element(*at, word, change.origin) : &(*at)[word];
    start = dot + 1;
  }
  *at = change.value;
}

}  // namespace rehearse
