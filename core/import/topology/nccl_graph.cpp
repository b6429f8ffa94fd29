#include <cmath>
#include <cstdlib>
#include <set>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/import/topology/nccl_xml.hpp"

namespace rehearse {
namespace {

constexpr int kMostChannels = 64, kMostGpus = 1024;

[[noreturn]] void fail(const XmlElement& element, const std::string& origin, const std::string& what) {
  throw Error(ErrorKind::usage, fmt::format("<{}>: {}", element.name, what),
              fmt::format("{}:{}", origin, element.line));
}

double number(const XmlElement& element, const std::string& origin, const std::string& attribute, double low,
              double high) {
  const std::string text = element.text(attribute);
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !(value >= low && value <= high))
    fail(element, origin, fmt::format("{}=\"{}\" is no number from {:g} to {:g}", attribute, text, low, high));
  return value;
}

int integer(const XmlElement& element, const std::string& origin, const std::string& attribute, int low, int high) {
  const double value = number(element, origin, attribute, low, high);
  if (value != std::floor(value))
    fail(element, origin, fmt::format("{}=\"{}\" is no whole number", attribute, element.text(attribute)));
  return static_cast<int>(value);
}

MachineSpec::NcclGraph read_graph(const XmlElement& element, const std::string& origin) {
  MachineSpec::NcclGraph graph;
  graph.id = integer(element, origin, "id", 0, 6);
  graph.pattern = integer(element, origin, "pattern", 1, 6);
  graph.channels = integer(element, origin, "nchannels", 0, kMostChannels);
  graph.speed_intra = BytesPerSecond{1e9 * number(element, origin, "speedintra", 0, 1e5)};
  graph.speed_inter = BytesPerSecond{1e9 * number(element, origin, "speedinter", 0, 1e5)};
  graph.type_intra = element.text("typeintra");
  graph.type_inter = element.text("typeinter");
  graph.cross_nic = integer(element, origin, "crossnic", 0, 2);
  graph.same_channels = integer(element, origin, "samechannels", 0, 1) == 1;
  for (const XmlElement& channel : element.children) {
    if (channel.name != "channel") continue;
    if (static_cast<int>(graph.orders.size()) == kMostChannels)
      fail(channel, origin, fmt::format("more than {} channels", kMostChannels));
    auto& order = graph.orders.emplace_back();
    for (const XmlElement& gpu : channel.children)
      if (gpu.name == "gpu") order.push_back(integer(gpu, origin, "dev", 0, kMostGpus - 1));
  }
  return graph;
}

}  // namespace

std::vector<MachineSpec::NcclGraph> read_nccl_graphs(const XmlElement& graphs, const std::string& origin) {
  std::vector<MachineSpec::NcclGraph> out;
  std::set<int> ids;
  for (const XmlElement& element : graphs.children) {
    if (element.name != "graph") continue;
    auto graph = read_graph(element, origin);
    if (!ids.insert(graph.id).second) fail(element, origin, fmt::format("two graphs have id {}", graph.id));
    if (graph.channels > 0) out.push_back(std::move(graph));  // None: NCCL found no such graph.
  }
  if (out.empty()) fail(graphs, origin, "no graph with channels");
  return out;
}

}  // namespace rehearse
