#include "core/import/nccl_tests.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/portable.hpp"
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
  const auto [end, failed] = number_from_chars(word.data(), word.data() + word.size(), out);
  if (failed != std::errc{} || end != word.data() + word.size() || !std::isfinite(out) || out < 0) return std::nullopt;
  return out;
}

/// "all_reduce_perf", "alltoall_perf", with a path or an MPI launcher before it. Programs whose operation is none of
/// ours are told too: else their tables would go by the name of the program before them.
std::string program_in(const std::string& line) {
  static const std::map<std::string, std::string> kPrograms{
      {"all_reduce_perf", "all_reduce"}, {"all_gather_perf", "all_gather"}, {"reduce_scatter_perf", "reduce_scatter"},
      {"broadcast_perf", "broadcast"},   {"reduce_perf", "reduce"},         {"alltoall_perf", "all_to_all"},
      {"sendrecv_perf", "send_recv"},    {"gather_perf", "gather"},         {"scatter_perf", "scatter"},
      {"alltoallv_perf", "alltoallv"},   {"hypercube_perf", "hypercube"}};
  for (const auto& [program, op] : kPrograms) {
    const auto at = line.find(program);
    if (at != std::string::npos &&
        (at == 0 || (std::isalpha(static_cast<unsigned char>(line[at - 1])) == 0 && line[at - 1] != '_')))
      return op;
  }
  return {};
}

/// Without every "[0]" of mpiexec -prepend-rank, which stands wherever a rank wrote a part of the line.
std::string without_ranks(std::string line, const std::string& tag) {
  for (std::size_t at = line.find(tag); at != std::string::npos; at = line.find(tag, at))
    line.replace(at, tag.size(), " ");
  return line;
}

/// Without "[1,0]<stdout>:" or "[1,0]<stderr>: " of mpirun --tag-output, "[0]" of mpiexec -prepend-rank and "0: " of
/// srun --label.
std::string without_tag(const std::string& line) {
  const auto skip = [&](std::size_t at, std::string_view set) {
    const std::size_t end = line.find_first_not_of(set, at);
    return end == std::string::npos ? line.size() : end;
  };
  constexpr std::string_view kDigits = "0123456789";
  std::size_t at = skip(0, " ");
  if (at < line.size() && line[at] == '[') {
    const std::size_t job = skip(at + 1, kDigits);
    if (job > at + 1 && job < line.size() && line[job] == ']')
      return without_ranks(line, line.substr(at, job + 1 - at));
    const std::size_t end = job < line.size() && line[job] == ',' ? skip(job + 1, kDigits) : line.size();
    if (end >= line.size() || line[end] != ']') return line;
    at = end + 1;
    for (const std::string_view stream : {"<stdout>", "<stderr>"})
      if (line.compare(at, stream.size(), stream) == 0) at += stream.size();
    return line.substr(at < line.size() && line[at] == ':' ? at + 1 : at);
  }
  const std::size_t end = skip(at, kDigits);
  return end > at && end < line.size() && line[end] == ':' ? line.substr(end + 1) : line;
}

/// A line of the head whose '#' is gone: pages take it for a heading's.
bool lost_its_mark(const std::vector<std::string>& words) {
  if (words.size() < 3) return false;
  return words[0] == "nThread" || (words[0] == "size" && words[1] == "count") ||
         (words[0] == "Avg" && words[1] == "bus") || (words[0] == "Out" && words[1] == "of") ||
         (words[0] == "Rank" && number(words[1]));
}

/// What a log puts before every line: "(head, rank=0, pid=3808) " and a launcher's tag. A line of the head shows it.
std::string prefix_in(const std::string& line) {
  const std::size_t mark = line.find('#');
  if (mark == std::string::npos || line.find_first_not_of(" \t") == mark) return {};
  return lost_its_mark(words_of(line.substr(mark + 1))) ? line.substr(0, mark) : std::string{};
}

class Parser {
 public:
  Parser(std::string origin, const NcclTestsOptions& options) : origin_(std::move(origin)), options_(options) {}

