#include <limits>

#include "core/base/error.hpp"
#include "core/program/body.hpp"
#include "core/serialise/serialise.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/program/lowered.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

Program lowered() {
  Job job(tiny_gpt());
  job.strategy.pp = job.strategy.tp = job.strategy.dp = 2;
  job.strategy.zero_stage = 1;
  return job.lower();
}

/// One of everything that lowering does not use.
Program exotic() {
  Program p;
  p.name = "every kind of field";
  Island island;
  island.order = {{Axis::tp, 2}, {Axis::dp_shard, 2}, {Axis::tile_h, 1}};
  island.expert_order = {{Axis::ep, 2}, {Axis::edp, 2}};
  p.mesh = Mesh({island}, Join::none);
  p.device_of_rank = {3, 2, 1, 0};
  p.process_of_rank = {0, 0, 1, 1};
  p.role_of_rank = {0, 0, 0, 0};
  p.streams = {{"compute"}, {"reads", StreamRole::storage}, {"dp", StreamRole::communication, {Axis::dp_shard}}};
  p.tables = {{1, -2, 3}, {}};
  p.seed = std::numeric_limits<std::uint64_t>::max();
  p.tokens_per_step = 0.1;
  const ExprId tokens = p.exprs.apply(ExprOp::element, p.exprs.variable(Var::dynamic, 0), p.exprs.variable(Var::peer));
  DynamicDim routed;
  routed.name = "tokens per expert";
  routed.expectation = tokens;
  routed.draw = "zipf(1.1)";
  routed.draw_axes = {Axis::ep, Axis::dp_shard};
  routed.allocate_true_size = true;
  p.dynamic_dims = {routed};
  GroupSpec ends;
  ends.name = "ends";
  ends.view = View::expert;
  ends.axes = {Axis::ep};
  ends.only = {{Axis::ep, {0, 1}}};
  p.groups = {ends};
  Tensor t;
  t.name = "x \"quoted\"";
  t.shape = {tokens, ExprPool::kOne};
  Shard uneven = shard_on(1);
  uneven.parts = {5, 7};
  t.layout = {{Axis::tp, uneven},    {Axis::dp_shard, shard_flat()},     {Axis::tile_h, Halo{0, 1, 2, {}}},
              {Axis::ep, Ragged{0}}, {Axis::cp, Partial{ReduceOp::max}}, {Axis::pp, Replicate{}}};
  t.space = MemorySpace::nvme;
  t.role = TensorRole::fp8_scales;
  t.per_pass = true;
  t.alias_instance.chunk_delta = -1;
  p.tensors = {t};
  p.edges = {{"halo north", 0, true, false, MessageKind::gradients}};
  Body body;
  body.name = "b";
  body.formals = {{"x", 0, true}, {"y", 0, false}};
  body.segments = {0, 3};
  ComputeTask c;
  c.op = ComputeOp::quantise;
  c.passes = 3;
  c.scalars = {1e-3, 0.9, 1.0 / 3.0};
  c.random = "mask";
  const auto add = [&](TaskKind kind) {
    Task task;
    task.name = "t";
    task.kind = std::move(kind);
    task.operands = {{0, Access::update}, {1, Access::write}};
    task.sm_share = 0.25;
    return body.graph.add(task);
  };
  add(c);
  CollectiveTask all_to_all;
  all_to_all.op = CollectiveOp::all_to_all;
  all_to_all.variable_counts = true;
  all_to_all.count_to_peer = tokens;
  add(all_to_all);
  P2pTask p2p;
  p2p.direction = P2pTask::Direction::receive;
  p2p.step_delta = -1;
  p2p.batch = 2;
  for (const TaskKind& kind : {TaskKind{p2p}, TaskKind{CopyTask{}}, TaskKind{HostTask{"launch"}},
                               TaskKind{InputTask{tokens, ExprPool::kOne, "tokens", SampleField::tokens}},
                               TaskKind{ScalarTask{"overflow", 0}}})
    add(kind);
  body.graph.add_edge(0, 3);
  body.graph.add_edge(1, 2);
  p.bodies = {body};
  p.binding_sets = {{{0, {0, 0, 1, 0}, true, false, 4}}, {}};
  Role role;
  role.name = "only";
  role.prologue.resize(2);
  role.step.resize(3);
  role.step[1].interleave = 2;
  role.step[2].host_wait = true;
  role.epilogue.resize(1);
  role.waits = {{0, 1, 3}, {1, 0, -1}};
  role.marks = {{1, 2}};
  role.persistent = {{0, -1}};
  p.roles = {role};
  p.chunks = {{0, 1, 0, 0, 0, 4}};
  return p;
}

std::string reason(const std::string& text) {
  try {
    static_cast<void>(program_from_json(text));
  } catch (const Error& e) {
    CHECK(e.kind == ErrorKind::usage);
    return e.where + " " + e.what();
  }
  return "accepted";
}

