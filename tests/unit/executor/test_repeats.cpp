// What may be replayed as CUDA graphs: plans whose steps are the same work at the same places, on what can record them.
#include "gpu_backend/execute/repeats.hpp"
#include "tests/parity/jobs.hpp"
#include "tests/support/catch.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

std::string because(const Program& program, const RecordedBy& by = {}) {
  return not_repeated_because(RankPlan(program, 0), by);
}
bool mentions(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("dense plans repeat on every rank, under every schedule") {
  for (const Net net : {Net::gpt, Net::llama, Net::mlp, Net::cnn, Net::gan})
    CHECK(because(spread(small_job(net), {})).empty());
  for (const Variation& v : schedule_variations()) {
    INFO(v.name);
    const Program p = spread(small_job(Net::gpt), {v});
    for (int r = 0; r < p.mesh.ranks(); ++r)
      CHECK(not_repeated_because(RankPlan(p, r), {.transport_enqueues = true, .ranks = 2}).empty());
  }
}

TEST_CASE("sizes that the data decides, and tensors in host memory, are named with their task or tensor") {
  CHECK(mentions(because(spread(small_job(Net::mixtral), {})), "sizes that only the data decides"));
  CHECK(mentions(because(spread(small_job(Net::deepseek), {})), "sizes that only the data decides"));
  CHECK(mentions(because(spread(small_job(Net::gpt), {variations().at("offload_activations").front()})),
                 "is kept in host memory"));
}

TEST_CASE("what records has the last word") {
  const Program p = spread(small_job(Net::gpt), {});
  CHECK(because(p, {.records_nothing_because = make_cpu_device(Numerics::fp32)->records_nothing_because()}) ==
        "device 'cpu' issues every task");
  CHECK(because(p, {.transport_enqueues = false, .ranks = 2}) == "ranks talk through the host");
  CHECK(because(p, {.transport_enqueues = false, .ranks = 1}).empty());
  CHECK(mentions(because(p, {.observed_on_host = true}), "in the middle of a step"));
}

TEST_CASE("an executor that is to replay on a CPU says why it does not, and runs") {
  const Program p = spread(small_job(Net::mlp), {});
  const auto data = synthetic_images(p.seed, kClasses);
  const auto device = make_cpu_device(Numerics::fp32);
  LocalWorld world(1);
  const auto transport = world.transport(0);
  Executor executor(p, *device, *transport, *data, {.replay = true});
  for (int s = 0; s < 4; ++s) CHECK_FALSE(executor.step().replayed);
  CHECK(executor.not_replayed_because() == "device 'cpu' issues every task");
}

TEST_CASE("a network asks for an input that no data has: refused before the first step, with those there are") {
  Program p = spread(small_job(Net::gpt), {});
  for (Body& body : p.bodies)
    for (const auto v : body.graph.vertices())
      if (auto* input = std::get_if<InputTask>(&body.graph[v].kind);
          input != nullptr && input->field == SampleField::tokens) {
        input->what = "token_types";
        input->field = SampleField::other;
      }
  const auto data = synthetic_tokens(p.seed, kVocabulary);
  const auto device = make_cpu_device(Numerics::fp32);
  LocalWorld world(1);
  const auto transport = world.transport(0);
  try {
    Executor executor(p, *device, *transport, *data, {});
    FAIL("it runs");
  } catch (const Error& e) {
    CHECK(e.kind == ErrorKind::unavailable);
    CHECK(mentions(e.what(), "'token_types'"));
    CHECK(mentions(e.hint, "tokens, labels"));
  }
}
