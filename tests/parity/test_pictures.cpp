// A small convolutional network learns: far below guessing, on samples that it has not seen, and the same curve on one
// rank and two.

#include <fstream>

#include "core/strategy/workload.hpp"
#include "tests/parity/curve.hpp"
#include "tests/parity/jobs.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/folder.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

constexpr int kBatch = 64;

/// As scenarios/tiny_cnn.json trains it, on so many ranks.
Program tiny_cnn(int dp) {
  Job job(shipped("tiny_cnn"), 0);
  TrainingSettings& t = job.workload.training;
  t.precision = Precision::fp32;
  t.optimizer = Optimizer::adam;
  t.learning_rate = 1e-3;
  t.clip_gradients = false;
  job.strategy.dp = job.strategy.dp_replicate = dp;
  job.strategy.microbatch = 8;
  job.microbatches = kBatch / 8 / dp;
  return job.lower();
}

}  // namespace

TEST_CASE("ten classes of drawn images are learned, the same on one rank and two", "[training]") {
  const auto data = synthetic_images(1, 10);
  const std::vector<double> one = curve(tiny_cnn(1), *data, 40), two = curve(tiny_cnn(2), *data, 40);
  CHECK(one.front() > std::log(10) / 2);  // Nothing is known yet.
  CHECK(one.back() < std::log(10) / 10);
  for (std::size_t s = 0; s < one.size(); ++s) CHECK(two[s] == Approx(one[s]).epsilon(1e-3).margin(1e-4));
}

TEST_CASE("images of a file are learned", "[training]") {
  // Two classes in records of a byte and 3 x 16 x 16: bright on the left, bright on the right, and noise on all.
  const Folder folder("pictures");
  const std::string file = (folder.path() / "records.bin").string();
  std::ofstream out(file, std::ios::binary);
  const RandomKey key(7);
  for (std::uint64_t record = 0; record < 200; ++record) {
    const auto label = static_cast<int>(record % 2);
    out.put(static_cast<char>(label));
    for (std::uint64_t i = 0; i < 3 * 16 * 16; ++i) {
      const bool right = i % 16 >= 8;
      out.put(static_cast<char>(60 + 100 * key.with(record).uniform(i) + (right == (label == 1) ? 60 : 0)));
    }
  }
  out.close();
  const std::vector<double> losses = curve(tiny_cnn(1), *images_of_file(file, 1, 10, 3 * 16 * 16), 40);
  CHECK(losses.front() > std::log(2));
  CHECK(losses.back() < std::log(2) / 4);
}
