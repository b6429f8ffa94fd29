// Memory of Korthikanti et al. 2022 (arXiv 2205.05198): Table 2's formulas, figure 1's bars, figure 7's percentages,
// against what the lowered Programs of the four models keep. Layers only, as the paper counts.

#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "core/base/index.hpp"
#include "core/config/settings/choices.hpp"
#include "core/strategy/workload.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/source_path.hpp"
#include "tests/unit/program/lowered.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

struct Setup {
  std::string model;
  int microbatch, tp, pp, v, microbatches;
};

Setup setup_of(const nlohmann::json& config) {
  static const std::map<int, std::string> kModels{
      {6144, "megatron_22b"}, {12288, "gpt3_175b"}, {20480, "megatron_530b"}, {25600, "megatron_1t"}};
  const int microbatch = config.at("micro_batch");
  return {kModels.at(config.at("hidden")),
          microbatch,
          config.at("tp"),
          config.at("pp"),
          config.at("vpp"),
          config.at("global_batch").get<int>() / microbatch};
}

Program program_of(const Setup& s, bool sequence_parallel, Recompute recompute) {
  Job job(shipped(s.model), 2048);
  job.workload.training.precision = Precision::fp16_mixed;
  job.workload.kernels.attention = AttentionKernel::unfused;
  job.strategy.tp = s.tp;
  job.strategy.pp = s.pp;
  job.strategy.virtual_stages = s.v;
  job.strategy.schedule = s.v > 1 ? "interleaved_1f1b" : "1f1b";
  job.strategy.microbatch = s.microbatch;
  job.strategy.sequence_parallel = sequence_parallel;
  job.strategy.recompute = recompute;
  job.microbatches = s.microbatches;
  return job.lower();
}

/// Block positions of the layers that a stage holds.
std::set<int> layers_of(const Program& p, int stage) {
  const int last =
      std::max_element(p.chunks.begin(), p.chunks.end(), [](auto& a, auto& b) { return a.last_layer < b.last_layer; })
          ->last_layer -
      1;
  std::set<int> out;
  for (const ChunkPlacement& c : p.chunks)
    for (int l = c.first_layer; c.stage == stage && l < c.last_layer; ++l)
      if (l > 0 && l < last) out.insert(l);
  return out;
}

/// The most bytes that saved tensors of stage 0's layers take at once; a layer's input counts as its own.
double saved_by_layers(const Program& p) {
  const std::set<int> layers = layers_of(p, 0);
  const ExprContext at = p.mesh.context(0);
  double live = 0, most = 0;
  for (const Entry& e : p.roles.front().step) {
    for (const bool freeing : {false, true}) {
      for (const Binding& b : nth(p.binding_sets, e.bindings)) {
        const Tensor& t = nth(p.tensors, b.tensor);
        if (t.lifetime != Lifetime::saved || layers.count(e.layer + b.instance.layer_delta) == 0) continue;
        if (b.allocate && !freeing) live += p.local_bytes(t, at);
        if (b.release && freeing) live -= p.local_bytes(t, at);
      }
      most = std::max(most, live);
    }
  }
  CHECK(live == Approx(0).margin(1));
  return most;
}

double persistent_of_layers(const Program& p) {
  const std::set<int> layers = layers_of(p, 0);
  double bytes = 0;
  for (const Role::Persistent& held : p.roles.front().persistent) {
    const Tensor& t = nth(p.tensors, held.tensor);
    if (t.alias_of < 0 && layers.count(held.layer) != 0) bytes += p.local_bytes(t, p.mesh.context(0));
  }
  return bytes;
}

/// Table 2: bytes per layer and microbatch.
double formula(const nlohmann::json& c, bool sequence_parallel, Recompute recompute) {
  const double s = c.at("seq_len"), b = c.at("micro_batch"), h = c.at("hidden"), a = c.at("heads"), t = c.at("tp");
  const double core = 5 * a * s / h;
  if (recompute == Recompute::full) return 2 * s * b * h;
  if (recompute == Recompute::selective) return s * b * h * (sequence_parallel ? 34 / t : 10 + 24 / t);
  return s * b * h * (sequence_parallel ? (34 + core) / t : 10 + (24 + core) / t);
}

/// Layers' worth of activations on the first stage: L(1 + (p-1)/(pv)) interleaved, L without.
double layers_in_flight(const nlohmann::json& c) {
  const double layers = c.at("layers"), p = c.at("pp"), v = c.at("vpp");
  return v > 1 ? layers * (1 + (p - 1) / (p * v)) : layers;
}

std::vector<nlohmann::json> entries(const std::string& figure) {
  std::ifstream file(rehearse::testing::source_path("tests/published/korthikanti_memory.json"));
  const auto data = nlohmann::json::parse(file);
  std::vector<nlohmann::json> out;
  for (const auto& e : data.at("entries"))
    if (e.at("id").get<std::string>().find(figure) != std::string::npos) out.push_back(e);
  return out;
}

constexpr double kGiB = 1024.0 * 1024 * 1024;

double row(const std::string& what, double predicted, double paper, const char* unit) {
  const double error = predicted / paper - 1;
  std::printf("%-34s %10.3f %10.3f %s %+7.2f %%\n", what.c_str(), predicted, paper, unit, 100 * error);
  return error;
}

}  // namespace

TEST_CASE("figure 1: parameters, optimizer state and activations of the first stage") {
  std::printf("%-34s %10s %10s\n", "", "Program", "paper");
  const auto rows = entries("_f1_");
  REQUIRE(rows.size() == 4);
  for (const auto& e : rows) {
    const Setup s = setup_of(e.at("config"));
    const auto& paper = e.at("measured");
    const Program none = program_of(s, false, Recompute::none), both = program_of(s, true, Recompute::selective);
    CHECK(std::abs(row(s.model + " parameters+optimizer", persistent_of_layers(none) / kGiB,
                       paper.at("params_optimizer_GiB"), "GiB")) < 0.005);
    CHECK(std::abs(row(s.model + " no recomputation", saved_by_layers(none) / kGiB,
                       paper.at("activations_GiB_no_recompute"), "GiB")) < 0.005);
    CHECK(std::abs(row(s.model + " sequence + selective", saved_by_layers(both) / kGiB,
                       paper.at("activations_GiB_seqpar_selective"), "GiB")) < 0.005);
  }
}

TEST_CASE("figure 7: activations as a percentage of tensor parallelism alone") {
  const auto rows = entries("_f7_");
  REQUIRE(rows.size() == 16);
  std::map<std::string, double> baseline;
  for (const auto& e : rows) {
    const auto& c = e.at("config");
    const Setup s = setup_of(c);
    if (baseline.count(s.model) == 0) baseline[s.model] = saved_by_layers(program_of(s, false, Recompute::none));
    const bool sequence = c.at("sequence_parallel");
    const auto kinds = names_of<Recompute>();
    const auto kind = static_cast<Recompute>(
        std::find(kinds.begin(), kinds.end(), c.at("recompute").get<std::string>()) - kinds.begin());
    const double saved = saved_by_layers(program_of(s, sequence, kind));
    const double paper = e.at("measured").at("activation_memory_pct_of_tp_baseline");
    const double percent = 100 * saved / baseline.at(s.model);
    row(s.model + (sequence ? " sequence " : " ") + c.at("recompute").get<std::string>(), percent, paper, "%  ");
    // The percentages were read off a drawing: to a seventh of a point.
    CHECK(std::abs(percent - paper) < 0.15);
    CHECK(saved == Approx(formula(c, sequence, kind) * layers_in_flight(c)).epsilon(0.005));
  }
}
