// Sharded data parallelism: bytes on the wire and bytes in memory are those of the papers, units are whole only around
// their use.

#include <map>

#include "core/base/index.hpp"
#include "core/config/settings/choices.hpp"
#include "core/program/body.hpp"
#include "core/strategy/workload.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/program/lowered.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

/// One replica per rank, gradients reduced in the model's two bytes, everything divisible.
Job sharded(int dp, int microbatches = 1, int layers = 4) {
  Job job(tiny_gpt(layers));
  job.strategy.dp = job.strategy.dp_replicate = dp;
  job.microbatches = microbatches;
  job.workload.training.gradient_dtype = GradientDtype::model;
  job.strategy.zero3.persistence_threshold = 0;
  return job;
}

Job fsdp(int shard, int replicate = 1, int microbatches = 1, int layers = 4) {
  Job job = sharded(shard * replicate, microbatches, layers);
  job.strategy.fsdp.enabled = true;
  job.strategy.dp_shard = shard;
  job.strategy.dp_replicate = replicate;
  return job;
}

double parameters_sharding(const Job& job) { return static_cast<double>(job.workload.network.parameter_count()); }

double layer_parameters(const Job& job) {
  for (const BlockSpec& b : job.workload.network.blocks)
    if (b.input >= 0 && b.output >= 0) {
      double n = 0;
      for (const ParamSpec& p : b.params) n += static_cast<double>(p.elements());
      return n;
    }
  return 0;
}

struct ShardingWire {
  double gathered = 0, scattered = 0, reduced = 0;
};

/// Bytes that one rank sends for parameters and gradients, by the bandwidth-optimal algorithms.
ShardingWire sent(const Program& p, int rank = 0) {
  ShardingWire out;
  for_each_task(p, rank, [&](const Entry& e, const Body& body, const Task& task) {
    const auto* c = std::get_if<CollectiveTask>(&task.kind);
    if (c == nullptr || task.name == "gradient_norm") return;
    const double n = p.mesh.group_size(nth(p.groups, c->group), rank, p.exprs);
    const double bytes = collective_bytes(p, body, task, context_of(p, rank, e)) * (n - 1) / n;
    if (c->op == CollectiveOp::all_gather) out.gathered += bytes;
    if (c->op == CollectiveOp::reduce_scatter) out.scattered += bytes;
    if (c->op == CollectiveOp::all_reduce) out.reduced += 2 * bytes;
  });
  return out;
}

double total(const ShardingWire& w) { return w.gathered + w.scattered + w.reduced; }

bool near(double a, double b) { return std::abs(a - b) <= 1e-9 * std::max(std::abs(a), std::abs(b)); }

/// Entries of a role by the body they call.
std::vector<const Entry*> calls(const Program& p, const std::string& body) {
  std::vector<const Entry*> out;
  for (const Entry& e : p.roles[0].step)
    if (nth(p.bodies, e.body).name == body) out.push_back(&e);
  return out;
}

/// The most layers that are whole at one time in a step, by the order of issue.
int most_layers_whole(const Program& p) {
  std::map<int, int> whole;
  int most = 0;
  for (const Entry& e : p.roles[0].step) {
    const std::string& name = nth(p.bodies, e.body).name;
    if (e.layer < 1 || e.layer > 8) continue;
    if (name == "unit.gather") whole[e.layer] = 1;
    if (name == "unit.drop") whole.erase(e.layer);
    most = std::max(most, static_cast<int>(whole.size()));
  }
  CHECK(whole.empty());
  return most;
}

Error refusal_sharding(const Job& job) {
  try {
    (void)job.lower();
  } catch (const Error& e) {
    return e;
  }
  FAIL("not refused");
  throw 0;
}

}  // namespace

TEST_CASE(
    "a rank holds 2 + 2 + 12 bytes per parameter, of which a stage of ZeRO divides one more (Rajbhandari et al. 2020, "
    "fig. 1)") {
  for (const int stage : {0, 1, 2, 3}) {
    Job job = sharded(4);
    job.strategy.zero_stage = stage;
    const Program p = job.lower();
    const double n = 4, psi = parameters_sharding(job);
    INFO("stage " << stage);
    CHECK(near(persistent_bytes(p, 0, MemoryCategory::weights), 2 * psi / (stage >= 3 ? n : 1)));
    CHECK(near(persistent_bytes(p, 0, MemoryCategory::gradients), 2 * psi / (stage >= 2 ? n : 1)));
    CHECK(near(persistent_bytes(p, 0, MemoryCategory::optimizer), 12 * psi / (stage >= 1 ? n : 1)));
  }
}

