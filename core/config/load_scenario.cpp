#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/registry.hpp"
#include "core/config/field.hpp"
#include "core/config/full_key.hpp"
#include "core/config/json_file.hpp"
#include "core/config/json_text.hpp"
#include "core/config/override.hpp"

namespace rehearse {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::size_t kMaxExtends = 16;

fs::path folder_of(const std::string& file) { return fs::path(file).parent_path(); }

void rebase(json& reference, const fs::path& folder) {
  if (!reference.is_string()) return;
  const auto text = reference.get<std::string>();
  if (is_file_reference(text)) reference = schema::file_reference((folder / text).lexically_normal());
}

void rebase_member(json& object, const char* key, const fs::path& folder) {
  if (object.is_object() && object.contains(key)) rebase(object[key], folder);
}

// References are relative to the file that holds them; from here on to the current directory.
void rebase_all(json& document, const fs::path& folder) {
  rebase_member(document, "model", folder);
  rebase_member(document, "calibration", folder);
  if (document.contains("strategy") && document["strategy"].is_object() && document["strategy"].contains("devices")) {
    json& devices = document["strategy"]["devices"];  // A path, whatever it looks like.
    if (devices.is_string() && !devices.get<std::string>().empty())
      devices = (folder / devices.get<std::string>()).lexically_normal().generic_string();
  }
  rebase_member(document, "collective_table", folder);
  rebase_member(document, "cluster", folder);
  if (!document.contains("cluster")) return;
  json& cluster = document["cluster"];
  rebase_member(cluster, "machine", folder);
  rebase_member(cluster, "network", folder);
  json* parts = cluster.is_array() ? &cluster : nullptr;
  if (cluster.is_object() && cluster.contains("parts")) parts = &cluster["parts"];
  if (parts && parts->is_array())
    for (json& part : *parts) rebase_member(part, "machine", folder);
}

void merge(json& base, const json& over) {
  if (!base.is_object() || !over.is_object()) {
    base = over;
    return;
  }
  for (const auto& [key, value] : over.items()) {
    if (base.contains(key))
      merge(base[key], value);
    else
      base[key] = value;
  }
}

/// Puts what `key` names into `out`, empty where the document has no such key.
json* find_in(json& document, std::string_view key) {
  json* at = &document;
  for (std::size_t start = 0; start <= key.size();) {
    const std::size_t dot = std::min(key.find('.', start), key.size());
    const std::string name(key.substr(start, dot - start));
    if (!at->is_object() || !at->contains(name)) return nullptr;
    at = &(*at)[name];
    start = dot + 1;
  }
  return at;
}

/// Takes `key` out of the document, and groups that hold nothing else.
json taken_from(json& document, const std::string& key) {
  const std::size_t dot = key.find('.');
  if (dot == std::string::npos) {
    json out = std::move(document[key]);
    document.erase(key);
    return out;
  }
  json& group = document[key.substr(0, dot)];
  json out = taken_from(group, key.substr(dot + 1));
  if (group.empty()) document.erase(key.substr(0, dot));
  return out;
}

std::string former_spelling(const schema::Field& f, const std::string& origin) {
  return fmt::format("{}: {} is now {}", origin, f.was, f.key);
}

/// One layer of a scenario as the table spells it: a framework by its name alone becomes an object, and keys that were
/// moved go where they are now, with a line about it.
void respell(json& document, const std::string& origin, std::vector<std::string>& warnings) {
  if (document.contains("framework") && document["framework"].is_string())
    document["framework"] = json{{"name", document["framework"]}};
  for (const schema::Field& f : schema::fields()) {
    if (f.was.empty() || find_in(document, f.was) == nullptr) continue;
    if (find_in(document, f.key) != nullptr)
      throw Error(ErrorKind::usage, fmt::format("{} is the former spelling of {}, which is there too", f.was, f.key),
                  origin, "leave out the former");
    json value = taken_from(document, f.was);
    place(document, {f.key, std::move(value), origin});
    warnings.push_back(former_spelling(f, origin));
  }
}

/// Layers of a scenario as they are read, and what is said of them.
struct Layers {
  std::vector<std::string> warnings;

