#include "core/import/nccl_tests.hpp"
#include "core/base/error.hpp"
#include "core/collective/collective_table.hpp"
#include "tests/support/catch.hpp"

namespace rehearse {
namespace {

/// As nccl-tests 2.13 prints it, for four ranks on two hosts.
std::string output(const std::string& rows, const std::string& program = "") {
  std::string out = program.empty() ? "" : "$ mpirun -np 4 ./build/" + program + " -b 1M -e 4M -f 2 -g 1\n";
  out +=
      "# nThread 1 nGpus 1 minBytes 1048576 maxBytes 4194304 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 "
      "validation: 1 graph: 0\n#\n# Using devices\n";
  for (int r = 0; r < 4; ++r)
    out += "#  Rank  " + std::to_string(r) + " Group  0 Pid  " + std::to_string(100 + r) + " on      host" +
           std::to_string(r / 2) + " device  0 [0x10] NVIDIA A100-SXM4-80GB\n";
  return out +
         "#\n#                                                              out-of-place                       "
         "in-place\n"
         "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   "
         "busbw #wrong\n"
         "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  "
         "(GB/s)\n" +
         rows + "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 41.2\n#\n";
}

const char* const kRows =
    "     1048576        262144     float     sum      -1    80.00   13.11   19.66      0    70.00   14.98   22.47     "
    " 0\n"
    "     4194304       1048576     float     sum      -1    160.0   26.21   39.32      0    150.0   27.96   41.94     "
    " 0\n";

/// The rows of a collective whose busbw is 3/4 of algbw between four ranks.
const char* const kGatherRows =
    "     1048576        262144     float    none      -1    80.00   13.11    9.83      0    70.00   14.98   11.24     "
    " 0\n";
/// And of one whose busbw is algbw.
const char* const kBroadcastRows =
    "     1048576        262144     float    none       0    80.00   13.11   13.11      0    70.00   14.98   14.98     "
    " 0\n";

TEST_CASE("nccl-tests' rows become a table that predicts what was measured") {
  const auto runs = parse_nccl_tests(output(kRows, "all_reduce_perf"), "run.txt", {});
  REQUIRE(runs.size() == 1);
  CHECK(runs[0].op == CollectiveOp::all_reduce);
  CHECK(runs[0].ranks == 4);
  CHECK(runs[0].nodes == 2);
  const CollectiveTable table = CollectiveTable::parse(collective_table_json(runs, "our nodes"), "table.json");
  const auto model = [](Bytes) { return Seconds{1}; };
  CHECK(table.time(CollectiveOp::all_reduce, 4, 2, Bytes{1048576}, model)->value() == Approx(80e-6));
  CHECK(table.time(CollectiveOp::all_reduce, 4, 2, Bytes{4194304}, model)->value() == Approx(160e-6));
  CHECK_FALSE(table.time(CollectiveOp::all_gather, 4, 2, Bytes{4194304}, model));
}

TEST_CASE("In-place columns are the last four") {
  NcclTestsOptions options;
  options.in_place = true;
  CHECK(parse_nccl_tests(output(kRows, "all_reduce_perf"), "run.txt", options)[0].rows[0].time_us == 70);
}

TEST_CASE("Two programs in one file are two tables") {
  const auto runs =
      parse_nccl_tests(output(kRows, "all_reduce_perf") + output(kGatherRows, "alltoall_perf"), "run.txt", {});
  REQUIRE(runs.size() == 2);
  CHECK(runs[1].op == CollectiveOp::all_to_all);
}

TEST_CASE("The ratio of bandwidths tells an all-reduce, and only that") {
  CHECK(parse_nccl_tests(output(kRows), "run.txt", {})[0].op == CollectiveOp::all_reduce);  // 2 * 3/4.
  CHECK_THROWS_AS(parse_nccl_tests(output(kGatherRows), "run.txt", {}), Error);
  NcclTestsOptions options;
  options.op = "all_gather";
  CHECK(parse_nccl_tests(output(kGatherRows), "run.txt", options)[0].op == CollectiveOp::all_gather);
}

/// The same text with another header and other rows.
std::string with_table(const std::string& header, const std::string& rows) {
  std::string out = output(rows, "all_reduce_perf");
  const std::size_t at = out.find("#       size");
  return out.replace(at, out.find('\n', at) - at, header);
}

TEST_CASE("Columns are those that the header names") {
  // Releases that print what NCCL chose, and ones before #wrong, whose column 'error' is the largest deviation.
  const std::string chosen = with_table(
      "#       size         count      type   redop    root    algo   proto nchannels     time   algbw   busbw #wrong  "
      "   "
      "time   algbw   busbw #wrong",
      "     1048576        262144     float     sum      -1    RING  SIMPLE        16    80.00   13.11   19.66      0  "
      "  "
      "70.00   14.98   22.47      0\n");
  const std::string old = with_table(
      "#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error",
      "     1048576        262144   float     sum    80.00   13.11   19.66  2e-07    70.00   14.98   22.47  1e-07\n");
  NcclTestsOptions in_place;
  in_place.in_place = true;
  for (const std::string& text : {chosen, old}) {
    CHECK(parse_nccl_tests(text, "run.txt", {})[0].rows[0].time_us == 80);
    CHECK(parse_nccl_tests(text, "run.txt", in_place)[0].rows[0].time_us == 70);
  }
}

TEST_CASE("A launcher's tags are taken off, and ranks that are not listed are said") {
  const std::string text = output(kRows, "all_reduce_perf");
  for (const std::string tag :
       {"[1,0]<stdout>:", "[1,0]<stdout>: ", "0: ", " 12: ", "[0] ", "> ", "(head, rank=0, pid=3808) [1,0]<stdout>:"}) {
    std::string tagged = tag;
    for (const char c : text) tagged += c == '\n' ? "\n" + tag : std::string(1, c);
    const auto runs = parse_nccl_tests(tagged, "run.txt", {});
    REQUIRE(runs.size() == 1);
    CHECK(runs[0].rows.size() == 2);
    CHECK(runs[0].ranks == 4);
    CHECK(runs[0].notes.empty());
  }
  std::string fewer = text;
  const std::size_t second = fewer.find("#  Rank  1");
  fewer.erase(second, fewer.find('\n', second) - second + 1);
  const auto runs = parse_nccl_tests(fewer, "run.txt", {});
  CHECK(runs[0].ranks == 4);
  REQUIRE(runs[0].notes.size() == 1);
  CHECK(runs[0].notes[0].find("3 of 4 ranks") != std::string::npos);
}

TEST_CASE("A table is read when a page has taken the marks of its head") {
  std::string text = output(kRows, "all_reduce_perf");
  std::erase(text, '#');
  const auto runs = parse_nccl_tests(text, "run.txt", {});
  REQUIRE(runs.size() == 1);
  CHECK(runs[0].ranks == 4);
  CHECK(runs[0].nodes == 2);
  CHECK(runs[0].rows.size() == 2);
}

TEST_CASE("A last line may name the collective of the table above it") {
  // As ROCm/rccl pull request 2075 shows it.
  const std::string gather = output(kGatherRows) + "# Collective test concluded: all_gather_perf\n";
  const auto runs = parse_nccl_tests(gather + output(kBroadcastRows) + "# Collective test concluded: broadcast_perf\n",
                                     "run.txt", {});
  REQUIRE(runs.size() == 2);
  CHECK(runs[0].op == CollectiveOp::all_gather);
  CHECK(runs[1].op == CollectiveOp::broadcast);
}

TEST_CASE("What cannot be trusted is refused with its line") {
  const auto refused = [](const std::string& text, const NcclTestsOptions& options = {}) {
    try {
      (void)parse_nccl_tests(text, "run.txt", options);
    } catch (const Error& e) {
      return e.where;
    }
    return std::string("read");
  };
  CHECK(refused("hello\n") == "run.txt");
  CHECK(refused(output("     1048576        262144     float     sum      -1    80.00   13.11   19.66      7    70.00  "
                       " 14.98   22.47      0\n",
                       "all_reduce_perf"))
            .starts_with("run.txt:13"));
  CHECK(refused(output("     1048576        262144     float     sum      -1    oops   13.11   19.66      0    70.00   "
                       "14.98   22.47      0\n",
                       "all_reduce_perf"))
            .starts_with("run.txt:13"));
  CHECK(refused(output("     1048576        262144     float     sum\n", "all_reduce_perf")).starts_with("run.txt:13"));
  std::string nameless = output(kRows, "all_reduce_perf");
  for (std::size_t at = nameless.find("#  Rank"); at != std::string::npos; at = nameless.find("#  Rank"))
    nameless.erase(at, nameless.find('\n', at) - at + 1);
  CHECK(refused(nameless).starts_with("run.txt"));
  CHECK(refused(nameless, {"", 4, 1, false}) == "read");
}

/// What a text is refused with; empty where it is read.
std::string refusal(const std::string& text, const NcclTestsOptions& options = {}) {
  try {
    (void)parse_nccl_tests(text, "run.txt", options);
  } catch (const Error& e) {
    return std::string(e.what()) + "; " + e.hint;
  }
  return {};
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const std::size_t at = text.find(what);
  REQUIRE(at != std::string::npos);
  return text.replace(at, what.size(), by);
}

TEST_CASE("A text that is not one run of the collective it names is refused") {
  const std::string text = output(kRows, "all_reduce_perf");
  // Without MPI every process is rank 0 of its own (NVIDIA/nccl-tests issues 107, 213 and 254).
  CHECK(refusal(replaced(text, "#  Rank  1", "#  Rank  0")).starts_with("rank 0 is listed twice"));
  // NCCL_TESTS_SPLIT runs a collective in every group at once.
  CHECK(refusal(replaced(text, "Rank  1 Group  0", "Rank  1 Group  1")).starts_with("2 groups of ranks"));
  // One rank of 72 is listed (coreweave/nccl-tests pull request 43).
  std::string last = replaced(text, "#  Rank  3", "#  Rank 71");
  for (const std::string rank : {"#  Rank  0", "#  Rank  1", "#  Rank  2"}) {
    const std::size_t at = last.find(rank);
    last.erase(at, last.find('\n', at) - at + 1);
  }
  CHECK(refusal(last).find("on how many nodes") != std::string::npos);
  // Another program than the last that was named, and other ranks than were run.
  CHECK(refusal("Linking all_gather.o > all_gather_perf\n" + output(kRows, "gather_perf")).starts_with("gather_perf"));
  CHECK(refusal(output(kRows, "all_gather_perf")).starts_with("busbw is 1.50 times algbw, but 0.75 times"));
  CHECK(refusal(text, {"", 16, 2, false}).starts_with("busbw is 1.50 times algbw, but 1.88 times"));
}

TEST_CASE("A test that failed is told from a text without one") {
  const std::string failure = "host0: Test NCCL failure common.cu:1128 'unhandled cuda error'\n";
  CHECK(refusal(output("", "all_reduce_perf") + failure).find("the test failed: host0: Test NCCL") !=
        std::string::npos);
  const auto runs = parse_nccl_tests(output(kRows, "all_reduce_perf") + failure, "run.txt", {});
  REQUIRE(runs[0].notes.size() == 1);
  CHECK(runs[0].notes[0].find("Test NCCL failure") != std::string::npos);
  const std::string old = with_table(
      "#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error",
      "     1048576        262144   float     sum    80.00   13.11   19.66  1e+10    70.00   14.98   22.47  1e-07\n");
  CHECK(refusal(replaced(old, "values : 0 OK", "values : 248 FAILED")).starts_with("wrong results"));
}

}  // namespace
}  // namespace rehearse