TEST_CASE("gradients reduced in fp32 and kept as the parameters are take two bytes a slice of bf16 parameters") {
  Job job = fsdp(4, 1, 2);
  job.workload.training.precision = Precision::bf16;
  job.workload.training.gradient_dtype = GradientDtype::fp32;
  const double slice = parameters_sharding(job) / 4;
  const Program as_reduced = job.lower();
  CHECK(near(persistent_bytes(as_reduced, 0, MemoryCategory::gradients), 4 * slice));
  job.workload.kernels.declared.set("framework.gradients_as_parameters", true);
  const Program as_parameters = job.lower();
  CHECK(near(persistent_bytes(as_parameters, 0, MemoryCategory::gradients), 2 * slice));
  CHECK(near(sent(as_parameters).scattered, sent(as_reduced).scattered));  // The wire carries what is reduced.
  job.workload.training.precision = Precision::bf16_mixed;
  job.workload.training.gradient_dtype = GradientDtype::model;
  CHECK(near(persistent_bytes(job.lower(), 0, MemoryCategory::gradients), 4 * slice));  // Master copies are fp32.
}

TEST_CASE("FSDP holds the master copy, two moments and a gradient, sliced: no second copy in the model's type") {
  Job job = fsdp(4);
  job.workload.training.gradient_dtype = GradientDtype::fp32;
  const Program p = job.lower();
  double held = 0;
  for (const auto c : {MemoryCategory::weights, MemoryCategory::gradients, MemoryCategory::optimizer})
    held += persistent_bytes(p, 0, c);
  CHECK(near(held, 16 * parameters_sharding(job) / 4));
}

TEST_CASE("ZeRO 0 to 2 send twice the parameters, ZeRO-3 three times (Rajbhandari et al. 2020, sec. 7)") {
  for (const int stage : {0, 1, 2, 3}) {
    Job job = sharded(4);
    job.strategy.zero_stage = stage;
    INFO("stage " << stage);
    CHECK(near(total(sent(job.lower())), (stage == 3 ? 3 : 2) * 2 * parameters_sharding(job) * 3 / 4));
  }
}

TEST_CASE("ZeRO 2 and 3 reduce after every microbatch, ZeRO-3 gathers twice per microbatch") {
  Job job = sharded(4, 3);
  const double psi = 2 * parameters_sharding(job) * 3 / 4;
  job.strategy.zero_stage = 2;
  ShardingWire w = sent(job.lower());
  CHECK(near(w.scattered, 3 * psi));
  CHECK(near(w.gathered, psi));
  job.strategy.zero_stage = 3;
  w = sent(job.lower());
  CHECK(near(w.scattered, 3 * psi));
  CHECK(near(w.gathered, 6 * psi));
}

TEST_CASE("small parameters stay whole under ZeRO-3 and are gathered once, after the update") {
  Job job = sharded(4);
  job.strategy.zero_stage = 3;
  job.strategy.zero3.persistence_threshold = 1e3;
  const Program p = job.lower();
  double small = 0;
  for (std::size_t b = 0; b < job.workload.network.blocks.size(); ++b)
    for (const ParamSpec& q : job.workload.network.blocks[b].params)
      if (q.elements() < 1000 && q.tied_to.empty())
        small += static_cast<double>(q.elements()) * job.workload.network.repeat[b];
  const double psi = parameters_sharding(job);
  CHECK(small > 0);
  CHECK(near(persistent_bytes(p, 0, MemoryCategory::weights), 2 * small + 2 * (psi - small) / 4));
  CHECK(near(sent(p).gathered, 2.0 * 3 / 4 * (small + 2 * (psi - small))));
}

TEST_CASE("FSDP gathers layers for forward and again for backward, the root once; without resharding everything once") {
  Job job = fsdp(4);
  const double layers = 4 * layer_parameters(job), root = parameters_sharding(job) - layers, share = 2.0 * 3 / 4;
  CHECK(near(sent(job.lower()).gathered, share * (2 * layers + root)));
  CHECK(near(sent(job.lower()).scattered, share * (layers + root)));
  job.strategy.fsdp.reshard_after_forward = Reshard::never;
  CHECK(near(sent(job.lower()).gathered, share * (layers + root)));
}

