// Published runs of nccl-tests and the like (data/nccl_collectives.json) against the model, on the clusters that
// data/nccl_collectives_map.json says they ran on.
//
// Rows are told apart by size (below 1 MiB, from 1 MiB) and, before anything is fitted, by a fixed rule: of each
// table's rows the second, fourth, ... belong to the fitting half (a table's first row carries the warm-up), the others
// to the reported half. Of the fitting half only rows below 1 MiB are used, for one number per network, the time of a
// crossing. Its median is what topologies/networks states; the test holds the file to it.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/collective/collective.hpp"
#include "core/collective/measured_latency.hpp"
#include "core/hardware/catalogue.hpp"
#include "core/hardware/read_specs.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/source_path.hpp"

using namespace rehearse;
using nlohmann::json;

namespace {

constexpr double kMiB = 1024.0 * 1024;

std::string data_file(const std::string& name) {
  return rehearse::testing::source_path("tests/published/data/") + name;
}

json read(const std::string& name) {
  std::ifstream in(data_file(name));
  return json::parse(in);
}

const Catalogue& catalogue() {
  static const Catalogue all(rehearse::testing::source_path("topologies"));
  return all;
}

/// Of the catalogue, or else of the folder beside the measurements.
std::shared_ptr<const MachineSpec> machine(const std::string& id) {
  const auto known = catalogue().names(Catalogue::Kind::machine);
  if (std::find(known.begin(), known.end(), id) != known.end()) return catalogue().machine(id);
  const std::string local = "machines/" + id + ".json";
  return std::make_shared<const MachineSpec>(read_machine(read(local), local, id, catalogue().interconnects(),
                                                          [](const std::string& gpu) { return catalogue().gpu(gpu); }));
}

/// A cluster with its prices.
struct Site {
  Cluster cluster;
  CollectiveModel model;
  std::vector<DeviceId> group;
  Site(Cluster made, const CollectiveModel::Options& options, int nodes, int per_node)
      : cluster(std::move(made)), model(cluster, options) {
    for (int n = 0; n < nodes; ++n)
      for (int g = 0; g < per_node; ++g) group.push_back(cluster.first_device(n) + g);
  }
};

/// Where and how one run was made.
struct Run {
  std::string id, network;
  CollectiveOp op;
  int nodes, per_node;
  std::shared_ptr<const MachineSpec> machine;
  CollectiveModel::Options options;

  /// `crossing`, where given, takes the place of what the network's file says.
  [[nodiscard]] const Site& site(std::optional<Seconds> crossing) const {
    auto& made = sites[crossing ? crossing->value() : -1];
    if (made) return *made;
    NetworkSpec spec = *catalogue().network(network);
    if (crossing) spec.collectives.crossing = crossing;
    made = std::make_unique<Site>(Cluster(id, {{machine, catalogue().gpu(machine->gpu), nodes}}, spec), options, nodes,
                                  per_node);
    return *made;
  }
  mutable std::map<double, std::unique_ptr<Site>> sites{};
};

struct Row {
  std::shared_ptr<const Run> run;
  double bytes, us;
  int place;  ///< In its table, from 0.
  [[nodiscard]] bool fitting() const { return place % 2 == 1; }
  [[nodiscard]] bool large() const { return bytes >= kMiB; }
  [[nodiscard]] CollectiveChoice predict(std::optional<Seconds> crossing = {}) const {
    const Site& site = run->site(crossing);
    return site.model.choose(run->op, Bytes{bytes}, site.group);
  }
};

struct Measurements {
  std::vector<Row> rows;
  std::map<std::string, int> skipped;  ///< Rows, by reason.
};

std::shared_ptr<Run> run_of(const json& m) {
  auto out = std::make_shared<Run>();
  out->id = m.at("id");
  out->network = m.at("network");
  out->op = parse_collective_op(m.at("op").get<std::string>());
  out->nodes = m.at("nodes");
  out->per_node = m.at("per_node");
  out->machine = machine(m.at("machine"));
  out->options = {m.value("algorithm", ""), m.value("protocol", ""), true, m.value("min_channels", 0), {}};
  return out;
}

void add_table(Measurements& out, const std::shared_ptr<Run>& run, const json& table) {
  int place = 0;
  for (const json& r : table) {
    const bool derived = !r.contains("time_us");
    if (derived && r.at("busbw_GBps").get<double>() < 0.1)
      ++out.skipped["rounded: computed from a bus bandwidth printed below 0.1 GB/s"];
    else
      out.rows.push_back({run, r.at("size_bytes"), r.at(derived ? "time_us_derived" : "time_us"), place});
    ++place;
  }
}

void add_figures(Measurements& out, const json& m, const json& entry) {
  const double bytes = entry.at("config").at("size_bytes");
  for (const json& f : m.at("figures")) {
    const auto run = run_of(m);
    run->options.algorithm = f.value("algorithm", "");
    const std::string name = f.at("figure");
    const double value = entry.at("measured").at(name);
    const double us =
        name == "time_s" ? value * 1e6 : bus_factor(run->op, run->nodes * run->per_node) * bytes / value / 1e3;
    out.rows.push_back({run, bytes, us, 0});
  }
}

Measurements load() {
  Measurements out;
  std::map<std::string, json> entries;
  const json file = read("nccl_collectives.json"), map = read("nccl_collectives_map.json");
  for (const json& e : file.at("entries")) entries[e.at("id")] = e;
  for (const json& s : map.at("skipped")) {
    const json& measured = entries.at(s.at("id")).at("measured");
    out.skipped[s.at("reason")] += measured.contains("table") ? int(measured.at("table").size()) : 1;
    entries.erase(s.at("id"));
  }
  for (const json& m : map.at("runs")) {
    const json& e = entries.at(m.at("id"));
    if (m.contains("figures"))
      add_figures(out, m, e);
    else
      add_table(out, run_of(m), e.at("measured").at("table"));
    entries.erase(m.at("id"));
  }
  for (const auto& [id, e] : entries) FAIL_CHECK(id << " is neither mapped nor skipped");
  return out;
}

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v.empty() ? 0 : (v[(v.size() - 1) / 2] + v[v.size() / 2]) / 2;
}

