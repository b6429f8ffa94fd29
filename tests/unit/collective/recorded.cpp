#include "recorded.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/strategy/workload.hpp"
#include "tests/support/source_path.hpp"

#include <fstream>
#include <stdexcept>

#include <nlohmann/json.hpp>

namespace recorded {
namespace {

using nlohmann::json;
using namespace rehearse;
using namespace rehearse::nccl;

json read(const std::string& name) {
  std::ifstream in(rehearse::testing::source_path("tests/unit/collective/data/") + name);
  return json::parse(in);
}

GraphResult graph_recorded(const json& j) {
  return {j.at("n"),
          BytesPerSecond{j.at("bi").get<double>() * 1e9},
          BytesPerSecond{j.at("be").get<double>() * 1e9},
          static_cast<PathClass>(j.at("ti").get<int>()),
          static_cast<PathClass>(j.at("te").get<int>()),
          j.at("same").get<int>() != 0};
}

template <class Enum>
Enum named(const std::string& text, int count) {
  for (int i = 0; i < count; ++i)
    if (name_of(static_cast<Enum>(i)) == text) return static_cast<Enum>(i);
  throw std::runtime_error("recorded name " + text);
}

CollectiveOp op_named(const std::string& text) {
  static const std::map<std::string, CollectiveOp> ops{{"AllReduce", CollectiveOp::all_reduce},
                                                       {"AllGather", CollectiveOp::all_gather},
                                                       {"ReduceScatter", CollectiveOp::reduce_scatter},
                                                       {"Broadcast", CollectiveOp::broadcast},
                                                       {"Reduce", CollectiveOp::reduce}};
  return ops.at(text);
}

Configuration configuration(const json& v) {
  Configuration out;
  out.machine = v.at("machine");
  out.channels = v.at("nChannels");
  auto& s = out.shape;
  s.ranks = v.at("nRanks");
  s.nodes = v.at("nNodes");
  s.min_compute_capability = s.max_compute_capability = v.at("cc");
  s.cpu = v.at("cpu") == "amd" ? CpuVendor::amd : CpuVendor::intel;
  s.search = {graph_recorded(v.at("ring")), graph_recorded(v.at("tree")), graph_recorded(v.at("nvls")),
              static_cast<TreePattern>(v.at("treePattern").get<int>())};
  for (const auto& [key, cell] : v.at("tune").items()) {
    const auto a = key.find('/'), b = key.rfind('/');
    out.table.push_back({op_named(key.substr(0, a)), named<Algorithm>(key.substr(a + 1, b - a - 1), kAlgorithms),
                         named<Protocol>(key.substr(b + 1), kProtocols), cell[0], cell[1]});
  }
  for (const auto& [op, sizes] : v.at("pick").items())
    for (const auto& [bytes, pick] : sizes.items())
      out.choices.push_back({op_named(op), std::stod(bytes), pick[0], pick[1], pick[2]});
  return out;
}

}  // namespace

std::vector<Configuration> configurations() {
  std::vector<Configuration> out;
  const json file = read("nccl_2.28.9_predictions.json");
  for (const auto& v : file.at("vectors")) out.push_back(configuration(v));
  return out;
}

std::vector<Search> searches() {
  std::vector<Search> out;
  const json file = read("nccl_2.28.9_searches.json");
  for (const auto& v : file.at("searches"))
    for (const std::string digits : v.at("subsets")) {
      Search s{v.at("machine"),
               {},
               v.at("nodes"),
               v.value("parts", 1),
               {graph_recorded(v.at("ring")), graph_recorded(v.at("tree")), graph_recorded(v.at("nvls")),
                static_cast<TreePattern>(v.at("tree").at("pattern").get<int>())}};
      for (const char c : digits) s.gpus.push_back(c - '0');
      out.push_back(std::move(s));
    }
  return out;
}

}  // namespace recorded
