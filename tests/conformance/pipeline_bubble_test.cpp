// Idle over ideal time of a pipeline is (p-1)/m for GPipe and 1F1B and (p-1)/(v m) interleaved (Narayanan et al. 2021,
// sec. 2.2), with equal passes (p-1)/(3 m) for ZB-H1 and the skew of a V for ZB-V (Qi et al. 2023), (p-2)/(3 m) for
// DualPipe (DeepSeek-V3 2024), p-1 without a pipeline: schedules lowered and played, with equal stages and passes so
// long that messages are nothing beside them.

#include "core/base/index.hpp"
#include "core/program/body.hpp"
#include "core/schedule/schedule.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/testbed.hpp"
#include "tests/unit/program/lowered.hpp"

using namespace rehearse;
using namespace rehearse::test;
using namespace rehearse::testing;

namespace {

constexpr std::int64_t kWork = 100'000'000'000'000;  // Bytes copied by a forward pass: two minutes of HBM.

void copy_only(Program& p, Body& body, std::int64_t bytes) {
  Tensor work;
  work.name = body.name + ".work";
  work.shape = {p.exprs.constant(bytes)};
  work.dtype = DType::uint8;
  p.tensors.push_back(work);
  const auto formal = static_cast<int>(body.formals.size());
  body.formals.push_back({"work", static_cast<int>(p.tensors.size()) - 1, false});
  body.graph = {};
  body.graph.add(
      Task{.name = "copy", .kind = ComputeTask{}, .operands = {{formal, Access::read}, {formal, Access::write}}});
}

/// One layer per chunk; layers copy, the backward pass twice as much, each of its halves as much; nothing else
/// computes. One rank per node. Messages are of one byte, so that they slow no kernel beside them.
Program equal_stages(const std::string& schedule, const PipelineShape& shape) {
  Job job(tiny_gpt(shape.stages * shape.virtual_stages));
  job.strategy.pp = shape.stages;
  job.strategy.virtual_stages = shape.virtual_stages;
  job.strategy.schedule = schedule;
  job.microbatches = shape.microbatches;
  Program p = job.lower();
  for (const MessageEdge& edge : p.edges) {
    nth(p.tensors, edge.tensor).shape = {ExprPool::kOne};
    nth(p.tensors, edge.tensor).dtype = DType::uint8;
  }
  std::vector<bool> kept;
  for (Body& body : p.bodies) {
    if (body.name == "layer.forward") copy_only(p, body, kWork);
    if (body.name == "layer.backward") copy_only(p, body, 2 * kWork);
    if (body.name == "layer.backward_input" || body.name == "layer.backward_weight") copy_only(p, body, kWork);
    kept.push_back(body.name.starts_with("layer.") || body.name.starts_with("send.") ||
                   body.name.starts_with("receive."));
  }
  for (Role& role : p.roles)
    for (Entry& e : role.step)
      if (!nth(kept, e.body)) e.predicate = ExprPool::kZero;
  for (int& device : p.device_of_rank) device *= 8;
  return p;
}

double duration(const Testbed& bed, const Program& p, const std::string& body) {
  for (const Body& b : p.bodies)
    if (b.name == body) return bed.cost.price_body(p, b, 0, p.mesh.context(0)).duration.value();
  throw std::logic_error("no body " + body);
}

double message_time(const Testbed& bed, const Program& p) {
  const double bytes = p.local_bytes(nth(p.tensors, p.edges[0].tensor), p.mesh.context(0));
  return bed.cost.collectives().send(Bytes{bytes}, p.device_of_rank[0], p.device_of_rank[1]).time.value();
}

double backward_time(const Testbed& bed, const Program& p) {
  for (const Body& b : p.bodies)
    if (b.name == "layer.backward") return duration(bed, p, b.name);
  return duration(bed, p, "layer.backward_input") + duration(bed, p, "layer.backward_weight");
}

struct Case {
  std::string schedule;
  PipelineShape shape;
  double ratio;
};

}  // namespace

