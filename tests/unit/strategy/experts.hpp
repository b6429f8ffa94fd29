#pragma once
// Plans with experts, and what their tasks move.

#include <algorithm>
#include <string>
#include <vector>

#include "core/base/index.hpp"
#include "core/program/body.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/program/lowered.hpp"

namespace rehearse::test::experts {

constexpr double kTokens = 32, kExpertsHidden = 64;  // Of one rank and microbatch, where tp is 1.

inline Job moe(int dp, int ep, const std::string& model = "tiny_mixtral") {
  Job job(shipped(model));
  job.strategy.dp = job.strategy.dp_replicate = dp;
  job.strategy.ep = ep;
  return job;
}

struct ExpertsCall {
  std::string task, group;
  CollectiveOp op;
  double bytes;
};

/// Collectives in one call of a body, with what rank 0 gives to each.
inline std::vector<ExpertsCall> calls(const Program& p, const std::string& name, int rank = 0) {
  std::vector<ExpertsCall> out;
  for (const Body& body : p.bodies) {
    if (body.name != name) continue;
    for (const auto v : body.graph.vertices())
      if (const auto* c = std::get_if<CollectiveTask>(&body.graph[v].kind)) {
        double given = 0;
        for (const Operand& o : body.graph[v].operands)
          if (o.access != Access::write) given += bytes_of(p, body, o, p.mesh.context(rank));
        out.push_back({body.graph[v].name, nth(p.groups, c->group).name, c->op, given});
      }
  }
  return out;
}

inline double given(const std::vector<ExpertsCall>& all, const std::string& task) {
  double bytes = 0;
  for (const ExpertsCall& c : all) bytes += c.task == task ? c.bytes : 0;
  return bytes;
}

inline std::size_t count(const std::vector<ExpertsCall>& all, CollectiveOp op) {
  return static_cast<std::size_t>(
      std::count_if(all.begin(), all.end(), [op](const ExpertsCall& c) { return c.op == op; }));
}

inline const Tensor& tensor(const Program& p, const std::string& name) {
  return *std::find_if(p.tensors.begin(), p.tensors.end(), [&](const Tensor& t) { return t.name == name; });
}

inline Error refusal_experts(const Job& job) {
  try {
    (void)job.lower();
  } catch (const Error& e) {
    return e;
  }
  FAIL("accepted");
  throw std::logic_error("unreachable");
}

/// Executed FLOPs of one task over all ranks, as the Program counts them.
inline double rows_of(const Program& p, int rank) {
  return static_cast<double>(p.local_extent(tensor(p, "layer.moe.dispatch"), 0, p.mesh.context(rank)));
}

}  // namespace rehearse::test::experts
