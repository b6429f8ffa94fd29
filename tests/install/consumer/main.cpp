// Somebody else's program: a machine of the catalogue, and what has registered itself.
#include <cstdio>

#include "core/export/export.hpp"
#include "core/hardware/catalogue.hpp"

int main(int, char** arguments) {
  const rehearse::Catalogue catalogue(arguments[1]);
  std::printf("dgx_h100: %d GPUs\n", catalogue.machine("dgx_h100")->gpus);
  for (const std::string& target : rehearse::exporters().names()) std::printf("%s\n", target.c_str());
}
