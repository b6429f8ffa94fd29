// The machine and network of a row whose words say how many ports a node has, and how fast.

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

#include <fmt/format.h>

#include "core/scoreboard/rows/port_words.hpp"
#include "core/scoreboard/rows/row_machine.hpp"

namespace rehearse {

namespace {

constexpr double kAlike = 0.15;  ///< Rates that differ by less are one: 12.5 GB/s is 100 Gb/s.

bool alike(double a, double b) { return a > 0 && b > 0 && std::abs(std::log(a / b)) < kAlike; }

enum class PortKind { unknown, infiniband, ethernet, efa, omni_path };

/// By whole words: "default" is no EFA.
PortKind kind_of(const std::string& words) {
  struct Word {
    const char* word;
    PortKind kind;
  };
  constexpr std::array<Word, 14> known{{{"efa", PortKind::efa},
                                        {"efav4", PortKind::efa},
                                        {"omni-path", PortKind::omni_path},
                                        {"opa", PortKind::omni_path},
                                        {"roce", PortKind::ethernet},
                                        {"ethernet", PortKind::ethernet},
                                        {"gvnic", PortKind::ethernet},
                                        {"tcp", PortKind::ethernet},
                                        {"infiniband", PortKind::infiniband},
                                        {"ib", PortKind::infiniband},
                                        {"edr", PortKind::infiniband},
                                        {"hdr", PortKind::infiniband},
                                        {"ndr", PortKind::infiniband},
                                        {"xdr", PortKind::infiniband}}};
  for (const Word& w : known)
    if (has_word(lowered(words), w.word)) return w.kind;
  return PortKind::unknown;
}

double gigabits_of(const MachineSpec& machine, const NetworkSpec& network) {
  const double nic = machine.nic.rate.value(), port = network.port_rate.value();
  return machine.nics * (port > 0 ? std::min(nic, port) : nic) * 8 / 1e9;
}

/// EFA's generation, by what a machine's adapters are called and carry.
const char* efa_of(const MachineSpec& machine) {
  if (has_word(lowered(machine.nic.name), "v2")) return "efa_v2";
  return machine.nic.rate.value() * 8 / 1e9 <= 100 * (1 + kAlike) ? "efa_100g" : "efa_400g";
}

/// Networks for ports of a rate, the slowest first.
const char* network_for(double gigabits, PortKind kind) {
  struct Rate {
    double most;
    const char *infiniband, *ethernet;
  };
  constexpr std::array<Rate, 6> rates{{{10, "ethernet_10g", "ethernet_10g"},
                                       {25, "roce_25g", "roce_25g"},
                                       {50, "ethernet_50g", "ethernet_50g"},
                                       {100, "ib_edr", "ib_edr"},
                                       {200, "ib_hdr", "oci_roce_200g"},
                                       {400, "ib_ndr", "roce_400g"}}};
  for (const Rate& r : rates)
    if (gigabits <= r.most * (1 + kAlike)) return kind == PortKind::ethernet ? r.ethernet : r.infiniband;
  return "superpod_b300";
}

Placed with_ports(const Catalogue& catalogue, const NamedMachine& usual, const std::string& words, double gigabits) {
  const auto machine = catalogue.machine(usual.machine);
  const PortKind kind = kind_of(words), own = kind_of(machine->nic.name);
  const bool fits = alike(gigabits_of(*machine, *catalogue.network(usual.network)), gigabits);
  // EFA is a network of its own; the others run on the same adapters.
  if (fits && (kind == own || kind != PortKind::efa || usual.sold)) return {usual.machine, usual.network};
  // Another machine with the same GPUs has such ports.
  if (!usual.sold) {
    for (const std::string& other : catalogue.names(Catalogue::Kind::machine)) {
      const auto m = catalogue.machine(other);
      const PortKind its = kind_of(m->nic.name);
      if (m->gpu != machine->gpu || m->gpus != machine->gpus || m->nics == 0 ||
          (kind != PortKind::unknown ? its != kind : its == PortKind::efa))
        continue;
      const char* network = its == PortKind::efa ? efa_of(*m) : network_for(m->nic.rate.value() * 8 / 1e9, its);
      if (alike(gigabits_of(*m, *catalogue.network(network)), gigabits)) return {other, network};
    }
  }
  if (fits) return {usual.machine, usual.network, {}, false};
  // The usual one, behind slower switches.
  if (machine->nics > 0 && kind != PortKind::efa) {
    const char* network = network_for(gigabits / machine->nics, kind);
    if (alike(gigabits_of(*machine, *catalogue.network(network)), gigabits)) return {usual.machine, network};
  }
  return {usual.machine, usual.network, {}, false};
}

/// What a rate that the machine hasn't got may be a slip of.
std::string slip(double stated, double own) {
  if (alike(stated, 8 * own)) return fmt::format(" (8 times the {:g} Gb/s of the machine: bytes for bits?)", own);
  if (alike(8 * stated, own)) return fmt::format(" (an eighth of the {:g} Gb/s of the machine: bits for bytes?)", own);
  return {};
}

}  // namespace

bool has_word(const std::string& text, const std::string& word) {
  const auto part = [&](std::size_t i) {
    return i < text.size() && std::isalnum(static_cast<unsigned char>(text[i])) != 0;
  };
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1))
    if ((at == 0 || !part(at - 1)) && !part(at + word.size())) return true;
  return false;
}

Placed place(const Catalogue& catalogue, const NamedMachine& usual, const std::string& inter_node,
             std::optional<std::int64_t> nics) {
  // Of a rack, what words call a node is a tray.
  const auto machine = catalogue.machine(usual.machine);
  const PortWords ports = port_words(inter_node, nics, machine->gpus / machine->trays);
  if (ports.node) {
    const double stated = *ports.node * machine->trays;
    Placed out = with_ports(catalogue, usual, inter_node, stated);
    out.stated = fmt::format("{:g} Gb/s of ports a node", *ports.node);
    if (!out.fits) out.stated += slip(stated, gigabits_of(*machine, *catalogue.network(usual.network)));
    return out;
  }
  Placed out{usual.machine, usual.network};
  if (!ports.single) return out;
  out.stated = fmt::format("{:g} Gb/s, a port's or a node's", *ports.single);
  const double own = machine->nic.rate.value() * 8 / 1e9;
  out.fits = alike(*ports.single, own);
  if (!out.fits) out.stated += slip(*ports.single, own);
  return out;
}

}  // namespace rehearse
