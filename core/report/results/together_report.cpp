#include "core/report/results/together_report.hpp"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/report/results/comparison.hpp"

namespace rehearse {

namespace {

using nlohmann::ordered_json;

constexpr std::size_t kLinksShown = 8;
constexpr std::size_t kColumns = 5;  ///< Jobs that have a column each.
/// Steps that differ by less are the same but for rounding.
constexpr double kSame = 1e-6;

/// "0-3,8".
std::string ranges(std::vector<NodeId> nodes) {
  std::sort(nodes.begin(), nodes.end());
  std::string out;
  for (std::size_t i = 0; i < nodes.size();) {
    std::size_t last = i;
    while (last + 1 < nodes.size() && nodes[last + 1] == nodes[last] + 1) ++last;
    out += fmt::format("{}{}", out.empty() ? "" : ",", nodes[i]);
    if (last > i) out += fmt::format("-{}", nodes[last]);
    i = last + 1;
  }
  return out;
}

Seconds worst_of(const std::vector<Seconds>& times) {
  return times.empty() ? Seconds{} : *std::max_element(times.begin(), times.end());
}

double times_alone(const TogetherJob& job) {
  const Seconds alone = median_of(job.alone);
  return alone > Seconds{} ? median_of(job.beside) / alone : 1;
}

std::string percent(double share) { return fmt::format("{:.0f} %", 100 * share); }

std::string verdict(const TogetherReport& r) {
  if (r.jobs.size() == 1) return "One job has nobody beside it.";
  std::vector<std::size_t> held;
  for (std::size_t i = 0; i < r.jobs.size(); ++i)
    if (times_alone(r.jobs[i]) > 1 + kSame) held.push_back(i);
  if (held.empty())
    return r.links.empty() ? "No two of them cross a common link: each is as fast as alone."
                           : "They cross common links, and half of each one's steps are as fast as alone.";
  const std::size_t worst = *std::max_element(held.begin(), held.end(), [&](std::size_t a, std::size_t b) {
    return times_alone(r.jobs[a]) < times_alone(r.jobs[b]);
  });
  return fmt::format(
      "{} of {} jobs are slower beside the others. {} loses most: half of its steps take {:.3f} times as "
      "long as alone, or longer.",
      held.size(), r.jobs.size(), letter_of(worst), times_alone(r.jobs[worst]));
}

Table jobs_table(const TogetherReport& r) {
  Table t{"",
          {{"job"},
           {"scenario"},
           {"GPUs", true},
           {"nodes"},
           {"begins", true},
           {"alone", true},
           {"worst", true},
           {"beside", true},
           {"worst", true},
           {"times", true}},
          {},
          {}};
  for (std::size_t i = 0; i < r.jobs.size(); ++i) {
    const TogetherJob& j = r.jobs[i];
    t.rows.push_back({letter_of(i), j.name, fmt::format("{}", j.plan.gpus), ranges(j.nodes), to_string(j.begin),
                      to_string(median_of(j.alone)), to_string(worst_of(j.alone)), to_string(median_of(j.beside)),
                      to_string(worst_of(j.beside)), fmt::format("{:.3f}", times_alone(j))});
  }
  return t;
}

/// Who wants a link, where there are too many jobs for a column each.
std::string wanted_by(const SharedLink& link) {
  std::string out;
  for (std::size_t i = 0; i < link.asked.size(); ++i)
    if (link.asked[i] > 0) out += (out.empty() ? "" : " ") + letter_of(i);
  return out;
}

Table links_table(const TogetherReport& r) {
  const bool each = r.jobs.size() <= kColumns;
  Table t{"Links that they share, most wanted first", {{"link"}, {"rate", true}}, {}, {}};
  for (std::size_t i = 0; each && i < r.jobs.size(); ++i) t.columns.push_back({letter_of(i), true});
  t.columns.push_back({"all", true});
  if (!each) t.columns.push_back({"jobs"});
  for (std::size_t l = 0; l < std::min(r.links.size(), kLinksShown); ++l) {
    const SharedLink& link = r.links[l];
    std::vector<std::string> row{link.name, to_string(link.rate)};
    for (std::size_t i = 0; each && i < link.asked.size(); ++i)
      row.push_back(link.asked[i] > 0 ? percent(link.asked[i]) : "");
    row.push_back(percent(link.all_asked()));
    if (!each) row.push_back(wanted_by(link));
    t.rows.push_back(std::move(row));
  }
  return t;
}

std::string notes(const TogetherReport& r) {
  std::string out;
  if (r.links.size() > kLinksShown) out += fmt::format("{} more links are shared. ", r.links.size() - kLinksShown);
  if (!r.links.empty())
    out +=
        "A link's figures say what part of the time it works for each job alone, and for all; jobs that send at "
        "the same moment hold each other up far below 100 %. ";
  for (std::size_t i = 0; i < r.jobs.size(); ++i)
    if (r.jobs.size() > 1 && r.jobs[i].accompanied < 1 - kSame)
      out += fmt::format("{} had another job beside it for {} of its time. ", letter_of(i),
                         percent(r.jobs[i].accompanied));
  return out;
}

ordered_json times_json(const std::vector<Seconds>& times) {
  ordered_json steps = ordered_json::array();
  for (const Seconds t : times) steps.push_back(t.value());
  return {{"step_time_s", median_of(times).value()}, {"worst_s", worst_of(times).value()}, {"steps_s", steps}};
}

std::string json_of(const TogetherReport& r) {
  ordered_json jobs = ordered_json::array(), links = ordered_json::array();
  for (const TogetherJob& j : r.jobs) {
    jobs.push_back({{"name", j.name},
                    {"model", j.plan.model},
                    {"gpus", j.plan.gpus},
                    {"nodes", j.nodes},
                    {"begin_s", j.begin.value()},
                    {"alone", times_json(j.alone)},
                    {"beside", times_json(j.beside)},
                    {"times", times_alone(j)},
                    {"accompanied", j.accompanied}});
  }
  for (const SharedLink& l : r.links)
    links.push_back({{"name", l.name}, {"rate_Bps", l.rate.value()}, {"asked", l.asked}});
  return ordered_json{{"schema", kTogetherSchema}, {"version", r.version},     {"cluster", r.cluster},
                      {"placement", r.placement},  {"backend", r.backend},     {"steps", r.steps},
                      {"jobs", std::move(jobs)},   {"links", std::move(links)}}
             .dump(2) +
         "\n";
}

Table records(const TogetherReport& r) {
  Table t{"",
          {{"job"},
           {"gpus", true},
           {"begin_s", true},
           {"alone_s", true},
           {"alone_worst_s", true},
           {"beside_s", true},
           {"beside_worst_s", true},
           {"times", true}},
          {},
          {}};
  for (const TogetherJob& j : r.jobs) {
    std::vector<std::string> row{j.name, fmt::format("{}", j.plan.gpus)};
    for (const double v : {j.begin.value(), median_of(j.alone).value(), worst_of(j.alone).value(),
                           median_of(j.beside).value(), worst_of(j.beside).value(), times_alone(j)})
      row.push_back(fmt::format("{}", v));
    t.rows.push_back(std::move(row));
  }
  return t;
}

}  // namespace

double SharedLink::all_asked() const { return std::accumulate(asked.begin(), asked.end(), 0.0); }

Seconds median_of(std::vector<Seconds> times) {
  if (times.empty()) return {};
  std::sort(times.begin(), times.end());
  const std::size_t half = times.size() / 2;
  return times.size() % 2 == 1 ? times[half] : (times[half - 1] + times[half]) / 2;
}

Document together_document(const TogetherReport& r) {
  Document d;
  d.blocks.emplace_back(
      Heading{fmt::format("{} job{} together on {}", r.jobs.size(), r.jobs.size() == 1 ? "" : "s", r.cluster)});
  d.blocks.emplace_back(
      Facts{"", {{"nodes", r.placement}, {"steps", fmt::format("{} of each", r.steps)}, {"played by", r.backend}}});
  d.blocks.emplace_back(Paragraph{verdict(r)});
  d.blocks.emplace_back(jobs_table(r));
  if (!r.links.empty()) d.blocks.emplace_back(links_table(r));
  if (const std::string text = notes(r); !text.empty()) d.blocks.emplace_back(Paragraph{text});
  d.records = records(r);
  d.json = json_of(r);
  return d;
}

}  // namespace rehearse
