#pragma once
// Named registries. Strategies, schedules, back ends, report formats, model families and more each have one; what
// enters it appears in list, explain, help, completion, validation and the property tests, and no list elsewhere names
// it.
//
//   Registry<std::shared_ptr<const Schedule>>& schedules();      // in the header of the kind: one registry
//   const bool registered_gpipe = schedules().add(               // in gpipe.cpp, before main() begins
//       {"gpipe", "all forwards, then all backwards", {}, std::make_shared<GPipe>()});
//   const Schedule& s = *schedules().at("gpipe").value;          // an unknown name: Error with the nearest and all
//
// Registries are filled while the program starts and only read afterwards, from any thread.

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"

namespace rehearse {

/// The candidate nearest to `word` by edit distance, or empty when none is near (distance at most max(2, length/3)).
[[nodiscard]] std::string did_you_mean(std::string_view word, std::span<const std::string> candidates);
/// Error (usage): "unknown KIND 'WORD'", with the suggestion and the valid names.
[[nodiscard]] Error unknown_name(std::string_view kind, std::string_view word, std::span<const std::string> valid);

/// A parameter that an entry takes, for help and `explain`.
struct ParameterHelp {
  std::string name;
  std::string summary;
  std::string default_text;
};

/// `Value` is what an entry stands for: an object, a function that makes one, or a row of data.
template <class Value>
class Registry {
 public:
  struct Entry {
    std::string name;                       ///< As users type it; unique in its registry.
    std::string summary;                    ///< One line.
    std::vector<ParameterHelp> parameters;  ///< Those it takes; may be empty.
    Value value;
  };

  /// `kind` is the singular word for what is registered, as errors name it: "schedule".
  explicit Registry(std::string kind) : kind_(std::move(kind)) {}

  /// Registers; entries are kept sorted by name, so that listings don't depend on link order. Returns true, for static
  /// initialisers. Throws std::logic_error for a name that is taken.
  bool add(Entry entry) {
    auto at = std::lower_bound(entries_.begin(), entries_.end(), entry.name,
                               [](const Entry& e, const std::string& n) { return e.name < n; });
    if (at != entries_.end() && at->name == entry.name)
      throw std::logic_error(kind_ + " registered twice: " + entry.name);
    entries_.insert(at, std::move(entry));
    return true;
  }
  [[nodiscard]] const std::vector<Entry>& entries() const { return entries_; }
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& e : entries_) out.push_back(e.name);
    return out;
  }
  /// Throws Error (usage) with a suggestion and the valid names.
  [[nodiscard]] const Entry& at(std::string_view name) const {
    for (const auto& e : entries_)
      if (e.name == name) return e;
    auto all = names();
    throw unknown_name(kind_, name, all);
  }
  /// Null where nothing has that name.
  [[nodiscard]] const Value* find(std::string_view name) const {
    const auto at = std::lower_bound(entries_.begin(), entries_.end(), name,
                                     [](const Entry& e, std::string_view n) { return e.name < n; });
    return at != entries_.end() && at->name == name ? &at->value : nullptr;
  }
  [[nodiscard]] const std::string& kind() const { return kind_; }

 private:
  std::string kind_;
  std::vector<Entry> entries_;
};

}  // namespace rehearse
