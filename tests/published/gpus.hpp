#pragma once
// Datasheets of the GPUs that measurements were made on, from the catalogue the product ships.

#include <string>

#include "core/hardware/catalogue.hpp"
#include "tests/support/source_path.hpp"

namespace published {

inline rehearse::GpuSpec gpu(const std::string& id) {
  static const rehearse::Catalogue catalogue(rehearse::testing::source_path("topologies"));
  return *catalogue.gpu(id);
}

}  // namespace published
