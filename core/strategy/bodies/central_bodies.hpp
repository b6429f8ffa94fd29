#pragma once
// Bodies that move parameters, gradients, inputs and outputs between the ranks that own them and the others.

#include <map>
#include <string>
#include <vector>

#include "core/strategy/roles/roles.hpp"

namespace rehearse {

/// Parameters that travel together.
struct CentralBucket {
  std::vector<ParamRef> params;
  int owner = 0;    ///< Rank that keeps and updates them.
  int base = 0;     ///< Lowest block position.
  int highest = 0;  ///< Highest.
};

/// A tensor that the input of a step brings, and what of a sample it is.
struct CentralInput {
  int tensor;
  SampleField field;
};

class CentralBodies {
 public:
  using Made = StepBodies::Made;
  CentralBodies(ProgramFrame& frame, StepBodies& step, const RolePlan& plan);

  /// Collectives of a funnel: every rank takes part; `owns` keeps its storage, others get theirs and give it back.
  Made broadcast(const CentralBucket& bucket, int number, bool owns);
  Made reduce(const CentralBucket& bucket, int number, bool owns);
  /// Messages between an owner and the rest. A rank that owns talks to all others in turn.
  Made send_parameters(const CentralBucket& bucket, int number);
  Made receive_parameters(const CentralBucket& bucket, int number);
  Made send_gradients(const CentralBucket& bucket, int number);
  Made receive_gradients(const CentralBucket& bucket, int number);
  /// Storage for the gradients of parameters that another rank owns.
  Made make_gradients(const std::vector<ParamRef>& params, int base);
  /// A block's tokens or labels for all ranks come through the first, which passes slices on.
  Made load_inputs(int block, const std::vector<CentralInput>& inputs);
  Made receive_inputs(int block, const std::vector<CentralInput>& inputs);
  /// The network's outputs are collected on the first rank, and their gradients handed back.
  Made outputs(bool forward, bool first);
  [[nodiscard]] bool has_outputs() const { return outputs_ >= 0; }

 private:
  P2pTask message(bool sends, int peer, int edge, int tag);
  int edge(MessageKind kind, int tensor);
  [[nodiscard]] std::vector<int> others(int rank) const;
  Task task(const char* name, TaskKind kind, std::vector<Operand> operands, StreamId stream);
  std::vector<Operand> bound(BodyBuilder& body, const CentralBucket& bucket, bool gradients, Access access,
                             bool allocate, bool release);

  ProgramFrame& frame_;
  StepBodies& step_;
  const RolePlan& plan_;
  int ranks_, group_ = 0;
  int outputs_ = -1;   ///< One rank's slice of what the loss reads.
  int gathered_ = -1;  ///< All of it.
  std::map<std::string, Made> made_;
};

}  // namespace rehearse
