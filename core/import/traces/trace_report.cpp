#include "core/import/traces/trace_report.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/index.hpp"
#include "core/play/words.hpp"
#include "core/strategy/workload.hpp"

namespace rehearse {

namespace {

nlohmann::ordered_json json_of(const OperationTotal& t, bool call) {
  nlohmann::ordered_json out{{"count", t.count}, {"seconds", t.time.value()}};
  if (call)
    out["waiting_s"] = t.waiting.value(), out["bytes"] = t.bytes.value();
  else if (t.work > Flops{0})
    out["flops"] = t.work.value();
  return out;
}

Table rank_table(const JobTrace& job, const std::vector<RankTotals>& totals) {
  Table out{"Device time per rank, ms",
            {{"rank", true},
             {"kernels", true},
             {"kernel time", true},
             {"calls", true},
             {"communication", true},
             {"waiting", true},
             {"clock set by", true},
             {"file"}},
            {}};
  for (std::size_t r = 0; r < totals.size(); ++r) {
    const OperationTotal kernels = RankTotals::sum(totals[r].kernels), calls = RankTotals::sum(totals[r].calls);
    out.rows.push_back({std::to_string(job.ranks[r].rank), std::to_string(kernels.count), milliseconds(kernels.time),
                        std::to_string(calls.count), milliseconds(calls.time - calls.waiting),
                        milliseconds(calls.waiting), fmt::format("{:+.3f}", job.correction[r].value() * 1e3),
                        job.ranks[r].file.substr(job.ranks[r].file.find_last_of('/') + 1)});
  }
  return out;
}

Table operation_table(const std::map<std::string, OperationTotal>& all, bool calls, int ranks) {
  Table out{calls ? "Calls, mean of the ranks" : "Kernels, mean of the ranks",
            {{calls ? "call" : "class"}, {"count", true}, {"ms", true}},
            {}};
  if (calls) out.columns.push_back({"waiting ms", true}), out.columns.push_back({"bytes", true});
  std::vector<std::pair<std::string, OperationTotal>> order(all.begin(), all.end());
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return b.second.time < a.second.time; });
  const double share = 1.0 / ranks;
  for (const auto& [name, t] : order) {
    out.rows.push_back(
        {name, fmt::format("{:.6g}", static_cast<double>(t.count) * share), milliseconds(t.time * share)});
    if (calls)
      out.rows.back().push_back(milliseconds(t.waiting * share)),
          out.rows.back().push_back(t.bytes > Bytes{0} ? to_string(t.bytes * share) : "not said");
    out.bars.push_back(t.time / max(order.front().second.time, Seconds{1e-12}));
  }
  return out;
}

std::string json_text(const JobTrace& job, const std::vector<RankTotals>& totals, const MeasuredWorkload* workload) {
  nlohmann::ordered_json out{{"schema", "rehearse/trace_report/v1"},
                             {"world_size", job.ranks.front().world_size},
                             {"matched", job.matched.size()},
                             {"how_matched", job.how_matched}};
  for (std::size_t r = 0; r < totals.size(); ++r) {
    const RankTrace& t = job.ranks[r];
    nlohmann::ordered_json rank{{"rank", t.rank},
                                {"file", t.file},
                                {"gpu", t.gpu},
                                {"entries", t.all_events},
                                {"clock_s", job.correction[r].value()}};
    rank["kernels"] = nlohmann::ordered_json::object();
    rank["calls"] = nlohmann::ordered_json::object();
    for (const auto& [name, total] : totals[r].kernels) rank["kernels"][name] = json_of(total, false);
    for (const auto& [name, total] : totals[r].calls) rank["calls"][name] = json_of(total, true);
    for (const StepWindow& s : t.steps)
      rank["steps"].push_back({{"name", s.name}, {"seconds", (s.end - s.begin).value()}});
    out["ranks"].push_back(std::move(rank));
  }
  if (workload != nullptr)
    out["workload"] = {
        {"step", workload->step}, {"measured_step_s", workload->measured_step.value()}, {"notes", workload->notes}};
  return out.dump(2) + "\n";
}

}  // namespace