TEST_CASE("accumulation: FSDP gathers for every microbatch, and for the step once where nothing is resharded") {
  Job job = fsdp(4, 1, 3);
  const double psi = 2.0 * 3 / 4 * parameters_sharding(job), layers = 2.0 * 3 / 4 * 4 * layer_parameters(job);
  ShardingWire w = sent(job.lower());
  CHECK(near(w.gathered, 3 * (psi + layers)));
  CHECK(near(w.scattered, 3 * psi));
  job.strategy.grad_sync = GradientSync::last;
  CHECK(near(sent(job.lower()).scattered, psi));
  job.strategy.fsdp.reshard_after_forward = job.strategy.fsdp.reshard_after_backward = Reshard::never;
  CHECK(near(total(sent(job.lower())), 2 * psi));
}

TEST_CASE("hybrid sharding all-reduces a slice between copies (Zhao et al. 2023, sec. 3.2.2)") {
  Job job = fsdp(4, 2);
  const ShardingWire w = sent(job.lower());
  const double psi = 2 * parameters_sharding(job);
  CHECK(near(w.scattered, psi * 3 / 4));
  CHECK(near(w.reduced, 2 * psi / 4 * 1 / 2));
}

TEST_CASE("without synchronisation gradients cross the wire once, with it after every microbatch") {
  for (const auto sync : {GradientSync::automatic, GradientSync::last, GradientSync::every}) {
    Job job = sharded(4, 3);
    job.strategy.grad_sync = sync;
    const double times = sync == GradientSync::every ? 3 : 1;
    CHECK(near(sent(job.lower()).reduced, times * 2 * 2 * parameters_sharding(job) * 3 / 4));
  }
}

TEST_CASE("at most the prefetch depth and one more layers are whole; without a limit all of them") {
  for (const int depth : {0, 1, 2, 3}) {
    Job job = fsdp(2, 1, 2, 8);
    job.strategy.fsdp.prefetch_forward = job.strategy.fsdp.prefetch_backward = depth;
    CHECK(most_layers_whole(job.lower()) == depth + 1);
  }
  Job job = fsdp(2, 1, 2, 8);
  job.strategy.fsdp.limit_all_gathers = false;
  CHECK(most_layers_whole(job.lower()) == 8);
}

TEST_CASE("a unit prefetched takes the memory of its parameters") {
  const auto peak = [](int depth) {
    Job job = fsdp(2, 1, 1, 8);
    job.workload.training.sequence_length = 4;  // Parameters, not activations, make the peak.
    job.strategy.fsdp.prefetch_forward = job.strategy.fsdp.prefetch_backward = depth;
    return peak_of_stage(job.lower(), 0).value();
  };
  const double unit = 2 * layer_parameters(fsdp(2));
  for (const int depth : {1, 2, 3}) CHECK(std::abs(peak(depth + 1) - peak(depth) - unit) < 0.02 * unit);
}

TEST_CASE("a ZeRO-3 prefetch bucket that holds everything gathers all blocks at once, an empty one block by block") {
  Job job = sharded(2, 1, 8);
  job.strategy.zero_stage = 3;
  job.strategy.zero3.prefetch_bucket = 1e12;
  CHECK(most_layers_whole(job.lower()) == 8);
  job.strategy.zero3.prefetch_bucket = 0;
  CHECK(most_layers_whole(job.lower()) == 1);
}

TEST_CASE("through lists every parameter is a call of its own, and every rank's piece a copy") {
  Job job = sharded(4);
  job.strategy.zero_stage = 3;
  const Program whole = job.lower();
  job.strategy.zero3.lists = true;
  const Program p = job.lower();
  validate(p);
  CHECK(sent(p).gathered == sent(whole).gathered);
  CHECK(sent(p).scattered == sent(whole).scattered);
  const auto count = [](const Program& program, auto&& wanted) {
    int n = 0;
    for_each_task(program, 0, [&](const Entry&, const Body&, const Task& task) { n += wanted(task); });
    return n;
  };
  const auto scatters = [](const Task& task) {
    return std::holds_alternative<CollectiveTask>(task.kind) &&
           std::get<CollectiveTask>(task.kind).op == CollectiveOp::reduce_scatter;
  };
  const auto pieces = [](const Task& task) {
    const auto* c = std::get_if<ComputeTask>(&task.kind);
    return c != nullptr && c->op == ComputeOp::copy && c->kernels == 4;
  };
  int parameters = 0;
  for (std::size_t b = 0; b < job.workload.network.blocks.size(); ++b)
    parameters += job.workload.network.repeat[b] * static_cast<int>(job.workload.network.blocks[b].params.size());
  CHECK(count(whole, scatters) < parameters);
  CHECK(count(p, scatters) >= parameters - 1);  // Tied embeddings are one.
  CHECK(count(whole, pieces) == 0);
  const auto packed = [](const Task& task) {
    return std::holds_alternative<CollectiveTask>(task.kind) && std::get<CollectiveTask>(task.kind).packed;
  };
  CHECK(count(whole, packed) == 0);
  CHECK(count(p, packed) == count(p, [](const Task& task) {
          return std::holds_alternative<CollectiveTask>(task.kind) &&
                 std::get<CollectiveTask>(task.kind).op == CollectiveOp::all_gather;
        }));
  CHECK(count(p, pieces) >= 3 * (parameters - 1));  // Gathered for forward and for backward, scattered once.
}

