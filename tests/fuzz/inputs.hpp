#pragma once
// What targets share: the shipped catalogue, inputs with overrides, and inputs that only a file can hold.

#include <string>
#include <string_view>
#include <vector>

#include "core/hardware/catalogue.hpp"

namespace rehearse::fuzz {

/// topologies/ of the source tree.
[[nodiscard]] const Catalogue& shipped();

/// A file's text and what `--set` says beside it: lines "--set strategy.tp=8" behind the text.
struct Overridden {
  std::string text;
  std::vector<std::string> overrides;
};
[[nodiscard]] Overridden overridden(std::string_view bytes);

/// Writes the bytes to a file of that name, in a folder of this process's own in memory, in place of what it held.
/// Returns its path.
[[nodiscard]] std::string written(const std::string& name, std::string_view bytes);

}  // namespace rehearse::fuzz