/// Crossing times that each row of the fitting half below 1 MiB asks for, by network: predicted times are linear in it
/// there.
std::map<std::string, std::vector<double>> asked_crossings(const Measurements& m) {
  std::map<std::string, std::vector<double>> out;
  for (const Row& r : m.rows) {
    if (!r.fitting() || r.large() || r.run->nodes == 1) continue;
    const double none = r.predict(Seconds{0}).time.value() * 1e6, ten = r.predict(Seconds{1e-5}).time.value() * 1e6;
    out[r.run->network].push_back((r.us - none) / ((ten - none) / 10));
  }
  return out;
}

}  // namespace

TEST_CASE(
    "Published collectives: every row is predicted or skipped for a stated reason, and the errors stay in bounds") {
  const Measurements m = load();
  std::map<std::string, std::vector<double>> errors;  // By class of row.
  std::map<std::string, std::vector<double>> by_run;
  std::printf("%-36s %5s %4s %12s %-9s %-6s %11s %11s %7s %s\n", "run", "ranks", "n", "bytes", "choice", "",
              "measured us", "model us", "error", "half");
  for (const Row& r : m.rows) {
    const auto got = r.predict();
    const double model = got.time.value() * 1e6, error = model / r.us - 1;
    std::printf("%-36s %5d %4d %12.0f %-9s %-6s %11.1f %11.1f %+6.1f%% %s\n", r.run->id.c_str(),
                r.run->nodes * r.run->per_node, r.run->nodes, r.bytes, got.algorithm.c_str(), got.protocol.c_str(),
                r.us, model, error * 100, r.fitting() ? "fitting" : "reported");
    errors[r.large() ? "from 1 MiB" : "below 1 MiB"].push_back(std::abs(error));
    errors[std::string(r.large() ? "from 1 MiB, " : "below 1 MiB, ") + (r.fitting() ? "fitting half" : "reported half")]
        .push_back(std::abs(error));
    by_run[r.run->id].push_back(std::abs(error));
  }
  std::printf("\n%-36s %5s %8s %8s\n", "run", "rows", "median", "worst");
  for (const auto& [id, e] : by_run)
    std::printf("%-36s %5zu %7.1f%% %7.1f%%\n", id.c_str(), e.size(), median(e) * 100,
                *std::max_element(e.begin(), e.end()) * 100);
  std::printf("\n%-36s %5s %8s %8s\n", "rows", "", "median", "worst");
  for (const auto& [what, e] : errors)
    std::printf("%-36s %5zu %7.1f%% %7.1f%%\n", what.c_str(), e.size(), median(e) * 100,
                *std::max_element(e.begin(), e.end()) * 100);
  for (const auto& [reason, rows] : m.skipped) std::printf("skipped %3d  %s\n", rows, reason.c_str());
  CHECK(median(errors["from 1 MiB"]) < 0.10);
  CHECK(median(errors["from 1 MiB, reported half"]) < 0.10);
  CHECK(median(errors["below 1 MiB, reported half"]) < 0.25);
  CHECK(m.rows.size() > 150);
}

TEST_CASE("The crossing time that a network's file states is the median of the fitting half's small rows") {
  const auto asked = asked_crossings(load());
  for (const auto& [network, values] : asked) {
    const auto stated = catalogue().network(network)->collectives.crossing;
    std::printf("%-16s crossing %6.1f us from %zu rows\n", network.c_str(), median(values), values.size());
    INFO(network);
    REQUIRE(stated);
    CHECK(stated->value() * 1e6 == Approx(median(values)).epsilon(0.02));
  }
  CHECK(asked.size() >= 3);
}
