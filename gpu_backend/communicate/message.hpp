#pragma once
// A message between two ranks: one transfer per operand.

#include <cstdint>
#include <vector>

#include "gpu_backend/communicate/communicator.hpp"
#include "gpu_backend/communicate/transfer.hpp"
#include "gpu_backend/execute/operator.hpp"

namespace rehearse {

struct MessagePart {
  std::byte* data = nullptr;
  const TensorView* view = nullptr;
  /// Of the storage, where the operand is a part of it; empty where it is all of one block.
  const Blocks* within = nullptr;
};

/// Sends or receives all parts, the first as number `label`, the next one on. `done` is called once, when the last has
/// ended; data stays valid until then.
void start_message(ComputeDevice& device, Channel& channel, bool sends, const std::vector<MessagePart>& parts,
                   std::uint64_t label, Done done);

}  // namespace rehearse
