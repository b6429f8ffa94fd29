#include "tests/published/cnn_rows.hpp"
#include "core/config/settings/choices.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/strategy/workload.hpp"
#include "tests/published/convolution_level.hpp"

#include <algorithm>
#include <fstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace rehearse::test {

namespace {

using nlohmann::json;

bool holds(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

struct Place {
  std::string machine, generation;
};

std::optional<Place> place_of(const json& c) {
  const std::string text = c.value("gpu_type", "") + c.value("system", "");
  if (holds(text, "P100")) return Place{"dgx1p", "pascal"};
  if (holds(text, "K80")) return Place{"pcie8_k80", "kepler"};
  if (holds(text, "V100 16GB")) return Place{"dgx1v_16gb", "volta"};
  if (holds(text, "V100 32GB")) return Place{"dgx1v", "volta"};
  if (holds(text, "A100 80GB")) return Place{"dgx_a100_80gb", "ampere"};
  return std::nullopt;
}

const std::map<std::string, std::string>& models() {
  static const std::map<std::string, std::string> known{
      {"AlexNet", "alexnet"},
      {"VGG16", "vgg16"},
      {"ResNet-50", "resnet50_v1"},
      {"ResNet-50 v1.5", "resnet50"},
      {"ResNet-152", R"({"model_type": "resnet", "depths": [3, 8, 36, 3], "downsample_in_bottleneck": true})"},
      {"InceptionV3", R"({"model_type": "inception_v3", "aux_logits": false})"}};
  return known;
}

/// Why the row cannot be predicted; empty if it can.
std::string obstacle(const json& row) {
  const json& c = row.at("config");
  if (c.contains("model") && models().count(c.value("model", "")) == 0) return "no image classifier";
  if (!row.at("measured").contains("images_per_s")) return "no images per second";
  if (!c.contains("gpus") || !c.contains("batch_per_gpu")) return "no batch or number of GPUs";
  const auto place = place_of(c);
  const auto machines = catalogue().names(Catalogue::Kind::machine);
  if (!place || std::find(machines.begin(), machines.end(), place->machine) == machines.end())
    return "no machine for its GPUs";
  if (c.at("gpus").get<int>() > c.value("gpus_per_node", 8))
    return "several nodes over a network whose rate is not stated";
  return {};
}

CnnRow read_row(const json& row) {
  const json& c = row.at("config");
  CnnRow out;
  out.id = row.at("id");
  const Place place = *place_of(c);
  out.machine = place.machine;
  out.generation = place.generation;
  out.model = models().at(c.at("model"));
  const std::string precision = c.value("precision", "fp32");
  out.precision = precision == "TF32" ? "tf32" : holds(precision, "mixed") ? "fp16_mixed" : "fp32";
  const json& batch = c.at("batch_per_gpu");
  out.batch = batch.is_number()                                      ? batch.get<std::int64_t>()
              : out.generation == "volta" && out.precision == "fp32" ? 128
                                                                     : 256;
  out.gpus = c.at("gpus");
  out.images_per_s = row.at("measured").at("images_per_s");
  return out;
}

Precision precision_of(const std::string& name) {
  return name == "tf32" ? Precision::tf32 : name == "fp16_mixed" ? Precision::fp16_mixed : Precision::fp32;
}

/// One machine and its constants.
struct Bench {
  Cluster cluster;
  CalibrationProfile profile;
  explicit Bench(const ClusterSpec& spec)
      : cluster(make_cluster(catalogue(), spec)),
        profile(load_calibration(kSource + "/topologies/calibration", *cluster.parts().front().gpu)) {}
};

const Bench& bench(const std::string& machine) {
  static std::map<std::string, std::unique_ptr<Bench>> known;
  auto& at = known[machine];
  if (!at) {
    ClusterSpec spec;
    spec.parts = {{machine, 1}};
    spec.network = "single_switch";
    at = std::make_unique<Bench>(spec);
  }
  return *at;
}

Workload workload_of(const ModelLibrary& library, const CnnRow& row) {
  Workload w;
  w.network = library.load(row.model);
  w.training.global_batch = row.batch * row.gpus;
  w.training.precision = precision_of(row.precision);
  w.training.optimizer = Optimizer::sgd;
  w.training.clip_gradients = false;
  return w;
}

/// Images per second, in closed form.
double price(const CnnJob& job, double level) {
  CalibrationProfile profile = bench(job.row.machine).profile;
  for (auto& [key, constant] : profile.groups.at(std::string(group_of(ConvolutionClass::cuda))).constants)
    if (has_level(key)) constant.value = std::min(1.0, constant.value * level);
  const CostModel cost(*job.cluster, {{job.cluster->parts().front().gpu->id, profile}}, {});
  const double step = estimate(*job.program, cost, job.strategy, 3).step_time.value();
  return static_cast<double>(job.row.batch * job.row.gpus) / step;
}

}  // namespace

bool CnnRow::fitted() const { return fnv1a(id) % 2 == 0; }

CnnRows read_cnn_rows() {
  std::ifstream file(kSource + "/tests/published/data/cnn_throughput.json");
  const json data = json::parse(file);
  CnnRows out;
  for (const json& row : data.at("entries")) {
    if (const std::string why = obstacle(row); !why.empty())
      ++out.skipped[why];
    else
      out.rows.push_back(read_row(row));
  }
  return out;
}

std::vector<CnnJob> make_jobs(const std::vector<CnnRow>& rows) {
  const ModelLibrary library(kSource + "/scenarios/models");
  std::vector<CnnJob> out;
  std::map<std::string, std::shared_ptr<const Program>> programs;
  for (const CnnRow& row : rows) {
    CnnJob job{row,
               &bench(row.machine).cluster,
               {},
               fmt::format("{} {} {} {} x {}", row.machine, row.model, row.precision, row.batch, row.gpus),
               {}};
    job.strategy.dp = job.strategy.dp_replicate = row.gpus;
    job.strategy.microbatch = row.batch;
    std::shared_ptr<const Program>& program = programs[job.key];
    if (program == nullptr)
      program = std::make_shared<const Program>(lower(workload_of(library, row), job.strategy, row.gpus));
    job.program = program;
    out.push_back(std::move(job));
  }
  return out;
}

double predict(const CnnJob& job, double level) {
  static std::map<std::pair<std::string, double>, double> known;
  const auto [at, fresh] = known.try_emplace({job.key, level});
  if (fresh) at->second = price(job, level);
  return at->second;
}

}  // namespace rehearse::test
