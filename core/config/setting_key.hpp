#pragma once
// Keys of a scenario that the file that reads them declares by itself, in one place: no struct and no table elsewhere
// knows them. Reading, `--set`, `explain`, `list keys`, completion, the JSON Schema, the resolved form, `search`, the
// targets of export and the tests that draw jobs follow from the declaration.
//
//   const SettingKey<bool> kEager = declare_key("strategy.eager", false, "Parameters are gathered at once.",
//                                               {.searched = {false, true}, .flags = {{"megatron", "--eager"}}});
//   ... if (kEager(request.settings)) ...
//
// Use it for what one file reads. A setting that many files read is a member of a struct in settings/.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/registry.hpp"

namespace rehearse {

using SettingValue = std::variant<bool, std::int64_t, double, std::string>;

/// The value as a scenario has it: "true", "8", "0.5", "ring".
[[nodiscard]] std::string text_of(const SettingValue& value);

/// Values of declared keys, as far as they are not the defaults. A part of each struct of settings.
class DeclaredSettings {
 public:
  /// Null where the key has its default.
  [[nodiscard]] const SettingValue* find(std::string_view key) const;
  /// `key` in full, "strategy.eager". Throws std::logic_error for a key that is not declared, or of another type.
  void set(const std::string& key, SettingValue value);

  bool operator==(const DeclaredSettings&) const = default;
  bool operator<(const DeclaredSettings& other) const { return values_ < other.values_; }

 private:
  std::map<std::string, SettingValue, std::less<>> values_;
};

/// What may be said of a declared key besides its default and its line of help.
struct KeyOptions {
  double least = 0, most = 1e15;            ///< Of numbers.
  std::vector<std::string> choices = {};    ///< Of texts, all that are allowed; there are two or more.
  std::string detail = {};                  ///< What one line cannot say.
  std::string example = {};                 ///< As `--set` takes it; else the default.
  std::vector<SettingValue> searched = {};  ///< Values that `search` tries, of keys of `strategy`.
  /// Flags that say the same, by target of export. A target that is not here reports the key as left out.
  std::map<std::string, std::string> flags = {};
};

struct DeclaredKey {
  SettingValue fallback;
  KeyOptions options;
};

/// Entries are named by the whole key.
[[nodiscard]] Registry<DeclaredKey>& declared_keys();
/// Null where no file declares it.
[[nodiscard]] const Registry<DeclaredKey>::Entry* find_declared_key(std::string_view key);

/// Reads one declared key. T is bool, std::int64_t, double or std::string.
template <class T>
class SettingKey {
 public:
  SettingKey(std::string name, T fallback) : name_(std::move(name)), fallback_(std::move(fallback)) {}

  [[nodiscard]] const std::string& name() const { return name_; }
  /// Of StrategySettings, TrainingSettings, KernelSettings (of `framework`, too) or InputSettings, as the key's group
  /// says.
  template <class Settings>
  [[nodiscard]] T operator()(const Settings& settings) const {
    const SettingValue* value = settings.declared.find(name_);
    return value == nullptr ? fallback_ : std::get<T>(*value);
  }
  template <class Settings>
  void set(Settings& settings, T value) const {
    settings.declared.set(name_, std::move(value));
  }

 private:
  std::string name_;
  T fallback_;
};

/// Declares `name`, "strategy.eager": a key of the group `strategy`, `training`, `kernels`, `framework` or `input`, or
/// of one inside. Call it once, while the program starts. Throws std::logic_error for a key of another group, or one
/// that is there.
template <class T>
[[nodiscard]] SettingKey<T> declare_key(std::string name, T fallback, std::string help, KeyOptions options = {}) {
  declared_keys().add({name, std::move(help), {}, {SettingValue(fallback), std::move(options)}});
  return {std::move(name), std::move(fallback)};
}

}  // namespace rehearse
