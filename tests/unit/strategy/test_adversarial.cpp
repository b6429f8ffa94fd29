// Two networks trained against each other: what each pass computes, what is reduced when, what is kept, what is
// refused.

#include <algorithm>
#include <set>

#include "core/base/index.hpp"
#include "core/config/settings/choices.hpp"
#include "core/program/flops.hpp"
#include "core/strategy/workload.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/program/lowered.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

enum { kReal, kMade, kThrough };

Job gan_job(int dp = 1, int microbatches = 2) {
  Job job(tiny_gan(), 0);
  job.workload.training.precision = Precision::fp32;
  job.workload.training.clip_gradients = false;
  job.strategy.dp = job.strategy.dp_replicate = dp;
  job.microbatches = microbatches;
  return job;
}

double forward_flops(const Network& n, const char* block, const char* op, double samples) {
  for (const BlockSpec& b : n.blocks)
    for (const OpSpec& o : b.ops)
      if (b.name == block && o.name == op) return forward_matmul_flops(b, o, 1, 0, false).value() * samples;
  FAIL("no such operator");
  return 0;
}

bool judges(const Program& p, const Entry& e) { return e.layer >= p.chunks.back().first_layer; }

/// Index of the first entry of a role that `wanted` holds for, or of the last.
template <class Wanted>
std::ptrdiff_t first_of(const Role& role, const Wanted& wanted) {
  return std::find_if(role.step.begin(), role.step.end(), wanted) - role.step.begin();
}
template <class Wanted>
std::ptrdiff_t last_of(const Role& role, const Wanted& wanted) {
  return role.step.rend() - std::find_if(role.step.rbegin(), role.step.rend(), wanted) - 1;
}

Error refused(const Job& job) {
  try {
    (void)job.lower();
  } catch (const Error& e) {
    return e;
  }
  FAIL("accepted");
  throw std::logic_error("unreachable");
}

}  // namespace

TEST_CASE("a step executes all passes but the gradients of what nobody trains") {
  const Job job = gan_job(2, 3);
  const Program p = job.lower();
  validate(p);
  const Network& n = job.workload.network;
  const double samples = 2 * 3;
  // Neither images that are shown nor noise have a gradient: the first convolution of the one saves it twice, that of
  // the other once.
  const double saved = 2 * forward_flops(n, "down", "conv", samples) + forward_flops(n, "project", "conv", samples);
  CHECK(executed_matmul_flops(p).value() == Approx(p.model_flops_per_step - saved).epsilon(1e-12));
}

TEST_CASE("backward goes through a discriminator without adding to its gradients") {
  const Program p = gan_job().lower();
  std::set<int> trained, passed;
  for_each_task(p, 0, [&](const Entry& e, const Body& body, const Task& task) {
    for (const Operand& o : task.operands) {
      const Tensor& t = nth(p.tensors, nth(body.formals, o.formal).like);
      if (t.category != MemoryCategory::gradients || body.phase == Phase::optimizer) continue;
      // The generator's gradients come with the last pass, the discriminator's with the others.
      CHECK((e.pass == kThrough) != judges(p, e));
    }
    const auto* c = std::get_if<ComputeTask>(&task.kind);
    if (c != nullptr && c->op == ComputeOp::convolution_grad && judges(p, e))
      (e.pass == kThrough ? passed : trained).insert(e.layer);
  });
  CHECK(trained == std::set<int>{2, 3});
  CHECK(passed == std::set<int>{2, 3});
}

TEST_CASE("the generator learns from a discriminator that has been updated") {
  const Program p = gan_job(2).lower();
  const Role& role = p.roles.front();
  const auto named = [&](const char* name, bool of_discriminator) {
    return [&p, name, of_discriminator](const Entry& e) {
      return nth(p.bodies, e.body).name == name && judges(p, e) == of_discriminator;
    };
  };
  const auto in_pass = [](int pass) { return [pass](const Entry& e) { return e.pass == pass; }; };
  CHECK(last_of(role, in_pass(kMade)) < first_of(role, named("update", true)));
  CHECK(last_of(role, named("gradients.reduce", true)) < first_of(role, named("update", true)));
  CHECK(last_of(role, named("update", true)) < first_of(role, in_pass(kThrough)));
  CHECK(last_of(role, in_pass(kThrough)) < first_of(role, named("update", false)));
}

