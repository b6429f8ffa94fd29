#pragma once
// Machines and networks of the catalogue by what rows call them.

#include <cstdint>
#include <optional>
#include <string>

#include "core/hardware/catalogue.hpp"
#include "core/scoreboard/software.hpp"

namespace rehearse {

struct NamedMachine {
  const char* machine;
  const char* network;  ///< What such machines usually have.
};

/// Null where no machine is known for these words.
[[nodiscard]] const NamedMachine* machine_named(const std::string& gpu_type);
/// The network that a row's words name; `usual` where they name none.
[[nodiscard]] std::string network_named(const std::string& words, const char* usual);

/// Gb/s, one direction, of all ports of a node with `gpus` GPUs, as a row's words state them; `nics` is how many ports the row says there are.
/// Nothing where they don't, or where a single rate may be a port's or a node's.
[[nodiscard]] std::optional<double> node_gigabits(const std::string& words, std::optional<std::int64_t> nics, int gpus);

struct Placed {
  std::string machine, network;
  bool fits = false;  ///< The node's ports carry what was asked for.
};
/// The machine and network whose nodes have `gigabits` of ports: the usual ones, another machine with the same GPUs unless the row `named` its own, or
/// the usual one behind slower switches; else the usual ones, which do not fit.
[[nodiscard]] Placed place(const Catalogue& catalogue, const NamedMachine& usual, bool named, const std::string& words, double gigabits);

}  // namespace rehearse
