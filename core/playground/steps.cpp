#include "core/playground/steps.hpp"

#include <algorithm>
#include <set>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/base/registry.hpp"
#include "core/collective/ring_steps.hpp"
#include "core/config/settings/training.hpp"
#include "core/schedule/timetable.hpp"
#include "core/strategy/operators/expert_plan.hpp"

namespace rehearse::playground {

namespace {

using nlohmann::ordered_json;

constexpr int kMostRanks = 16, kMostChunks = 4, kMostMicrobatches = 64, kMostExperts = 256, kMostTokens = 1 << 20;
constexpr PassTimes kTimes{1, 1, 1};
constexpr std::uint64_t kDealt = 1;  // Seed of who has the popular experts.

int size_of(const ordered_json& request, const char* key, int least, int most) {
  const int value = request.at(key).get<int>();
  if (value < least || value > most)
    throw Error(ErrorKind::usage, fmt::format("'{}' is {}, not {} to {}", key, value, least, most), key);
  return value;
}

template <class Choice>
Choice choice_of(const ordered_json& request, const char* key) {
  const std::vector<std::string>& names = names_of<Choice>();
  const auto word = request.at(key).get<std::string>();
  const auto found = std::find(names.begin(), names.end(), word);
  if (found == names.end()) throw unknown_name(key, word, names);
  return static_cast<Choice>(found - names.begin());
}

const char* name_of(Pass pass) {
  switch (pass) {
    case Pass::forward: return "forward";
    case Pass::backward: return "backward";
    case Pass::backward_input: return "backward of inputs";
    case Pass::backward_weight: return "backward of weights";
  }
  return "";
}

/// Whose parts each piece of each rank is the sum of.
using Held = std::vector<std::vector<std::set<int>>>;

}  // namespace

std::string ring_json(const ordered_json& request) {
  const int ranks = size_of(request, "ranks", 2, kMostRanks), steps = 2 * (ranks - 1);
  Held held(static_cast<std::size_t>(ranks), std::vector<std::set<int>>(static_cast<std::size_t>(ranks)));
  for (int r = 0; r < ranks; ++r)
    for (std::set<int>& piece : nth(held, r)) piece = {r};
  auto sends = ordered_json::array(), after = ordered_json::array();
  Held before = held;
  for (const RingStep& s : ring_all_reduce(ranks)) {
    if (s.step == static_cast<int>(after.size())) {
      after.push_back(held);
      before = held;
    }
    const int to = (s.from + 1) % ranks;
    sends.push_back({{"step", s.step}, {"from", s.from}, {"to", to}, {"piece", s.piece}, {"adds", s.adds}});
    const std::set<int>& comes = nth(nth(before, s.from), s.piece);
    std::set<int>& there = nth(nth(held, to), s.piece);
    if (s.adds)
      there.insert(comes.begin(), comes.end());
    else
      there = comes;
  }
  after.push_back(std::move(held));
  return ordered_json{{"ranks", ranks}, {"steps", steps}, {"sends", std::move(sends)}, {"held", std::move(after)}}
      .dump();
}

std::string pipeline_json(const ordered_json& request) {
  const auto& schedule = schedules().at(request.at("schedule").get<std::string>());
  const PipelineShape shape{size_of(request, "stages", 1, kMostRanks), size_of(request, "chunks", 1, kMostChunks),
                            size_of(request, "microbatches", 1, kMostMicrobatches)};
  const std::vector<TimedSlot> passes = timetable(*schedule.value, shape, kTimes);
  double end = 0;
  auto listed = ordered_json::array();
  for (const TimedSlot& p : passes) {
    end = std::max(end, p.end);
    listed.push_back({{"stage", p.stage},
                      {"pass", name_of(p.slot.pass)},
                      {"chunk", p.slot.chunk},
                      {"microbatch", p.slot.microbatch},
                      {"begin", p.begin},
                      {"end", p.end}});
  }
  return ordered_json{{"schedule", schedule.name},
                      {"about", schedule.summary},
                      {"stages", shape.stages},
                      {"chunks", shape.virtual_stages},
                      {"microbatches", shape.microbatches},
                      {"end", end},
                      {"work", shape.microbatches * shape.virtual_stages * kTimes.all()},
                      {"bubble_ratio", schedule.value->bubble_ratio(shape, kTimes)},
                      {"passes", std::move(listed)}}
      .dump();
}

std::string exchange_json(const ordered_json& request) {
  const int ranks = size_of(request, "ranks", 2, kMostRanks), experts = size_of(request, "experts", 1, kMostExperts),
            chosen = size_of(request, "chosen", 1, experts), tokens = size_of(request, "tokens", 1, kMostTokens);
  if (experts % ranks != 0)
    throw Error(ErrorKind::usage, fmt::format("{} experts do not divide over {} ranks", experts, ranks), "experts",
                "choose a multiple");
  ExpertSettings settings;
  settings.imbalance = choice_of<Imbalance>(request, "imbalance");
  const Routing routing{.experts = experts, .top_k = chosen};
  const std::int64_t all = std::int64_t{ranks} * tokens;
  const std::vector<std::int64_t> arrive = rows_per_rank(routing, rows_per_expert(routing, all, 0, settings),
                                                         all * chosen, ranks, 1, settings.imbalance, kDealt);
  auto rounds = ordered_json::array();
  for (int round = 0; round < ranks; ++round) {
    auto sends = ordered_json::array();
    for (int from = 0; from < ranks; ++from) {
      const int to = (from + round) % ranks;
      sends.push_back({{"from", from}, {"to", to}, {"rows", static_cast<double>(nth(arrive, to)) / ranks}});
    }
    rounds.push_back(std::move(sends));
  }
  return ordered_json{{"ranks", ranks},
                      {"experts", experts},
                      {"chosen", chosen},
                      {"tokens", tokens},
                      {"imbalance", request.at("imbalance")},
                      {"arrive", arrive},
                      {"rounds", std::move(rounds)}}
      .dump();
}

}  // namespace rehearse::playground
