#include "core/scoreboard/rows/measurement.hpp"

#include <array>
#include <filesystem>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/config/json_file.hpp"
#include "core/scoreboard/rows/csv_rows.hpp"

namespace rehearse {

namespace {

using nlohmann::json;

FieldValue value_of(const json& v) {
  if (v.is_null()) return std::monostate{};
  if (v.is_boolean()) return v.get<bool>();
  if (v.is_number()) return v.get<double>();
  if (v.is_string()) return v.get<std::string>();
  return v.dump();
}

Fields fields_of(const json& object) {
  Fields out;
  for (const auto& [key, value] : object.items()) out[key] = value_of(value);
  return out;
}

/// Names of fields that rows use, beside those of the schema.
constexpr std::array<std::pair<const char*, const char*>, 25> kOtherNames{
    {{"tp", "tensor_parallel"},
     {"tp", "tensor_parallelism"},
     {"tp", "tp_size"},
     {"pp", "pipeline_parallel"},
     {"pp", "pipeline_parallelism"},
     {"pp", "pp_size"},
     {"dp", "data_parallel"},
     {"dp", "data_parallelism"},
     {"dp", "dp_size"},
     {"cp", "context_parallel"},
     {"cp", "context_parallelism"},
     {"ep", "expert_parallel"},
     {"ep", "expert_parallelism"},
     {"vpp", "virtual_pipeline"},
     {"vpp", "virtual_stages"},
     {"seq_len", "sequence_length"},
     {"seq_len", "seq_length"},
     {"global_batch", "global_batch_size"},
     {"micro_batch", "micro_batch_size"},
     {"micro_batch", "microbatch"},
     {"grad_accum", "gradient_accumulation_steps"},
     {"gpu_type", "gpu"},
     {"gpus", "num_gpus"},
     {"recompute", "activation_checkpointing"},
     {"precision", "dtype"}}};

/// Under the names of the schema, too.
Fields by_schema(Fields config) {
  for (const auto& [name, other] : kOtherNames)
    if (const auto at = config.find(other); at != config.end())
      if (const auto own = config.find(name);
          own == config.end() || std::holds_alternative<std::monostate>(own->second))
        config[name] = at->second;
  return config;
}

/// The text under `key`; "" where it is absent. Anything else than a text makes the row malformed.
std::string text_member(const json& row, const char* key, std::string& malformed) {
  const auto at = row.find(key);
  if (at == row.end() || at->is_null()) return {};
  if (at->is_string()) return at->get<std::string>();
  malformed = fmt::format("'{}' is no text", key);
  return {};
}

const json* object_member(const json& row, const char* key, std::string& malformed) {
  const auto at = row.find(key);
  if (at != row.end() && at->is_object()) return &*at;
  malformed = at == row.end() ? fmt::format("'{}' is missing", key) : fmt::format("'{}' is no object", key);
  return nullptr;
}

Measurement row_of(const json& row) {
  Measurement out;
  if (!row.is_object()) {
    out.malformed = "no object";
    return out;
  }
  out.id = text_member(row, "id", out.malformed);
  out.source = text_member(row, "source", out.malformed);
  out.notes = text_member(row, "notes", out.malformed);
  if (const auto at = row.find("from_memory"); at != row.end() && !at->is_null()) {
    if (at->is_boolean())
      out.from_memory = at->get<bool>();
    else
      out.malformed = "'from_memory' is neither true nor false";
  }
  if (const json* config = object_member(row, "config", out.malformed)) out.config = by_schema(fields_of(*config));
  if (const json* measured = object_member(row, "measured", out.malformed)) out.measured = fields_of(*measured);
  return out;
}

const json& entries_of(const json& document, const std::string& name) {
  if (document.is_array()) return document;
  if (document.is_object() && document.contains("entries") && document.at("entries").is_array())
    return document.at("entries");
  throw Error(ErrorKind::usage, "no list of measurements", name + ": /entries",
              "wanted {\"entries\": [{\"id\", \"source\", \"config\", \"measured\", ...}]}");
}

std::shared_ptr<const RowDefaults> defaults_of(const json& document, const std::string& name) {
  if (!document.is_object() || !document.contains("file_meta")) return nullptr;
  const json& meta = document.at("file_meta");
  if (!meta.is_object() || !meta.contains("defaults")) return nullptr;
  return std::make_shared<const RowDefaults>(
      RowDefaults::parse(meta.at("defaults").dump(), name + ": /file_meta/defaults"));
}

std::vector<Measurement> parse_json_measurements(std::string_view text, const std::string& name) {
  const json document = parse_json(text, name);
  const std::string stem = std::filesystem::path(name).stem().string();
  std::vector<Measurement> out;
  std::set<std::string> seen;
  const auto defaults = defaults_of(document, name);
  for (const json& entry : entries_of(document, name)) {
    Measurement row = row_of(entry);
    row.defaults = defaults;
    row.file = stem;
    row.number = static_cast<int>(out.size()) + 1;
    if (row.id.empty()) row.id = fmt::format("{}:{}", stem, row.number);
    if (!seen.insert(row.id).second) {
      row.malformed = fmt::format("the id '{}' stands twice", row.id);
      row.id = fmt::format("{}#{}", row.id, row.number);
    }
    out.push_back(std::move(row));
  }
  return out;
}

std::string_view without_mark(std::string_view text) {
  constexpr std::string_view mark = "\xEF\xBB\xBF";
  return text.starts_with(mark) ? text.substr(mark.size()) : text;
}

}  // namespace

std::vector<Measurement> read_measurements(const std::string& path) {
  return parse_measurements(read_text(path), path);
}

std::vector<Measurement> parse_measurements(std::string_view text, const std::string& name) {
  text = without_mark(text);
  if (std::filesystem::path(name).extension() == ".csv") return parse_csv_measurements(text, name);
  return parse_json_measurements(text, name);
}

std::string text_of(const FieldValue& value) {
  if (const auto* b = std::get_if<bool>(&value)) return *b ? "true" : "false";
  if (const auto* d = std::get_if<double>(&value)) return fmt::format("{}", *d);
  if (const auto* s = std::get_if<std::string>(&value)) return *s;
  return {};
}

}  // namespace rehearse
