#pragma once
// What samples of a model are called.

#include <string>

#include "core/model/network.hpp"

namespace rehearse {

/// "images" for what has a height and a width, else "samples".
[[nodiscard]] std::string name_of_samples(const Network& network);

}  // namespace rehearse
