// Measured times go before the model's.

#include <cmath>

#include "core/base/error.hpp"
#include "core/collective/collective.hpp"
#include "core/collective/collective_table.hpp"
#include "machines.hpp"
#include "tests/support/catch.hpp"

using namespace rehearse;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr auto kCollectiveTableAr = CollectiveOp::all_reduce;

std::string file(const std::string& tables) {
  return R"({"schema": "rehearse/collective_table/v1", "tables": [)" + tables +
         R"(], "sources": {"run": {"text": "nccl-tests here", "evidence": "measured_here"}}})";
}
const std::string kRows =
    R"({"op": "all_reduce", "ranks": 16, "nodes": 2, "source": "run", "rows": [["1KiB", "200us"], ["1MiB", "400us"],
    ["1GiB", "12ms"]]})";

CollectiveTable table(const std::string& tables) { return CollectiveTable::parse(file(tables), "mine.json"); }

Seconds flat(Bytes) { return Seconds{1e-3}; }

}  // namespace

TEST_CASE("A measured row is given back, and between rows the time is a power of the size") {
  const auto t = table(kRows);
  CHECK(t.time(kCollectiveTableAr, 16, 2, Bytes{1024}, flat)->value() == Approx(200e-6));
  CHECK(t.time(kCollectiveTableAr, 16, 2, Bytes{1048576}, flat)->value() == Approx(400e-6));
  // halfway between 2^10 and 2^20
  CHECK(t.time(kCollectiveTableAr, 16, 2, Bytes{32768}, flat)->value() == Approx(std::sqrt(200e-6 * 400e-6)));
}

TEST_CASE("Outside the rows the model goes on from the nearest one") {
  const auto t = table(kRows);
  const auto linear = [](Bytes b) { return Seconds{b.value() * 1e-9}; };
  CHECK(t.time(kCollectiveTableAr, 16, 2, Bytes{std::ldexp(1, 31)}, linear)->value() == Approx(24e-3));
  CHECK(t.time(kCollectiveTableAr, 16, 2, Bytes{8}, flat)->value() == Approx(200e-6));
}

TEST_CASE("A table speaks of its operation, ranks and nodes only") {
  const auto t = table(kRows);
  CHECK_FALSE(t.time(CollectiveOp::all_gather, 16, 2, Bytes{1024}, flat));
  CHECK_FALSE(t.time(kCollectiveTableAr, 16, 4, Bytes{1024}, flat));
  CHECK_FALSE(t.time(kCollectiveTableAr, 32, 2, Bytes{1024}, flat));
}

TEST_CASE("Latency and bandwidth make a line") {
  const auto t = table(
      R"({"op": "all_gather", "ranks": 8, "nodes": 1, "source": "run", "latency": "30us", "bandwidth": "100GB/s"})");
  for (const double bytes : {1.0, 1e6, 1e10})
    CHECK(t.time(CollectiveOp::all_gather, 8, 1, Bytes{bytes}, flat)->value() == Approx(30e-6 + bytes / 100e9));
}

TEST_CASE("The model takes times from the table, wherever collectives are priced, and says so") {
  const auto cluster = machines::cluster("dgx_a100", 2);
  std::vector<DeviceId> group, other;
  for (int d = 0; d < 16; ++d) group.push_back(d);
  for (int d = 0; d < 8; ++d) other.push_back(d);
  const auto measured = std::make_shared<const CollectiveTable>(table(kRows));
  const CollectiveModel with(cluster, {.algorithm = "", .protocol = "", .table = measured}), without(cluster);
  for (const double bytes : {1024.0, 1048576.0, 1073741824.0}) {
    const auto choice = with.choose(kCollectiveTableAr, Bytes{bytes}, group);
    CHECK(choice.from_table);
    CHECK(choice.time == *measured->time(kCollectiveTableAr, 16, 2, Bytes{bytes}, flat));
    CHECK(choice.algorithm == without.choose(kCollectiveTableAr, Bytes{bytes}, group).algorithm);
    CHECK(choice.time.value() == Approx((choice.latency + Bytes{bytes} / choice.bandwidth).value()));
    const auto plan = with.plan(kCollectiveTableAr, Bytes{bytes}, group);
    Bytes busiest;
    for (const auto& e : plan.edges) busiest = max(busiest, e.bytes);
    CHECK((plan.latency + busiest / plan.rate_cap).value() == Approx(choice.time.value()));
  }
  CHECK(with.choose(kCollectiveTableAr, Bytes{1e6}, other).time ==
        without.choose(kCollectiveTableAr, Bytes{1e6}, other).time);
  CHECK_FALSE(with.choose(kCollectiveTableAr, Bytes{1e6}, other).from_table);
}

