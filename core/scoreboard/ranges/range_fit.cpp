#include "core/scoreboard/ranges/range_fit.hpp"

#include <algorithm>
#include <set>
#include <tuple>

namespace rehearse {

namespace {

std::vector<ErrorGroup> first_of(const std::vector<ErrorGroup>& groups) {
  std::vector<ErrorGroup> out;
  for (const ErrorGroup& g : groups)
    if (g.first && !g.doubtful) out.push_back(g);
  return out;
}

std::vector<ErrorGroup> with_framework(const std::vector<ErrorGroup>& groups) {
  std::vector<ErrorGroup> out;
  for (const ErrorGroup& g : groups)
    if (!g.kind.framework.empty() && !g.doubtful) out.push_back(g);
  return out;
}

const std::vector<BiasLevel> kFirstLevels{BiasLevel::all, BiasLevel::model, BiasLevel::generation,
                                          BiasLevel::model_on_generation};
const std::vector<BiasLevel> kKnownLevels{BiasLevel::all, BiasLevel::model, BiasLevel::generation, BiasLevel::framework,
                                          BiasLevel::model_in_framework};

/// Sources' worth by which variances of known frameworks are drawn towards those of first errors.
constexpr double kKnownShrinkage = 1;

/// Whether a group of kind `of` is one of those that `wanted`, whose empty texts are any, stands for.
bool stands_for(const PredictionKind& wanted, const PredictionKind& of) {
  const auto any_or = [](const std::string& a, const std::string& b) { return a.empty() || a == b; };
  return any_or(wanted.model, of.model) && any_or(wanted.generation, of.generation) &&
         any_or(wanted.framework, of.framework);
}

}  // namespace

RangeFit::RangeFit(const std::vector<ErrorGroup>& groups)
    : groups_(groups), first_(first_of(groups), {.levels = kFirstLevels}) {
  const std::vector<ErrorGroup> known = with_framework(groups);
  if (!known.empty())
    known_.emplace_back(known, EffectOptions{.levels = kKnownLevels, .shrinkage = kKnownShrinkage, .towards = &first_});
}

bool RangeFit::measured(const PredictionKind& kind) const {
  return !kind.framework.empty() && std::any_of(groups_.begin(), groups_.end(), [&](const ErrorGroup& g) {
    return g.kind.framework == kind.framework;
  });
}

ErrorOutlook RangeFit::outlook(const PredictionKind& kind) const {
  if (!measured(kind)) return first_.outlook({kind.model, kind.generation, ""});
  return known_.front().outlook(kind);
}

std::vector<RangeCell> RangeFit::cells() const {
  std::set<std::tuple<std::string, std::string, std::string>> kinds{{"", "", ""}};
  std::set<std::string> models, generations{""};
  for (const ErrorGroup& g : groups_) {
    const std::string& framework = g.kind.framework;
    if (g.first) {
      models.insert(g.kind.model);
      generations.insert(g.kind.generation);
    }
    if (!framework.empty()) kinds.insert({{g.kind.model, "", framework}, {g.kind.model, g.kind.generation, framework}});
  }
  for (const std::string& model : models)
    for (const std::string& generation : generations) kinds.insert({model, generation, ""});
  std::vector<RangeCell> out;
  for (const auto& [model, generation, framework] : kinds) {
    RangeCell cell{{model, generation, framework}, 0, 0, outlook({model, generation, framework})};
    std::set<std::string> sources;
    for (const ErrorGroup& g : groups_) {
      if (!stands_for(cell.kind, g.kind) || (framework.empty() && !g.first)) continue;
      sources.insert(g.source);
      cell.rows += g.rows;
    }
    cell.sources = static_cast<int>(sources.size());
    out.push_back(std::move(cell));
  }
  return out;
}

}  // namespace rehearse
