#include <algorithm>
#include <map>
#include <set>

#include "core/import/read_trace.hpp"
#include "core/import/trace_report.hpp"
#include "core/program/body.hpp"
#include "core/program/flops.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/export/exports.hpp"
#include "tests/unit/import/trace_files.hpp"

namespace rehearse {
namespace {

using testing::Plan;
using testing::ScratchFile;

bool left_out(const Exported& e, const std::string& key) {
  return std::any_of(e.left_out.begin(), e.left_out.end(), [&](const LeftOut& l) { return l.key == key && !l.why.empty(); });
}
std::string text_of(const Exported& e, const std::string& flag) {
  for (const ExportedSetting& s : e.settings)
    if (s.flag == flag) return s.text.empty() ? "set" : s.text;
  return "";
}

TEST_CASE("Every target says what it has no flag for") {
  // No framework splits images into tiles, runs DualPipe under its own name, or takes a zipf of experts as a flag.
  const Plan pipe("llama3_70b_h100_64.json", {"strategy.schedule=zb_h1", "strategy.virtual_stages=1", "strategy.zero_stage=0", "training.optimizer=adafactor"});
  for (const char* target : {"megatron", "torchtitan", "deepspeed"}) {
    const Exported e = pipe.to(target);
    CHECK(left_out(e, "strategy.schedule"));
    CHECK(left_out(e, "training.optimizer"));
  }
  const Plan uneven("llama3_70b_h100_64.json", {"strategy.virtual_stages=1", "strategy.schedule=1f1b", "strategy.layers_per_stage=19,20,20,21"});
  for (const char* target : {"megatron", "torchtitan", "deepspeed"}) CHECK(left_out(uneven.to(target), "strategy.layers_per_stage"));
}

TEST_CASE("Flags name keys that a scenario has") {
  std::set<std::string> keys{"model", "cluster"};
  for (const KeyHelp& k : scenario_keys()) keys.insert(k.key);
  keys.insert("strategy");
  for (const auto& target : exporters().entries())
    for (const ParameterHelp& rule : target.parameters) CHECK(keys.contains(rule.name));
}

TEST_CASE("Megatron's arguments follow the plan") {
  const Exported e = Plan("llama3_70b_h100_64.json").to("megatron");
  CHECK(text_of(e, "--tensor-model-parallel-size") == "8");
  CHECK(text_of(e, "--num-virtual-stages-per-pipeline-rank") == "5");
  CHECK(text_of(e, "--use-distributed-optimizer") == "set");
  CHECK(text_of(e, "--sequence-parallel") == "set");
  CHECK(text_of(e, "--bf16") == "set");
  CHECK(text_of(e, "--fp16").empty());
  CHECK(text_of(Plan("llama3_70b_h100_64.json", {"strategy.recompute=full"}).to("megatron"), "--recompute-method") == "uniform");
}

/// What one rank does in a step, counted from the Program itself.
struct Counted { std::int64_t kernels = 0; double flops = 0; std::map<std::string, std::pair<std::int64_t, double>> calls; };

Counted count(const Plan& plan, int rank) {
  const Program& p = plan.program;
  const Role& role = p.roles[static_cast<std::size_t>(p.role_of_rank[static_cast<std::size_t>(rank)])];
  ExprContext at = p.mesh.context(rank);
  at.tables = &p.tables;
  at.microbatches = role.microbatches > 0 ? role.microbatches : p.microbatches;
  Counted out;
  for (const Entry& e : role.step) {
    at.layer = e.layer, at.chunk = e.chunk, at.microbatch = e.microbatch, at.pass = e.pass, at.copy = e.copy;
    if (p.exprs.evaluate(e.predicate, at) == 0) continue;
    const Body& body = p.bodies[static_cast<std::size_t>(e.body)];
    for (const auto v : boost::make_iterator_range(boost::vertices(body.graph))) {
      const Task& t = body.graph[v];
      if (p.exprs.evaluate(t.predicate, at) == 0) continue;
      if (const auto* c = std::get_if<ComputeTask>(&t.kind)) {
        ++out.kernels;
        out.flops += matmul_flops(p, *c, at).value();
      } else if (const auto* g = std::get_if<CollectiveTask>(&t.kind)) {
        auto& call = out.calls[std::string(name_of(g->op))];
        ++call.first;
        call.second += CostModel::collective_bytes(p, t, body, at).value();
      } else if (const auto* m = std::get_if<P2pTask>(&t.kind)) {
        ++out.calls[m->direction == P2pTask::Direction::send ? "send" : "receive"].first;
      }
    }
  }
  return out;
}

TEST_CASE("A Chakra trace imports again to the Program's totals") {
  const std::vector<std::string> small{"training.global_batch=32"};
  for (const auto& [scenario, changes] : {std::pair{"llama3_8b_h100_8.json", std::vector<std::string>{"training.global_batch=8"}}, std::pair{"llama3_70b_h100_64.json", small}}) {
    const Plan plan(scenario, changes);
    const Exported e = plan.to("chakra");
    for (const ExportedFile& file : e.files) {
      if (!file.binary || (file.name != "plan.0.et" && file.name != "plan.7.et" && file.name != "plan.63.et")) continue;
      const ScratchFile scratch(file.text, "." + file.name.substr(5));
      const std::vector<RankTrace> read = read_trace(scratch.path());
      REQUIRE(read.size() == 1);
      const int rank = read.front().rank;
      CHECK(file.name == "plan." + std::to_string(rank) + ".et");
      const Counted wanted = count(plan, rank);
      const RankTotals got = rank_totals(align(read), 0);
      OperationTotal kernels;
      for (const auto& [name, total] : got.kernels)
        if (name != "memory") kernels.count += total.count, kernels.work += total.work;
      CHECK(kernels.count == wanted.kernels);
      CHECK(kernels.work.value() == Approx(wanted.flops).epsilon(1e-9));
      CHECK(got.calls.size() == wanted.calls.size());
      for (const auto& [op, call] : wanted.calls) {
        REQUIRE(got.calls.contains(op));
        CHECK(got.calls.at(op).count == call.first);
        if (op != "send" && op != "receive") CHECK(got.calls.at(op).bytes.value() == Approx(call.second).epsilon(1e-9));
      }
    }
  }
}

TEST_CASE("A node of a Chakra trace comes after what it waits for") {
  const Plan plan("llama3_8b_h100_8.json", {"training.global_batch=8"});
  const Exported e = plan.to("chakra");
  CHECK(e.files.size() == 9);  // Eight ranks, and the groups.
  // A damaged file is refused: a byte is missing.
  const ScratchFile cut(e.files.front().text.substr(0, e.files.front().text.size() - 1), ".0.et");
  CHECK_THROWS_AS(read_trace(cut.path()), Error);
}

}  // namespace
}  // namespace rehearse
