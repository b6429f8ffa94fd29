#include <filesystem>

#include "core/hardware/catalogue.hpp"
#include "core/plan/cost.hpp"
#include "core/plan/price.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/source_path.hpp"

using namespace rehearse;

namespace {

const std::string kCostFolder = rehearse::testing::source_path("topologies/prices");
constexpr double kYear = 365.25 * 86400, kCostHour = 3600;

MachinePrice price() {
  MachinePrice p;
  p.purchase = Dollars{400e3};
  p.network = Dollars{40e3};
  p.rental = Dollars{3};
  return p;
}

}  // namespace

TEST_CASE("a run of the whole life at full use pays the whole price") {
  Economics e;
  e.amortisation_years = 4;
  e.utilisation = 1;
  const RunCost c = run_cost(price(), e, {10, 0, 8, Watts{10e3}, Seconds{4 * kYear}, false});
  CHECK(c.parts.purchase.value() == Approx(4e6));
  CHECK(c.parts.network.value() == Approx(400e3));
  CHECK(c.capital.value() == Approx(4.4e6));
  CHECK(c.parts.rental == Dollars{0});
}

TEST_CASE("energy is power times time, and cooling its excess") {
  Economics e;
  e.power_share = 0.5;
  e.network_power_share = 0.1;
  e.pue = 1.25;
  e.electricity = Dollars{0.1};
  const RunCost c = run_cost(price(), e, {2, 3, 8, Watts{10e3}, Seconds{100 * kCostHour}, false});
  // 2 machines x 5 kW x 1.1 x 100 h = 1,100 kWh; spares are off.
  CHECK(c.energy.value() / 3.6e6 == Approx(1100 * 1.25));
  CHECK(c.parts.power.value() == Approx(110));
  CHECK(c.parts.cooling.value() == Approx(27.5));
}

TEST_CASE("rent is by the GPU-hour, spares included, and nothing else is paid") {
  const RunCost c = run_cost(price(), Economics{}, {2, 1, 8, Watts{10e3}, Seconds{10 * kCostHour}, true});
  CHECK(c.parts.rental.value() == Approx(3 * 8 * 10 * 3));
  CHECK(c.parts.total() == c.parts.rental);
  CHECK(c.capital == Dollars{0});
  CHECK(c.energy.value() > 0);
}

TEST_CASE("idle years are paid by the runs") {
  Economics busy, idle;
  busy.utilisation = 1;
  idle.utilisation = 0.5;
  const RunExtent extent{10, 0, 8, Watts{10e3}, Seconds{0.1 * kYear}, false};
  CHECK(run_cost(price(), idle, extent).parts.purchase.value() ==
        Approx(2 * run_cost(price(), busy, extent).parts.purchase.value()));
}

TEST_CASE("every price file is of a machine that there is, with date and source") {
  const Catalogue catalogue(rehearse::testing::source_path("topologies"));
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kCostFolder)) {
    INFO(entry.path());
    const std::string id = entry.path().stem().string();
    CHECK_NOTHROW(catalogue.machine(id));
    const MachinePrice p = load_price(kCostFolder, id);
    CHECK((p.purchase || p.rental));
    for (const PriceSource& s : p.sources) {
      CHECK(s.date.size() >= 7);
      CHECK(!s.text.empty());
    }
    ++files;
  }
  CHECK(files >= 6);
}

TEST_CASE("a mixed set costs what its machines do, on average") {
  MachinePrice old = price(), fresh = price();
  old.purchase = Dollars{100e3};
  old.rental = Dollars{1};
  const MachinePrice p = mean_price({{old, 3, 3 * 8}, {fresh, 1, 4}});
  CHECK(p.purchase->value() == Approx((3 * 100e3 + 400e3) / 4));
  CHECK(p.rental->value() == Approx((24 * 1 + 4 * 3) / 28.0));
  fresh.network.reset();
  CHECK(!mean_price({{old, 3, 24}, {fresh, 1, 4}}).network);
  CHECK(mean_price({{fresh, 1, 4}}).purchase == fresh.purchase);
}

TEST_CASE("figures of the plan take the place of the file's, with their source") {
  MachinePrice mine;
  mine.purchase = Dollars{1};
  mine.sources.push_back({"purchase", "2026-11", "a quote", Evidence::estimate});
  const MachinePrice p = overridden(load_price(kCostFolder, "dgx_h100"), mine);
  CHECK(p.purchase == Dollars{1});
  CHECK(p.network == load_price(kCostFolder, "dgx_h100").network);
  for (const PriceSource& s : p.sources)
    if (s.figure == "purchase") CHECK(s.text == "a quote");
  CHECK(!load_price(kCostFolder, "no such machine").purchase);
}

TEST_CASE("a price without a date is refused") {
  CHECK_THROWS_WITH(load_price(rehearse::testing::source_path("tests/unit/plan/bad"), "free_machine"),
                    Catch::Matchers::ContainsSubstring("date"));
}