TEST_CASE("a lowered pipeline idles as its schedule says, and as the papers do") {
  const Testbed bed(8);
  for (const auto& [schedule, shape, ratio] : std::vector<Case>{{"gpipe", {2, 1, 3}, 1.0 / 3},
                                                                {"gpipe", {4, 1, 8}, 3.0 / 8},
                                                                {"gpipe", {8, 1, 8}, 7.0 / 8},
                                                                {"1f1b", {2, 1, 5}, 1.0 / 5},
                                                                {"1f1b", {4, 1, 8}, 3.0 / 8},
                                                                {"1f1b", {8, 1, 32}, 7.0 / 32},
                                                                {"1f1b", {6, 1, 3}, 5.0 / 3},
                                                                {"interleaved_1f1b", {4, 2, 8}, 3.0 / 16},
                                                                {"interleaved_1f1b", {2, 3, 4}, 1.0 / 12},
                                                                {"interleaved_1f1b", {8, 2, 16}, 7.0 / 32},
                                                                {"paired_1f1b", {2, 1, 5}, 1.0 / 5},
                                                                {"paired_1f1b", {4, 2, 8}, 3.0 / 16},
                                                                {"zb_h1", {2, 1, 5}, 1.0 / 15},
                                                                {"zb_h1", {4, 1, 8}, 3.0 / 24},
                                                                {"zb_h1", {8, 1, 8}, 7.0 / 24},
                                                                {"zb_v", {2, 2, 4}, 1.0 / 24},
                                                                {"zb_v", {4, 2, 8}, 3.0 / 48},
                                                                {"zb_v", {8, 2, 16}, 7.0 / 96},
                                                                {"dualpipe", {2, 1, 6}, 0.0},
                                                                {"dualpipe", {4, 1, 8}, 2.0 / 24},
                                                                {"dualpipe", {8, 1, 16}, 6.0 / 48},
                                                                {"model_parallel", {2, 1, 3}, 1.0},
                                                                {"model_parallel", {8, 1, 2}, 7.0}}) {
    INFO(schedule << " p " << shape.stages << " v " << shape.virtual_stages << " m " << shape.microbatches);
    const Program p = equal_stages(schedule, shape);
    const RunResult run = bed.analytic(p);
    const double m = shape.microbatches, v = shape.virtual_stages;
    const double ideal = m * v * (duration(bed, p, "layer.forward") + backward_time(bed, p));
    // Messages are not free: no chain of dependencies holds more than four for each pass, or two for each stage that
    // microbatches pass alone.
    const double messages = (4 * (m * v + shape.stages) + (schedule == "model_parallel" ? 2 * m * shape.stages : 0)) *
                            message_time(bed, p) / ideal;
    REQUIRE(messages < 4e-6);
    CHECK(run.step_time.value() / ideal - 1 == Approx(ratio).epsilon(0).margin(messages));
    CHECK(schedules().at(schedule).value->bubble_ratio(shape) == Approx(ratio));
    for (const RankMetrics& rank : run.ranks) {
      const double idle = (rank.breakdown[TimeCategory::bubble] + rank.breakdown[TimeCategory::exposed_pp]).value();
      CHECK(ideal + idle == Approx(run.step_time.value()).epsilon(1e-9));
      CHECK(rank.breakdown[TimeCategory::memory_bound].value() == Approx(ideal).epsilon(1e-9));
    }
  }
}

TEST_CASE("GPipe takes (m + p - 1) passes each way and p - 1 messages each way, exactly") {
  const Testbed bed(8);
  for (const PipelineShape shape : {PipelineShape{4, 1, 8}, PipelineShape{8, 1, 2}, PipelineShape{3, 1, 1}}) {
    const Program p = equal_stages("gpipe", shape);
    const double passes = shape.microbatches + shape.stages - 1;
    const double expected = passes * (duration(bed, p, "layer.forward") + duration(bed, p, "layer.backward")) +
                            2 * (shape.stages - 1) * message_time(bed, p);
    CHECK(bed.analytic(p).step_time.value() == Approx(expected).epsilon(1e-12));
  }
}
