// Networks learn: their losses fall, and each of two networks is changed by its own update.

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/strategy/workload.hpp"
#include "tests/parity/jobs.hpp"
#include "tests/support/catch.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

constexpr int kLearningSteps = 20;

}  // namespace

TEST_CASE("a discriminator learns, and a generator changes what it is shown", "[parity]") {
  // Scores of 0 cost log 2 in each of the three passes: a discriminator that tells real from made pays less for two of
  // them.
  Job job = small_job(Net::gan);
  const Outcome both = run(spread(job, {}), kLearningSteps, Numerics::fp64);
  job.workload.training.learning_rate = 0;
  job.workload.training.discriminator.learning_rate = 1e-2;
  const Outcome alone = run(spread(job, {}), kLearningSteps, Numerics::fp64);
  const auto& first = both.gradients.front();
  for (const char* name : {"project.conv.weight", "up.1.conv.weight", "down.2.conv.weight", "score.scores.weight"}) {
    INFO(name);
    REQUIRE(first.contains(name));
    CHECK(std::any_of(first.at(name).begin(), first.at(name).end(), [](double g) { return std::abs(g) > 1e-6; }));
  }
  CHECK(both.losses.front() == alone.losses.front());
  CHECK(both.losses.back() != alone.losses.back());
}

TEST_CASE("loss falls on one rank", "[parity]") {
  for (const Net net :
       {Net::gpt, Net::llama, Net::neox, Net::mixtral, Net::deepseek, Net::gpt_oss, Net::hybrid, Net::segmenter}) {
    INFO(static_cast<int>(net));
    const std::vector<double> losses = run(spread(small_job(net), {}), kLearningSteps, Numerics::fp64).losses;
    const auto mean = [](auto from) { return std::accumulate(from, from + 5, 0.0) / 5; };
    CHECK(mean(losses.end() - 5) < mean(losses.begin()) - 0.03);
  }
}

TEST_CASE("loss of networks that begin with small weights falls in more steps", "[parity]") {
  for (const Net net : {Net::cnn, Net::mlp}) {
    INFO(static_cast<int>(net));
    Job job = small_job(net);
    job.workload.training.learning_rate = 3e-2;
    const std::vector<double> losses = run(spread(job, {}), 120, Numerics::fp32).losses;
    CHECK(std::accumulate(losses.end() - 20, losses.end(), 0.0) / 20 <
          std::accumulate(losses.begin(), losses.begin() + 20, 0.0) / 20 - 0.1);
  }
}