  json read(json document, const std::string& origin, std::vector<std::string> chain);
  json extended(const json& base_name, const std::string& origin, const std::vector<std::string>& chain);
};

json Layers::extended(const json& base_name, const std::string& origin, const std::vector<std::string>& chain) {
  const std::string where = origin + ": /extends";
  if (!base_name.is_string())
    throw Error(ErrorKind::usage, "wanted the path of a scenario, found " + describe_value(base_name), where);
  const std::string base = (folder_of(origin) / base_name.get<std::string>()).lexically_normal().generic_string();
  std::error_code failed;
  if (!fs::exists(base, failed))
    throw Error(ErrorKind::usage, fmt::format("'{}' does not exist", base), where,
                "the path is relative to the file that says it");
  return read(load_json(base), base, chain);
}

// `chain` holds the files that led here, outermost first.
json Layers::read(json document, const std::string& origin, std::vector<std::string> chain) {
  std::error_code failed;
  const std::string identity = fs::weakly_canonical(origin, failed).generic_string();
  chain.push_back(failed ? origin : identity);
  const auto again = std::find(chain.begin(), chain.end() - 1, chain.back());
  if (again != chain.end() - 1) {
    std::vector<std::string> ring;
    for (auto it = again; it != chain.end(); ++it) ring.push_back(fs::path(*it).filename().generic_string());
    throw Error(ErrorKind::usage, fmt::format("scenarios extend each other in a ring: {}", fmt::join(ring, " -> ")),
                origin + ": /extends");
  }
  if (chain.size() > kMaxExtends)
    throw Error(ErrorKind::usage, fmt::format("more than {} scenarios extend one another", kMaxExtends),
                origin + ": /extends");

  if (!document.is_object())
    throw Error(ErrorKind::usage, "wanted an object, found " + describe_value(document), origin + ": /");
  json base = json::object();
  if (document.contains("extends")) {
    base = extended(document["extends"], origin, chain);
    document.erase("extends");
  }
  rebase_all(document, folder_of(origin));
  respell(document, origin, warnings);
  (void)schema::read(document, origin, false);
  merge(base, document);
  return base;
}

void apply(json& document, const std::string& text, std::vector<std::string>& warnings) {
  const Override o = parse_override(text, "strategy.tp=8", full_key);
  json alone = json::object();
  if (const schema::Field* field = schema::find(o.key); field && text.substr(0, text.find('=')) == field->was)
    warnings.push_back(former_spelling(*field, o.origin));
  place(alone, o);
  (void)schema::read(alone, o.origin, false);
  place(document, o);
}

Scenario load(json document, const std::string& origin, const std::vector<std::string>& overrides) {
  Layers layers;
  document = layers.read(std::move(document), origin, {});
  for (const std::string& text : overrides) apply(document, text, layers.warnings);
  Scenario scenario = schema::read(document, origin, true);
  scenario.warnings = std::move(layers.warnings);
  for (const schema::Field& f : schema::fields())
    if (find_in(document, f.key) != nullptr) scenario.stated.insert(f.key);
  check_scenario(scenario);
  return scenario;
}

}  // namespace

std::string schema::file_reference(const fs::path& path) {
  const std::string text = path.generic_string();
  return is_file_reference(text) ? text : fmt::format("./{}", text);
}

bool is_file_reference(std::string_view text) {
  return text.find('/') != std::string_view::npos || text.ends_with(".json");
}

Scenario load_scenario(const std::string& path, const std::vector<std::string>& overrides) {
  return load(load_json(path), origin_of(path), overrides);
}

Scenario parse_scenario(std::string_view text, const std::string& origin, const std::vector<std::string>& overrides) {
  return load(parse_json(text, origin), origin, overrides);
}

bool Scenario::operator==(const Scenario& o) const {
  return schema == o.schema && model == o.model && cluster == o.cluster && framework == o.framework &&
         training == o.training && strategy == o.strategy && kernels == o.kernels && input == o.input &&
         calibration == o.calibration && collective_table == o.collective_table;
}

}  // namespace rehearse
