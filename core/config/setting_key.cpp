#include "core/config/setting_key.hpp"

#include <stdexcept>

#include <fmt/format.h>

namespace rehearse {

Registry<DeclaredKey>& declared_keys() {
  static Registry<DeclaredKey> registry("key");
  return registry;
}

const Registry<DeclaredKey>::Entry* find_declared_key(std::string_view key) {
  for (const auto& entry : declared_keys().entries())
    if (entry.name == key) return &entry;
  return nullptr;
}

std::string text_of(const SettingValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* number = std::get_if<double>(&value)) return fmt::format("{}", *number);
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return std::to_string(*whole);
  return std::get<bool>(value) ? "true" : "false";
}

const SettingValue* DeclaredSettings::find(std::string_view key) const {
  const auto at = values_.find(key);
  return at == values_.end() ? nullptr : &at->second;
}

void DeclaredSettings::set(const std::string& key, SettingValue value) {
  const auto* entry = find_declared_key(key);
  if (entry == nullptr) throw std::logic_error("no file declares the key " + key);
  if (entry->value.fallback.index() != value.index()) throw std::logic_error(key + " is of another type");
  if (value == entry->value.fallback)
    values_.erase(key);
  else
    values_.insert_or_assign(key, std::move(value));
}

}  // namespace rehearse