TEST_CASE("A measured time that the wires do not allow is refused") {
  const auto cluster = machines::cluster("dgx_a100", 2);
  std::vector<DeviceId> group;
  for (int d = 0; d < 16; ++d) group.push_back(d);
  const auto fast = std::make_shared<const CollectiveTable>(
      table(R"({"op": "all_reduce", "ranks": 16, "nodes": 2, "source": "run", "rows": [["1GB", "1ms"]]})"));
  const CollectiveModel model(cluster, {.algorithm = "", .protocol = "", .table = fast});
  CHECK_THROWS_WITH(model.choose(kCollectiveTableAr, Bytes{1e9}, group), ContainsSubstring("wires"));
}

TEST_CASE("A wrong table is refused with the place of the mistake") {
  const auto error = [](const std::string& tables) {
    try {
      (void)table(tables);
    } catch (const Error& e) {
      return e.where + ": " + e.what();
    }
    return std::string("no error");
  };
  CHECK_THAT(error(R"({"op": "all_reduced", "ranks": 2, "nodes": 1, "source": "run", "rows": [["1KiB", "1us"]]})"),
             ContainsSubstring("all_reduced"));
  CHECK_THAT(error(R"({"op": "all_reduce", "ranks": 2, "nodes": 4, "source": "run", "rows": [["1KiB", "1us"]]})"),
             ContainsSubstring("nodes"));
  CHECK_THAT(error(
                 R"({"op": "all_reduce", "ranks": 2, "nodes": 1, "source": "run", "rows": [["1MiB", "1us"], ["1KiB",
          "1us"]]})"),
             ContainsSubstring("/tables/0/rows: row 1: sizes must ascend"));
  CHECK_THAT(error(R"({"op": "all_reduce", "ranks": 2, "nodes": 1, "source": "run", "rows": [["1KiB", "0us"]]})"),
             ContainsSubstring("above zero"));
  CHECK_THAT(error(R"({"op": "all_reduce", "ranks": 2, "nodes": 1, "source": "run", "rows": [["1KiB", 5]]})"),
             ContainsSubstring("row 0: found number 5"));
  CHECK_THAT(error(R"({"op": "all_reduce", "ranks": 2, "nodes": 1, "source": "run", "rows": [["1KiB"]]})"),
             ContainsSubstring("row 0"));
  CHECK_THAT(error(R"({"op": "all_reduce", "ranks": 2, "nodes": 1, "source": "run", "latency": "1us"})"),
             ContainsSubstring("bandwidth"));
  CHECK_THAT(
      error(R"({"op": "all_reduce", "ranks": 2, "nodes": 1, "source": "run", "rows": [["1KiB", "1us"]], "speed": 1})"),
      ContainsSubstring("speed"));
  CHECK_THAT(error(R"({"op": "all_reduce", "ranks": 2, "nodes": 1, "source": "runs", "rows": [["1KiB", "1us"]]})"),
             ContainsSubstring("runs"));
  CHECK_THAT(error(kRows + "," + kRows), ContainsSubstring("twice"));
  CHECK_THAT(error(""), ContainsSubstring("no table"));
}
