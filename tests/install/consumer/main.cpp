// Somebody else's program: where the installed data is, a machine of the catalogue, and what has registered itself.
#include <cstdio>

#include "core/api.hpp"
#include "core/export/export.hpp"
#include "core/hardware/catalogue.hpp"

int main() {
  const rehearse::DataDirectory data = rehearse::find_data();
  std::printf("data in %s\n", data.root.c_str());
  const rehearse::Catalogue catalogue(data.topologies());
  std::printf("dgx_h100: %d GPUs\n", catalogue.machine("dgx_h100")->gpus);
  for (const std::string& target : rehearse::exporters().names()) std::printf("%s\n", target.c_str());
}
