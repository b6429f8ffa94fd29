#include "core/report/fleet/advice_report.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/report/fleet/fleet_figures.hpp"

namespace rehearse {

namespace {

using fleet_report::time_text;

std::string summary(const std::string& queue, Seconds bound, const fleet::AdviceAnswer& answer) {
  const std::string now =
      fmt::format("90 % of the jobs of {} wait no longer than {} as it is. ", queue, time_text(answer.wait));
  if (answer.wait <= bound) return now + fmt::format("That is within {}: nothing need change.", time_text(bound));
  if (answer.changes.empty() || !answer.changes.front().enough)
    return now + fmt::format("No single change brings that to {}; below are those that help.", time_text(bound));
  return now +
         fmt::format("The smallest change that brings that to {}: {}.", time_text(bound), answer.changes.front().what);
}

}  // namespace

Document advice_document(const fleet::Fleet& f, const std::string& queue, Seconds bound,
                         const fleet::AdviceAnswer& answer, const std::string& program_version) {
  Document d;
  d.blocks.push_back(Heading{fmt::format("Advice for {} on {}", queue, f.name)});
  d.blocks.push_back(Paragraph{summary(queue, bound, answer)});
  Table t{"", {{"change"}, {"GPUs", true}, {"90 % wait", true}, {"enough"}, {"who pays"}}, {}, {}};
  nlohmann::ordered_json changes = nlohmann::ordered_json::array();
  for (const fleet::Advice& a : answer.changes) {
    t.rows.push_back({a.what, a.gpus > 0 ? fmt::format("{:.6g}", a.gpus) : "", time_text(a.wait),
                      a.enough ? "yes" : "no",
                      a.pays.empty() ? "" : fmt::format("{}: +{}", a.pays, time_text(a.rise))});
    changes.push_back({{"what", a.what},
                       {"set", a.sets},
                       {"gpus", a.gpus},
                       {"wait_p90_s", a.wait.value()},
                       {"enough", a.enough},
                       {"pays", a.pays},
                       {"rise_s", a.rise.value()}});
  }
  d.records = t;
  if (!t.rows.empty()) d.blocks.push_back(std::move(t));
  d.json = nlohmann::ordered_json{{"schema", "rehearse/fleet_advice/v1"},
                                  {"program", program_version},
                                  {"name", f.name},
                                  {"queue", queue},
                                  {"bound_s", bound.value()},
                                  {"wait_p90_s", answer.wait.value()},
                                  {"plays", answer.plays},
                                  {"changes", std::move(changes)}}
               .dump(2) +
           "\n";
  return d;
}

}  // namespace rehearse
