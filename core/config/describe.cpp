// What is derived from the table for people and editors: help, listings, the JSON Schema and the resolved form.

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "core/base/index.hpp"
#include "core/base/near_names.hpp"
#include "core/base/registry.hpp"
#include "core/config/field.hpp"
#include "core/config/key_help.hpp"

namespace rehearse {
namespace {

using nlohmann::ordered_json;
using schema::Field;
using schema::Type;

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& w : words) out += (out.empty() ? "" : ", ") + w;
  return out;
}

std::string type_text(const Field& f) {
  switch (f.type) {
    case Type::integer: return f.automatic ? "integer, or \"auto\"" : "integer";
    case Type::count: return "number";
    case Type::boolean: return "true or false";
    case Type::text: return "text";
    case Type::choice: return "one of: " + joined(f.choices);
    case Type::size: return "size with its unit";
    case Type::rate: return "rate with its unit";
    case Type::axes: return f.nouns + " separated by commas, out of: " + joined(f.choices);
    case Type::integers: return "list of integers, or a text with commas between them";
    case Type::model: return "name, path or object";
    case Type::cluster: return "name, path, object or list";
    case Type::parts: return "list of objects";
  }
  return {};
}

std::string range_text(const Field& f) {
  switch (f.type) {
    case Type::integers:
    case Type::integer:
      return fmt::format("{} to {}", static_cast<std::int64_t>(f.min), static_cast<std::int64_t>(f.max));
    case Type::count: return fmt::format("{:g} to {:g}", f.min, f.max);
    case Type::size: return fmt::format("{} to {}", to_string(Bytes{f.min}), to_string(Bytes{f.max}));
    case Type::rate: return fmt::format("{} to {}", to_string(BytesPerSecond{f.min}), to_string(BytesPerSecond{f.max}));
    default: return {};
  }
}

ordered_json default_of(const Field& f) {
  if (f.key == "cluster.nodes") return ClusterPart{}.nodes;
  return f.write && !f.required ? f.write(Scenario{}) : ordered_json();
}

std::string default_text(const Field& f) {
  if (f.required) return "required";
  const ordered_json value = default_of(f);
  return value.is_null() ? std::string() : value.dump();
}

