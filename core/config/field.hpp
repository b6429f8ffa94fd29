#pragma once
// One row of the schema table, bound to a member of Scenario. Private to this module.

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/config/object_reader.hpp"
#include "core/config/scenario.hpp"

namespace rehearse::schema {

/// `axes` is a list of names out of `choices`, without repeats.
enum class Type { integer, count, boolean, text, choice, size, rate, axes, integers, model, cluster, parts };

struct Field {
  /// `complete` is false for one layer of a scenario, whose missing parts another layer has.
  using Read = std::function<void(const Field&, Scenario&, ObjectReader&, bool complete)>;
  /// Null leaves the key out.
  using Write = std::function<nlohmann::ordered_json(const Scenario&)>;

  std::string key{};
  std::string help{};
  Type type = Type::text;
  double min = 0, max = 0;
  std::vector<std::string> choices{};
  std::string detail{};
  std::string example{};
  std::string noun = "axis", nouns = "axes";  ///< Of Type::axes: what the list is of.
  std::string was{};                          ///< The key's former spelling, read with a warning; empty for none.
  bool required = false;
  bool automatic = false;   ///< Integer: 0 inside, "auto" in the file.
  bool few_set_it = false;  ///< Left out of a first list of keys.
  Read read{};              ///< Empty for members that their parent reads.
  Write write{};

  [[nodiscard]] std::string name() const { return key.substr(key.rfind('.') + 1); }
  [[nodiscard]] std::string group() const {
    return key.find('.') == std::string::npos ? std::string() : key.substr(0, key.rfind('.'));
  }

  Field&& in(double low, double high) && {
    min = low;
    max = high;
    return std::move(*this);
  }
  Field&& more(std::string text) && {
    detail = std::move(text);
    return std::move(*this);
  }
  Field&& like(std::string value) && {
    example = std::move(value);
    return std::move(*this);
  }
  Field&& must() && {
    required = true;
    return std::move(*this);
  }
  Field&& or_auto() && {
    automatic = true;
    return std::move(*this);
  }
  Field&& seldom() && {
    few_set_it = true;
    return std::move(*this);
  }
};

struct Group {
  std::string key;
  std::string help;
};

[[nodiscard]] const std::vector<Field>& fields();
[[nodiscard]] const std::vector<Group>& groups();
[[nodiscard]] const Field* find(std::string_view key);
[[nodiscard]] bool is_group(std::string_view key);
/// Unknown-key error with the nearest key of the table, also when it stands in another group.
[[nodiscard]] Error unknown_key(const std::string& group, const std::string& name);

std::int64_t read_integer(const Field& f, ObjectReader& r);
double read_count(const Field& f, ObjectReader& r);
Bytes read_size(const Field& f, ObjectReader& r);
BytesPerSecond read_rate(const Field& f, ObjectReader& r);
std::string read_text(const Field& f, ObjectReader& r);
std::vector<std::string> read_axes(const Field& f, ObjectReader& r);
/// A list, or one text with commas.
std::vector<std::int64_t> read_integers(const Field& f, ObjectReader& r);
ModelRef read_model(const Field& f, ObjectReader& r);
ClusterRef read_cluster(const Field& f, ObjectReader& r, bool complete);

nlohmann::ordered_json write_integer(const Field& f, std::int64_t value);
nlohmann::ordered_json write_count(double value);
nlohmann::ordered_json write_size(Bytes value);
nlohmann::ordered_json write_rate(BytesPerSecond value);
nlohmann::ordered_json write_integers(const std::vector<std::int64_t>& values);
nlohmann::ordered_json write_axes(const std::vector<std::string>& axes);
nlohmann::ordered_json write_model(const ModelRef& model);
nlohmann::ordered_json write_cluster(const ClusterRef& cluster);

/// The path as text that is_file_reference tells from a name: "llama" becomes "./llama".
[[nodiscard]] std::string file_reference(const std::filesystem::path& path);

/// Reads `document`, one layer or (complete) the whole.
[[nodiscard]] Scenario read(const nlohmann::json& document, const std::string& origin, bool complete);

}  // namespace rehearse::schema
