// Estimates per CPU second through core/api, a scenario read and its JSON written for each, and what memory they take.
// Usage: bench_api_estimates [scenario.json [count]]     Default: scenarios/llama3_8b_h100_8.json, 10,000 times.
// python_estimates.py runs the same from Python.

#include <cstdlib>
#include <ctime>
#include <fstream>
#include <string>

#include <fmt/core.h>
#include <unistd.h>

#include "core/api.hpp"

namespace {

double resident_mb() {
  std::ifstream statm("/proc/self/statm");
  double size = 0, resident = 0;
  statm >> size >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE)) / 1e6;
}

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

}  // namespace

int main(int argc, char** argv) {
  const std::string file = argc > 1 ? argv[1] : "scenarios/llama3_8b_h100_8.json";
  const int count = argc > 2 ? std::atoi(argv[2]) : 10'000;
  std::size_t bytes = 0;
  const auto once = [&] { bytes += rehearse::to_json(rehearse::estimate(rehearse::load_scenario_file(file))).size(); };
  once();
  const double begin = cpu_seconds();
  for (int i = 1; i <= count; ++i) {
    once();
    if (i == count / 10) fmt::print("after {:>6}: {:.1f} MB resident\n", i, resident_mb());
  }
  const double spent = cpu_seconds() - begin;
  fmt::print(
      "after {:>6}: {:.1f} MB resident\n{} estimates of {}: {:.1f} CPU s, {:.0f} a second, {:.1f} kB of JSON each\n",
      count, resident_mb(), count, file, spent, count / spent, static_cast<double>(bytes) / 1e3 / (count + 1));
}
