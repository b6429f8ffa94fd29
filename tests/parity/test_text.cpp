// A byte-level model learns a real text: below what single bytes' frequencies give, and the same curve however it is
// split.

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>

#include <fmt/format.h>

#include "core/config/settings/choices.hpp"
#include "core/strategy/workload.hpp"
#include "tests/parity/curve.hpp"
#include "tests/parity/jobs.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/skip.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

/// Real text that every machine with a compiler has: its library's headers, one after the other. Empty where they are
/// fewer than a megabyte.
std::string gather_text() {
  namespace fs = std::filesystem;
  std::set<fs::path> files;
  std::error_code missing;
  for (const char* folder : {"/usr/include/c++/12", "/usr/include/c++/14"})
    for (const auto& entry : fs::directory_iterator(std::string(folder) + "/bits", missing))
      if (entry.is_regular_file()) files.insert(entry.path());
  const std::string out = (fs::temp_directory_path() / fmt::format("rehearse-text-{}", ::getpid())).string();
  std::ofstream text(out, std::ios::binary);
  for (const fs::path& f : files) text << std::ifstream(f, std::ios::binary).rdbuf();
  text.close();
  return fs::file_size(out) > 1'000'000 ? out : "";
}

}  // namespace

TEST_CASE("a text is learned, the same on one rank, dp 2 and tp 2", "[.slow]") {
  const std::string file = gather_text();
  if (file.empty()) REHEARSE_SKIP("no text of a megabyte on this machine");
  Job job(changed("tiny_gpt2", {{"n_layer", 2}, {"n_embd", 64}, {"n_positions", 64}}), 64);
  job.workload.training.precision = Precision::fp32;
  job.workload.training.optimizer = Optimizer::adamw;
  job.workload.training.learning_rate = 3e-3;
  set_cpu_threads(1);
  const auto data = bytes_of_file(file, 1, 256);
  constexpr int kSteps = 150;
  const auto one = curve(spread(job, {}), *data, kSteps);
  const double last = std::accumulate(one.end() - 20, one.end(), 0.0) / 20;
  INFO(file << ": loss " << last << ", entropy of its bytes " << unigram_entropy(file));
  CHECK(last < unigram_entropy(file) - 0.4);
  for (const char* strategy : {"data_parallel", "tensor_parallel"}) {
    const auto split = curve(spread(job, {variations().at(strategy).front()}), *data, kSteps);
    // Rounding, which differs with the processor's BLAS, grows from step to step.
    for (std::size_t s = 0; s < one.size(); ++s)
      CHECK(split[s] == Approx(one[s]).epsilon(s < 10 ? 1e-4 : s < 20 ? 1e-3 : 2e-2));
  }
  std::filesystem::remove(file);
}
