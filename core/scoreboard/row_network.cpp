// The network of a row by what its words say of a node's ports: "8 x 200 Gb/s HDR", "4 x NDR", "400 Gb/s per GPU", "1600 Gbps per node".

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "core/scoreboard/row_machine.hpp"

namespace rehearse {

namespace {

constexpr double kAlike = 0.15;  ///< Rates that differ by less are one: 12.5 GB/s is 100 Gb/s.

/// A number in a text, and what stands behind it.
struct Figure {
  double value = 0;
  std::size_t begin = 0, end = 0;
};

std::vector<Figure> figures_in(const std::string& text) {
  std::vector<Figure> out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    // "x4" counts as a number, the 7 of "ConnectX-7" and the 2 of "v2" are names.
    const char before = i > 0 ? text[i - 1] : ' ';
    if (std::isdigit(static_cast<unsigned char>(text[i])) == 0 || std::isdigit(static_cast<unsigned char>(before)) != 0 || before == '.' || before == '-' || before == 'v') continue;
    Figure f{0, i, i};
    const auto [end, error] = std::from_chars(text.data() + i, text.data() + text.size(), f.value);
    if (error != std::errc{}) continue;
    f.end = static_cast<std::size_t>(end - text.data());
    out.push_back(f);
  }
  return out;
}

std::size_t skip_spaces(const std::string& text, std::size_t at) {
  while (at < text.size() && text[at] == ' ') ++at;
  return at;
}

bool begins_at(const std::string& text, std::size_t at, std::string_view word) { return text.compare(at, word.size(), word) == 0; }

/// Gb/s of the figure, where a unit of rates stands behind it: Gb/s, Gbps, GbE, GB/s.
std::optional<double> gigabits(const std::string& text, const Figure& f) {
  const std::size_t at = skip_spaces(text, f.end);
  for (const char* unit : {"Gb/s", "Gbps", "Gbit/s", "GbE", "Gb ", "gb/s", "gbps"})
    if (begins_at(text, at, unit)) return f.value;
  for (const char* unit : {"GB/s", "GBps"})
    if (begins_at(text, at, unit)) return f.value * 8;
  return std::nullopt;
}

/// What a port of an InfiniBand generation carries, by the word.
std::optional<double> generation_rate(const std::string& lower) {
  struct Generation { const char* word; double rate; };
  constexpr std::array<Generation, 5> known{{{"fdr", 56}, {"edr", 100}, {"hdr", 200}, {"ndr", 400}, {"xdr", 800}}};
  for (const Generation& g : known)
    if (lower.find(g.word) != std::string::npos) return g.rate;
  return std::nullopt;
}

/// Whether "x" or the multiplication sign stands behind the figure: it counts ports.
bool counts_ports(const std::string& text, const Figure& f) {
  const std::size_t at = skip_spaces(text, f.end);
  if (begins_at(text, at, "\u00d7")) return true;
  return at < text.size() && (text[at] == 'x' || text[at] == 'X');
}

struct Ports {
  double rate = 0;               ///< Gb/s of a port, of a GPU's ports or of a node's.
  std::optional<double> count;
};

std::optional<Ports> ports_in(const std::string& text) {
  Ports out;
  for (const Figure& f : figures_in(text)) {
    if (counts_ports(text, f) && out.rate == 0) out.count = f.value;
    else if (const auto rate = gigabits(text, f); rate && out.rate == 0) out.rate = *rate;
  }
  if (out.rate == 0 && out.count)
    if (const auto rate = generation_rate(lowered(text))) out.rate = *rate;
  return out.rate > 0 ? std::optional(out) : std::nullopt;
}

double gigabits_of(const MachineSpec& machine, const NetworkSpec& network) {
  const double nic = machine.nic.rate.value(), port = network.port_rate.value();
  return machine.nics * (port > 0 ? std::min(nic, port) : nic) * 8 / 1e9;
}

bool alike(double a, double b) { return a > 0 && b > 0 && std::abs(std::log(a / b)) < kAlike; }

/// Networks for NICs of a rate, the slowest first; EFA's are told by the word.
const char* network_for(double gigabits, const std::string& lower) {
  struct Rate { double most; const char* network; };
  constexpr std::array<Rate, 6> rates{{{10, "ethernet_10g"}, {25, "roce_25g"}, {50, "ethernet_50g"}, {100, "ib_edr"}, {200, "ib_hdr"}, {400, "ib_ndr"}}};
  if (lower.find("efa") != std::string::npos) return gigabits <= 100 ? "efa_100g" : "efa_400g";
  for (const Rate& r : rates)
    if (gigabits <= r.most * (1 + kAlike)) return r.network;
  return "superpod_b300";
}

}  // namespace

std::optional<double> node_gigabits(const std::string& words, std::optional<std::int64_t> nics, int gpus) {
  const auto ports = ports_in(words);
  if (!ports) return std::nullopt;
  const std::string lower = lowered(words);
  if (ports->count) return ports->rate * *ports->count;
  for (const char* all : {"per node", "per server", "per host", "per machine", "/node", "/server"})
    if (lower.find(all) != std::string::npos) return ports->rate;
  for (const char* each : {"per gpu", "/gpu"})
    if (lower.find(each) != std::string::npos) return ports->rate * gpus;
  if (nics) return ports->rate * static_cast<double>(*nics);
  return std::nullopt;  // One port or all of them: nobody says.
}

Placed place(const Catalogue& catalogue, const NamedMachine& usual, bool named, const std::string& words, double gigabits) {
  const auto machine = catalogue.machine(usual.machine);
  if (alike(gigabits_of(*machine, *catalogue.network(usual.network)), gigabits)) return {usual.machine, usual.network, true};
  const std::string lower = lowered(words);
  // Another machine with the same GPUs has such ports: first those of the same kind.
  const bool efa = lower.find("efa") != std::string::npos;
  for (const bool same_kind : {true, false}) {
    if (named) break;
    for (const std::string& other : catalogue.names(Catalogue::Kind::machine)) {
      const auto m = catalogue.machine(other);
      if (m->gpu != machine->gpu || m->gpus != machine->gpus || m->nics == 0 || (holds(m->nic.name, "efa") == efa) != same_kind) continue;
      const char* network = network_for(m->nic.rate.value() * 8 / 1e9, lower);
      if (alike(gigabits_of(*m, *catalogue.network(network)), gigabits)) return {other, network, true};
    }
  }
  // The usual one, behind slower switches.
  if (machine->nics > 0) {
    const char* network = network_for(gigabits / machine->nics, lower);
    if (alike(gigabits_of(*machine, *catalogue.network(network)), gigabits)) return {usual.machine, network, true};
  }
  return {usual.machine, usual.network, false};
}

}  // namespace rehearse