std::string unquoted(const ordered_json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

KeyHelp help_of(const Field& f) { return {f.key, type_text(f), range_text(f), default_text(f), f.help, f.few_set_it}; }

std::string explain_field(const Field& f) {
  const std::string example =
      !f.example.empty() ? f.example : unquoted(f.required ? f.write(Scenario{}) : default_of(f));
  return help_page(help_of(f), f.key + "=" + example, f.detail);
}

std::string line(const std::string& key, const std::string& help, const std::string& fallback) {
  return fmt::format("  {:<30} {}{}\n", key, help, fallback.empty() ? "" : fmt::format(" [{}]", fallback));
}

std::string members_of(const std::string& group) {
  std::string out;
  for (const Field& f : schema::fields())
    if (f.key.starts_with(group + ".")) out += line(f.key, f.help, default_text(f));
  return out;
}

std::string explain_all() {
  std::string out = fmt::format("Keys of a scenario file ({}); explain GROUP or KEY says more.\n\n", kScenarioSchema);
  for (const Field& f : schema::fields())
    if (f.group().empty()) out += line(f.key, f.help, default_text(f));
  out += line("extends", "Path of a scenario that this one changes.", "");
  for (const schema::Group& g : schema::groups()) out += line(g.key, g.help, "");
  return out;
}

std::string explain_extends() {
  return "extends: Path of a scenario that this one changes.\n\n"
         "The other file is read first, relative to this one; objects are merged key by key, everything else "
         "replaces.\n";
}

std::vector<std::string> all_keys() {
  std::vector<std::string> keys{"extends"};
  for (const Field& f : schema::fields()) keys.push_back(f.key);
  for (const schema::Group& g : schema::groups()) keys.push_back(g.key);
  return keys;
}

ordered_json schema_of(const Field& f);

ordered_json cluster_schema() {
  ordered_json part{{"type", "object"}, {"additionalProperties", false}, {"required", {"machine"}}};
  ordered_json object{{"type", "object"}, {"additionalProperties", false}};
  for (const Field& f : schema::fields()) {
    if (f.group() != "cluster" || f.type == Type::parts) continue;
    object["properties"][f.name()] = schema_of(f);
    if (f.name() == "machine" || f.name() == "nodes") part["properties"][f.name()] = schema_of(f);
  }
  const ordered_json parts{{"type", "array"}, {"minItems", 1}, {"items", part}};
  object["properties"]["parts"] = parts;
  return {{"anyOf", ordered_json::array({{{"type", "string"}}, object, parts})}};
}

ordered_json type_schema(const Field& f) {
  switch (f.type) {
    case Type::integer: {
      ordered_json number{{"type", "integer"},
                          {"minimum", static_cast<std::int64_t>(f.min)},
                          {"maximum", static_cast<std::int64_t>(f.max)}};
      if (!f.automatic) return number;
      return {{"anyOf", ordered_json::array({std::move(number), {{"const", "auto"}}})}};
    }
    case Type::count: return {{"type", {"number", "string"}}, {"minimum", f.min}, {"maximum", f.max}};
    case Type::boolean: return {{"type", "boolean"}};
    case Type::text: return {{"type", "string"}, {"minLength", 1}};
    case Type::choice: return {{"enum", f.choices}};
    case Type::rate:
      return {{"type", "string"}, {"pattern", "^ *[0-9.eE+]+ *([kKMGTPE]i?)?(B|b|bytes?|bits?)(/s|ps) *$"}};
    case Type::size: return {{"type", "string"}, {"pattern", "^ *[0-9.eE+]+ *([kKMGTPE]i?)?(B|b|bytes?|bits?) *$"}};
    case Type::axes: return {{"type", {"string", "array"}}, {"items", {{"enum", f.choices}}}, {"uniqueItems", true}};
    case Type::integers:
      return {{"type", {"string", "array"}},
              {"items",
               {{"type", "integer"},
                {"minimum", static_cast<std::int64_t>(f.min)},
                {"maximum", static_cast<std::int64_t>(f.max)}}}};
    case Type::model: return {{"type", {"string", "object"}}};
    case Type::cluster: return cluster_schema();
    case Type::parts: return {{"type", "array"}};
  }
  return {};
}

ordered_json schema_of(const Field& f) {
  ordered_json out = type_schema(f);
  out["description"] = f.detail.empty() ? f.help : f.help + " " + f.detail;
  if (const ordered_json value = default_of(f); !value.is_null()) out["default"] = value;
  return out;
}

ordered_json& object_at(ordered_json& root, const std::string& group, const char* nested, const ordered_json& fresh) {
  ordered_json* at = &root;
  for (std::size_t start = 0; start < group.size();) {
    const std::size_t dot = std::min(group.find('.', start), group.size());
    ordered_json& members = nested ? (*at)[nested] : *at;
    const std::string name = group.substr(start, dot - start);
    if (!members.contains(name)) members[name] = fresh;
    at = &members[name];
    start = dot + 1;
  }
  return *at;
}

std::string moved(const std::string& reference, const std::string& directory) {
  namespace fs = std::filesystem;
  if (directory.empty() || !is_file_reference(reference) || fs::path(reference).is_absolute()) return reference;
  return schema::file_reference(
      fs::absolute(reference).lexically_normal().lexically_relative(fs::absolute(directory).lexically_normal()));
}

Scenario with_references_from(Scenario s, const std::string& directory) {
  for (std::string* reference :
       {&s.model.file, &s.cluster.file, &s.cluster.network, &s.calibration, &s.collective_table})
    *reference = moved(*reference, directory);
  if (const std::string& devices = s.strategy.devices;
      !devices.empty() && !std::filesystem::path(devices).is_absolute())
    s.strategy.devices = moved(is_file_reference(devices) ? devices : "./" + devices, directory);
  for (ClusterPart& part : s.cluster.parts) part.machine = moved(part.machine, directory);
  return s;
}

}  // namespace

