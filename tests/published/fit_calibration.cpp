// rehearse_fit DATA_DIRECTORY [OUTPUT_DIRECTORY]: fits the constants of the kernel model, prints them with their errors and, given
// an output directory (topologies/calibration), writes the profiles.

#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>

#include "core/cost/fit_profiles.hpp"
#include "tests/published/gpus.hpp"

int main(int argc, char* argv[]) try {
  if (argc < 2 || argc > 3) {
    std::fputs("usage: rehearse_fit DATA_DIRECTORY [OUTPUT_DIRECTORY]\n", stderr);
    return 2;
  }
  rehearse::FitReader reader(argv[1]);
  const auto report = rehearse::fit_profiles(reader, published::gpu);
  std::fputs(rehearse::fit_report_text(report).c_str(), stdout);
  if (argc == 3)
    for (const auto& profile : report.profiles) {
      std::ofstream out(std::filesystem::path(argv[2]) / (profile.generation + ".json"), std::ios::binary);
      out << rehearse::to_json(profile);
      if (!out.flush()) {
        std::fprintf(stderr, "cannot write to %s\n", argv[2]);
        return 1;
      }
    }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
}
