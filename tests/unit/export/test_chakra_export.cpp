// Chakra's traces of a Program say what it does.

#include <map>

#include "core/base/index.hpp"
#include "core/import/traces/read_trace.hpp"
#include "core/import/traces/trace_report.hpp"
#include "core/program/body.hpp"
#include "core/program/flops.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/export/exports.hpp"
#include "tests/unit/import/trace_files.hpp"

namespace rehearse {
namespace {

using testing::Plan;
using testing::ScratchFile;
using testing::source_path;

/// What one rank computes and says to others in a step, counted from the Program: calls of one rank say nothing.
struct Counted {
  std::int64_t kernels = 0;
  double flops = 0, seconds = 0;
  std::map<std::string, std::pair<std::int64_t, double>> calls;
};

Counted count(const Plan& plan, int rank) {
  const Program& p = plan.program;
  const Role& role = nth(p.roles, nth(p.role_of_rank, rank));
  ExprContext at = p.mesh.context(rank);
  at.tables = &p.tables;
  at.microbatches = role.microbatches > 0 ? role.microbatches : p.microbatches;
  Counted out;
  for (const Entry& e : role.step) {
    at.layer = e.layer, at.chunk = e.chunk, at.microbatch = e.microbatch, at.pass = e.pass, at.copy = e.copy;
    if (p.exprs.evaluate(e.predicate, at) == 0) continue;
    const Body& body = nth(p.bodies, e.body);
    for (const auto v : body.graph.vertices()) {
      const Task& t = body.graph[v];
      if (p.exprs.evaluate(t.predicate, at) == 0) continue;
      if (const auto* c = std::get_if<ComputeTask>(&t.kind)) {
        ++out.kernels;
        out.flops += matmul_flops(p, *c, at).value();
        out.seconds += plan.cost.price(p, t, body, rank, at).time.value();
      } else if (const auto* g = std::get_if<CollectiveTask>(&t.kind)) {
        if (p.mesh.members(nth(p.groups, g->group), rank, p.exprs).size() < 2) continue;
        auto& call = out.calls[std::string(name_of(g->op))];
        ++call.first;
        call.second += CostModel::collective_bytes(p, t, body, at).value();
      } else if (const auto* m = std::get_if<P2pTask>(&t.kind)) {
        auto& call = out.calls[m->direction == P2pTask::Direction::send ? "send" : "receive"];
        ++call.first;
        for (const Operand& o : t.operands)
          call.second += p.local_bytes(nth(p.tensors, nth(body.formals, o.formal).like), at);
      }
    }
  }
  return out;
}

TEST_CASE("A Chakra trace imports again to the Program's totals") {
  const std::vector<std::string> small{"training.global_batch=32"};
  for (const auto& [scenario, changes] :
       {std::pair{"llama3_8b_h100_8.json", std::vector<std::string>{"training.global_batch=8"}},
        std::pair{"llama3_8b_h100_8.json",
                  std::vector<std::string>{"training.global_batch=8", "strategy.tp=1", "strategy.zero_stage=0",
                                           "strategy.fsdp.enabled=true"}},
        std::pair{"mixtral_8x7b_h100_64.json", std::vector<std::string>{"training.global_batch=64"}},
        std::pair{"llama3_70b_h100_64.json", small}}) {
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
        if (name != "memory") kernels += total;
      CHECK(kernels.time.value() == Approx(wanted.seconds).epsilon(1e-9));
      CHECK(kernels.count == wanted.kernels);
      CHECK(kernels.work.value() == Approx(wanted.flops).epsilon(1e-9));
      CHECK(got.calls.size() == wanted.calls.size());
      for (const auto& [op, call] : wanted.calls) {
        REQUIRE(got.calls.contains(op));
        CHECK(got.calls.at(op).count == call.first);
        CHECK(got.calls.at(op).bytes.value() == Approx(call.second).epsilon(1e-9));
      }
    }
  }
}

// As astra-sim/astra-sim @518bd51 reads them (astra-sim/workload/Workload.cc): initialize_comm_groups, issue_coll_comm,
// issue_send_comm, issue_recv_comm, issue_remote_mem.
TEST_CASE("Groups and peers of Chakra traces are numbers that every rank understands alike") {
  const Plan plan("llama3_70b_h100_64.json", {"training.global_batch=32"});
  const Exported e = plan.to("chakra");
  const std::filesystem::path folder = std::filesystem::path(ScratchFile("", "").path() + ".folder");
  std::filesystem::create_directory(folder);
  for (const ExportedFile& f : e.files) std::ofstream(folder / f.name, std::ios::binary) << f.text;
  const auto groups = nlohmann::json::parse(file(e, "comm_group.json")->text);
  for (const auto& [name, ranks] : groups.items()) {
    CHECK(std::to_string(std::stoi(name)) == name);
    CHECK(std::stoi(name) > 0);
    CHECK(ranks.size() > 1);
  }
  for (const int rank : {0, 7, 8, 63}) {
    const RankTrace read = read_trace((folder / ("plan." + std::to_string(rank) + ".et")).string()).front();
    for (const CommunicationCall& c : read.calls) {
      REQUIRE(c.members.size() > 1);
      CHECK(std::count(c.members.begin(), c.members.end(), rank) == 1);
      CHECK(c.group_size == static_cast<int>(c.members.size()));
      if (c.op == "send" || c.op == "receive") CHECK(c.members.size() == 2);
    }
  }
  std::filesystem::remove_all(folder);
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
