// Rows of the keys that other files declare.

#include <stdexcept>

#include "core/config/schema/rows.hpp"

namespace rehearse::schema {
namespace {

/// The settings that a key's first word names.
template <class AnyScenario>
auto& declared_in(AnyScenario& s, std::string_view key) {
  if (key.starts_with("strategy.")) return s.strategy.declared;
  if (key.starts_with("training.")) return s.training.declared;
  if (key.starts_with("kernels.") || key.starts_with("framework.")) return s.kernels.declared;
  return s.input.declared;
}

SettingValue read_declared(const Field& self, const SettingValue& fallback, ObjectReader& r) {
  switch (fallback.index()) {
    case 0: return r.boolean(self.name());
    case 1: return read_integer(self, r);
    case 2: return read_count(self, r);
    default: return r.choice(self.name(), self.choices);
  }
}

nlohmann::ordered_json write_declared(const SettingValue& value) {
  if (const auto* number = std::get_if<double>(&value)) return write_count(*number);
  return std::visit([](const auto& v) { return nlohmann::ordered_json(v); }, value);
}

Field row_of(const Registry<DeclaredKey>::Entry& entry) {
  static constexpr Type kTypes[] = {Type::boolean, Type::integer, Type::count, Type::choice};
  const KeyOptions& o = entry.value.options;
  const SettingValue fallback = entry.value.fallback;
  Field f{.key = entry.name, .help = entry.summary, .type = kTypes[fallback.index()], .min = o.least, .max = o.most};
  f.choices = o.choices;
  f.detail = o.detail;
  f.example = o.example;
  f.few_set_it = entry.name.starts_with("framework.");
  f.read = [fallback](const Field& self, Scenario& s, ObjectReader& r, bool) {
    declared_in(s, self.key).set(self.key, read_declared(self, fallback, r));
  };
  f.write = [fallback, key = entry.name](const Scenario& s) {
    const SettingValue* value = declared_in(s, key).find(key);
    return write_declared(value == nullptr ? fallback : *value);
  };
  return f;
}

}  // namespace

void add_declared(std::vector<Field>& rows) {
  for (const auto& entry : declared_keys().entries()) {
    Field f = row_of(entry);
    const auto last = std::find_if(rows.rbegin(), rows.rend(), [&](const Field& r) { return r.group() == f.group(); });
    const bool known = last != rows.rend() && !f.group().empty() && !f.group().starts_with("cluster");
    if (!known) throw std::logic_error("a key of no group that may be added to: " + f.key);
    if (std::any_of(rows.begin(), rows.end(), [&](const Field& r) { return r.key == f.key; }))
      throw std::logic_error("a key declared twice: " + f.key);
    rows.insert(last.base(), std::move(f));
  }
}

}  // namespace rehearse::schema
