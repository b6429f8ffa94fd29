#pragma once
// Machines and networks of the catalogue by what rows call them.

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
/// Whether these are words for one machine, not for a GPU that stands in many.
[[nodiscard]] bool names_machine(const std::string& gpu_type);
/// The network that a row's words name; `usual` where they name none.
[[nodiscard]] std::string network_named(const std::string& words, const char* usual);

/// Whether `word` stands in `text` without a letter or digit beside it.
[[nodiscard]] bool has_word(const std::string& text, const std::string& word);

/// Whether two rates are one, give or take 15 %: 12.5 GB/s is 100 Gb/s.
[[nodiscard]] bool alike(double a, double b);

struct Placed {
  std::string machine, network;
  bool fits = false;  ///< The node's ports carry what was asked for.
};
/// The machine and network whose nodes have `gigabits` (Gb/s) of ports of the kind that `words` name: the usual ones, another machine with the same
/// GPUs unless the row `named` its own, or the usual one behind slower switches; else the usual ones, which do not fit.
[[nodiscard]] Placed place(const Catalogue& catalogue, const NamedMachine& usual, bool named, const std::string& words, double gigabits);

}  // namespace rehearse
