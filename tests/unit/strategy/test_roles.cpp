// Streams, messages, tensors and inputs say what they are for: for jobs in which every registered strategy is in use.

#include <functional>
#include <map>
#include <set>

#include "core/base/index.hpp"
#include "core/config/settings/choices.hpp"
#include "core/program/body.hpp"
#include "core/strategy/strategy.hpp"
#include "core/strategy/workload.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/program/lowered.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

/// Two replicas of a small GPT, in two stages of one rank.
Job two_by_two() {
  Job job(tiny_gpt());
  job.strategy.dp = job.strategy.dp_replicate = job.strategy.pp = 2;
  return job;
}

Job with(const std::function<void(Job&)>& change, Job job = two_by_two()) {
  change(job);
  return job;
}

Job experts() {
  Job job(shipped("tiny_mixtral"));
  job.strategy.dp = job.strategy.dp_replicate = job.strategy.ep = 2;
  return job;
}

Job tiles() {
  Job job(changed("tiny_gpt2", {}), 0);
  job.workload.network = ModelLibrary({}).load(
      R"({"model_type": "resnet", "depths": [1, 1], "hidden_sizes": [8, 16], "embedding_size": 8, "image_size": 64,
      "num_labels": 7})");
  job.strategy.tile_h = 2;
  return job;
}

Job central(DataParallelism kind) {
  Job job(tiny_gpt());
  job.strategy.dp = job.strategy.dp_replicate = 2;
  job.strategy.data_parallel = kind;
  return job;
}

/// A job that puts each strategy to use.
std::map<std::string, Job> jobs() {
  const auto sharded = [](Job& j) {
    j.strategy.pp = 1;
    j.strategy.dp = j.strategy.dp_shard = 2;
    j.strategy.dp_replicate = 1;
    j.strategy.fsdp.enabled = true;
  };
  const auto zero = [](int stage) {
    return with([stage](Job& j) {
      j.strategy.pp = 1;
      j.strategy.zero_stage = stage;
    });
  };
  std::map<std::string, Job> out{
      {"adversarial", Job(tiny_gan(), 0)},
      {"context_parallel", with([](Job& j) { j.strategy.cp = 2; })},
      {"data_parallel", two_by_two()},
      {"data_parallel_funnel", central(DataParallelism::funnel)},
      {"expert_parallel", experts()},
      {"fsdp", with(sharded)},
      {"hsdp", with([&](Job& j) {
         sharded(j);
         j.strategy.dp = 4;
         j.strategy.dp_replicate = 2;
       })},
      {"model_parallel", with([](Job& j) { j.strategy.schedule = "model_parallel"; })},
      {"offload_activations", with([](Job& j) {
         j.strategy.pp = 1;
         j.strategy.offload = Offload::activations;
       })},
      {"offload_optimizer", with([](Job& j) {
         j.strategy.pp = 1;
         j.strategy.offload = Offload::optimizer;
       })},
      {"offload_parameters", with([&](Job& j) {
         sharded(j);
         j.strategy.offload = Offload::optimizer;
         j.strategy.declared.set("strategy.offload_parameters", true);
       })},
      {"overlapped_tensor_parallel", with([](Job& j) {
         j.strategy.tp = 2;
         j.strategy.sequence_parallel = j.strategy.overlap.tp = true;
       })},
      {"parameter_server", central(DataParallelism::parameter_server)},
      {"pipeline_parallel", two_by_two()},
      {"sequence_parallel", with([](Job& j) {
         j.strategy.tp = 2;
         j.strategy.sequence_parallel = true;
       })},
      {"tensor_parallel", with([](Job& j) { j.strategy.tp = 2; })},
      {"tile_parallel", tiles()},
      {"zero1", zero(1)},
      {"zero2", zero(2)},
      {"zero3", zero(3)},
  };
  for (const auto& entry : strategies().entries())
    for (const StrategyExample& example : entry.value->examples())
      out.try_emplace(entry.name, with([&example](Job& j) {
                        j.strategy.pp = 1;
                        j.strategy.*example.axis *= example.ranks;
                        j.strategy.dp = j.strategy.dp_replicate * j.strategy.dp_shard;
                        example.turn_on(j.strategy);
                      }));
  return out;
}

using Visitor = std::function<void(const Body&, const Task&)>;

void for_all_tasks(const Program& p, const Visitor& visit) {
  for (const Body& body : p.bodies)
    for (const auto v : body.graph.vertices()) visit(body, body.graph[v]);
}

MemorySpace space_of(const Program& p, const Body& body, const Operand& o) {
  return nth(p.tensors, nth(body.formals, o.formal).like).space;
}

int tensors_with(const Program& p, TensorRole role) {
  return static_cast<int>(
      std::count_if(p.tensors.begin(), p.tensors.end(), [role](const Tensor& t) { return t.role == role; }));
}

std::set<SampleField> fields_of(const Program& p) {
  std::set<SampleField> out;
  for_all_tasks(p, [&](const Body&, const Task& task) {
    if (const auto* input = std::get_if<InputTask>(&task.kind)) out.insert(input->field);
  });
  return out;
}

