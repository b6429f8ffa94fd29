// What a step keeps that settings make smaller: moments in few bits, gradients that go at once, parameters in host
// memory; and what frameworks keep beside it.

#include <algorithm>
#include <cmath>

#include "core/config/settings/choices.hpp"
#include "core/strategy/execution_gaps.hpp"
#include "core/strategy/state_shards.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/strategy/saved.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

Job keeping(Precision precision = Precision::bf16_mixed, int layers = 4) {
  Job job(tiny_gpt(layers));
  job.workload.training.precision = precision;
  job.microbatches = 1;
  return job;
}

void set(Job& job, const std::string& key, SettingValue value) {
  if (key.starts_with("training."))
    job.workload.training.declared.set(key, std::move(value));
  else if (key.starts_with("strategy."))
    job.strategy.declared.set(key, std::move(value));
  else
    job.workload.kernels.declared.set(key, std::move(value));
}

double state_of(const Job& job) { return persistent_bytes(job.lower(), 0, MemoryCategory::optimizer); }

/// A sum over all parameters of what `bytes` says of one tensor's elements and whether it is an embedding's table.
double over_parameters(const Network& net, const std::function<double(const ParamSpec&, bool)>& bytes) {
  double sum = 0;
  for (std::size_t b = 0; b < net.blocks.size(); ++b)
    for (std::size_t p = 0; p < net.blocks[b].params.size(); ++p) {
      const ParamSpec& spec = net.blocks[b].params[p];
      if (!spec.tied_to.empty()) continue;
      const auto looks_up = [p](const OpSpec& op) {
        return (op.kind == OpKind::embedding || op.kind == OpKind::position_embedding) &&
               op.params.at(0) == static_cast<int>(p);
      };
      sum += net.repeat[b] * bytes(spec, std::any_of(net.blocks[b].ops.begin(), net.blocks[b].ops.end(), looks_up));
    }
  return sum;
}

/// Two moments of a byte an element, each with an fp32 scale for every `block` of a row; small tensors in fp32.
double eight_bits(const ParamSpec& p, double block) {
  const auto n = static_cast<double>(p.elements()), row = static_cast<double>(p.shape.back().size);
  return n < 4096 ? 8 * n : 2 * n + 2 * 4 * (n / row) * std::ceil(row / block);
}

/// In all calls, or those of `body`.
double most_of(const Program& p, MemoryCategory category, const std::string& body = {}) {
  double most = 0;
  for (const MemoryPoint& at : memory_course(p, 0, Bytes{0}, Bytes{0}))
    if (body.empty() || nth(p.bodies, at.body).name == body)
      most = std::max(most, nth(at.by_category, category).value());
  return most;
}

int count_of(const Program& p, const std::function<bool(const Body&, const Task&)>& counts) {
  int n = 0;
  for_each_task(p, 0, [&](const Entry&, const Body& body, const Task& task) { n += counts(body, task); });
  return n;
}

bool is_update(const Body&, const Task& task) {
  const auto* c = std::get_if<ComputeTask>(&task.kind);
  return c != nullptr && c->op == ComputeOp::optimizer;
}

double on_host(const Program& p, MemoryCategory category) {
  double bytes = 0;
  for (const Role::Persistent& held : nth(p.roles, 0).persistent)
    if (const Tensor& t = nth(p.tensors, held.tensor); t.space != MemorySpace::device && t.category == category)
      bytes += p.local_bytes(t, p.mesh.context(0));
  return bytes;
}

}  // namespace

TEST_CASE("moments take the bytes of their type, beside a master copy or without one") {
  const double n = static_cast<double>(keeping().workload.network.parameter_count());
  Job job = keeping();
  CHECK(state_of(job) == 12 * n);
  set(job, "training.optimizer_states", std::string("bf16"));
  CHECK(state_of(job) == 8 * n);
  set(job, "training.master_weights", std::string("remainder"));
  CHECK(state_of(job) == 6 * n);
  CHECK(state_of(keeping(Precision::bf16)) == 4 * n);  // "keeps everything in bf16".
  CHECK(state_of(keeping(Precision::fp32)) == 8 * n);
}

TEST_CASE("8-bit optimizers keep scales, and small tensors in fp32") {
  Job job = keeping(Precision::fp32);
  set(job, "training.optimizer_states", std::string("int8"));
  for (const std::int64_t block : {256, 2048}) {
    set(job, "framework.state_block", block);
    const auto each = [&](const ParamSpec& p, bool) { return eight_bits(p, static_cast<double>(block)); };
    CHECK(state_of(job) == over_parameters(job.workload.network, each));
  }
  set(job, "framework.embedding_states_fp32", true);
  const auto but_tables = [](const ParamSpec& p, bool table) {
    return table ? 8 * static_cast<double>(p.elements()) : eight_bits(p, 2048);
  };
  CHECK(state_of(job) == over_parameters(job.workload.network, but_tables));
}

