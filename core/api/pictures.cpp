#include "core/api/pictures.hpp"

#include <nlohmann/json.hpp>

#include "core/report/html/course_data.hpp"
#include "core/report/html/gantt_data.hpp"
#include "core/report/html/html_report.hpp"
#include "core/report/html/roofline_data.hpp"
#include "core/report/html/topology_data.hpp"

namespace rehearse {

PageParts step_pictures(const Session& session, const Program& program, const StepReport& report) {
  PageParts out{{"plan", plan_json(report.head.plan)}};
  const Seconds period = report.metrics.step_time;
  if (report.trace && !report.rows.empty()) {
    out.emplace_back("gantt", gantt_json({{report.trace.get(), report.rows, report.begin, period}}));
    out.emplace_back("course", course_json(program, report.memory, *report.trace, report.begin, period));
    out.emplace_back("topology", topology_json(session.cluster, {report.link_bytes, report.link_time, period}));
  }
  if (period > Seconds{0})
    out.emplace_back("roofline", roofline_json(program, session.cost_model(), report.slowest_rank));
  return out;
}

PageParts lesson_pictures(const std::vector<LessonAnswer>& answers) {
  auto list = nlohmann::ordered_json::array();
  for (const LessonAnswer& a : answers) {
    const StepReport& r = a.report;
    if (!r.trace || r.rows.empty() || !(r.metrics.step_time > Seconds{0})) continue;
    list.push_back(nlohmann::ordered_json::parse(gantt_json({{r.trace.get(), r.rows, r.begin, r.metrics.step_time}})));
    list.back()["name"] = a.key;
  }
  return {{"gantts", list.dump()}};
}

}  // namespace rehearse
