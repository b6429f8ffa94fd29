#include "core/scoreboard/rows/row_defaults.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/config/json_file.hpp"
#include "core/hardware/source_table.hpp"
#include "core/scoreboard/rows/measurement.hpp"

namespace rehearse {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kRowDefaultsSchema = "rehearse/row_defaults/v1";

FieldValue scalar(const json& v, const std::string& file, const std::string& path) {
  if (v.is_null()) return std::monostate{};
  if (v.is_boolean()) return v.get<bool>();
  if (v.is_number()) return v.get<double>();
  if (v.is_string()) return v.get<std::string>();
  refuse_at(file + ": " + path, "wanted a text, a number, a truth value or null");
}

void only(const json& object, std::initializer_list<const char*> keys, const std::string& file,
          const std::string& path) {
  if (!object.is_object()) refuse_at(file + ": " + path, "wanted an object");
  for (const auto& [key, value] : object.items())
    if (std::none_of(keys.begin(), keys.end(), [&key = key](const char* k) { return key == k; }))
      refuse_at(file + ": " + path + "/" + key, fmt::format("unknown key '{}'", key));
}

/// Sources of one file, and which of them were cited.
struct Citations {
  std::map<std::string, Source> known;
  std::set<std::string> used;
};

Citations citations_of(const json& document, const std::string& file) {
  Citations out;
  for (const auto& [key, value] : document.at("sources").items()) {
    const std::string path = "/sources/" + key;
    only(value, {"text", "evidence"}, file, path);
    if (!value.contains("text") || !value.at("text").is_string() || !value.contains("evidence") ||
        !value.at("evidence").is_string())
      refuse_at(file + ": " + path, "wanted a text and its evidence");
    out.known[key] = {key, value.at("text").get<std::string>(),
                      parse_evidence(value.at("evidence").get<std::string>())};
  }
  return out;
}

RowDefault default_of(const json& v, Citations& citations, const std::string& file, const std::string& path) {
  if (!v.is_array() || v.size() < 2 || v.size() > 3 || !v[1].is_string() || (v.size() == 3 && !v[2].is_string()))
    refuse_at(file + ": " + path, "wanted [value, source] or [value, source, why]");
  const std::string key = v[1].get<std::string>();
  const auto at = citations.known.find(key);
  if (at == citations.known.end()) refuse_at(file + ": " + path, fmt::format("'{}' is not among the sources", key));
  citations.used.insert(key);
  return {scalar(v[0], file, path), at->second, v.size() == 3 ? v[2].get<std::string>() : ""};
}

std::vector<RowDefaults::Condition> conditions_of(const json& when, const std::string& file, const std::string& path) {
  if (!when.is_object()) refuse_at(file + ": " + path, "wanted conditions, or a list of such");
  std::vector<RowDefaults::Condition> out;
  for (const auto& [field, wanted] : when.items()) {
    RowDefaults::Condition c{field, {}};
    if (wanted.is_array())
      for (const json& w : wanted) c.wanted.push_back(scalar(w, file, path + "/" + field));
    else
      c.wanted.push_back(scalar(wanted, file, path + "/" + field));
    out.push_back(std::move(c));
  }
  return out;
}

RowDefaults::Entry entry_of(const json& v, Citations& citations, const std::string& file, const std::string& path) {
  only(v, {"when", "release", "defaults"}, file, path);
  if (!v.contains("when") || !v.contains("defaults") || !v.at("defaults").is_object())
    refuse_at(file + ": " + path, "wanted 'when' and 'defaults'");
  RowDefaults::Entry out;
  const json& when = v.at("when");
  if (when.is_array() && when.empty()) refuse_at(file + ": " + path + "/when", "no row meets an empty list");
  for (std::size_t i = 0; when.is_array() && i < when.size(); ++i)
    out.when.push_back(conditions_of(when[i], file, fmt::format("{}/when/{}", path, i)));
  if (!when.is_array()) out.when.push_back(conditions_of(when, file, path + "/when"));
  if (v.contains("release")) {
    if (!v.at("release").is_string()) refuse_at(file + ": " + path + "/release", "wanted a text");
    out.release = v.at("release").get<std::string>();
  }
  for (const auto& [field, value] : v.at("defaults").items())
    out.defaults[field] = default_of(value, citations, file, path + "/defaults/" + field);
  return out;
}

std::vector<RowDefaults::Entry> entries_in(const json& document, const std::string& file) {
  if (!document.contains("entries") || !document.at("entries").is_array() || !document.contains("sources") ||
      !document.at("sources").is_object())
    refuse_at(file + ": /", "wanted 'entries' and 'sources'");
  Citations citations = citations_of(document, file);
  std::vector<RowDefaults::Entry> out;
  for (const json& entry : document.at("entries"))
    out.push_back(entry_of(entry, citations, file, fmt::format("/entries/{}", out.size())));
  for (const auto& [key, source] : citations.known)
    if (!citations.used.contains(key)) refuse_at(file + ": /sources/" + key, "nothing cites it");
  return out;
}

bool same(const FieldValue& wanted, const FieldValue& found) {
  const auto* text = std::get_if<std::string>(&wanted);
  if (text == nullptr) return wanted == found;
  const auto* in = std::get_if<std::string>(&found);
  return in != nullptr && holds(*in, *text);
}

bool meets(const Measurement& row, const RowDefaults::Condition& c) {
  FieldValue found;
  if (c.field == "source")
    found = row.source;
  else if (c.field == "id")
    found = row.id;
  else if (c.field == "file")
    found = row.file;
  else if (const auto at = row.config.find(c.field); at != row.config.end())
    found = at->second;
  return std::any_of(c.wanted.begin(), c.wanted.end(), [&](const FieldValue& w) { return same(w, found); });
}

bool meets(const Measurement& row, const RowDefaults::Entry& e) {
  return std::any_of(e.when.begin(), e.when.end(), [&](const std::vector<RowDefaults::Condition>& all) {
    return std::all_of(all.begin(), all.end(), [&](const RowDefaults::Condition& c) { return meets(row, c); });
  });
}

}  // namespace

std::string lowered(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return c < 128 ? static_cast<char>(std::tolower(c)) : static_cast<char>(c); });
  return out;
}

bool holds(std::string_view text, std::string_view part) {
  return lowered(text).find(lowered(part)) != std::string::npos;
}

RowDefaults RowDefaults::load(const fs::path& path) {
  const std::string file = path.string();
  const json document = load_json(file);
  only(document, {"schema", "what", "entries", "sources"}, file, "");
  if (document.value("schema", json()) != kRowDefaultsSchema)
    refuse_at(file + ": /schema", fmt::format("wanted {}", kRowDefaultsSchema));
  RowDefaults out;
  out.entries_ = entries_in(document, file);
  return out;
}

RowDefaults RowDefaults::parse(std::string_view text, const std::string& where) {
  const json document = parse_json(text, where);
  only(document, {"entries", "sources"}, where, "");
  RowDefaults out;
  out.entries_ = entries_in(document, where);
  return out;
}

std::map<std::string, RowDefault> RowDefaults::defaults_for(const Measurement& row) const {
  std::map<std::string, RowDefault> out;
  for (const Entry& e : entries_)
    if (meets(row, e))
      for (const auto& [field, value] : e.defaults) out[field] = value;
  return out;
}

std::string RowDefaults::release_of(const Measurement& row) const {
  std::string out;
  for (const Entry& e : entries_)
    if (!e.release.empty() && meets(row, e)) out = e.release;
  return out;
}

}  // namespace rehearse