TEST_CASE(
    "types of states that a rule or a strategy has no use for are refused, and those that no kernel has don't run") {
  Job job = keeping();
  set(job, "training.optimizer_states", std::string("int8"));
  const auto executable = [](const Job& j) { check_executable({j.workload, j.strategy, 1}); };
  CHECK_THROWS_AS(executable(job), Error);
  CHECK_NOTHROW(executable(keeping(Precision::bf16)));
  job.workload.training.optimizer = Optimizer::lamb;
  CHECK_THROWS_AS(job.lower(), Error);
  Job sharded = keeping();
  set(sharded, "training.master_weights", std::string("remainder"));
  sharded.strategy.dp = sharded.strategy.dp_shard = 2;
  sharded.strategy.fsdp.enabled = true;
  CHECK_THROWS_AS(sharded.lower(), Error);
}

TEST_CASE("with the update in backward gradients of a few blocks are alive, and every parameter is updated once") {
  for (const bool fsdp : {false, true}) {
    Job job = keeping(Precision::bf16, 12);
    job.workload.training.clip_gradients = false;
    job.strategy.fsdp.enabled = fsdp;
    if (fsdp) job.strategy.dp = job.strategy.dp_shard = 2;
    const Program after = job.lower();
    set(job, "strategy.optimizer_in_backward", true);
    const Program within = job.lower();
    validate(within);
    CHECK(persistent_bytes(within, 0, MemoryCategory::gradients) == 0);
    CHECK(most_of(within, MemoryCategory::gradients) < 0.5 * most_of(after, MemoryCategory::gradients));
    double updated = 0, before = 0;
    const auto traffic = [](const Program& p, double& bytes) {
      for_each_task(p, 0, [&](const Entry& e, const Body& body, const Task& task) {
        for (const Operand& o : task.operands)
          if (is_update(body, task)) bytes += bytes_of(p, body, o, context_of(p, 0, e));
      });
    };
    traffic(after, before);
    traffic(within, updated);
    CHECK(updated == before);
  }
}

TEST_CASE("fresh gradients are there from backward to the update, and not while activations are at their most") {
  for (const int shards : {1, 2}) {
    Job job = keeping();
    job.strategy.dp = job.strategy.dp_shard = shards;
    job.strategy.fsdp.enabled = shards > 1;
    const double gradients = persistent_bytes(job.lower(), 0, MemoryCategory::gradients);
    CHECK(gradients > 0);
    set(job, "strategy.fresh_gradients", true);
    CHECK(persistent_bytes(job.lower(), 0, MemoryCategory::gradients) == 0);
    CHECK(most_of(job.lower(), MemoryCategory::gradients, "update") == gradients);
    // A second microbatch adds to those of the first.
    job.microbatches = 2;
    CHECK(persistent_bytes(job.lower(), 0, MemoryCategory::gradients) == gradients);
  }
}

TEST_CASE("the foreach form of AdamW holds a copy of all second moments while it updates") {
  Job job = keeping();
  job.workload.training.optimizer = Optimizer::adamw;
  const double before = most_of(job.lower(), MemoryCategory::workspace);
  set(job, "framework.update_copies", std::int64_t{1});
  // Of master weights and two moments, all fp32.
  CHECK(most_of(job.lower(), MemoryCategory::workspace, "update.copies") == before + state_of(job) / 3);
  job.workload.training.optimizer = Optimizer::sgd;
  CHECK(most_of(job.lower(), MemoryCategory::workspace) == before);
}

TEST_CASE("the update in backward is refused where gradients are complete, or looked at, only later") {
  const auto refused = [](void (*change)(Job&)) {
    Job job = keeping();
    job.workload.training.clip_gradients = false;
    set(job, "strategy.optimizer_in_backward", true);
    change(job);
    CHECK_THROWS_AS(job.lower(), Error);
  };
  refused([](Job& job) { job.microbatches = 2; });
  refused([](Job& job) { job.workload.training.clip_gradients = true; });
  refused([](Job& job) { job.strategy.dp = job.strategy.dp_replicate = 2; });
  refused([](Job& job) { job.strategy.offload = Offload::optimizer; });
}

TEST_CASE("parameters in host memory leave the device nothing but what is gathered") {
  for (const bool fsdp : {false, true}) {
    Job job = keeping();
    job.strategy.dp = 2;
    (fsdp ? job.strategy.dp_shard : job.strategy.dp_replicate) = 2;
    job.strategy.fsdp.enabled = fsdp;
    job.strategy.zero_stage = fsdp ? 0 : 3;
    job.strategy.zero3.persistence_threshold = 0;
    job.strategy.offload = Offload::optimizer;
    const double n = static_cast<double>(job.workload.network.parameter_count());
    const Program beside = job.lower();
    CHECK(persistent_bytes(beside, 0, MemoryCategory::weights) >= n);  // Slices in 16 bits.
    set(job, "strategy.offload_parameters", true);
    const Program p = job.lower();
    validate(p);
    CHECK(persistent_bytes(p, 0, MemoryCategory::weights) == 0);
    CHECK(persistent_bytes(p, 0, MemoryCategory::gradients) == 0);
    CHECK(on_host(p, MemoryCategory::weights) == Approx(fsdp ? 0 : n).epsilon(0.01));  // Under FSDP the master copy.
    const auto brings = [](const Body& body, const Task& task) {
      return body.name == "unit.gather" && std::holds_alternative<CopyTask>(task.kind);
    };
    CHECK(count_of(p, brings) > 0);
    CHECK(count_of(beside, brings) == 0);
  }
}