/// Streams by name, work by stream.
void check_streams(const Program& p) {
  REQUIRE(p.role_of(0) == StreamRole::compute);
  std::set<std::string> names;
  for (const Stream& s : p.streams) {
    INFO(s.name);
    CHECK(names.insert(s.name).second);
    CHECK((s.role == StreamRole::communication) == !s.axes.empty());
  }
  const auto out =
      std::any_of(p.streams.begin(), p.streams.end(), [](const Stream& s) { return s.role == StreamRole::copy_out; });
  for_all_tasks(p, [&](const Body& body, const Task& task) {
    INFO(body.name << "/" << task.name << " on " << nth(p.streams, task.stream).name);
    const StreamRole role = p.role_of(task.stream);
    if (std::holds_alternative<InputTask>(task.kind)) CHECK(role == StreamRole::storage);
    if (std::holds_alternative<HostTask>(task.kind)) CHECK(role == StreamRole::host);
    if (std::holds_alternative<P2pTask>(task.kind)) CHECK(role == StreamRole::communication);
    if (!std::holds_alternative<CopyTask>(task.kind)) return;
    const bool leaves = space_of(p, body, task.operands.front()) == MemorySpace::device;
    CHECK(role == (out && leaves ? StreamRole::copy_out : StreamRole::copy));
  });
}

/// Messages between stages lie on streams along pp, all others on streams along the replicas.
void check_messages(const Program& p) {
  for_all_tasks(p, [&](const Body& body, const Task& task) {
    const auto* m = std::get_if<P2pTask>(&task.kind);
    if (m == nullptr) return;
    INFO(body.name << "/" << task.name);
    const MessageKind kind = nth(p.edges, m->edge).kind;
    const bool staged = kind == MessageKind::activations || kind == MessageKind::activation_gradients;
    const AxisSet axes = nth(p.streams, task.stream).axes;
    CHECK(axes.contains(Axis::pp) == staged);
    CHECK(axes.contains(Axis::dp_replicate) == !staged);
    if (staged)
      CHECK(m->chunk_delta == (m->direction == P2pTask::Direction::send ? 0
                               : kind == MessageKind::activations       ? -1
                                                                        : 1));
  });
}

}  // namespace

TEST_CASE("every registered strategy's Programs say what streams and messages are for") {
  const std::map<std::string, Job> all = jobs();
  for (const std::string& name : strategies().names()) {
    INFO(name);
    REQUIRE(all.contains(name));
    const Job& job = all.at(name);
    const std::vector<std::string> active = active_strategies({job.workload, job.strategy, job.ranks()});
    CHECK(std::find(active.begin(), active.end(), name) != active.end());
    const Program p = job.lower();
    check_streams(p);
    check_messages(p);
    CHECK(fields_of(p).contains(SampleField::other) == false);
  }
}

TEST_CASE("collectives along one axis lie on a stream along it") {
  for (const auto& each : jobs()) {
    const std::string& name = each.first;
    const Program p = each.second.lower();
    for_all_tasks(p, [&](const Body& body, const Task& task) {
      const auto* c = std::get_if<CollectiveTask>(&task.kind);
      const Stream& on = nth(p.streams, task.stream);
      if (c == nullptr || on.role != StreamRole::communication) return;
      INFO(name << ": " << body.name << "/" << task.name << " on " << on.name);
      const AxisSet axes = nth(p.groups, c->group).axes;
      for (const Axis a : {Axis::tp, Axis::cp, Axis::ep})
        if (axes == AxisSet{a}) CHECK(on.axes.contains(a));
    });
  }
}

TEST_CASE("a parameter server and a funnel say what their messages carry") {
  const auto kinds = [](DataParallelism kind) {
    const Program p = central(kind).lower();
    std::set<MessageKind> out;
    for_all_tasks(p, [&](const Body&, const Task& task) {
      if (const auto* m = std::get_if<P2pTask>(&task.kind)) out.insert(nth(p.edges, m->edge).kind);
    });
    return out;
  };
  CHECK(kinds(DataParallelism::parameter_server) == std::set{MessageKind::parameters, MessageKind::gradients});
  CHECK(kinds(DataParallelism::funnel).contains(MessageKind::inputs));
}

TEST_CASE("the logits' fp32 gradient and the scales of fp8 are told from other tensors") {
  Job job(tiny_gpt());
  job.workload.training.precision = Precision::bf16_mixed;
  CHECK(tensors_with(job.lower(), TensorRole::fp8_scales) == 0);
  // PyTorch's own loss makes a gradient of fp32 logits; a fused one does not.
  Job sharded = job;
  sharded.strategy.dp = sharded.strategy.dp_shard = 2;
  sharded.strategy.dp_replicate = 1;
  sharded.strategy.fsdp.enabled = true;
  sharded.workload.kernels.declared.set("framework.loss", std::string("pytorch"));
  CHECK(tensors_with(sharded.lower(), TensorRole::logits_gradient) == 1);
  sharded.workload.kernels.fused_cross_entropy = true;
  CHECK(tensors_with(sharded.lower(), TensorRole::logits_gradient) == 0);
  job.workload.kernels.fused_cross_entropy = true;
  job.workload.training.precision = Precision::fp8_mixed;
  CHECK(tensors_with(job.lower(), TensorRole::fp8_scales) == 4);  // One for each product of the layer's body.
}

TEST_CASE("inputs say which field of a sample they are") {
  CHECK(fields_of(Job(tiny_gpt()).lower()) == std::set{SampleField::tokens, SampleField::labels});
  CHECK(fields_of(Job(shipped("tiny_bert")).lower()) ==
        std::set{SampleField::token_types, SampleField::tokens, SampleField::labels});
  CHECK(fields_of(tiles().lower()) == std::set{SampleField::image, SampleField::labels});
  CHECK(fields_of(Job(tiny_gan(), 0).lower()) == std::set{SampleField::noise, SampleField::image});
}