std::string help_page(const KeyHelp& k, const std::string& example, const std::string& detail) {
  std::string out = fmt::format("{}: {}\n\n  type     {}\n", k.key, k.help, k.type);
  if (!k.range.empty()) out += fmt::format("  range    {}\n", k.range);
  if (!k.fallback.empty()) out += fmt::format("  default  {}\n", k.fallback);
  if (const std::size_t equals = example.find('='); equals != std::string::npos) {
    const std::string value = example.substr(equals + 1);
    const std::string_view quote = value.find_first_of(" {[\"$") == std::string::npos ? "" : "'";
    out += fmt::format("  example  --set {0}={1}{2}{1}\n", example.substr(0, equals), quote, value);
  }
  if (!detail.empty()) out += fmt::format("\n{}\n", detail);
  return out;
}

namespace {

std::string written(const Scenario& scenario, const std::string& directory,
                    bool (*wanted)(const Scenario&, const Field&)) {
  const Scenario s = with_references_from(scenario, directory);
  ordered_json out = ordered_json::object();
  for (const Field& f : schema::fields()) {
    if (!f.write || !wanted(s, f)) continue;
    ordered_json value = f.write(s);
    if (!value.is_null()) object_at(out, f.group(), nullptr, ordered_json::object())[f.name()] = std::move(value);
  }
  return out.dump(2) + "\n";
}

}  // namespace

std::string resolved_json(const Scenario& scenario, const std::string& directory) {
  return written(scenario, directory, [](const Scenario&, const Field&) { return true; });
}

std::string stated_json(const Scenario& scenario, const std::string& directory) {
  return written(scenario, directory,
                 [](const Scenario& s, const Field& f) { return f.required || s.stated.contains(f.key); });
}

std::vector<KeyHelp> scenario_keys() {
  std::vector<KeyHelp> out;
  for (const Field& f : schema::fields()) out.push_back(help_of(f));
  return out;
}

std::string explain(std::string_view key) {
  if (key.empty()) return explain_all();
  if (const Field* f = schema::find(key)) {
    const std::string text = explain_field(*f);
    return f->type == Type::cluster ? fmt::format("{}\n{}", text, members_of(f->key)) : text;
  }
  for (const schema::Group& g : schema::groups())
    if (g.key == key) return fmt::format("{}: {}\n\n{}", g.key, g.help, members_of(g.key));
  if (key == "extends") return explain_extends();

  const std::vector<std::string> all = all_keys();
  std::vector<std::string> last_words, named;
  for (const std::string& k : all) {
    last_words.push_back(k.substr(k.rfind('.') + 1));
    if (last_words.back() == key) named.push_back(k);
  }
  const auto depth = [](const std::string& k) { return std::count(k.begin(), k.end(), '.'); };
  const auto outermost =
      std::min_element(named.begin(), named.end(), [&](const auto& a, const auto& b) { return depth(a) < depth(b); });
  if (outermost != named.end()) return explain(*outermost);
  Error unknown = unknown_of_many("key", key, all, "rehearse list keys");
  if (const std::string near = did_you_mean(key, last_words);
      !near.empty() && key.find('.') == std::string_view::npos) {
    const auto at = std::find(last_words.begin(), last_words.end(), near) - last_words.begin();
    unknown.hint = fmt::format("did you mean '{}'?", nth(all, at));
  }
  throw unknown;
}

std::string scenario_json_schema() {
  ordered_json root{{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                    {"$id", kScenarioSchema},
                    {"title", "Rehearse scenario"},
                    {"type", "object"},
                    {"additionalProperties", false}};
  const ordered_json group{{"type", "object"}, {"additionalProperties", false}};
  root["properties"]["extends"] = {{"type", "string"}, {"description", "Path of a scenario that this one changes."}};
  for (const Field& f : schema::fields()) {
    if (!f.read) continue;
    object_at(root, f.group(), "properties", group)["properties"][f.name()] = schema_of(f);
  }
  return root.dump(2) + "\n";
}

}  // namespace rehearse
