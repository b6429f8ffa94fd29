// Whole answers: a drawn scenario is lowered, checked, held against memory, estimated and played.

#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "core/api/memory.hpp"
#include "core/api/session/session.hpp"
#include "core/api/step.hpp"
#include "core/program/validate/validate.hpp"
#include "tests/fuzz/inputs.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/support/source_path.hpp"

namespace rehearse::fuzz::answers {

namespace {

constexpr double kRounding = 1e-6;    ///< Of sums of some thousand times.
constexpr double kClosedForm = 0.01;  ///< What tests/unit/estimate holds drawn strategies to.

/// Choices, from bytes; zeros once they are used up.
class Draw {
 public:
  explicit Draw(std::string_view bytes) : bytes_(bytes) {}
  std::size_t below(std::size_t n) {
    std::size_t out = 0;
    for (std::size_t reach = 1; reach < n; reach *= 256) {
      out = out * 256 + (at_ < bytes_.size() ? static_cast<unsigned char>(bytes_[at_]) : 0);
      ++at_;
    }
    return n == 0 ? 0 : out % n;
  }
  template <class T>
  const T& of(const std::vector<T>& list) {
    return list[below(list.size())];
  }

 private:
  std::string_view bytes_;
  std::size_t at_ = 0;
};

/// Keys that a draw may set: not those that name other files, or make steps that take minutes.
const std::vector<KeyHelp>& drawn_keys() {
  static const std::vector<KeyHelp> keys = [] {
    std::vector<KeyHelp> out;
    for (const KeyHelp& k : scenario_keys())
      if (k.type.starts_with("one of: ") || k.type == "boolean" || k.type == "integer" || k.type == "number")
        out.push_back(k);
    return out;
  }();
  return keys;
}

std::vector<std::string> words_of(const std::string& list) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at < list.size();) {
    const std::size_t end = std::min(list.find(", ", at), list.size());
    out.push_back(list.substr(at, end - at));
    at = end + 2;
  }
  return out;
}

std::string drawn_change(Draw& draw) {
  static const std::vector<std::string> kNumbers{"0", "1", "2", "3", "4", "6", "8", "16", "32", "0.5"};
  const KeyHelp& key = draw.of(drawn_keys());
  constexpr std::string_view kChoices = "one of: ";
  if (key.type.starts_with(kChoices)) return key.key + "=" + draw.of(words_of(key.type.substr(kChoices.size())));
  if (key.type == "boolean") return key.key + (draw.below(2) == 1 ? "=true" : "=false");
  return key.key + "=" + draw.of(kNumbers);
}

/// A small model on a few GPUs, its axes, and up to a dozen other settings.
Scenario drawn(std::string_view bytes) {
  static const std::vector<std::string> kModels{"tiny_gpt2",     "tiny_llama",      "tiny_mixtral", "tiny_bert",
                                                "tiny_deepseek", "tiny_nemotron_h", "gpt2",         "resnet50"};
  static const std::vector<std::string> kMachines{"dgx_h100", "dgx_a100_80gb", "dgx1v", "c4140_4xv100",
                                                  "aws_g5_48xlarge"};
  static const std::vector<std::string> kNetworks{"rail_ndr", "selene", "ib_edr", "superpod_h100"};
  static const std::vector<int> kSizes{1, 2, 4, 8, 3};
  Draw draw(bytes);
  std::vector<std::string> changes;
  const std::string model = draw.of(kModels), machine = draw.of(kMachines), network = draw.of(kNetworks);
  const std::size_t nodes = 1 + draw.below(2);
  for (const char* axis : {"tp", "pp", "cp", "ep", "dp_shard"})
    if (const int size = draw.of(kSizes); size > 1) changes.push_back(fmt::format("strategy.{}={}", axis, size));
  changes.push_back(fmt::format("training.global_batch={}", 16 << draw.below(3)));
  for (std::size_t more = draw.below(12); more > 0; --more) changes.push_back(drawn_change(draw));
  return parse_scenario(fmt::format(R"({{"schema": "rehearse/scenario/v1", "model": "{}",
                      "cluster": {{"machine": "{}", "nodes": {}, "network": "{}"}}}})",
                                    model, machine, nodes, network),
                        testing::source_path("scenarios/drawn.json"), changes);
}