TEST_CASE("parameters in host memory need slices, and the optimizer there") {
  Job job = keeping();
  set(job, "strategy.offload_parameters", true);
  job.strategy.offload = Offload::optimizer;
  CHECK_THROWS_AS(job.lower(), Error);
  job.strategy.dp = job.strategy.dp_shard = 2;
  job.strategy.fsdp.enabled = true;
  CHECK_NOTHROW(job.lower());
  job.strategy.offload = Offload::none;
  CHECK_THROWS_AS(job.lower(), Error);
}

TEST_CASE("buffers of reductions hold so many buckets, whole gradients on their way among them") {
  Job job = keeping();
  job.strategy.dp = job.strategy.dp_replicate = 2;
  job.strategy.zero_stage = 2;
  job.strategy.bucket = Bytes{1 << 20};
  const double whole = 4 * static_cast<double>(job.workload.network.parameter_count());
  const double none = persistent_bytes(job.lower(), 0, MemoryCategory::communication);
  for (const std::int64_t buffers : {1, 2}) {
    set(job, "framework.gradient_buffers", buffers);
    CHECK(persistent_bytes(job.lower(), 0, MemoryCategory::communication) - none ==
          Approx(static_cast<double>(buffers * (1 << 20)) - std::min(whole, double{1 << 20})));
  }
}

TEST_CASE("no more is gathered ahead than may be alive") {
  Job job = keeping(Precision::bf16_mixed, 8);
  job.strategy.dp = job.strategy.dp_replicate = 2;
  job.strategy.zero_stage = 3;
  job.strategy.zero3.persistence_threshold = 0;
  const double ahead = most_of(job.lower(), MemoryCategory::communication, "layer.forward");
  set(job, "strategy.zero3.max_live_parameters", 1.0);
  CHECK(most_of(job.lower(), MemoryCategory::communication, "layer.forward") < 0.5 * ahead);
}

TEST_CASE("experts without copies are no units where a framework leaves them whole") {
  Job job(shipped("tiny_mixtral"));
  job.strategy.dp = job.strategy.dp_shard = job.strategy.ep = 2;
  job.strategy.fsdp.enabled = true;
  const auto peak = [&] { return peak_memory(job.lower(), Bytes{0}, Bytes{0}).at(0).peak; };
  const auto experts = [](const Program& p) {
    int whole = 0;
    for (const Role::Persistent& held : nth(p.roles, 0).persistent) {
      const Tensor& t = nth(p.tensors, held.tensor);
      whole += t.category == MemoryCategory::weights && in_expert_view(t.layout);
    }
    return whole;
  };
  const Bytes as_units = peak();
  CHECK(experts(job.lower()) == 0);  // Gathered from the master copy.
  set(job, "framework.lone_experts_sharded", false);
  validate(job.lower());
  CHECK(experts(job.lower()) > 0);
  CHECK(peak() < as_units);
  // With copies they are divided over them all the same.
  job.strategy.dp = job.strategy.dp_shard = 4;
  CHECK(experts(job.lower()) == 0);
}

TEST_CASE("a product that keeps what it gathered gathers once") {
  Job job(tiny_llama());
  job.strategy.tp = 2;
  job.strategy.sequence_parallel = true;
  const auto gathers = [](const Body& body, const Task& task) {
    const auto* c = std::get_if<CollectiveTask>(&task.kind);
    return body.name == "layer.backward" && c != nullptr && c->op == CollectiveOp::all_gather;
  };
  const Program again = job.lower();
  set(job, "framework.keeps_gathered_inputs", true);
  const Program kept = job.lower();
  validate(kept);
  const int each = 4 * job.microbatches;
  // Of inputs for weight gradients, qkv's and fc1's; gradients of proj's and fc2's outputs are gathered in any case.
  CHECK(count_of(again, gathers) == 4 * each);
  CHECK(count_of(kept, gathers) == 2 * each);
  // Two values of a layer, whole in place of a half.
  const auto hidden = std::find_if(again.tensors.begin(), again.tensors.end(),
                                   [](const Tensor& t) { return t.name == "hidden.{layer}"; });
  const double slice = again.local_bytes(*hidden, again.mesh.context(0));
  CHECK(kept_bytes(kept, "layer.forward") - kept_bytes(again, "layer.forward") == Approx(2 * slice));
  job.strategy.recompute = Recompute::full;
  validate(job.lower());
  // Made again and gathered with that, not once more.
  CHECK(count_of(job.lower(), gathers) == 4 * each);
}
