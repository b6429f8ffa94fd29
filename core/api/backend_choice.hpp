#pragma once
// What plays a step: back ends by name (core/play/backend.hpp).

#include <string>

namespace rehearse {

/// The most exact back end that this program is linked with: "simgrid", on which transfers share links, else
/// "analytic", on which each has its wires to itself.
[[nodiscard]] std::string default_backend();

/// `name`, or default_backend() where it is empty. Throws Error: usage for an unknown name, unavailable for SimGrid in
/// a program without it.
[[nodiscard]] std::string known_backend(const std::string& name);

}  // namespace rehearse
