#include "core/import/nccl_tests.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/collective/collective.hpp"

namespace rehearse {

namespace {

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> out;
  for (std::string word; in >> word;) out.push_back(word);
  return out;
}

std::optional<double> number(const std::string& word) {
  double out = 0;
  const auto [end, failed] = std::from_chars(word.data(), word.data() + word.size(), out);
  if (failed != std::errc{} || end != word.data() + word.size() || !std::isfinite(out) || out < 0) return std::nullopt;
  return out;
}

/// "all_reduce_perf", "alltoall_perf", with a path or an MPI launcher before it.
std::string program_in(const std::string& line) {
  static const std::map<std::string, std::string> kPrograms{
      {"all_reduce_perf", "all_reduce"}, {"all_gather_perf", "all_gather"}, {"reduce_scatter_perf", "reduce_scatter"},
      {"broadcast_perf", "broadcast"},   {"reduce_perf", "reduce"},         {"alltoall_perf", "all_to_all"},
      {"sendrecv_perf", "send_recv"}};
  for (const auto& [program, op] : kPrograms) {
    const auto at = line.find(program);
    if (at != std::string::npos &&
        (at == 0 || (std::isalpha(static_cast<unsigned char>(line[at - 1])) == 0 && line[at - 1] != '_')))
      return op;
  }
  return {};
}

class Parser {
 public:
  Parser(std::string origin, const NcclTestsOptions& options) : origin_(std::move(origin)), options_(options) {}

  std::vector<NcclTestsRun> run(std::string_view text) {
    std::istringstream in{std::string(text)};
    for (std::string line; std::getline(in, line);) {
      ++line_;
      read(line);
    }
    close();
    if (out_.empty())
      throw Error(ErrorKind::usage, "no table of nccl-tests in it", origin_,
                  "run e.g. all_reduce_perf -b 8 -e 8G -f 2 -g 8 and keep all that it prints");
    return std::move(out_);
  }

 private:
  [[noreturn]] void fail(const std::string& what, const std::string& hint = {}) const {
    throw Error(ErrorKind::usage, what, fmt::format("{}:{}", origin_, line_), hint);
  }

  void read(const std::string& line) {
    if (const std::string op = program_in(line); !op.empty()) {
      close();
      op_ = op;
    }
    const std::vector<std::string> words = words_of(line);
    if (words.empty()) return;
    if (words[0] == "#") return header(words);
    if (words[0][0] == '#') return;
    if (number(words[0]) && in_table_) row(words);
  }

  void header(const std::vector<std::string>& words) {
    if (words.size() > 1 && words[1] == "nThread") return close();  // A new run.
    // "#  Rank  3 Group  0 Pid 1234 on HOST device  3 [0x..] NAME"
    if (words.size() > 3 && words[1] == "Rank" && number(words[2])) {
      const auto on = std::find(words.begin(), words.end(), "on");
      if (on != words.end() && on + 1 != words.end()) hosts_[static_cast<int>(*number(words[2]))] = *(on + 1);
    }
    if (words.size() > 2 && words[1] == "size" && words[2] == "count") in_table_ = true;
    if (words.size() > 2 && words[1] == "Avg" && words[2] == "bus") in_table_ = false;
  }

  /// size count type [redop] [root] time algbw busbw #wrong time algbw busbw #wrong: the last eight are what counts.
  void row(const std::vector<std::string>& words) {
    const bool checked = words.size() >= 11;
    const std::size_t columns = checked ? 4 : 3;
    if (words.size() < 3 + 2 * columns)
      fail(fmt::format("a row of {} columns", words.size()),
           "size, count, type, redop, root, and time, algbw, busbw, #wrong twice");
    const std::size_t at = words.size() - (options_.in_place ? 1 : 2) * columns;
    const auto bytes = number(words[0]), time = number(words[at]), algbw = number(words[at + 1]),
               busbw = number(words[at + 2]);
    if (!bytes || !time || !algbw || !busbw) fail("a row with no number where time, algbw and busbw stand");
    if (checked && words[at + 3] != "N/A" && number(words[at + 3]).value_or(0) > 0)
      fail(fmt::format("{} wrong results", words[at + 3]), "times of a run with wrong results mean nothing");
    if (*bytes == 0 || *time == 0) return;
    if (*algbw > 1) ratios_.push_back(*busbw / *algbw);  // Below that, two decimals tell no ratio.
    const auto [known, fresh] = rows_.emplace(*bytes, *time);
    if (!fresh) known->second = std::min(known->second, *time);
  }

  void close() {
    if (rows_.empty()) return reset();
    NcclTestsRun run;
    run.ranks = options_.ranks > 0 ? options_.ranks : static_cast<int>(hosts_.size());
    std::set<std::string> hosts;
    for (const auto& [rank, host] : hosts_) hosts.insert(host);
    run.nodes = options_.nodes > 0 ? options_.nodes : static_cast<int>(hosts.size());
    if (run.ranks < 2)
      fail("the text does not say between how many ranks",
           "keep the lines '#  Rank  0 ... on HOST', or give --ranks and --nodes");
    if (run.nodes < 1 || run.nodes > run.ranks)
      fail(fmt::format("{} ranks on {} nodes", run.ranks, run.nodes), "give --nodes");
    run.op = operation(run.ranks);
    for (const auto& [bytes, time] : rows_) run.rows.push_back({bytes, time});
    out_.push_back(std::move(run));
    reset();
  }

  [[nodiscard]] CollectiveOp operation(int ranks) const {
    if (!options_.op.empty()) return parse_collective_op(options_.op);
    if (!op_.empty()) return parse_collective_op(op_);
    if (!ratios_.empty()) {
      std::vector<double> sorted = ratios_;
      std::sort(sorted.begin(), sorted.end());
      // Only all-reduce has twice the factor of the others, which share theirs.
      if (ranks > 2 && std::abs(sorted[sorted.size() / 2] - bus_factor(CollectiveOp::all_reduce, ranks)) < 0.02)
        return CollectiveOp::all_reduce;
    }
    fail("the text does not say which collective it measured", "give --op, such as --op all_gather");
  }

  void reset() {
    rows_.clear();
    ratios_.clear();
    hosts_.clear();
    in_table_ = false;
  }

  std::string origin_, op_;
  const NcclTestsOptions& options_;
  int line_ = 0;
  bool in_table_ = false;
  std::map<int, std::string> hosts_;
  std::map<double, double> rows_;
  std::vector<double> ratios_;
  std::vector<NcclTestsRun> out_;
};

}  // namespace

std::vector<NcclTestsRun> parse_nccl_tests(std::string_view text, const std::string& origin,
                                           const NcclTestsOptions& options) {
  return Parser(origin, options).run(text);
}

std::string collective_table_json(const std::vector<NcclTestsRun>& runs, const std::string& source) {
  nlohmann::ordered_json out{{"schema", "rehearse/collective_table/v1"}, {"tables", nlohmann::ordered_json::array()}};
  for (const NcclTestsRun& run : runs) {
    nlohmann::ordered_json table{{"op", name_of(run.op)},
                                 {"ranks", run.ranks},
                                 {"nodes", run.nodes},
                                 {"source", "nccl-tests"},
                                 {"rows", nlohmann::ordered_json::array()}};
    for (const NcclTestsRun::Row& row : run.rows)
      table["rows"].push_back({fmt::format("{:.0f}B", row.bytes), fmt::format("{}us", row.time_us)});
    out["tables"].push_back(std::move(table));
  }
  out["sources"]["nccl-tests"] = {{"text", source}, {"evidence", "measured_here"}};
  return out.dump(1) + "\n";
}

}  // namespace rehearse
