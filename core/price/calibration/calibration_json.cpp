#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/config/json_file.hpp"
#include "core/config/object_reader.hpp"
#include "core/price/calibration/calibration.hpp"

namespace rehearse {
namespace {

using CalibrationJsonJson = nlohmann::json;
const std::string kCalibrationJsonSchema = "rehearse/calibration/v1";
constexpr NumberRange kCalibrationJsonCount{0, 1e9};

Evidence read_evidence(ObjectReader& o) {
  constexpr std::array all{Evidence::measured_here, Evidence::published, Evidence::datasheet, Evidence::estimate};
  std::vector<std::string> names;
  for (auto e : all) names.emplace_back(name_of(e));
  const auto chosen = o.choice("evidence", names);
  return nth(all, std::find(names.begin(), names.end(), chosen) - names.begin());
}

ErrorSummary read_errors(ObjectReader o) {
  const ErrorSummary e{static_cast<int>(o.number("rows", kCalibrationJsonCount)), o.number("median"), o.number("p90"),
                       o.number("bias")};
  o.finish();
  return e;
}

CalibrationConstant read_constant(ObjectReader o) {
  const auto rows = static_cast<int>(o.number("rows", kCalibrationJsonCount, 0));
  CalibrationConstant c{o.number("value"), o.string("source"), rows, o.number("sensitivity", {}, 0)};
  o.finish();
  return c;
}

KernelCalibration read_group(ObjectReader o) {
  KernelCalibration g;
  g.formula = o.string("formula", "");
  if (o.has("measured_on")) g.measured_on = o.strings("measured_on");
  if (auto errors = o.optional_object("held_out")) g.held_out = read_errors(*errors);
  auto constants = o.object("constants");
  for (const auto& name : constants.keys()) g.constants[name] = read_constant(constants.object(name));
  o.finish();
  return g;
}

KernelGroups read_groups(ObjectReader o) {
  KernelGroups groups;
  for (const auto& name : o.keys()) groups[name] = read_group(o.object(name));
  return groups;
}

std::vector<ObjectReader> objects_or_none(ObjectReader& o, const std::string& key) {
  o.expect(key);
  return o.has(key) ? o.objects(key) : std::vector<ObjectReader>{};
}

void check_sources(const CalibrationProfile& p, const KernelGroups& groups) {
  for (const auto& [name, group] : groups)
    for (const auto& [key, constant] : group.constants) static_cast<void>(p.source(constant.source));
}

CalibrationJsonJson write_errors(const ErrorSummary& e) {
  return {{"rows", e.rows}, {"median", e.median}, {"p90", e.p90}, {"bias", e.bias}};
}

CalibrationJsonJson write_group(const KernelCalibration& g) {
  CalibrationJsonJson j;
  if (!g.formula.empty()) j["formula"] = g.formula;
  if (!g.measured_on.empty()) j["measured_on"] = g.measured_on;
  if (g.held_out.rows > 0) j["held_out"] = write_errors(g.held_out);
  for (const auto& [name, c] : g.constants) {
    CalibrationJsonJson entry{{"value", c.value}, {"source", c.source}};
    if (c.rows > 0) {
      entry["rows"] = c.rows;
      entry["sensitivity"] = c.sensitivity;
    }
    j["constants"][name] = entry;
  }
  return j;
}

CalibrationJsonJson write_groups(const KernelGroups& groups) {
  CalibrationJsonJson j = CalibrationJsonJson::object();
  for (const auto& [name, group] : groups) j[name] = write_group(group);
  return j;
}

}  // namespace

CalibrationProfile parse_calibration(std::string_view json_text, const std::string& file) {
  const CalibrationJsonJson json = parse_json(json_text, file);
  ObjectReader o(json, file);
  const std::array schemas{kCalibrationJsonSchema};
  o.choice("schema", schemas);
  CalibrationProfile p;
  p.generation = o.string("generation");
  p.attention = o.string("attention", "");
  for (auto& s : o.objects("sources")) {
    p.sources.push_back({s.string("key"), s.string("text"), read_evidence(s)});
    s.finish();
  }
  p.groups = read_groups(o.object("kernels"));
  if (auto gpus = o.optional_object("gpus"))
    for (const auto& id : gpus->keys()) p.gpus[id] = read_groups(gpus->object(id));
  for (auto& e : objects_or_none(o, "errors")) {
    p.errors.push_back({e.string("what"), read_errors(e.object("held_out"))});
    e.finish();
  }
  for (auto& f : objects_or_none(o, "fitted_on")) {
    p.fitted_on.push_back({f.string("file"), f.string("file_hash"),
                           static_cast<int>(f.number("rows", kCalibrationJsonCount)), f.string("rows_hash")});
    f.finish();
  }
  o.finish();
  check_sources(p, p.groups);
  for (const auto& [gpu, groups] : p.gpus) check_sources(p, groups);
  return p;
}

std::string to_json(const CalibrationProfile& p) {
  CalibrationJsonJson j{
      {"schema", kCalibrationJsonSchema}, {"generation", p.generation}, {"kernels", write_groups(p.groups)}};
  if (!p.attention.empty()) j["attention"] = p.attention;
  for (const auto& s : p.sources)
    j["sources"].push_back({{"key", s.key}, {"text", s.text}, {"evidence", name_of(s.evidence)}});
  for (const auto& [gpu, groups] : p.gpus) j["gpus"][gpu] = write_groups(groups);
  for (const auto& e : p.errors) j["errors"].push_back({{"what", e.what}, {"held_out", write_errors(e.held_out)}});
  for (const auto& f : p.fitted_on)
    j["fitted_on"].push_back(
        {{"file", f.file}, {"file_hash", f.file_hash}, {"rows", f.rows}, {"rows_hash", f.rows_hash}});
  return j.dump(1) + "\n";
}

CalibrationProfile load_calibration(const std::filesystem::path& directory, const GpuSpec& gpu,
                                    const CalibrationOptions& options) {
  const auto read = [](const std::filesystem::path& path) {
    return parse_calibration(read_text(path.string()), path.string());
  };
  const std::vector<StepConstant> steps = options.bursts ? std::vector<StepConstant>{} : load_step_constants(directory);
  auto fallback = read(directory / "fallback.json");
  apply(fallback, steps, "", options.without);
  const auto own = directory / (gpu.generation + ".json");
  if (gpu.generation.empty() || gpu.generation == "fallback" || !std::filesystem::exists(own))
    return resolve_calibration(fallback, nullptr, gpu, options);
  auto generation = read(own);
  apply(generation, steps, gpu.generation, options.without);
  return resolve_calibration(fallback, &generation, gpu, options);
}

}  // namespace rehearse
