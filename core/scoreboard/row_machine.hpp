#pragma once
// Machines and networks of the catalogue by what rows call them.

#include <string>

namespace rehearse {

struct NamedMachine {
  const char* machine;
  const char* network;  ///< What such machines usually have.
};

/// Null where no machine is known for these words.
[[nodiscard]] const NamedMachine* machine_named(const std::string& gpu_type);
/// The network that a row's words name; `usual` where they name none.
[[nodiscard]] std::string network_named(const std::string& words, const char* usual);

}  // namespace rehearse
