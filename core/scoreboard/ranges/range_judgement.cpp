#include "core/scoreboard/ranges/range_judgement.hpp"

#include <algorithm>
#include <iterator>
#include <set>

#include "core/scoreboard/ranges/range_fit.hpp"
#include "core/scoreboard/ranges/student.hpp"

namespace rehearse {

namespace {

struct Ends {
  double low = 0, high = 0;
};

double share_below(const ErrorGroup& g, double value) {
  if (g.errors.empty()) {
    if (g.deviation > 0) return normal_share((value - g.mean) / g.deviation);
    return g.mean < value ? 1 : 0;
  }
  const auto below = std::count_if(g.errors.begin(), g.errors.end(), [&](double e) { return e < value; });
  return static_cast<double>(below) / static_cast<double>(g.errors.size());
}

double score_of(const ErrorGroup& g, Ends e) {
  if (g.errors.empty()) return expected_interval_score(e.low, e.high, g.mean, g.deviation);
  double sum = 0;
  for (const double error : g.errors) sum += interval_score(e.low, e.high, error);
  return sum / static_cast<double>(g.errors.size());
}

/// Quantile of the errors of all sources, each weighing the same.
double quantile_of(const std::vector<ErrorGroup>& groups, double p) {
  std::map<std::string, int> rows;
  for (const ErrorGroup& g : groups) rows[g.source] += g.rows;
  double low = -3, high = 3;
  for (int i = 0; i < 40; ++i) {
    const double middle = (low + high) / 2;
    double share = 0;
    for (const ErrorGroup& g : groups) share += share_below(g, middle) * g.rows / rows.at(g.source);
    (share / static_cast<double>(rows.size()) < p ? low : high) = middle;
  }
  return (low + high) / 2;
}

/// Of this kind of model, where two sources have it.
Ends constant_range(const std::vector<ErrorGroup>& groups, const std::string& model) {
  std::vector<ErrorGroup> of;
  std::set<std::string> sources;
  for (const ErrorGroup& g : groups) {
    if (g.kind.model != model) continue;
    of.push_back(g);
    sources.insert(g.source);
  }
  if (sources.size() < 2) of = groups;
  return {quantile_of(of, kLikelyTail), quantile_of(of, 1 - kLikelyTail)};
}

std::vector<ErrorGroup> without(const std::vector<ErrorGroup>& groups, const std::string& source) {
  std::vector<ErrorGroup> out;
  for (const ErrorGroup& g : groups)
    if (g.source != source) out.push_back(g);
  return out;
}

void add(JudgedRanges& to, const JudgedRanges& one, double weight) {
  to.inside += weight * one.inside;
  to.width += weight * one.width;
  to.score += weight * one.score;
  to.constant_inside += weight * one.constant_inside;
  to.constant_width += weight * one.constant_width;
  to.constant_score += weight * one.constant_score;
}

JudgedRanges judged(const ErrorGroup& g, Ends range, Ends constant) {
  const auto inside = [&](Ends e) { return share_below(g, e.high) - share_below(g, e.low); };
  return {1,
          inside(range),
          range.high - range.low,
          score_of(g, range),
          inside(constant),
          constant.high - constant.low,
          score_of(g, constant)};
}

/// One entry for each kind of model that the source measured, against ranges and constant ranges of `others`.
std::vector<JudgedSource> judge_source(const std::string& source, const std::vector<ErrorGroup>& groups,
                                       const std::vector<ErrorGroup>& constants_of) {
  const RangeFit fit(without(groups, source));
  std::map<std::string, JudgedSource> by_model;
  std::map<std::string, double> rows;
  for (const ErrorGroup& g : groups) {
    if (g.source != source) continue;
    const ErrorOutlook o = fit.outlook(g.kind);
    const double half = o.half_width();
    JudgedSource& to = by_model[g.kind.model];
    to.source = source;
    to.model = g.kind.model;
    to.first = g.first;
    add(to.ranges, judged(g, {o.bias - half, o.bias + half}, constant_range(constants_of, g.kind.model)), g.rows);
    rows[g.kind.model] += g.rows;
  }
  std::vector<JudgedSource> out;
  for (auto& [model, of] : by_model) {
    JudgedRanges mean{1};
    add(mean, of.ranges, 1 / rows.at(model));
    of.ranges = mean;
    out.push_back(std::move(of));
  }
  return out;
}

void add_groups(const std::vector<JudgedSource>& sources, const std::string& all, const std::string& before,
                std::map<std::string, JudgedRanges>& out) {
  std::map<std::string, std::vector<const JudgedSource*>> members;
  for (const JudgedSource& s : sources)
    for (const std::string& name : {all, before + s.model}) members[name].push_back(&s);
  for (const auto& [name, of] : members) {
    JudgedRanges mean{static_cast<int>(of.size())};
    for (const JudgedSource* s : of) add(mean, s->ranges, 1 / static_cast<double>(of.size()));
    out[name] = mean;
  }
}

}  // namespace

RangeJudgement judge_ranges(const std::vector<ErrorGroup>& groups) {
  std::vector<ErrorGroup> first;
  std::set<std::string> sources;
  for (const ErrorGroup& g : groups) {
    sources.insert(g.source);
    if (g.first) first.push_back(g);
  }
  RangeJudgement out;
  std::vector<JudgedSource> of_first;
  for (const std::string& source : sources) {
    for (JudgedSource& s : judge_source(source, groups, without(groups, source))) out.sources.push_back(std::move(s));
    if (!out.sources.back().first) continue;
    for (JudgedSource& s : judge_source(source, groups, without(first, source))) of_first.push_back(std::move(s));
  }
  add_groups(out.sources, "all", "", out.groups);
  std::vector<JudgedSource> later;
  std::copy_if(out.sources.begin(), out.sources.end(), std::back_inserter(later),
               [](const JudgedSource& s) { return !s.first; });
  add_groups(later, "later errors", "later errors, ", out.groups);
  add_groups(of_first, "first errors", "first errors, ", out.groups);
  return out;
}

}  // namespace rehearse