  std::vector<NcclTestsRun> run(std::string_view text) {
    std::istringstream in{std::string(text)};
    for (std::string line; std::getline(in, line);) {
      ++line_;
      line = without_tag(line);
      if (const std::string prefix = prefix_in(line); !prefix.empty()) prefix_ = prefix;
      read(!prefix_.empty() && line.starts_with(prefix_) ? line.substr(prefix_.size()) : line);
    }
    close();
    if (out_.empty() && (begun_ || !failure_.empty()))
      throw Error(ErrorKind::usage, "the head of a table of nccl-tests, but no row with a time", origin_,
                  failure_.empty() ? "keep all that the test prints" : "the test failed: " + failure_);
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
      if (line.find("test concluded") == std::string::npos) close();  // Else it names the table above it.
      op_ = op;
    }
    // "HOST: Test NCCL failure common.cu:1128 'unhandled cuda error'".
    if (failure_.empty() && line.find("failure ") != std::string::npos && line.find(".cu") != std::string::npos)
      failure_ = line;
    std::vector<std::string> words = words_of(line);
    if (words.empty()) return;
    if (lost_its_mark(words)) words.insert(words.begin(), "#");
    if (words[0] == "#") return header(words);
    if (words[0][0] == '#') return;
    if (number(words[0]) && in_table_) row(words);
  }

  void header(const std::vector<std::string>& words) {
    if (words.size() > 1 && words[1] == "nThread") return close();  // A new run.
    if (words.size() > 3 && words[1] == "Rank" && number(words[2])) listed(words);
    if (words.size() > 2 && words[1] == "size" && words[2] == "count") columns(words);
    if (words.size() > 2 && words[1] == "Avg" && words[2] == "bus") in_table_ = false;
    // "# Out of bounds values : 248 FAILED": all that tells it where the columns are 'error' and not '#wrong'.
    if (words.size() > 5 && words[1] == "Out" && words.back() == "FAILED" && !rows_.empty() &&
        std::find(header_.begin(), header_.end(), "#wrong") == header_.end())
      fail("wrong results: the test says that values are out of bounds",
           "times of a run with wrong results mean nothing");
  }

  /// "#  Rank  3 Group  0 Pid 1234 on HOST device  3 [0x..] NAME"
  void listed(const std::vector<std::string>& words) {
    if (!rows_.empty()) close();  // A new run whose first line is missing.
    begun_ = true;
    const auto on = std::find(words.begin(), words.end(), "on");
    if (on == words.end() || on + 1 == words.end()) return;
    const int rank = static_cast<int>(*number(words[2]));
    if (!hosts_.emplace(rank, *(on + 1)).second)
      fail(fmt::format("rank {} is listed twice: several processes ran the test, each for itself", rank),
           "build nccl-tests with MPI=1 and start them with mpirun; or keep the output of one process");
    const auto group = std::find(words.begin(), words.end(), "Group");
    if (group != words.end() && group + 1 != words.end()) groups_.insert(*(group + 1));
  }

  /// Names of columns, of which redop and root may be blank in rows: what counts stands from the right.
  void columns(const std::vector<std::string>& words) {
    header_.assign(words.begin() + 1, words.end());
    in_table_ = begun_ = true;
    if (std::count(header_.begin(), header_.end(), "time") != 2)
      fail("a header without two columns 'time'",
           "size, count, type, redop, root, and time, algbw, busbw, #wrong twice");
  }

  /// The word of a row below the header's column at `column`.
  [[nodiscard]] const std::string& below(const std::vector<std::string>& row, std::size_t column) const {
    return row[row.size() - (header_.size() - column)];
  }

  void row(const std::vector<std::string>& words) {
    const auto first = std::find(header_.begin(), header_.end(), "time");
    const auto chosen = options_.in_place ? std::find(first + 1, header_.end(), "time") : first;
    const auto time_at = static_cast<std::size_t>(chosen - header_.begin());
    // Size, count and type, and all from the first time on.
    if (words.size() > header_.size() || words.size() < 3 + static_cast<std::size_t>(header_.end() - first))
      fail(fmt::format("a row of {} columns below a header of {}", words.size(), header_.size()),
           "size, count, type, redop, root, and time, algbw, busbw, #wrong twice");
    const auto after = [&](const char* name) {
      const auto end = options_.in_place ? header_.end() : std::find(first + 1, header_.end(), "time");
      return static_cast<std::size_t>(std::find(chosen, end, name) - header_.begin());
    };
    const auto value = [&](std::size_t column) {
      return column < header_.size() ? number(below(words, column)) : std::nullopt;
    };
    const auto bytes = number(words[0]), time = value(time_at), algbw = value(after("algbw")),
               busbw = value(after("busbw"));
    if (!bytes || !time || !algbw || !busbw) fail("a row with no number where time, algbw and busbw stand");
    if (const std::size_t wrong = after("#wrong"); wrong < header_.size() && header_[wrong] == "#wrong")
      if (value(wrong).value_or(0) > 0)
        fail(fmt::format("{} wrong results", below(words, wrong)), "times of a run with wrong results mean nothing");
    if (*bytes == 0 || *time == 0) return;
    if (*algbw > 1) ratios_.push_back(*busbw / *algbw);  // Below that, two decimals tell no ratio.
    const auto [known, fresh] = rows_.emplace(*bytes, *time);
    if (!fresh) known->second = std::min(known->second, *time);
  }

  void close() {
    if (rows_.empty()) return reset();
    NcclTestsRun run;
    const int last = hosts_.empty() ? 0 : hosts_.rbegin()->first + 1;
    run.ranks = options_.ranks > 0 ? options_.ranks : last;
    if (options_.ranks == 0 && last > static_cast<int>(hosts_.size()))
      run.notes.push_back(fmt::format("{}:{}: {} of {} ranks are listed, the last of which is {}: {} ranks are taken",
                                      origin_, line_, hosts_.size(), last, last - 1, last));
    std::map<std::string, int> hosts;
    int most = 0;
    for (const auto& [rank, host] : hosts_) most = std::max(most, ++hosts[host]);
    run.nodes = options_.nodes > 0 ? options_.nodes : static_cast<int>(hosts.size());
    if (run.ranks == 1) fail("one rank alone: nothing is sent", "run it between several GPUs: -g 8, or with mpirun");
    if (run.ranks < 2)
      fail("the text does not say between how many ranks",
           "keep the lines '#  Rank  0 ... on HOST', or give --ranks and --nodes");
    if (groups_.size() > 1 && options_.ranks == 0)
      fail(fmt::format("{} groups of ranks that ran at once (NCCL_TESTS_SPLIT)", groups_.size()),
           "give --ranks and --nodes of one group, if they do not disturb each other");
    // Ranks that are not listed fit on the hosts that are, if all have as many as the fullest.
    if (options_.nodes == 0 && most * run.nodes < run.ranks && !hosts.empty())
      fail(fmt::format("{} of {} ranks are listed: the text does not say on how many nodes all are", hosts_.size(),
                       run.ranks),
           "keep all lines '#  Rank  0 ... on HOST', or give --nodes");
    if (run.nodes < 1 || run.nodes > run.ranks)
      fail(fmt::format("{} ranks on {} nodes", run.ranks, run.nodes), "give --nodes");
    run.op = operation(run.ranks);
    check_ratio(run.op, run.ranks);
    if (!failure_.empty())
      run.notes.push_back(
          fmt::format("{}:{}: the text holds a failure, perhaps of this run: {}", origin_, line_, failure_));
    for (const auto& [bytes, time] : rows_) run.rows.push_back({bytes, time});
    out_.push_back(std::move(run));
    reset();
  }

  [[nodiscard]] CollectiveOp operation(int ranks) const {
    if (!options_.op.empty()) return parse_collective_op(options_.op);
    if (op_ == "gather" || op_ == "scatter" || op_ == "alltoallv" || op_ == "hypercube")
      fail(fmt::format("{}_perf measured this: a table knows no such operation", op_),
           "leave its part out of the text");
    if (!op_.empty()) return parse_collective_op(op_);
    // Only all-reduce has twice the factor of the others, which share theirs.
    if (!ratios_.empty() && ranks > 2 && std::abs(ratio() - bus_factor(CollectiveOp::all_reduce, ranks)) < 0.02)
      return CollectiveOp::all_reduce;
    fail("the text does not say which collective it measured", "give --op, such as --op all_gather");
  }

  /// Median of busbw / algbw.
  [[nodiscard]] double ratio() const {
    std::vector<double> sorted = ratios_;
    std::sort(sorted.begin(), sorted.end());
    return sorted[sorted.size() / 2];
  }

  /// nccl-tests' busbw is algbw times a factor of the collective and its ranks: another factor shows that one of both
  /// is not what was run. 0.03: what two decimals leave open where algbw is just above 1 GB/s.
  void check_ratio(CollectiveOp op, int ranks) const {
    if (ratios_.empty() || std::abs(ratio() - bus_factor(op, ranks)) < 0.03) return;
    fail(fmt::format("busbw is {:.2f} times algbw, but {:.2f} times for {} between {} ranks", ratio(),
                     bus_factor(op, ranks), name_of(op), ranks),
         "does the text name another program, or do --op and --ranks fit it?");
  }

  void reset() {
    rows_.clear();
    ratios_.clear();
    hosts_.clear();
    groups_.clear();
    if (!out_.empty()) failure_.clear();
    in_table_ = false;
  }

  std::string origin_, op_, prefix_, failure_;
  const NcclTestsOptions& options_;
  int line_ = 0;
  std::vector<std::string> header_;
  bool in_table_ = false, begun_ = false;
  std::map<int, std::string> hosts_;
  std::set<std::string> groups_;
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
