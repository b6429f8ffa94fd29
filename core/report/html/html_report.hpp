#pragma once
// An answer as one HTML file that needs nothing else: no network, no folder beside it. The page's own script (page/)
// draws what the JSON in it says, and reads nothing else, so that a number on the page is a number of the answer.

#include <string>
#include <utility>
#include <vector>

#include "core/report/results/step_report.hpp"

namespace rehearse {

inline constexpr const char* kReportSchema = "rehearse/report/v1";

struct HtmlReport {
  std::string kind;     ///< The verb: "simulate", "compare", ... It chooses the page.
  std::string version;  ///< Of the program.
  std::string answer;   ///< What the verb prints as JSON.
  std::string heading;  ///< One line above the answer; may be empty.
  /// More for the page, by name, each a complete JSON text: "plan", "gantt", "course", "topology", "steps", ...
  std::vector<std::pair<std::string, std::string>> parts{};
};

/// "plan" of a report: {model, parameters, gpus, cluster, strategy, samples}.
[[nodiscard]] std::string plan_json(const PlanSummary& plan);

/// {words{time{}, memory{}}, definitions{}}: what every page says of categories and figures.
[[nodiscard]] std::string page_words_json();

/// Whether this build can draw: without ECharts a page has sentences and tables, and says how to get pictures.
[[nodiscard]] bool has_pictures();

/// The whole page. Throws nlohmann's parse_error where a part is no JSON.
[[nodiscard]] std::string html_text(const HtmlReport& report);

/// Writes the page as open_output does: a whole file or none; what is there before stays until then. Throws Error
/// (usage), `where` the path, when it cannot be written.
void write_html_report(const std::string& path, const HtmlReport& report);

}  // namespace rehearse