bool near(double a, double b, double part) { return std::abs(a - b) <= part * std::max(std::abs(a), std::abs(b)); }

void check_times(const StepReport& r, const std::string& who) {
  const double step = r.metrics.step_time.value();
  require(std::isfinite(step) && step > 0, who + ": a step takes no time");
  for (const Breakdown* b : {&r.breakdown, &r.mean}) {
    require(near(b->total().value(), step, kRounding),
            fmt::format("{}: parts are {} s of {} s", who, b->total().value(), step));
    for (const Seconds part : b->seconds)
      require(std::isfinite(part.value()) && part.value() >= -kRounding * step, who + ": a part below zero");
  }
  for (const double figure : {r.metrics.samples_per_s, r.metrics.tokens_per_s, r.metrics.mfu, r.metrics.hfu})
    require(std::isfinite(figure) && figure >= 0, who + ": a rate below zero");
  for (const double bytes : r.link_bytes) require(std::isfinite(bytes) && bytes >= 0, who + ": bytes below zero");
  for (const RunResult::LinkLoad& link : r.busiest_links)
    require(link.utilisation >= 0 && link.utilisation <= 1 + kRounding, who + ": a link carries more than it can");
}

void check_memory(const MemoryReport& memory) {
  for (const StageMemory& stage : memory.stages) {
    const auto& parts = stage.memory.by_category;
    const double sum =
        std::accumulate(parts.begin(), parts.end(), 0.0, [](double a, Bytes b) { return a + b.value(); });
    require(near(sum, stage.memory.peak.value(), kRounding), "memory's parts are not its peak");
    for (const Bytes part : parts) require(std::isfinite(part.value()) && part.value() >= 0, "memory below zero");
    require(stage.needed >= stage.reserved && stage.reserved >= stage.allocated,
            "a device needs less than is allocated");
  }
}

void run_one(std::string_view bytes) {
  const SessionOptions options{.data = testing::source_path("")};
  const Session session = open_session(drawn(bytes), options);
  const Program program = session.lowered();
  validate(program);
  check_memory(memory(session, program, false).memory);
  EstimateOptions closed;
  closed.suggest = false;
  closed.despite_memory = true;
  const StepReport estimated = estimate(session, program, closed);
  check_times(estimated, "closed form");
  SimulateOptions play;
  play.backend = "analytic";
  play.suggest = false;
  play.despite_memory = true;
  play.pictured = 1;
  const StepReport played = simulate(session, program, play);
  check_times(played, "played");
  const double a = estimated.metrics.step_time.value(), b = played.metrics.step_time.value();
  require(near(a, b, kClosedForm), fmt::format("the closed form says {} s, the player {} s", a, b));
}

/// A physical breach is no refusal: it is what is looked for.
void run_strictly(std::string_view bytes) {
  try {
    run_one(bytes);
  } catch (const Error& e) {
    require(e.kind != ErrorKind::check_failed, "a result breaks physics: " + std::string(e.what()));
  }
}

std::vector<std::string> made() {
  std::vector<std::string> out;
  for (int model = 0; model < 8; ++model)
    for (const int tp : {0, 1}) {
      std::string bytes(11, '\0');
      bytes[0] = static_cast<char>(model);
      bytes[4] = static_cast<char>(tp);
      bytes[5] = static_cast<char>(model % 3);
      out.push_back(bytes);
    }
  return out;
}

const bool registered = targets().add({"answers",
                                       "whole answers for drawn scenarios",
                                       {},
                                       {.run = run_strictly, .made = made, .longest = 64, .answers = true}});

}  // namespace

}  // namespace rehearse::fuzz::answers
