#include "core/api/session/rate_slips.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>

namespace rehearse {

namespace {

constexpr double kSame = 0.02;

/// What a rate is of: wires of different kinds have nothing to say about each other's. PCIe has none: it is stated in
/// generations and lanes.
enum class Wire { nic, nvlink, socket, c2c };
using RatesByWire = std::map<Wire, std::vector<BytesPerSecond>>;

const char* name_of(Wire wire) {
  switch (wire) {
    case Wire::nic: return "NIC or switch port";
    case Wire::nvlink: return "NVLink";
    case Wire::socket: return "link between sockets";
    case Wire::c2c: break;
  }
  return "chip-to-chip link";
}

std::optional<Wire> wire_of(MachineSpec::LinkKind kind) {
  switch (kind) {
    case MachineSpec::LinkKind::nvlink: return Wire::nvlink;
    case MachineSpec::LinkKind::pcie: return {};
    case MachineSpec::LinkKind::socket: return Wire::socket;
    case MachineSpec::LinkKind::c2c: break;
  }
  return Wire::c2c;
}

void add_rates(const MachineSpec& machine, RatesByWire& out) {
  if (machine.nics > 0) out[Wire::nic].push_back(machine.nic.rate);
  for (const MachineSpec::Link& link : machine.links)
    if (const auto wire = wire_of(link.kind)) out[*wire].push_back(link.rate / link.count);
}

/// Of every machine and network of the catalogue that can be read.
RatesByWire known_rates(const Catalogue& catalogue) {
  RatesByWire out;
  const auto each = [&](Catalogue::Kind kind, auto&& add) {
    for (const std::string& id : catalogue.names(kind)) try {
        add(id);
      } catch (const Error&) {  // A broken file harms only those who use it.
      }
  };
  each(Catalogue::Kind::machine, [&](const std::string& id) { add_rates(*catalogue.machine(id), out); });
  each(Catalogue::Kind::network, [&](const std::string& id) {
    if (const auto network = catalogue.network(id); network->port_rate > BytesPerSecond{0})
      out[Wire::nic].push_back(network->port_rate);
  });
  return out;
}

std::string in_bits(BytesPerSecond rate) { return fmt::format("{:g} Gb/s", rate.value() * 8 / 1e9); }

std::string doubt(const std::string& whose, const char* what, BytesPerSecond rate, BytesPerSecond meant) {
  return fmt::format(
      "{}: {} of {} ({}), which no entry of the catalogue has; {} ({}) is known. Gb/s are bits, GB/s bytes", whose,
      what, to_string(rate), in_bits(rate), to_string(meant), in_bits(meant));
}

}  // namespace

BytesPerSecond meant_rate(BytesPerSecond rate, const std::vector<BytesPerSecond>& known) {
  const auto has = [&](BytesPerSecond r) {
    return std::any_of(known.begin(), known.end(), [&](BytesPerSecond k) { return std::abs(r / k - 1) <= kSame; });
  };
  if (has(rate)) return {};
  if (has(rate / 8)) return rate / 8;
  return has(rate * 8) ? rate * 8 : BytesPerSecond{};
}

std::vector<std::string> rate_slips(const Catalogue& catalogue, const Cluster& cluster, const Scenario& scenario) {
  std::set<std::string> out;  // Links of one kind say it once.
  std::map<std::string, RatesByWire> stated;
  const auto own = [](const std::vector<std::string>& names, const std::string& id) {
    return std::find(names.begin(), names.end(), id) != names.end();
  };
  const auto machines = catalogue.names(Catalogue::Kind::machine), networks = catalogue.names(Catalogue::Kind::network);
  for (const Cluster::Part& part : cluster.parts())
    if (!own(machines, part.machine->id) || part.machine->nic.rate != catalogue.machine(part.machine->id)->nic.rate)
      add_rates(*part.machine, stated[part.machine->id]);
  const NetworkSpec& network = cluster.network();
  if (network.port_rate > BytesPerSecond{0} &&
      (!own(networks, network.id) || catalogue.network(network.id)->port_rate != network.port_rate))
    stated[network.id][Wire::nic].push_back(network.port_rate);
  if (!stated.empty()) {
    const RatesByWire known = known_rates(catalogue);
    for (const auto& [whose, rates] : stated)
      for (const auto& [wire, list] : rates)
        for (const BytesPerSecond rate : list)
          if (const auto of_wire = known.find(wire); of_wire != known.end())
            if (const BytesPerSecond meant = meant_rate(rate, of_wire->second); meant > BytesPerSecond{0})
              out.insert(doubt(whose, name_of(wire), rate, meant));
  }
  const BytesPerSecond storage = scenario.input.storage;
  BytesPerSecond most;
  for (const Cluster::Part& part : cluster.parts()) most = max(most, part.machine->nic.rate * part.machine->nics);
  if (storage > most && most > BytesPerSecond{0} && storage / 8 <= most)
    out.insert(
        fmt::format("input.storage: {} ({}) is more than the NICs of a node carry, {} ({}). Gb/s are bits, GB/s bytes",
                    to_string(storage), in_bits(storage), to_string(most), in_bits(most)));
  return {out.begin(), out.end()};
}

}  // namespace rehearse
