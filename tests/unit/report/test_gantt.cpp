// The picture of a pipeline: 1F1B with two stages and three microbatches, a forward pass 1 s, a backward pass 2 s.

#include "core/config/settings/strategy.hpp"
#include "core/report/formats/format.hpp"
#include "core/report/pictures/gantt.hpp"
#include "core/strategy/workload.hpp"
#include "tests/support/catch.hpp"

using namespace rehearse;

namespace {

Span pass(int rank, int microbatch, bool backward, double begin) {
  Span s;
  s.rank = rank;
  s.chunk = rank;
  s.microbatch = microbatch;
  s.backward = backward;
  s.begin = Seconds{begin};
  s.end = Seconds{begin + (backward ? 2 : 1)};
  return s;
}

Trace two_stages() {
  Trace trace({0, 1});
  trace.streams = {"compute", "dp"};
  trace.spans = {pass(0, 0, false, 0), pass(0, 1, false, 1), pass(0, 0, true, 4),  pass(0, 2, false, 6),
                 pass(0, 1, true, 7),  pass(0, 2, true, 10), pass(1, 0, false, 1), pass(1, 0, true, 2),
                 pass(1, 1, false, 4), pass(1, 1, true, 5),  pass(1, 2, false, 7), pass(1, 2, true, 8)};
  return trace;
}

const std::vector<GanttRow> kRows{{"stage 0", 0}, {"stage 1", 1}};

std::string row(const std::string& picture, int index) {
  std::size_t at = 0;
  for (int i = 0; i < index; ++i) at = picture.find('\n', at) + 1;
  const std::size_t open = picture.find('|', at);
  return picture.substr(open + 1, picture.find('|', open + 1) - open - 1);
}

}  // namespace

TEST_CASE("a step that fits is drawn whole, digits forward and letters backward", "[gantt]") {
  // 24 characters for 12 s: half a second each.
  const std::string picture = draw_gantt(two_stages(), kRows, Seconds{0}, Seconds{12}, {24 + 7 + 3, false});
  CHECK(row(picture, 0) == "0011....aaaa22bbbb..cccc");
  CHECK(row(picture, 1) == "..00aaaa11bbbb22cccc....");
}

TEST_CASE("idle characters are the schedule's bubble: (p-1)/(m+p-1) of the picture", "[gantt]") {
  const std::string line = row(draw_gantt(two_stages(), kRows, Seconds{0}, Seconds{12}, {120 + 7 + 3, false}), 1);
  CHECK(std::count(line.begin(), line.end(), '.') == 120 / 4);
}

TEST_CASE("a step too long for the width shows its beginning and its end, one character per forward pass", "[gantt]") {
  Trace trace({0});
  trace.streams = {"compute"};
  for (int m = 0; m < 100; ++m) {
    trace.spans.push_back(pass(0, m, false, 3.0 * m));
    trace.spans.push_back(pass(0, m, true, 3.0 * m + 1));
  }
  const std::string line = row(draw_gantt(trace, {{"stage 0", 0}}, Seconds{0}, Seconds{300}, {50, false}), 0);
  CHECK(line.substr(0, 6) == "0aa1bb");
  CHECK(line.substr(line.size() - 3) == "9vv");
  CHECK(line.find(" ~ ") != std::string::npos);
  CHECK(columns_of(line) <= 40);
}

TEST_CASE("gradient reduction shows only where nothing computes; the optimizer has its own sign", "[gantt]") {
  Trace trace({0});
  trace.streams = {"compute", "dp"};
  trace.spans = {pass(0, 0, false, 0), pass(0, 0, true, 1)};
  Span reduce;
  reduce.kind = SpanKind::collective;
  reduce.stream = 1;
  reduce.category = TimeCategory::exposed_dp;
  reduce.begin = Seconds{2};
  reduce.end = Seconds{5};
  Span update;
  update.begin = Seconds{5};
  update.end = Seconds{6};
  trace.spans.push_back(reduce);
  trace.spans.push_back(update);
  CHECK(row(draw_gantt(trace, {{"s", 0}}, Seconds{0}, Seconds{6}, {24 + 4, false}), 0) == "0000aaaaaaaa========oooo");
}

TEST_CASE("sampling keeps the first and the last stage", "[gantt]") {
  std::vector<GanttRow> rows;
  for (int i = 0; i < 64; ++i) rows.push_back({std::to_string(i), i});
  const auto some = sampled(rows);
  REQUIRE(some.size() == 16);
  CHECK(some.front().rank == 0);
  CHECK(some.back().rank == 63);
  CHECK(sampled(kRows).size() == 2);
}

TEST_CASE("colours leave the characters as they are", "[gantt]") {
  const std::string plain = draw_gantt(two_stages(), kRows, Seconds{0}, Seconds{12}, {60, false});
  const std::string coloured = draw_gantt(two_stages(), kRows, Seconds{0}, Seconds{12}, {60, true});
  CHECK(plain.find('\033') == std::string::npos);
  CHECK(coloured.find('\033') != std::string::npos);
  CHECK(columns_of(plain) == columns_of(coloured));
}
