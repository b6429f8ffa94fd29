#include "core/report/results/collective_report.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace rehearse {
namespace {

std::string bandwidth_text(double gb_per_s) { return fmt::format("{:.2f}", gb_per_s); }

/// Four or five significant digits, as nccl-tests prints times.
std::string time_text(double us) {
  return us < 100 ? fmt::format("{:.2f}", us) : us < 10000 ? fmt::format("{:.1f}", us) : fmt::format("{:.0f}", us);
}

std::string heading(const CollectiveReport& r) {
  return fmt::format("{} on {}: {} ranks, {} node{} x {} GPU{}", name_of(r.op), r.cluster, r.ranks, r.nodes,
                     r.nodes == 1 ? "" : "s", r.per_node, r.per_node == 1 ? "" : "s");
}

Table shown(const CollectiveReport& r) {
  Table t;
  t.columns = {{"size B", true}, {"count", true}, {"type"},      {"redop"},    {"time us", true},
               {"algbw", true},  {"busbw", true}, {"algorithm"}, {"protocol"}, {"ch", true}};
  for (const CollectiveRow& row : r.rows)
    t.rows.push_back({fmt::format("{:.0f}", row.bytes.value()), fmt::format("{:.0f}", row.count), r.type, r.redop,
                      time_text(row.time.value() * 1e6) + (row.choice.from_table ? "*" : ""),
                      bandwidth_text(row.algbw()), bandwidth_text(row.busbw(r.op, r.ranks)), row.choice.algorithm,
                      row.choice.protocol, std::to_string(row.choice.channels)});
  return t;
}

Table records_of(const CollectiveReport& r) {
  Table t;
  for (const char* title : {"bytes", "count", "type", "redop", "time_us", "algbw_GBps", "busbw_GBps", "algorithm",
                            "protocol", "channels", "from_table"})
    t.columns.push_back({title});
  for (const CollectiveRow& row : r.rows)
    t.rows.push_back({fmt::format("{:.0f}", row.bytes.value()), fmt::format("{:.0f}", row.count), r.type, r.redop,
                      fmt::format("{:.6g}", row.time.value() * 1e6), fmt::format("{:.6g}", row.algbw()),
                      fmt::format("{:.6g}", row.busbw(r.op, r.ranks)), row.choice.algorithm, row.choice.protocol,
                      std::to_string(row.choice.channels), row.choice.from_table ? "true" : "false"});
  return t;
}

std::string json_of(const CollectiveReport& r) {
  nlohmann::ordered_json out{{"schema", "rehearse/collectives/v1"},
                             {"version", r.program_version},
                             {"op", name_of(r.op)},
                             {"cluster", r.cluster},
                             {"ranks", r.ranks},
                             {"nodes", r.nodes},
                             {"type", r.type},
                             {"redop", r.redop},
                             {"backend", r.backend},
                             {"rows", nlohmann::ordered_json::array()}};
  for (const CollectiveRow& row : r.rows) {
    out["rows"].push_back({{"bytes", row.bytes.value()},
                           {"count", row.count},
                           {"time_us", row.time.value() * 1e6},
                           {"algbw_GBps", row.algbw()},
                           {"busbw_GBps", row.busbw(r.op, r.ranks)},
                           {"algorithm", row.choice.algorithm},
                           {"protocol", row.choice.protocol},
                           {"channels", row.choice.channels},
                           {"from_table", row.choice.from_table}});
  }
  out["average_busbw_GBps"] = r.average_busbw();
  out["rests_on"] = r.rests_on;
  return out.dump(2) + "\n";
}

}  // namespace

double CollectiveRow::algbw() const { return time > Seconds{0} ? bytes.value() / time.value() / 1e9 : 0; }
double CollectiveRow::busbw(CollectiveOp op, int ranks) const { return algbw() * bus_factor(op, ranks); }

double CollectiveReport::average_busbw() const {
  double sum = 0;
  for (const CollectiveRow& row : rows) sum += row.busbw(op, ranks);
  return rows.empty() ? 0 : sum / static_cast<double>(rows.size());
}

Document collective_document(const CollectiveReport& report) {
  Document out;
  out.blocks.push_back(Heading{heading(report)});
  out.blocks.push_back(shown(report));
  const bool measured = std::any_of(report.rows.begin(), report.rows.end(),
                                    [](const CollectiveRow& row) { return row.choice.from_table; });
  out.blocks.push_back(Paragraph{fmt::format("Bandwidths in GB/s; ch: channels, one SM each{}.",
                                             measured ? "; * measured, from the table given" : "")});
  out.blocks.push_back(Facts{
      "", {{"Avg bus bandwidth", fmt::format("{:.4g} GB/s", report.average_busbw())}, {"played by", report.backend}}});
  for (const std::string& line : report.rests_on) out.blocks.push_back(Paragraph{line});
  out.records = records_of(report);
  out.json = json_of(report);
  return out;
}

}  // namespace rehearse