TEST_CASE("replicas reduce the gradients of both networks, once a step") {
  const Job job = gan_job(4, 3);
  const Program p = job.lower();
  double bytes = 0;
  std::set<bool> of;
  for_each_task(p, 1, [&](const Entry& e, const Body& body, const Task& task) {
    if (task.name != "gradients") return;
    bytes += collective_bytes(p, body, task, context_of(p, 1, e));
    of.insert(judges(p, e));
  });
  CHECK(bytes == 4.0 * static_cast<double>(job.workload.network.parameter_count()));
  CHECK(of.size() == 2);  // No bucket holds parameters of both.
}

TEST_CASE("each network has its own update and state") {
  Job job = gan_job();
  job.workload.training.optimizer = Optimizer::adam;
  job.workload.training.discriminator = {OwnOptimizer::sgd, 0.5};
  const Program p = job.lower();
  std::set<std::pair<std::string, double>> rules[2];
  for_each_task(p, 0, [&](const Entry& e, const Body&, const Task& task) {
    if (const auto* c = std::get_if<ComputeTask>(&task.kind); c != nullptr && c->op == ComputeOp::optimizer)
      rules[judges(p, e)].insert({c->variant, c->scalars.at(0)});
  });
  CHECK(rules[0] == std::set<std::pair<std::string, double>>{{"adam", job.workload.training.learning_rate}});
  CHECK(rules[1] == std::set<std::pair<std::string, double>>{{"sgd", 0.5}});
  // Two moments for the generator, one for the discriminator.
  const Network& n = job.workload.network;
  double generator = 0;
  for (int b = 0; b < n.discriminator; ++b) generator += static_cast<double>(nth(n.blocks, b).parameter_count());
  CHECK(persistent_bytes(p, 0, MemoryCategory::optimizer) ==
        4 * (generator + static_cast<double>(n.parameter_count())));
  job.strategy.dp = job.strategy.dp_replicate = 2;
  job.strategy.zero_stage = 1;
  CHECK(persistent_bytes(job.lower(), 0, MemoryCategory::optimizer) ==
        Approx(2 * (generator + static_cast<double>(n.parameter_count()))).epsilon(0.02));
}

TEST_CASE("made images of all microbatches are kept until the generator learns") {
  const auto activations = [](int microbatches) {
    return nth(peak_memory(gan_job(1, microbatches).lower(), Bytes{0}, Bytes{0}).front().by_category,
               MemoryCategory::activations)
        .value();
  };
  const double image = 4.0 * 3 * 12 * 8;
  // And what the generator keeps beside them: its first result before and after batch norm, and tanh's argument.
  const double kept = image + 4.0 * (2 * 6 * 6 * 4) + image;
  CHECK(activations(3) - activations(2) >= kept);
  CHECK(activations(3) - activations(2) == Approx(activations(4) - activations(3)));
}

TEST_CASE("what has no lowering for two networks is refused with the reason") {
  const auto with = [](auto change) {
    Job job = gan_job(2);
    change(job);
    return refused(job);
  };
  CHECK(with([](Job& j) { j.strategy.pp = 2; }).where == "strategy.pp");
  CHECK(with([](Job& j) { j.strategy.tile_h = 2; }).where == "strategy.tile_h");
  CHECK(with([](Job& j) { j.strategy.zero_stage = 2; }).where == "strategy.zero_stage");
  CHECK(with([](Job& j) {
          j.strategy.dp_shard = 2;
          j.strategy.dp_replicate = 1;
          j.strategy.fsdp.enabled = true;
        }).where == "strategy.fsdp.enabled");
  CHECK(with([](Job& j) { j.strategy.offload = Offload::optimizer; }).where == "strategy.offload");
  CHECK(with([](Job& j) { j.strategy.recompute = Recompute::full; }).where == "strategy.recompute");
  CHECK(with([](Job& j) { j.strategy.data_parallel = DataParallelism::funnel; }).where == "strategy.data_parallel");
  CHECK(with([](Job& j) { j.strategy.grad_sync = GradientSync::every; }).where == "strategy.grad_sync");
  CHECK(with([](Job& j) { j.strategy.schedule = "zb_h1"; }).where == "strategy.schedule");
  CHECK(with([](Job& j) { j.strategy.tp = 2; }).where == "strategy.tp");
  Job one(shipped("mlp"), 0);
  one.workload.training.discriminator.learning_rate = 1e-3;
  CHECK(refused(one).where == "training.discriminator");
}
