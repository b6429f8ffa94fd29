#include <algorithm>
#include <cctype>
#include <numeric>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/import/job/import_job.hpp"

namespace rehearse::job {

namespace {

/// Machines by what submissions and scripts call them.
std::string machine_in(const std::string& text) {
  std::string word;
  for (const unsigned char c : text)
    if (std::isalnum(c) != 0) word += static_cast<char>(std::tolower(c));
  static const std::vector<std::pair<const char*, const char*>> kNames{
      {"gb300", "gb300_nvl72"}, {"gb200", "gb200_nvl72"}, {"dgxb300", "dgx_b300"}, {"dgxb200", "dgx_b200"},
      {"b200", "dgx_b200"},     {"dgxh200", "dgx_h200"},  {"dgxh100", "dgx_h100"}, {"dgxa100", "dgx_a100_80gb"}};
  for (const auto& [part, machine] : kNames)
    if (word.find(part) != std::string::npos) return machine;
  return {};
}

bool among(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// The network of the smallest registered cluster of such machines that has as many nodes, or of the largest; empty
/// where there is none.
std::string usual_network(const std::string& machine, std::int64_t nodes, const Catalogue& catalogue) {
  std::string out;
  std::int64_t size = 0;
  for (const std::string& name : catalogue.names(Catalogue::Kind::cluster)) {
    const auto spec = catalogue.cluster(name);
    if (spec->parts.size() != 1 || spec->parts.front().machine != machine || spec->network.empty()) continue;
    const std::int64_t n = spec->parts.front().nodes;
    const bool better = size >= nodes ? n >= nodes && n < size : n > size;
    if (out.empty() || better) out = spec->network, size = n;
  }
  return out;
}

/// Nodes of one machine that hold `gpus`, each with as many of them as the job says or the machine has.
Json nodes_of(Draft& d, const std::string& machine, const std::string& network, std::int64_t gpus, std::int64_t each) {
  std::int64_t used = each;
  const std::string stated = d.word("job.gpus_per_node");
  if (!stated.empty() && stated.find_first_not_of("0123456789") == std::string::npos) {
    const std::int64_t n = std::atoll(stated.c_str());
    if (n > 0 && n < each && gpus % n == 0) used = n;
  }
  if (gpus < used) used = gpus;
  if (gpus % used != 0) used = std::gcd(gpus, each);
  Json out{{"machine", machine}, {"nodes", gpus / used}};
  if (!network.empty()) out["network"] = network;
  if (used != each) {
    out["gpus_per_node"] = used;
    d.notes.push_back(fmt::format("{} GPUs of each node train, of {} that a {} has", used, each, machine));
  }
  return out;
}

}  // namespace

Json cluster_of(Draft& d, const JobOptions& options, const Catalogue& catalogue) {
  std::string name = options.cluster;
  if (name.empty()) {
    name = machine_in(d.word("job.system"));
    if (!name.empty())
      d.notes.push_back(fmt::format("{} says a {}: --cluster says otherwise", d.said("job.system"), name));
  }
  if (name.empty()) {
    d.ask("the machines",
          "--cluster NAME, a machine or a cluster ('rehearse list machines', 'rehearse list clusters'): --cluster "
          "dgx_h100");
    if (!d.has("job.gpus")) d.ask("the number of GPUs", "--gpus N");
    return nullptr;
  }
  const bool file = is_file_reference(name), machine = !file && among(catalogue.names(Catalogue::Kind::machine), name);
  std::string network = options.network;
  std::int64_t each = 0;
  std::string kind = name;
  if (!machine && !file) {
    const auto spec = catalogue.cluster(name);
    std::int64_t all = 0;
    for (const ClusterSpec::Part& p : spec->parts) all += std::int64_t{p.nodes} * catalogue.machine(p.machine)->gpus;
    if (!d.has("job.gpus") || d.whole("job.gpus", 0) == all || spec->parts.size() > 1) {
      d.follow("job.gpus", all);
      return Json(name);
    }
    // Some nodes of the cluster.
    kind = spec->parts.front().machine;
    if (network.empty()) network = spec->network;
  }
  if (file) {
    // A file of a cluster says its size by itself; one of a machine is for --set cluster.
    return Json(name);
  }
  each = catalogue.machine(kind)->gpus;
  if (!d.has("job.gpus")) {
    d.ask("the number of GPUs", "--gpus N");
    return nullptr;
  }
  Json out = nodes_of(d, kind, network, d.whole("job.gpus", each), each);
  if (out["nodes"] == 1 || !network.empty()) return out;
  network = usual_network(kind, out["nodes"].get<std::int64_t>(), catalogue);
  if (network.empty()) {
    d.ask("the network between machines", "--network NAME ('rehearse list networks')");
    return nullptr;
  }
  d.notes.push_back(
      fmt::format("no file says how machines are joined: {} is taken, as registered clusters of them have it; "
                  "--network says another",
                  network));
  out["network"] = network;
  return out;
}

}  // namespace rehearse::job