OperationTotal& OperationTotal::operator+=(const OperationTotal& more) {
  count += more.count;
  time += more.time;
  waiting += more.waiting;
  bytes += more.bytes;
  work += more.work;
  return *this;
}

OperationTotal RankTotals::sum(const std::map<std::string, OperationTotal>& of) {
  OperationTotal out;
  for (const auto& [name, total] : of) out += total;
  return out;
}

RankTotals rank_totals(const JobTrace& job, int rank_index, const StepWindow* window) {
  RankTotals out;
  const RankTrace& rank = nth(job.ranks, rank_index);
  for (std::size_t i = 0; i < rank.events.size(); ++i) {
    const DeviceEvent& e = rank.events[i];
    if (window != nullptr && (e.begin < window->begin || !(e.begin < window->end))) continue;
    if (e.call < 0) {
      out.kernels[std::string(name_of(e.cls))] += {1, e.duration, {}, {}, rank.work.empty() ? Flops{0} : rank.work[i]};
      continue;
    }
    const CommunicationCall& c = nth(rank.calls, e.call);
    out.calls[c.op] += {1, e.duration, job.waiting(rank_index, static_cast<std::int32_t>(i)), c.bytes, {}};
  }
  return out;
}

Document trace_document(const JobTrace& job, const MeasuredWorkload* workload) {
  std::vector<RankTotals> totals;
  RankTotals all;
  for (std::size_t r = 0; r < job.ranks.size(); ++r) {
    totals.push_back(rank_totals(job, static_cast<int>(r)));
    for (const auto& [name, t] : totals.back().kernels) all.kernels[name] += t;
    for (const auto& [name, t] : totals.back().calls) all.calls[name] += t;
  }
  Document out;
  const RankTrace& first = job.ranks.front();
  const int world = std::max(first.world_size, static_cast<int>(job.ranks.size()));
  out.blocks.emplace_back(Heading{fmt::format("{} of {} rank{}{}", job.ranks.size(), world, world == 1 ? "" : "s",
                                              first.gpu.empty() ? "" : " on " + first.gpu)});
  out.blocks.emplace_back(
      Facts{"",
            {{"ranks", job.how_matched},
             {"steps", first.steps.empty() ? "none marked"
                                           : fmt::format("{}: {} to {}", first.steps.size(), first.steps.front().name,
                                                         first.steps.back().name)}}});
  out.blocks.emplace_back(rank_table(job, totals));
  if (!all.kernels.empty())
    out.blocks.emplace_back(operation_table(all.kernels, false, static_cast<int>(job.ranks.size())));
  if (!all.calls.empty()) out.blocks.emplace_back(operation_table(all.calls, true, static_cast<int>(job.ranks.size())));
  if (workload != nullptr) {
    out.blocks.emplace_back(Paragraph{fmt::format(
        "{}, {} long, can be played: rehearse simulate FILE --set cluster.machine=NAME --set cluster.nodes=N. May be "
        "changed: cluster, data_parallel (the batch per "
        "replica stays), kernel_scale, calls. May not: model, batch per replica, precision and the other axes, whose "
        "kernels would be others; nor messages between pipeline stages whose other end is not traced.",
        workload->step, to_string(workload->measured_step))});
    for (const std::string& note : workload->notes)
      out.blocks.emplace_back(Paragraph{"Taken for granted: " + note + "."});
  }
  out.records = {
      "",
      {{"rank", true}, {"kind"}, {"name"}, {"count", true}, {"seconds", true}, {"waiting_s", true}, {"bytes", true}},
      {}};
  for (std::size_t r = 0; r < totals.size(); ++r)
    for (const bool calls : {false, true})
      for (const auto& [name, t] : calls ? totals[r].calls : totals[r].kernels)
        out.records.rows.push_back({std::to_string(job.ranks[r].rank), calls ? "call" : "kernel", name,
                                    std::to_string(t.count), fmt::format("{}", t.time.value()),
                                    fmt::format("{}", t.waiting.value()), fmt::format("{}", t.bytes.value())});
  out.json = json_text(job, totals, workload);
  return out;
}

}  // namespace rehearse
