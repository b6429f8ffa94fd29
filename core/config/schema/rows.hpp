#pragma once
// How a row of the schema table is bound to a member of Scenario. Private to this folder.

#include <algorithm>

#include "core/config/field.hpp"

namespace rehearse::schema {

inline constexpr double kMaxSize = 1e7;  ///< Axes, batches, nodes: beyond anything that will be built.

/// Reads and writes the member that `access` returns.
template <class T>
void bind(Field& f, auto access) {
  if constexpr (std::is_same_v<T, bool>) {
    f.type = Type::boolean;
    f.read = [access](const Field& self, Scenario& s, ObjectReader& r, bool) { access(s) = r.boolean(self.name()); };
    f.write = [access](const Scenario& s) { return nlohmann::ordered_json(access(s)); };
  } else if constexpr (std::is_same_v<T, double>) {
    f.type = Type::count;
    f.read = [access](const Field& self, Scenario& s, ObjectReader& r, bool) { access(s) = read_count(self, r); };
    f.write = [access](const Scenario& s) { return write_count(access(s)); };
  } else if constexpr (std::is_same_v<T, Bytes>) {
    f.type = Type::size;
    f.read = [access](const Field& self, Scenario& s, ObjectReader& r, bool) { access(s) = read_size(self, r); };
    f.write = [access](const Scenario& s) { return write_size(access(s)); };
  } else if constexpr (std::is_same_v<T, BytesPerSecond>) {
    f.type = Type::rate;
    f.read = [access](const Field& self, Scenario& s, ObjectReader& r, bool) { access(s) = read_rate(self, r); };
    f.write = [access](const Scenario& s) { return write_rate(access(s)); };
  } else if constexpr (std::is_enum_v<T>) {
    f.type = Type::choice;
    f.choices = names_of<T>();
    f.read = [access](const Field& self, Scenario& s, ObjectReader& r, bool) {
      const std::string name = r.choice(self.name(), self.choices);
      access(s) = static_cast<T>(std::find(self.choices.begin(), self.choices.end(), name) - self.choices.begin());
    };
    f.write = [access](const Scenario& s) { return nlohmann::ordered_json(name_of(access(s))); };
  } else if constexpr (std::is_same_v<T, std::string>) {
    f.type = Type::text;
    f.read = [access](const Field& self, Scenario& s, ObjectReader& r, bool) { access(s) = read_text(self, r); };
    f.write = [access](const Scenario& s) {
      return access(s).empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(access(s));
    };
  } else if constexpr (std::is_same_v<T, std::vector<std::int64_t>>) {
    f.type = Type::integers;
    f.read = [access](const Field& self, Scenario& s, ObjectReader& r, bool) { access(s) = read_integers(self, r); };
    f.write = [access](const Scenario& s) { return write_integers(access(s)); };
  } else {
    static_assert(std::is_integral_v<T>);
    f.type = Type::integer;
    f.read = [access](const Field& self, Scenario& s, ObjectReader& r, bool) {
      access(s) = static_cast<T>(read_integer(self, r));
    };
    f.write = [access, key = f.key](const Scenario& s) {
      return write_integer(*find(key), static_cast<std::int64_t>(access(s)));
    };
  }
}

/// A row whose type follows from the member that `access` returns.
Field row(std::string key, auto access, std::string help) {
  Field f{.key = std::move(key), .help = std::move(help)};
  bind<std::remove_cvref_t<decltype(access(std::declval<Scenario&>()))>>(f, access);
  return f;
}

/// The member of a Scenario at the end of a chain of members.
auto at(auto... members) {
  return [=](auto& scenario) -> auto& { return (scenario.*....*members); };
}

// The rows of each section, in the order in which they are written.
void add_head(std::vector<Field>& rows);
void add_framework(std::vector<Field>& rows);
void add_training(std::vector<Field>& rows);
void add_strategy(std::vector<Field>& rows);
void add_kernels(std::vector<Field>& rows);
void add_input(std::vector<Field>& rows);

/// Puts every declared key (setting_key.hpp) behind the other keys of its group.
void add_declared(std::vector<Field>& rows);

}  // namespace rehearse::schema
