#include "core/scoreboard/rows/stated_keys.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/config/scenario.hpp"

namespace rehearse {

namespace {

bool said(RowFields& fields, const char* field) { return !std::holds_alternative<std::monostate>(fields.find(field)); }

}  // namespace

void StatedKeys::truth(const char* field, std::string_view key, bool opposite) {
  if (said(fields_, field)) put(key, fields_.truth(field) != opposite ? "true" : "false");
}

void StatedKeys::word(const char* field, std::string_view key) {
  const std::string text = fields_.text(field);
  if (text.empty()) return;
  try {
    put(key, nlohmann::json(text).dump());
  } catch (const RowSkipped&) {
    throw RowSkipped("malformed row", fmt::format("{}: {}", field, text.substr(0, 60)));
  }
}

void StatedKeys::whole(const char* field, std::string_view key, std::int64_t most) {
  if (const auto v = fields_.whole(field, most)) put(key, fmt::format("{}", *v));
}

void StatedKeys::own(const std::string& key) {
  const FieldValue value = fields_.find(key);
  const auto* text = std::get_if<std::string>(&value);
  put(key, text != nullptr ? nlohmann::json(*text).dump() : text_of(value));
}

void StatedKeys::put(std::string_view key, std::string_view value) {
  try {
    set(scenario_, key, value, "row");
  } catch (const Error& e) {
    throw RowSkipped("malformed row", fmt::format("{}: {}", key, e.what()));
  }
  keep(key);
}

void StatedKeys::keep(std::string_view key) { scenario_.stated.emplace(key); }

}  // namespace rehearse
