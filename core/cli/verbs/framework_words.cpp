#include "core/cli/verbs/framework_words.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/framework/framework.hpp"
#include "core/scoreboard/prediction_range.hpp"

namespace rehearse::cli {

namespace {

std::string condition_text(const FrameworkRule& rule) {
  std::vector<std::string> words;
  for (const FrameworkCondition& c : rule.when) words.push_back(c.text());
  return words.empty() ? "always" : fmt::format("{}", fmt::join(words, ", "));
}

/// Whether a rule of greater precedence that always holds gives the key another value.
bool replaced(const Framework& f, const FrameworkRule& rule, const FrameworkFact& fact) {
  for (const FrameworkRule& later : f.rules)
    if (later.precedence > rule.precedence && later.when.empty())
      for (const FrameworkFact& other : later.facts)
        if (other.key == fact.key) return true;
  return false;
}

Table facts_of(const Framework& f) {
  Table out{"Facts", {{"key"}, {"value"}, {"where"}, {"since"}, {"source"}}, {}};
  for (const FrameworkRule& rule : f.rules)
    for (const FrameworkFact& fact : rule.facts)
      if (!replaced(f, rule, fact))
        out.rows.push_back({fact.key, fact.value, condition_text(rule), rule.release,
                            fact.note.empty() ? fact.source.text : fact.source.text + " (" + fact.note + ")"});
  return out;
}

Facts abilities_of(const Framework& f) {
  Facts out{"Can it?", {}};
  for (const std::string_view kind : kAbilityKinds) {
    std::string line;
    for (const Ability& a : f.abilities)
      if (a.kind == kind) line += fmt::format("{}{}: {}", line.empty() ? "" : ", ", a.name, name_of(a.able));
    if (!line.empty()) out.rows.emplace_back(std::string(kind), line);
  }
  return out;
}

/// Measured steps beside their predictions, by kind of job.
std::vector<DocumentBlock> errors_of(const DataDirectory& data, const Framework& f) {
  const PredictionRanges ranges = PredictionRanges::load(data.prediction_errors());
  Table out{"How far off predictions of its steps were, of all releases",
            {{"models"}, {"GPUs"}, {"sources", true}, {"rows", true}, {"steps took %", true}, {"8 of 10, %", true}},
            {}};
  const auto percent = [](double factor) { return fmt::format("{:+.0f}", 100 * (factor - 1)); };
  for (const PredictionKind& kind : ranges.measured_in(f.name)) {
    const PredictionRange r = ranges.range(kind);
    out.rows.push_back({kind.model, kind.generation, std::to_string(r.sources), std::to_string(r.rows),
                        percent(r.middle), fmt::format("{} to {}", percent(r.p10), percent(r.p90))});
  }
  if (out.rows.empty())
    return {Paragraph{"No source measured it: its predictions have the range of a job without a framework."}};
  return {std::move(out), Paragraph{"Steps of sources that nobody has seen, over their prediction."}};
}

Frameworks all_of(const DataDirectory& data) { return Frameworks::load(data.frameworks()); }

}  // namespace

Table framework_listing(const DataDirectory& data) {
  Table out{"", {{"framework"}, {"date"}, {"what"}}, {}};
  const Frameworks all = all_of(data);
  for (const Framework& f : all.all()) out.rows.push_back({f.id(), f.date, f.title});
  return out;
}

std::vector<std::string> framework_names(const DataDirectory& data) {
  std::vector<std::string> out;
  const Frameworks all = all_of(data);
  for (const Framework& f : all.all()) {
    if (out.empty() || !out.back().starts_with(f.name + "@")) out.push_back(f.name);
    out.push_back(f.id());
  }
  return out;
}

std::vector<DocumentBlock> framework_page(const DataDirectory& data, const std::string& name) {
  const Frameworks all = all_of(data);
  const Framework& f = all.find(name);
  std::vector<DocumentBlock> out{Paragraph{fmt::format("{}: {}", f.id(), f.title)}};
  if (!f.date.empty()) out.emplace_back(Facts{"", {{"released", f.date}}});
  out.emplace_back(facts_of(f));
  if (Facts can = abilities_of(f); !can.rows.empty()) out.emplace_back(std::move(can));
  for (DocumentBlock& block : errors_of(data, f)) out.push_back(std::move(block));
  out.emplace_back(Facts{"", {{"use it", fmt::format("--set framework={}", f.id())}}});
  return out;
}

}  // namespace rehearse::cli
