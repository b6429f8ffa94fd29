// The table: one row per key of a plan. To add a key, add a member and a row here.

#include "core/plan/plan_keys.hpp"

#include <algorithm>
#include <type_traits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/index.hpp"

namespace rehearse {

template <>
const std::vector<std::string>& names_of<PlanObjective>() {
  static const std::vector<std::string> names{"cost", "days", "energy", "capital"};
  return names;
}

namespace plan_schema {

namespace {

template <class T>
struct Inner {
  using type = T;
};
template <class T>
struct Inner<std::optional<T>> {
  using type = T;
};

template <class Q>
constexpr bool kIsQuantity =
    std::is_same_v<Q, Seconds> || std::is_same_v<Q, Bytes> || std::is_same_v<Q, BytesPerSecond> ||
    std::is_same_v<Q, Watts> || std::is_same_v<Q, Dollars>;

std::string range_text(double min, double max) { return fmt::format("{:.12g} to {:.12g}", min, max); }

template <class Q>
Q read_quantity(const Key& k, ObjectReader& r) {
  const Q value = r.quantity<Q>(k.name());
  if (value < Q{k.min} || value > Q{k.max})
    r.fail(k.name(), fmt::format("{} is out of range: wanted {}", to_string(value), k.range));
  return value;
}

template <class V>
V read_value(const Key& k, ObjectReader& r) {
  if constexpr (std::is_same_v<V, bool>) {
    return r.boolean(k.name());
  } else if constexpr (std::is_same_v<V, int>) {
    return static_cast<int>(r.integer(k.name(), {static_cast<std::int64_t>(k.min), static_cast<std::int64_t>(k.max)}));
  } else if constexpr (std::is_same_v<V, double>) {
    return r.number(k.name(), {k.min, k.max});
  } else if constexpr (std::is_same_v<V, std::string>) {
    return r.string(k.name());
  } else if constexpr (std::is_enum_v<V>) {
    const auto& names = names_of<V>();
    return static_cast<V>(std::find(names.begin(), names.end(), r.choice(k.name(), names)) - names.begin());
  } else {
    return read_quantity<V>(k, r);
  }
}

/// Type and range in words, for help.
template <class V>
void describe(Key& k) {
  if constexpr (std::is_same_v<V, bool>)
    k.type = "true or false";
  else if constexpr (std::is_same_v<V, int>)
    k.type = "integer", k.range = range_text(k.min, k.max);
  else if constexpr (std::is_same_v<V, double>)
    k.type = "number", k.range = range_text(k.min, k.max);
  else if constexpr (std::is_same_v<V, std::string>)
    k.type = "text";
  else if constexpr (std::is_enum_v<V>)
    k.type = fmt::format("one of: {}", fmt::join(names_of<V>(), ", "));
  else {
    k.type = std::is_same_v<V, Dollars> ? "amount of money" : "quantity with its unit";
    k.range = fmt::format("{} to {}", to_string(V{k.min}), to_string(V{k.max}));
  }
}

template <class V>
std::string default_text(const V& value) {
  if constexpr (std::is_same_v<V, bool>)
    return value ? "true" : "false";
  else if constexpr (std::is_same_v<V, std::string>)
    return value.empty() ? "" : "\"" + value + "\"";
  else if constexpr (std::is_enum_v<V>)
    return "\"" + names_of<V>()[static_cast<std::size_t>(value)] + "\"";
  else if constexpr (kIsQuantity<V>) {
    std::string text = to_string(value);
    std::erase(text, ' ');
    return "\"" + text + "\"";
  } else {
    return fmt::format("{:g}", static_cast<double>(value));
  }
}

/// A row whose type follows from the member that `access` returns for a Target.
Key row(std::string key, auto access, std::string help, double min = 0, double max = 0) {
  Plan plan;
  PlanCandidate candidate;
  auto& member = access(Target{plan, candidate});
  using Member = std::remove_cvref_t<decltype(member)>;
  using Value = typename Inner<Member>::type;
  Key k{.key = std::move(key), .help = std::move(help)};
  k.min = min, k.max = max;
  describe<Value>(k);
  if constexpr (std::is_same_v<Member, Value>) k.fallback = default_text(member);
  k.read = [access](const Key& self, Target to, ObjectReader& r) { access(to) = read_value<Value>(self, r); };
  return k;
}

Key plan(std::string key, auto member, std::string help, double min = 0, double max = 0) {
  return row(
      std::move(key), [member](Target t) -> auto& { return t.plan.*member; }, std::move(help), min, max);
}
Key economics(const std::string& name, auto member, std::string help, double min, double max) {
  return row(
      "economics." + name, [member](Target t) -> auto& { return t.plan.economics.*member; }, std::move(help), min, max);
}
Key reliability(const std::string& name, auto member, std::string help, double min = 0, double max = 0) {
  return row(
      "reliability." + name, [member](Target t) -> auto& { return t.plan.reliability.*member; }, std::move(help), min,
      max);
}
Key candidate(const std::string& name, auto member, std::string help, double min = 0, double max = 0) {
  return row(
      "candidates." + name, [member](Target t) -> auto& { return t.candidate.*member; }, std::move(help), min, max);
}
Key price(const std::string& name, auto member, std::string help, double min, double max) {
  return row(
      "candidates.price." + name, [member](Target t) -> auto& { return t.candidate.price.*member; }, std::move(help),
      min, max);
}

constexpr double kDay = 86400, kYear = 365.25 * kDay, kMostMoney = 1e13, kMostMachines = 1e6;

Key deadline_row() {
  Key k = row(
      "deadline_days", [](Target t) -> auto& { return t.plan.deadline; }, "Days in which the run is to end.", 0.01,
      36500);
  k.type = "number";
  k.range = range_text(k.min, k.max);
  k.read = [](const Key& self, Target to, ObjectReader& r) {
    to.plan.deadline = Seconds{kDay * r.number(self.name(), {self.min, self.max})};
  };
  return std::move(k).must().like("60");
}

void add_question(std::vector<Key>& t) {
  t.push_back(plan("name", &Plan::name, "What reports call the plan.").like("Llama-3 70B in 60 days"));
  t.push_back(plan("question", &Plan::question, "The question in words; left out, it is made of the figures."));
  t.push_back(deadline_row());
  t.push_back(plan("budget", &Plan::budget, "Most that the run may cost by its end.", 0, kMostMoney)
                  .like("$20M")
                  .more("Counts a purchase by the run's share of its life; capital_budget counts it whole."));
  t.push_back(
      plan("annual_budget", &Plan::annual_budget, "Most that the run may cost in its first year.", 0, kMostMoney)
          .like("$10M")
          .more("A run that takes longer than a year is paid over the years; of a shorter one it is all."));
  t.push_back(
      plan("capital_budget", &Plan::capital_budget, "Most that may be paid before the first step.", 0, kMostMoney)
          .like("$60M"));
  t.push_back(
      plan("objective", &Plan::objective, "What the best candidate has least of.")
          .like("days")
          .more(
              "Candidates that meet the deadline and the budgets come first; among them this decides. It also chooses "
              "the number of machines among those tried: cost, the cheapest; days, the fastest, up to max_gpus and the "
              "budgets; energy and capital, the least of it. capital: machines, spares and network, paid at once."));
  t.push_back(
      plan("odds", &Plan::odds, "How likely the size that is chosen is to be in time.", 0.5, 0.999)
          .more("By the range of the predicted step: 0.9 is in time at the slow end of the 80 % range, 0.5 where "
                "the prediction comes true."));
  t.push_back(plan("batch_tolerance", &Plan::batch_tolerance,
                   "Share by which the global batch may differ from training.global_batch.", 0, 0.9)
                  .more("Batches divide over replicas: with a little freedom any number of machines can be used. 0 "
                        "takes the batch as it is."));
  t.push_back(plan("max_gpus", &Plan::max_gpus, "Most GPUs of one candidate.", 1, 1e6));
}

void add_economics(std::vector<Key>& t) {
  t.push_back(economics("amortisation_years", &Economics::amortisation_years,
                        "Years over which a purchase is used and paid off.", 0.1, 50));
  t.push_back(
      economics("residual_share", &Economics::residual_share,
                "What machines are worth at the end of those years, over their price.", 0, 1)
          .more("An estimate: a page on the market says 25 to 35 % for an H100 machine after three years; books "
                "that write off over four to six years leave nothing."));
  t.push_back(
      economics("cost_of_capital", &Economics::cost_of_capital, "Interest on what is tied up, a year.", 0, 1)
          .like("0.06")
          .more(
              "An estimate: sixteen industries of the United States that were read have 5.0 to 9.4 % (Damodaran, cost "
              "of capital by sector, January 2026). The run pays the annuity that recovers price and interest."));
  t.push_back(economics("storage_share", &Economics::storage_share,
                        "Price of storage for data and checkpoints over that of the machines.", 0, 10)
                  .more("An estimate."));
  t.push_back(
      economics("colocation_per_kw_month", &Economics::colocation,
                "A kW of rated power in a data centre for a month, electricity apart.", 0, 1e5)
          .like("$150")
          .more("CBRE's average asking rate for 250 to 500 kW in primary North American markets, second half of "
                "2025 (as worldstopdatacenters.com reports it). $0 for a building of one's own."));
  t.push_back(economics("staff_per_machine_year", &Economics::staff, "People who run one machine for a year.", 0, 1e7)
                  .like("$4000")
                  .more("An estimate: one of $250,000 a year for a hundred machines."));
  t.push_back(economics("utilisation", &Economics::utilisation,
                        "Share of those years in which the machines do paid work.", 0.01, 1)
                  .more("The run bears its share of the idle time. Meta's research clusters were busy 80 % of the time "
                        "and more (Kokolis et al. 2024, arXiv:2410.21680)."));
  t.push_back(economics("electricity_per_kwh", &Economics::electricity, "Price of one kWh.", 0, 1000).like("$0.12"));
  t.push_back(economics("pue", &Economics::pue, "Energy of the site over that of its machines.", 1, 10)
                  .more("Power usage effectiveness; the excess is cooling and losses."));
  t.push_back(
      economics("power_share", &Economics::power_share, "Average draw in training over the rated maximum.", 0, 2)
          .more("Training drew 76 % of the 10.2 kW that an 8-GPU H100 machine is rated at (Newkirk et al. 2025, "
                "arXiv:2506.14551)."));
  t.push_back(economics("network_power_share", &Economics::network_power_share,
                        "Draw of switches and optics over that of the machines.", 0, 10));
}

void add_reliability(std::vector<Key>& t) {
  t.push_back(reliability("profile", &ReliabilitySettings::profile, "Failure rates: a file of topologies/reliability.")
                  .like("hopper")
                  .more("Left out, that of the GPU's generation, else fallback."));
  t.push_back(reliability("checkpoint_bandwidth", &ReliabilitySettings::checkpoint_bandwidth,
                          "Rate at which one host writes a checkpoint, all at once.", 1e3, 1e15)
                  .like("2GB/s"));
  t.push_back(reliability("checkpoint_blocking", &ReliabilitySettings::checkpoint_blocking,
                          "Share of a write that training waits for.", 0, 1)
                  .more("Below 1 for asynchronous checkpoints; what is still on its way is lost in a failure."));
  t.push_back(reliability("checkpoint_interval", &ReliabilitySettings::checkpoint_interval,
                          "Compute time between checkpoints.", 1, kYear)
                  .like("1h")
                  .more("Left out, the one that loses least (Young 1974, Daly 2006)."));
  t.push_back(reliability("restart", &ReliabilitySettings::restart, "From a failure until the job computes again.", 0,
                          30 * kDay)
                  .like("5min")
                  .more("Reading the checkpoint comes on top."));
  t.push_back(
      reliability("repair", &ReliabilitySettings::repair, "Until a machine that failed is back.", 0, kYear).like("3d"));
  t.push_back(
      reliability("spares", &ReliabilitySettings::spares, "Machines bought beyond those that train.", 0, kMostMachines)
          .like("2")
          .more("Left out, as many as cost less than waiting for repairs; none where machines are rented."));
  t.push_back(
      reliability("shrink", &ReliabilitySettings::shrink, "While machines are short, training goes on with those left.")
          .like("true")
          .more("Otherwise it waits for the repair. Going on needs a strategy and a batch that divide over fewer "
                "machines, at any time; a host of a larger machine, a tray of a rack, counts by itself then."));
  t.push_back(reliability("jitter", &ReliabilitySettings::jitter, "Relative standard deviation of a rank's step.", 0, 1)
                  .more("A step waits for the slowest of all ranks."));
  for (int p = 0; p < kParts; ++p) {
    const std::string& name = nth(part_names(), p);
    t.push_back(row(
                    "reliability.mtbf." + name, [p](Target to) -> auto& { return nth(to.plan.reliability.mtbf, p); },
                    fmt::format("Mean time between failures of one {}.", name), 1, 1e15)
                    .like("50000h"));
  }
}

void add_candidates(std::vector<Key>& t) {
  t.push_back(candidate("machine", &PlanCandidate::machine,
                        "Registered machine (rehearse list machines), or the path of a machine file.")
                  .like("dgx_h100"));
  t.push_back(
      candidate("cluster", &PlanCandidate::cluster, "In place of machine: a registered cluster, or its file, as it is.")
          .more("For a set of several kinds of machines, or one that is already there: its size is not chosen, and "
                "prices stated for it are those of the whole. Shares of the work follow the speed of the machines "
                "where that is faster (strategy.balance)."));
  t.push_back(candidate("network", &PlanCandidate::network,
                        "Registered network (rehearse list networks), or the path of a network file.")
                  .like("superpod_h100")
                  .more("Left out, the candidate is one machine."));
  t.push_back(candidate("name", &PlanCandidate::name, "What reports call it.")
                  .like("DGX H100")
                  .more("Left out, the machine's id."));
  t.push_back(candidate("rented", &PlanCandidate::rented, "Rented by the GPU-hour instead of bought.")
                  .more("Left out: rented where only a rental price is known."));
  t.push_back(row(
                  "candidates.lead_days", [](Target to) -> auto& { return to.candidate.lead_days; },
                  "Days from the order until the machines compute: they count against the deadline.", 0, 3650)
                  .more("0 by default: machines that are there, or rented. Ask the vendor; months are usual."));
  t.push_back(candidate("max_machines", &PlanCandidate::max_machines, "Most that can be had.", 1, kMostMachines));
  t.push_back(candidate("spares", &PlanCandidate::spares, "In place of reliability.spares.", 0, kMostMachines));
  t.push_back(candidate("reliability", &PlanCandidate::reliability, "In place of reliability.profile.").like("ampere"));
  t.push_back(price("purchase", &MachinePrice::purchase, "One machine.", 0, kMostMoney)
                  .like("$300k")
                  .more("These figures take the place of those of topologies/prices."));
  t.push_back(
      price("network", &MachinePrice::network, "One machine's share of switches, cables and optics.", 0, kMostMoney)
          .like("$30k"));
  t.push_back(
      price("rental_per_gpu_hour", &MachinePrice::rental, "One GPU for one hour.", 0, kMostMoney).like("$2.95"));
  t.push_back(price("power", &MachinePrice::power, "Rated maximum of one machine.", 0, 1e9).like("10.2kW"));
  t.push_back(row(
                  "candidates.price.date", [](Target to) -> auto& { return to.candidate.price_date; },
                  "When these prices were seen.")
                  .like("2026-11"));
  t.push_back(
      row(
          "candidates.price.source", [](Target to) -> auto& { return to.candidate.price_source; }, "Who says so.")
          .like("quote of the vendor"));
}

}  // namespace

const std::vector<Key>& keys() {
  static const std::vector<Key> table = [] {
    std::vector<Key> t;
    add_question(t);
    add_candidates(t);
    add_economics(t);
    add_reliability(t);
    t.push_back(plan("uncertainty.low", &Plan::range_low,
                     "True over predicted step time, below which it is in one case of ten.", 0.01, 100)
                    .like("0.9")
                    .more("Left out, from the errors against published measurements."));
    t.push_back(plan("uncertainty.high", &Plan::range_high,
                     "True over predicted step time, above which it is in one case of ten.", 0.01, 100)
                    .like("1.2"));
    return t;
  }();
  return table;
}

const std::vector<std::pair<std::string, std::string>>& groups() {
  static const std::vector<std::pair<std::string, std::string>> table{
      {"candidates", "The machines that might do it: a list of objects."},
      {"candidates.price", "What one costs, where topologies/prices does not say or is not believed."},
      {"economics", "What holds for every candidate."},
      {"reliability", "Failures, checkpoints, spares and stragglers."},
      {"reliability.mtbf", "Mean times between failures in place of the profile's."},
      {"uncertainty", "How far the true step time may be from the predicted one."}};
  return table;
}

const std::vector<std::string>& scenario_keys() {
  static const std::vector<std::string> names{"model", "framework", "training", "kernels", "strategy", "calibration"};
  return names;
}

}  // namespace plan_schema
}  // namespace rehearse
