// Constants that only whole training steps give.

#include <array>

#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/config/json_file.hpp"
#include "core/config/object_reader.hpp"
#include "core/price/calibration/calibration.hpp"

namespace rehearse {

namespace {

const std::string kStepConstantsSchema = "rehearse/step_constants/v1";
constexpr NumberRange kValue{0, 1e15}, kStepConstantsCount{1, 1e9};

StepConstant read_step_constant(ObjectReader& o) {
  StepConstant c;
  c.generation = o.string("generation", "");
  c.gpu = o.string("gpu", "");
  if (!c.gpu.empty() && c.generation.empty())
    throw Error(ErrorKind::usage, "gpu '" + c.gpu + "' without a generation", o.path() + "/gpu",
                "state the generation of the GPU");
  c.group = o.string("group");
  c.constant = o.string("constant");
  c.value = o.number("value", kValue);
  c.source = o.string("source");
  c.rows_of = o.string("rows_of");
  c.model = o.string("model", "");
  c.every = static_cast<int>(o.number("every", kStepConstantsCount));
  c.rows = static_cast<int>(o.number("rows", kStepConstantsCount));
  o.finish();
  return c;
}

/// What training sustains of an attention kernel on one GPU bounds all its versions there: benchmarks that tell
/// versions apart pause between calls, so that the power limit does not show.
void bound_versions(CalibrationProfile& p, const StepConstant& c, const CalibrationConstant& sustained) {
  if (c.constant != "sustained") return;
  KernelGroups& own = c.gpu.empty() ? p.groups : p.gpus[c.gpu];
  for (const auto& [name, group] : p.groups)
    if (name.starts_with(c.group + "_9.")) own[name].constants[c.constant] = sustained;
}

}  // namespace

std::vector<StepConstant> load_step_constants(const std::filesystem::path& directory) {
  const std::filesystem::path path = directory / "steps.json";
  if (!std::filesystem::exists(path)) return {};
  const nlohmann::json document = load_json(path.string());
  ObjectReader o(document, path.string());
  const std::array schemas{kStepConstantsSchema};
  o.choice("schema", schemas);
  std::vector<StepConstant> out;
  for (ObjectReader& c : o.objects("constants")) out.push_back(read_step_constant(c));
  o.finish();
  return out;
}

void apply(CalibrationProfile& p, const std::vector<StepConstant>& constants, const std::string& generation,
           const std::string& without) {
  for (const StepConstant& c : constants) {
    if (c.generation != generation || (!without.empty() && c.rows_of == without)) continue;
    const std::string key = "steps_" + (c.gpu.empty() ? "" : c.gpu + "_") + c.group + "_" + c.constant;
    const CalibrationConstant constant{c.value, key, c.rows, 0};
    KernelCalibration& group = (c.gpu.empty() ? p.groups : p.gpus[c.gpu])[c.group];
    group.constants[c.constant] = constant;
    // Steps on it say what it reaches; the power limit is in them.
    if (!c.gpu.empty() && c.constant == "efficiency") group.measured_on = {c.gpu};
    bound_versions(p, c, constant);
    p.sources.push_back({key, c.source, Evidence::published});
  }
}

}  // namespace rehearse