using Catch::Matchers::ContainsSubstring;

}  // namespace

TEST_CASE("text and back is the same Program") {
  Job experts(shipped("tiny_deepseek"));
  experts.strategy.dp = experts.strategy.dp_replicate = experts.strategy.ep = 4;
  for (const Program& p : {lowered(), exotic(), experts.lower(), Program{}}) {
    const std::string text = to_json(p);
    const Program again = program_from_json(text);
    CHECK(to_json(again) == text);
    CHECK(program_hash(again) == program_hash(p));
  }
  const Program again = program_from_json(to_json(lowered()));
  validate(again);
  CHECK(again.roles[1].step.size() == lowered().roles[1].step.size());
}

TEST_CASE("defaults are left out, entries are columns") {
  const auto j = nlohmann::json::parse(to_json(lowered()));
  CHECK(j.at("schema") == "rehearse/program/v1");
  const auto& step = j.at("roles").at(0).at("step");
  CHECK(step.at("body").size() == step.at("count"));
  CHECK_FALSE(step.contains("interleave"));
  CHECK_FALSE(j.at("tensors").at(0).contains("alias_of"));
  CHECK_FALSE(j.contains("tables"));
}

TEST_CASE("the hash is the same in every run") {
  CHECK(program_hash(lowered()) == program_hash(lowered()));
  // Of a Program without content: changes only with kProgramVersion or the list of fields.
  CHECK(program_hash(Program{}) == 0x8960cbb452da9e9full);
}

TEST_CASE("the hash differs when any field does") {
  // Every leaf of the text in turn: numbers move by one, names and flags change.
  const std::string text = to_json(exotic());
  const std::uint64_t before = program_hash(program_from_json(text));
  const auto whole = nlohmann::json::parse(text);
  const auto flat = whole.flatten();
  int changed = 0;
  for (const auto& [path, value] : flat.items()) {
    auto other = whole;
    auto& leaf = other[nlohmann::json::json_pointer(path)];
    if (value.is_number_unsigned() && value.get<std::uint64_t>() > 1000)
      leaf = value.get<std::uint64_t>() - 1;
    else if (value.is_number_integer())
      leaf = value.get<std::int64_t>() + 1;
    else if (value.is_number())
      leaf = value.get<double>() * 1.5;
    else if (value.is_boolean())
      leaf = !value.get<bool>();
    else
      continue;
    Program p;
    try {
      p = program_from_json(other.dump());
    } catch (const Error&) {
      continue;  // Refused, which is as good.
    }
    INFO(path);
    CHECK(program_hash(p) != before);
    ++changed;
  }
  CHECK(changed > 60);
  Program p = exotic();
  p.bodies[0].graph[0].name += "!";
  CHECK(program_hash(p) != before);
}

TEST_CASE("texts that are no Program are refused with the place") {
  const auto edit = [](const std::string& pointer, const nlohmann::json& value) {
    auto j = nlohmann::json::parse(to_json(exotic()));
    j[nlohmann::json::json_pointer(pointer)] = value;
    return reason(j.dump());
  };
  CHECK_THAT(reason("{"), ContainsSubstring("ends early"));
  CHECK_THAT(reason("{}"), ContainsSubstring("/schema expected schema") || ContainsSubstring("expected schema"));
  CHECK_THAT(edit("/schema", "rehearse/program/v9"), ContainsSubstring("expected schema"));
  CHECK_THAT(edit("/version", 1), ContainsSubstring("version 1"));
  CHECK_THAT(edit("/colour", 1), ContainsSubstring("unknown key 'colour'"));
  CHECK_THAT(edit("/tensors/0/space", "tape"), ContainsSubstring("/tensors/0/space") && ContainsSubstring("tape"));
  CHECK_THAT(edit("/tensors/0/per_pass", 3), ContainsSubstring("expected true or false"));
  CHECK_THAT(edit("/microbatches", "two"), ContainsSubstring("/microbatches") && ContainsSubstring("whole number"));
  CHECK_THAT(edit("/microbatches", 1ll << 40), ContainsSubstring("out of range"));
  CHECK_THAT(edit("/bodies/0/graph/edges/0/1", 99), ContainsSubstring("leaves the tasks"));
  CHECK_THAT(edit("/roles/0/step/count", 9), ContainsSubstring("another length"));
  CHECK_THAT(edit("/exprs/2", {"add", 50, 1, 0}), ContainsSubstring("refers forward"));
  CHECK_THAT(edit("/mesh/islands/0/first_rank", 4), ContainsSubstring("numbered one after the other"));
  CHECK_THAT(edit("/bodies/0/graph/tasks/0/kind", {{"magic", 1}}), ContainsSubstring("unknown kind 'magic'"));
}
