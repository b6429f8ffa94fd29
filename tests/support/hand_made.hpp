#pragma once
// Programs written by hand: ranks along one axis, a role for each, bodies of a few tasks. For tests that need to know
// exactly what is played.

#include <string>
#include <utility>
#include <vector>

#include "core/base/index.hpp"
#include "core/program/body.hpp"
#include "core/program/program.hpp"

namespace rehearse::testing {

struct Use {
  int tensor;
  Access access;
};

/// A task of a body and what it comes after, by position in the body.
struct Piece {
  std::string name;
  TaskKind kind;
  std::vector<Use> uses;
  StreamId stream = 0;
  std::vector<int> after = {};
  ExprId predicate = ExprPool::kOne;
};

/// A stream for communication along an axis, and one for copies.
inline Stream talks(Axis axis) { return {std::string(name_of(axis)), StreamRole::communication, {axis}}; }
inline Stream aside(std::string name) { return {std::move(name), StreamRole::copy}; }

class HandMade {
 public:
  /// Stream 0 computes; those `beside` it follow.
  HandMade(Axis axis, int ranks, const std::vector<Stream>& beside = {}) {
    Island island;
    island.order = {{axis, ranks}};
    program.mesh = Mesh({island}, Join::none);
    program.streams = {{"compute"}};
    program.streams.insert(program.streams.end(), beside.begin(), beside.end());
    for (int r = 0; r < ranks; ++r) {
      program.device_of_rank.push_back(r);
      program.role_of_rank.push_back(r);
      program.roles.emplace_back();
      program.roles.back().name = "rank " + std::to_string(r);
    }
    program.groups.push_back({"all", View::dense, {axis}, {}, ExprPool::kZero, false});
    program.binding_sets.emplace_back();
  }

  /// `bytes` on every rank.
  int tensor(std::int64_t bytes) {
    Tensor t;
    t.name = "tensor" + std::to_string(program.tensors.size());
    t.shape = {program.exprs.constant(bytes)};
    t.dtype = DType::uint8;
    program.tensors.push_back(t);
    return static_cast<int>(program.tensors.size()) - 1;
  }

  int body(const std::string& name, const std::vector<Piece>& pieces) {
    Body made;
    made.name = name;
    for (const Piece& piece : pieces) {
      Task task{.name = piece.name,
                .kind = piece.kind,
                .operands = {},
                .stream = piece.stream,
                .phase = Phase::forward,
                .predicate = piece.predicate};
      for (const Use& use : piece.uses) {
        task.operands.push_back({static_cast<int>(made.formals.size()), use.access});
        made.formals.push_back({"formal", use.tensor, false});
      }
      const auto v = made.graph.add(std::move(task));
      for (const int a : piece.after) made.graph.add_edge(static_cast<std::size_t>(a), v);
    }
    program.bodies.push_back(std::move(made));
    return static_cast<int>(program.bodies.size()) - 1;
  }

  /// A kernel that only moves `bytes` in and `bytes` out of device memory: no SMs bound it.
  static Piece copies(int tensor, StreamId stream = 0) {
    return {"copy", ComputeTask{}, {{tensor, Access::read}, {tensor, Access::write}}, stream};
  }
  Piece message(P2pTask::Direction direction, int peer, int tensor, StreamId stream) {
    if (program.edges.empty()) program.edges.push_back({"message", tensor});
    P2pTask task;
    task.direction = direction;
    task.peer = program.exprs.constant(peer);
    const bool sends = direction == P2pTask::Direction::send;
    return {sends ? "send" : "receive", task, {{tensor, sends ? Access::read : Access::write}}, stream};
  }
  static Piece all_reduce(int tensor, StreamId stream) {
    return {"all_reduce", CollectiveTask{}, {{tensor, Access::update}}, stream};
  }

  /// Appends a call; with `record` its event is returned, else -1.
  EventId call(int rank, int body, const std::vector<Wait>& waits = {}, bool record = false, StreamId stream = 0) {
    Role& role = nth(program.roles, rank);
    Entry e;
    e.body = body;
    e.stream = stream;
    e.first_wait = static_cast<std::int32_t>(role.waits.size());
    e.wait_count = static_cast<std::int32_t>(waits.size());
    role.waits.insert(role.waits.end(), waits.begin(), waits.end());
    if (record) e.record = role.events++;
    role.step.push_back(e);
    return e.record;
  }
  Entry& last_call(int rank) { return nth(program.roles, rank).step.back(); }

  Program program;
};

}  // namespace rehearse::testing
