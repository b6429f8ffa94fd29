// Runs of many steps: checkpoints bit for bit, damaged files refused.

#include <filesystem>
#include <fstream>

#include "gpu_backend/train/checkpoint.hpp"
#include "gpu_backend/train/training.hpp"
#include "tests/parity/jobs.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/folder.hpp"

using namespace rehearse;
using namespace rehearse::test;
namespace fs = std::filesystem;

namespace {

/// Losses of a run on threads, by step.
std::map<std::int64_t, double> losses(const Program& p, const TrainingRun& settings,
                                      Numerics numerics = Numerics::fp32) {
  std::map<std::int64_t, double> out;
  const auto data = synthetic_tokens(1, 50);
  run_locally(p.mesh.ranks(), [&](Transport& transport) {
    const auto device = make_cpu_device(numerics);
    TrainingRun mine = settings;
    if (transport.rank() == 0) mine.on_step = [&](const StepResult& r) { out[r.step] = r.loss; };
    (void)train(p, *device, transport, *data, mine);
  });
  return out;
}

Program plan() { return spread(small_job(Net::gpt), variations().at("zero1")); }

}  // namespace

TEST_CASE("a resumed run goes on bit for bit", "[training]") {
  const Folder folder("checkpoints");
  TrainingRun whole;
  whole.steps = 7;
  const auto expected = losses(plan(), whole);

  TrainingRun first;
  first.steps = 4;
  first.checkpoints = folder.path();
  (void)losses(plan(), first);
  TrainingRun second = whole;
  second.checkpoints = folder.path();
  second.resume = true;
  const auto resumed = losses(plan(), second);
  REQUIRE(resumed.size() == 3);
  for (const auto& [step, loss] : resumed) CHECK(loss == expected.at(step));
}

TEST_CASE("the newest complete checkpoint counts", "[training]") {
  const Folder folder("checkpoints");
  TrainingRun settings;
  settings.steps = 5;
  settings.checkpoints = folder.path();
  settings.save_every = 2;
  (void)losses(plan(), settings);
  const Program p = plan();
  const Checkpoints all(folder.path(), p, Numerics::fp32);
  CHECK(all.newest() == 5);
  CHECK(all.newest(5) == 4);
  for (const char* strange : {"step-", "step-latest", "step-99999999999999999999", "step--7", "step-7.old"}) {
    fs::create_directories(folder.path() / strange);
    std::ofstream(folder.path() / strange / "complete") << "";
  }
  CHECK(all.newest() == 5);
  fs::remove(folder.path() / "step-000005" / "complete");
  CHECK(all.newest() == 4);
  CHECK_FALSE(Checkpoints((folder.path() / "nothing").string(), p, Numerics::fp32).newest().has_value());
}

TEST_CASE("of a damaged checkpoint the way to the one before is told", "[training]") {
  const Folder folder("checkpoints");
  TrainingRun settings;
  settings.steps = 5;
  settings.checkpoints = folder.path();
  settings.save_every = 2;
  (void)losses(plan(), settings);
  fs::resize_file(folder.path() / "step-000005" / "rank-0000.bin", 200);
  settings.resume = true;
  try {
    (void)losses(plan(), settings);
    FAIL("resumed");
  } catch (const Error& e) {
    CHECK_THAT(e.hint, Catch::Matchers::ContainsSubstring("to go on from step-000004"));
  }
}

TEST_CASE("a checkpoint of another precision or length is refused", "[training]") {
  const Folder folder("checkpoints");
  TrainingRun settings;
  settings.steps = 1;
  settings.checkpoints = folder.path();
  (void)losses(plan(), settings);
  settings.steps = 2;
  settings.resume = true;
  CHECK_THROWS_WITH(losses(plan(), settings, Numerics::fp64), Catch::Matchers::ContainsSubstring("another precision"));
  fs::resize_file(folder.path() / "step-000001" / "rank-0001.bin", 200);
  CHECK_THROWS_WITH(losses(plan(), settings), Catch::Matchers::ContainsSubstring("shorter"));
}

TEST_CASE("spans of all ranks, in order on every stream", "[training]") {
  const Program p = spread(small_job(Net::gpt), {schedule_variations().front()});
  std::vector<Span> spans;
  const auto data = synthetic_tokens(1, 50);
  run_locally(p.mesh.ranks(), [&](Transport& transport) {
    const auto device = make_cpu_device(Numerics::fp32);
    TrainingRun settings;
    settings.steps = 2;
    settings.trace = true;
    const auto result = train(p, *device, transport, *data, settings);
    if (transport.rank() == 0) spans = result.spans;
  });
  std::map<std::pair<int, int>, double> last;
  std::set<int> ranks;
  for (const Span& s : spans) {
    ranks.insert(s.rank);
    CHECK(s.begin <= s.end);
    double& before = last[{s.rank, s.stream}];
    if (s.kind == SpanKind::compute) CHECK(s.begin.value() >= before - 1e-9);
    before = std::max(before, s.end.value());
  }
  CHECK(ranks.size() == static_cast<std::size_t>(p.mesh.ranks()));
}

TEST_CASE("step times leave the first out") {
  CHECK(summarise({9, 1, 2, 3}).median == 2);
  CHECK(summarise({9, 1, 2, 3}).counted == 3);
  CHECK(summarise({5}).median == 5);
  CHECK(summarise({}).counted == 0);
}

TEST_CASE("samples are functions of their number; bytes of a file too") {
  const auto data = synthetic_tokens(3, 50);
  std::vector<std::int64_t> a, b;
  data->tokens(1, 2, 10, a);
  data->tokens(1, 2, 10, b);
  CHECK(a == b);
  data->tokens(1, 3, 10, b);
  CHECK(a != b);
  for (const std::int64_t t : a) CHECK((t >= 0 && t < 50));

  const Folder folder("checkpoints");
  const std::string file = (folder.path() / "text").string();
  std::ofstream(file) << "abababababab";
  const auto bytes = bytes_of_file(file, 1, 256);
  bytes->tokens(0, 0, 4, a);
  REQUIRE(a.size() == 5);
  for (std::size_t i = 0; i + 1 < a.size(); ++i) CHECK(a[i] + a[i + 1] == 'a' + 'b');
  CHECK(unigram_entropy(file) == Approx(std::log(2)));
  CHECK_THROWS_WITH(bytes->tokens(0, 0, 20, a), Catch::Matchers::ContainsSubstring("fewer"));
  CHECK_THROWS_AS(bytes_of_file(file, 1, 100), Error);
  CHECK_THROWS_AS(bytes_of_file((folder.path() / "none").string(), 1, 256), Error);
}
