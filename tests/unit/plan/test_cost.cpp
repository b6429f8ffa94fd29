#include <cmath>
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

/// Money only: no interest, nothing left at the end, a building and people of one's own.
Economics plain() {
  Economics e;
  e.residual_share = e.cost_of_capital = e.storage_share = 0;
  e.colocation = e.staff = Dollars{0};
  return e;
}

}  // namespace

TEST_CASE("a run of the whole life at full use pays the whole price") {
  Economics e = plain();
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

TEST_CASE("yearly payments and what is left, discounted, are the price") {
  // Worked by hand: $400,000 over 4 years at 10 %, $100,000 left. 1.1^4 = 1.4641; (1 - 0.25 / 1.4641) 0.1 /
  // (1 - 1 / 1.4641) = 0.261603, $104,641 a year; its present value 104,641 x 3.169865 = 331,699, and 100,000 / 1.4641
  // = 68,301: together 400,000.
  Economics e = plain();
  e.amortisation_years = 4;
  e.utilisation = 1;
  e.residual_share = 0.25;
  e.cost_of_capital = 0.1;
  CHECK(yearly_share(e) == Approx(0.261603).epsilon(1e-5));
  const RunCost year = run_cost(price(), e, {1, 0, 8, Watts{0}, Seconds{kYear}, false});
  CHECK(year.parts.purchase.value() == Approx(104'641).epsilon(1e-5));
  double present = 100e3 / std::pow(1.1, 4);
  for (int y = 1; y <= 4; ++y) present += year.parts.purchase.value() / std::pow(1.1, y);
  CHECK(present == Approx(400e3));
  e.cost_of_capital = 0;
  CHECK(yearly_share(e) == Approx(0.75 / 4));
}

TEST_CASE("a site and its people are paid while machines stand idle, too") {
  Economics e = plain();
  e.utilisation = 0.5;
  e.colocation = Dollars{200};
  e.staff = Dollars{3000};
  e.storage_share = 0.1;
  e.amortisation_years = 4;
  // Half a year of a run bears a year of 3 machines: 10 kW each for 12 months at $200, $3,000 each; a tenth of $400,000
  // over four years for storage.
  const RunCost c = run_cost(price(), e, {2, 1, 8, Watts{10e3}, Seconds{0.5 * kYear}, false});
  CHECK(c.parts.site.value() == Approx(3 * 10 * 200 * 12));
  CHECK(c.parts.staff.value() == Approx(3 * 3000));
  CHECK(c.parts.storage.value() == Approx(3 * 40e3 / 4));
  CHECK(c.capital.value() == Approx(3 * (400e3 + 40e3 + 40e3)));
  CHECK(c.a_year == c.parts.total());
  const RunCost longer = run_cost(price(), e, {2, 1, 8, Watts{10e3}, Seconds{2 * kYear}, false});
  CHECK(longer.a_year.value() == Approx(longer.parts.total().value() / 2));
}

TEST_CASE("a purchase has paid for itself when the rent that it saves has paid it") {
  // Worked by hand: $300,000 and 5 % for storage are $315,000. A month has 730.5 hours; at 80 % use 8 GPUs at $3 are
  // $14,025.60. 10 kW x 0.76 x 1.05 x 1.3 x 730.5 h x 0.8 x $0.08 = $485.01; the site takes $1,960, people $208.33. So
  // $11,372.26 are saved a month: 27.7 months.
  MachinePrice p;
  p.purchase = Dollars{300e3};
  const Economics e;
  const auto months = break_even_months(p, e, 8, Watts{10e3}, Dollars{3});
  REQUIRE(months);
  CHECK(*months == Approx(315e3 / 11'372.26).epsilon(1e-4));
  CHECK_FALSE(break_even_months(p, e, 8, Watts{10e3}, Dollars{0.5}));
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