TEST_CASE("what a recomputed layer uses again late is gathered a third time, what it used last is not") {
  Job job = sharded(2);
  job.strategy.zero_stage = 3;
  job.strategy.recompute = Recompute::full;
  const double near = sent(job.lower()).gathered;
  job.strategy.zero3.reuse_distance = 0;
  const Program p = job.lower();
  validate(p);
  double last = 0;  // Of a layer.
  for (const BlockSpec& b : job.workload.network.blocks)
    if (b.input >= 0 && b.output >= 0) last = static_cast<double>(b.params.back().elements());
  // 4 layers, 2 bytes, half of them from the other rank.
  CHECK(sent(p).gathered - near == Approx(4 * (layer_parameters(job) - last) * 2 / 2));
  CHECK(peak_of_stage(p, 0).value() <= peak_of_stage(job.lower(), 0).value());
}

TEST_CASE("the first gather of a forward waits for the pass before, those of a depth of none for the layer before") {
  Job job = fsdp(2, 1, 2, 4);
  job.strategy.fsdp.prefetch_forward = job.strategy.fsdp.prefetch_backward = 0;
  const Program p = job.lower();
  std::map<EventId, const Entry*> recorded;
  for (const Entry& e : p.roles[0].step)
    if (e.record >= 0) recorded[e.record] = &e;
  for (const Entry* e : calls(p, "unit.gather")) {
    const bool first_of_step = e == calls(p, "unit.gather").front();
    REQUIRE(e->wait_count == 1);
    const Wait& w = nth(p.roles[0].waits, e->first_wait);
    CHECK(w.steps_back == (first_of_step ? 1 : 0));
    const std::string& before = nth(p.bodies, recorded.at(w.event)->body).name;
    CHECK((first_of_step ? before == "update" : before.find("ward") != std::string::npos));
  }
}

TEST_CASE("with stages parameters are gathered once per step unless told otherwise") {
  Job job = fsdp(2, 1, 4);
  job.strategy.pp = 2;
  const ShardingWire kept = sent(job.lower());
  CHECK(near(kept.gathered, kept.scattered));
  job.strategy.fsdp.reshard_after_forward = Reshard::always;
  CHECK(sent(job.lower()).gathered > 4 * kept.gathered);
}

TEST_CASE("a small first bucket starts the wire early") {
  Job job = sharded(4);
  job.strategy.bucket = Bytes{1e5};
  const auto first = [&] {
    const Program p = job.lower();
    const Entry& e = *calls(p, "gradients.reduce").front();
    const Body& body = nth(p.bodies, e.body);
    return collective_bytes(p, body, body.graph[0], context_of(p, 0, e));
  };
  const double large = first();
  job.strategy.first_bucket = Bytes{1};
  CHECK(first() < large);
}

TEST_CASE("combinations that mean nothing are refused with the reason") {
  Job job = fsdp(2);
  job.strategy.zero_stage = 2;
  CHECK(refusal_sharding(job).where == "strategy.zero_stage");
  job = fsdp(1, 4);
  CHECK(refusal_sharding(job).where == "strategy.dp_shard");
  job = sharded(2, 2);
  job.strategy.zero_stage = 2;
  job.strategy.grad_sync = GradientSync::last;
  CHECK(refusal_sharding(job).where == "strategy.grad_sync");
  job.strategy.zero_stage = 1;
  job.strategy.grad_sync = GradientSync::every;
  CHECK(refusal_sharding(job).where == "strategy.grad_sync");
  job = fsdp(2);
  job.strategy.fsdp.reshard_after_forward = Reshard::always;
  job.strategy.fsdp.reshard_after_backward = Reshard::never;
  CHECK(refusal_sharding(job).where == "strategy.fsdp.reshard_after_backward");
}
