#include "core/scoreboard/rows/row_scenario.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/units.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/config/settings/training.hpp"
#include "core/play/metrics.hpp"
#include "core/scoreboard/ranges/error_groups.hpp"

namespace rehearse {

namespace {

std::optional<double> figure(const Measurement& row, const std::string& name) {
  const auto at = row.measured.find(name);
  if (at == row.measured.end() || std::holds_alternative<std::monostate>(at->second)) return std::nullopt;
  const auto* d = std::get_if<double>(&at->second);
  if (d == nullptr || !std::isfinite(*d) || *d <= 0)
    throw RowSkipped("malformed row",
                     fmt::format("{} is no positive number: {}", name, text_of(at->second).substr(0, 60)));
  return *d;
}

/// Figures that say how long a step takes, what was printed before what was worked out from it.
std::optional<Measured> step_time(const Measurement& row, const RowJob& job) {
  const TrainingSettings& t = job.scenario.training;
  const auto samples = static_cast<double>(t.global_batch), tokens = samples * static_cast<double>(t.sequence_length);
  struct Form {
    const char* name;
    double work;
    double scale;
  };  // time = value * scale, or work / value.
  const std::array<Form, 18> forms{{{"iteration_time_s", 0, 1},
                                    {"step_time_s", 0, 1},
                                    {"iteration_time_ms", 0, 1e-3},
                                    {"step_time_ms", 0, 1e-3},
                                    {"tokens_per_s", tokens, 0},
                                    {"tokens_per_s_per_gpu", tokens / job.gpus, 0},
                                    {"samples_per_s", samples, 0},
                                    {"sequences_per_s", samples, 0},
                                    {"samples_per_s_per_gpu", samples / job.gpus, 0},
                                    {"tokens_per_second", tokens, 0},
                                    {"tokens_per_second_per_gpu", tokens / job.gpus, 0},
                                    {"samples_per_second", samples, 0},
                                    {"images_per_s", samples, 0},
                                    {"images_per_s_per_gpu", samples / job.gpus, 0},
                                    {"tokens_per_sec", tokens, 0},
                                    {"tokens_per_sec_per_gpu", tokens / job.gpus, 0},
                                    {"iteration_time_s_derived_from_per_gpu", 0, 1},
                                    {"iteration_time_s_derived", 0, 1}}};
  for (const Form& f : forms)
    if (const auto v = figure(row, f.name))
      return Measured{f.name, *v, Seconds{f.work > 0 ? f.work / *v : *v * f.scale}, {}, {}};
  return std::nullopt;
}

/// Figures that say how many operations a GPU does, or which share of its peak: `again` with those of recomputation.
// unit 0: a share of the peak, of 1 or in percent.
struct OperationsForm {
  const char* name;
  double unit;
  bool again;
};
constexpr std::array<OperationsForm, 8> kOperations{{{"model_tflops_per_gpu", 1e12, false},
                                                     {"model_tflops_per_s_per_gpu", 1e12, false},
                                                     {"mfu", 0, false},
                                                     {"mfu_pct", 0, false},
                                                     {"tflops_per_gpu", 1e12, true},
                                                     {"tflops_per_s_per_gpu", 1e12, true},
                                                     {"hfu", 0, true},
                                                     {"hfu_pct", 0, true}}};

/// Share of the layers that run forward again.
double recomputed(const RowJob& job) {
  const StrategySettings& s = job.scenario.strategy;
  if (s.recompute != Recompute::full) return 0;
  if (s.recompute_method != RecomputeMethod::block || job.layers == 0) return 1;
  return std::min(1.0,
                  static_cast<double>(s.recompute_layers) * s.pp * s.virtual_stages / static_cast<double>(job.layers));
}

/// A step time worked out from such a figure. Sources count operations differently, so that the row is listed and
/// counts in no error figure.
std::optional<Measured> from_operations(RowFields& fields, const Measurement& row, const RowJob& job,
                                        const Catalogue& catalogue, const KnownModels& models) {
  const TrainingSettings& t = job.scenario.training;
  if (t.lora.rank > 0) return std::nullopt;
  for (const OperationsForm& f : kOperations) {
    const auto v = figure(row, f.name);
    if (!v) continue;
    const ModelRef& model = job.scenario.model;
    double operations = model_flops(models.load(model.inline_json.empty() ? model.name : model.inline_json),
                                    t.global_batch, t.sequence_length)
                            .value();
    const double again = f.again ? recomputed(job) : 0;
    operations *= 1 + again / 3;
    const double peak = catalogue.gpu(job.gpu)->peak(arithmetic_of(t.precision)).value();
    const bool percent = *v > 1 || std::string_view(f.name).ends_with("_pct");
    const double rate = f.unit > 0 ? *v * f.unit : peak * (percent ? *v / 100 : *v);
    if (rate > peak)
      throw RowSkipped("malformed row", fmt::format("{} {:g} is more than the {:.0f} TFLOP/s that {} can do", f.name,
                                                    *v, peak / 1e12, job.gpu));
    fields.guess("step time", fmt::format("{:.4g} s", operations / job.gpus / rate),
                 fmt::format("worked out from {}: 6 operations per parameter and token and full-square attention{}, a "
                             "peak of {:.0f} TFLOP/s; sources count differently",
                             f.name, again > 0 ? ", a third more for what runs again" : "", peak / 1e12));
    return Measured{f.name, *v, Seconds{operations / job.gpus / rate}, {}, {}};
  }
  return std::nullopt;
}

/// A step in which a GPU would do more than it can is no step of this job: something in the row is not what it says.
void check_rate(const Measured& measured, const RowJob& job, const Catalogue& catalogue, const KnownModels& models) {
  const TrainingSettings& t = job.scenario.training;
  if (t.lora.rank > 0) return;
  const ModelRef& model = job.scenario.model;
  // Products with parameters alone: sequences of one token hardly attend.
  const double operations = model_flops(models.load(model.inline_json.empty() ? model.name : model.inline_json),
                                        t.global_batch * std::max<std::int64_t>(1, t.sequence_length), 1)
                                .value();
  const double rate = operations / job.gpus / measured.time.value();
  const double peak = catalogue.gpu(job.gpu)->peak(arithmetic_of(t.precision)).value();
  if (rate > peak)
    throw RowSkipped("above the GPU's peak",
                     fmt::format("{} {:g} would be {:.0f} TFLOP/s a GPU, of {:.0f} that {} can do", measured.name,
                                 measured.value, rate / 1e12, peak / 1e12, job.gpu));
}

Measured measured_of(RowFields& fields, const Measurement& row, const RowJob& job, const Catalogue& catalogue,
                     const KnownModels& models) {
  Measured out;
  if (const auto direct = step_time(row, job))
    out = *direct;
  else if (const auto worked_out = from_operations(fields, row, job, catalogue, models))
    out = *worked_out;
  else
    throw RowSkipped("no step time or throughput among the figures");
  if (const auto v = figure(row, "peak_allocated_GiB")) out.peak_allocated = Bytes{*v * kGib};
  if (const auto v = figure(row, "peak_memory_GiB")) out.peak_reserved = Bytes{*v * kGib};
  return out;
}

/// The container that a row's citation names, else what the defaults say.
std::string release_of(const Measurement& row, const RowDefaults& table) {
  const std::size_t at = row.source.find(" NeMo Container");
  if (at == std::string::npos) {
    const std::string own = row.defaults != nullptr ? row.defaults->release_of(row) : std::string();
    return own.empty() ? table.release_of(row) : own;
  }
  const std::size_t begin = row.source.find_last_of(" ,(", at - 1);
  return "NeMo " + row.source.substr(begin + 1, at - begin - 1);
}

/// Whether any figure is of a kind that a step is predicted for: the others are said to be so before the configuration
/// is looked at.
void check_kind(const Measurement& row) {
  if (!row.malformed.empty()) throw RowSkipped("malformed row", row.malformed);
  if (row.from_memory) throw RowSkipped("from memory");
  if (row.measured.contains("statement") || row.measured.contains("verdict"))
    throw RowSkipped("a statement, no figure");
  for (const auto& [name, value] : row.measured)
    if (name.find("iteration_time") != std::string::npos || name.find("step_time") != std::string::npos ||
        name.find("_per_s") != std::string::npos)
      return;
  for (const OperationsForm& f : kOperations)
    if (row.measured.contains(f.name)) return;
  throw RowSkipped("no step time or throughput among the figures");
}

}  // namespace

MappedRow map_row(const Measurement& row, const RowSources& from) {
  MappedRow out;
  out.id = row.id;
  out.source = row.source;
  out.file = row.file;
  RowFields fields(row, from.defaults);
  try {
    check_kind(row);
    RowJob job;
    job.release = release_of(row, from.defaults);
    job.framework = framework_name(fields.text("framework"));
    map_cluster(fields, from.catalogue, job);
    map_model(fields, from.models, job);
    map_strategy(fields, job);
    map_framework(fields, from.frameworks, job);
    if (const std::string& known = job.scenario.framework.name; !known.empty()) job.framework = framework_name(known);
    job.measured = measured_of(fields, row, job, from.catalogue, from.models);
    check_rate(job.measured, job, from.catalogue, from.models);
    fields.guess_misspelt();
    job.configuration = fmt::format("{}|{}|{}|{}|{}|{}", row.file, fields.text("model"), job.gpu, job.gpus,
                                    name_of(job.scenario.training.precision), fields.text("task"));
    out.job = std::move(job);
  } catch (const RowSkipped& e) {
    out.skipped = e.what();
    out.detail = e.detail;
  } catch (const Error& e) {
    out.skipped = "refused";
    out.detail = e.what();
  }
  out.trail = fields.trail();
  out.guessed = fields.guessed();
  out.asked = fields.asked();
  return out;
}

std::optional<std::string> scenario_text(const MappedRow& row) {
  if (!row.job) return std::nullopt;
  const ClusterRef& cluster = row.job->scenario.cluster;
  const int used = cluster.gpus_per_node > 0 ? cluster.gpus_per_node : row.job->gpus_per_domain;
  if (used * cluster.parts.front().nodes != row.job->gpus) return std::nullopt;
  Scenario out = row.job->scenario;
  if (!out.framework.name.empty()) out.stated.insert("framework.name");
  return stated_json(out);
}

}  // namespace rehearse
