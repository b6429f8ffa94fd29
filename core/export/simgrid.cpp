// SimGrid: the cluster as platform XML. Links have latency 0, as CM02 shares a link by latencies and NCCL's model
// states latencies per call; each link's own stands beside it as a property.

#include <set>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/export/setting_table.hpp"
#include "core/strategy/workload.hpp"

namespace rehearse::exporting {

namespace {

constexpr int kMostHosts = 512;  // n (n - 1) routes are written out: 512 make a file of about 60 MB.

std::string attribute(const std::string& text) {
  std::string out;
  for (const char c : text)
    out += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '"' ? "&quot;" : std::string(1, c);
  return out;
}

const std::vector<Rule>& rules_simgrid() {
  static const std::vector<Rule> table{{"cluster", "host, link, route", {}}};
  return table;
}

FlopsPerSecond fastest(const GpuSpec& gpu) {
  FlopsPerSecond out;
  for (const auto& [type, peak] : gpu.peak_dense)
    out = type == DType::fp16 || type == DType::bf16 || type == DType::fp32 ? max(out, peak) : out;
  return out;
}

Exported write_simgrid(const ExportInput& in) {
  const Cluster& c = in.cluster;
  if (c.device_count() > kMostHosts)
    throw Error(ErrorKind::usage,
                fmt::format("{} GPUs: a platform with a route for each pair is written for up to {}", c.device_count(),
                            kMostHosts),
                "export --to simgrid", "take fewer nodes: --set cluster.nodes=N");
  std::string text =
      "<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n<!-- " +
      attribute(banner(in).substr(2, banner(in).size() - 3)) +
      "\n     Hosts are GPUs, by rank of device; their speed is the dense peak of 16-bit products. Links are one "
      "direction each. -->\n<platform version=\"4.1\">\n"
      "  <config>\n    <prop id=\"network/model\" value=\"CM02\"/>\n    <prop id=\"network/crosstraffic\" "
      "value=\"0\"/>\n  </config>\n  <zone id=\"cluster\" routing=\"Full\">\n";
  std::vector<std::string> names;
  std::set<std::string> seen;
  for (LinkId l = 0; l < c.link_count(); ++l) {
    std::string name = attribute(c.link(l).name);
    if (!seen.insert(name).second) name += fmt::format("#{}", l);  // Parallel links.
    names.push_back(std::move(name));
  }
  for (DeviceId d = 0; d < c.device_count(); ++d)
    text += fmt::format(
        "    <host id=\"{}\" speed=\"{:.17g}f\">\n      <prop id=\"gpu\" value=\"{}\"/>\n      <prop id=\"node\" "
        "value=\"{}\"/>\n    </host>\n",
        d, fastest(c.gpu(d)).value(), attribute(c.gpu(d).name), c.node_of(d));
  for (LinkId l = 0; l < c.link_count(); ++l) {
    const ClusterLink link = c.link(l);
    text += fmt::format(
        "    <link id=\"{}\" bandwidth=\"{:.17g}Bps\" latency=\"0s\">\n      <prop id=\"latency_s\" "
        "value=\"{:.17g}\"/>\n    </link>\n",
        nth(names, l), link.rate.value(), link.latency.value());
  }
  for (DeviceId a = 0; a < c.device_count(); ++a) {
    for (DeviceId b = 0; b < c.device_count(); ++b) {
      if (a == b) continue;
      text += fmt::format("    <route src=\"{}\" dst=\"{}\" symmetrical=\"NO\">", a, b);
      for (const LinkId l : c.route(a, b).links) text += fmt::format("<link_ctn id=\"{}\"/>", nth(names, l));
      text += "</route>\n";
    }
  }
  text += "  </zone>\n</platform>\n";
  Exported out;
  out.files.push_back({"platform.xml", std::move(text), false, false});
  out.settings.push_back(
      {"cluster", c.name(), "platform", fmt::format("{} hosts, {} links", c.device_count(), c.link_count())});
  out.left_out.push_back({"model", in.workload.network.name,
                          "a platform says what there is, not what runs on it: --to chakra writes that"});
  for (const char* group : {"training", "strategy"}) out.left_out.push_back({group, "", "likewise"});
  return out;
}

[[maybe_unused]] const bool entered_simgrid =
    enter("simgrid", "the cluster as SimGrid platform XML", rules_simgrid(), write_simgrid);

}  // namespace

}  // namespace rehearse::exporting
