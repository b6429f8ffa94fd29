#include "core/report/results/judgement_tables.hpp"

#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/play/words.hpp"

namespace rehearse {

namespace {

using nlohmann::ordered_json;

std::string whole_percent(double share) { return fmt::format("{:.0f}", 100 * share); }

/// "1.92": the upper end over the lower one.
std::string ratio(double width) { return fmt::format("{:.2f}", std::exp(width)); }

std::string score(double value) { return fmt::format("{:.3f}", value); }

std::vector<Column> columns(const std::string& what, const std::string& number) {
  return {{what},
          {number, true},
          {"inside %", true},
          {"high / low", true},
          {"score", true},
          {"constant: inside %", true},
          {"high / low", true},
          {"score", true}};
}

std::vector<std::string> cells(const std::string& name, const std::string& number, const JudgedRanges& r) {
  return {name,
          number,
          whole_percent(r.inside),
          ratio(r.width),
          score(r.score),
          whole_percent(r.constant_inside),
          ratio(r.constant_width),
          score(r.constant_score)};
}

void add_json(const JudgedRanges& r, ordered_json& out) {
  out["inside"] = r.inside;
  out["width"] = r.width;
  out["score"] = r.score;
  out["constant_inside"] = r.constant_inside;
  out["constant_width"] = r.constant_width;
  out["constant_score"] = r.constant_score;
}

}  // namespace

std::vector<DocumentBlock> judgement_blocks(const RangeJudgement& judgement) {
  if (judgement.sources.empty()) return {};
  Table groups{
      "Likely ranges for sources left out, beside one constant range for each kind", columns("rows", "sources"), {}};
  for (const auto& [name, r] : judgement.groups) groups.rows.push_back(cells(name, with_commas(r.sources), r));
  Table sources{"Each source, left out", columns("source", "first errors"), {}};
  for (const JudgedSource& s : judgement.sources)
    sources.rows.push_back(cells(fmt::format("{}, {}", s.source, s.model), s.first ? "yes" : "no", s.ranges));
  return {
      std::move(groups), std::move(sources),
      Paragraph{"Each source weighs the same. Inside: of its steps; 80 % are wanted. High / low: of a range's ends. "
                "Score: the interval score of Gneiting and Raftery (2007) in logarithms, less is better. First "
                "errors are those of predictions made before a source was seen; the other sources are those that "
                "mechanisms were mended on, so that more than 80 % of their steps lie inside."}};
}

ordered_json judgement_json(const RangeJudgement& judgement) {
  ordered_json out{{"groups", ordered_json::array()}, {"sources", ordered_json::array()}};
  for (const auto& [name, r] : judgement.groups) {
    ordered_json group{{"name", name}, {"sources", r.sources}};
    add_json(r, group);
    out["groups"].push_back(std::move(group));
  }
  for (const JudgedSource& s : judgement.sources) {
    ordered_json source{{"source", s.source}, {"model", s.model}, {"first", s.first}};
    add_json(s.ranges, source);
    out["sources"].push_back(std::move(source));
  }
  return out;
}

}  // namespace rehearse
