#pragma once
// Machines and networks of the catalogue by what rows call them.

#include <cstdint>
#include <optional>
#include <string>

#include "core/hardware/catalogue.hpp"
#include "core/scoreboard/rows/row_defaults.hpp"

namespace rehearse {

struct NamedMachine {
  const char* machine;
  const char* network;  ///< What such machines usually have.
  bool sold = false;    ///< The words name this machine, not a GPU that stands in many.
};

/// Null where no machine is known for these words. Superchips stand alone or several to a board: `gpus_per_node`, 1
/// where nobody says.
[[nodiscard]] const NamedMachine* machine_named(const std::string& gpu_type, std::int64_t gpus_per_node = 1);
/// The network that a row's words name; `usual` where they name none.
[[nodiscard]] std::string network_named(const std::string& words, const char* usual);

/// Whether `word` stands in `text` without a letter or digit beside it.
[[nodiscard]] bool has_word(const std::string& text, const std::string& word);

struct Placed {
  std::string machine, network;
  std::string stated{};  ///< What the words say, for listings; empty where they say nothing.
  bool fits = true;      ///< The node's ports carry that.
};
/// The machine and network whose nodes have the ports that `inter_node` states: the usual ones, another machine with
/// the same GPUs unless `usual` is the row's own (`sold`), or the usual one behind slower switches; else the usual
/// ones, which do not fit. `nics`: as in port_words().
[[nodiscard]] Placed place(const Catalogue& catalogue, const NamedMachine& usual, const std::string& inter_node,
                           std::optional<std::int64_t> nics);

}  // namespace rehearse
