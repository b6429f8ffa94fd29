// rehearse_fit DATA_DIRECTORY TOPOLOGIES_DIRECTORY [write]: fits the constants of the kernel model to the measurements,
// prints them with their errors and, asked to write, replaces TOPOLOGIES_DIRECTORY/calibration.

#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>

#include "core/hardware/catalogue.hpp"
#include "tests/published/fit/fit_profiles.hpp"

namespace {

bool write(const rehearse::CalibrationProfile& profile, const std::filesystem::path& directory) {
  const auto path = directory / (profile.generation + ".json");
  std::ofstream out(path, std::ios::binary);
  out << rehearse::to_json(profile);
  if (out.flush()) return true;
  std::fprintf(stderr, "cannot write %s\n", path.c_str());
  return false;
}

}  // namespace

int main(int argc, char* argv[]) try {
  const bool writes = argc == 4 && std::string(argv[3]) == "write";
  if (argc < 3 || (argc > 3 && !writes)) {
    std::fputs("usage: rehearse_fit DATA_DIRECTORY TOPOLOGIES_DIRECTORY [write]\n", stderr);
    return 2;
  }
  rehearse::TableReader reader(argv[1]);
  const rehearse::Catalogue catalogue(argv[2]);
  const auto report = rehearse::fit_profiles(reader, [&](const std::string& id) { return *catalogue.gpu(id); });
  std::fputs(rehearse::fit_report_text(report).c_str(), stdout);
  if (!writes) return 0;
  for (const auto& profile : report.profiles)
    if (!write(profile, catalogue.root() / "calibration")) return 1;
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
}
