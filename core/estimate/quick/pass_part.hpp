#pragma once
// What a body does in a pass, and where on a role the last pass ends.

#include "core/program/body.hpp"
#include "core/program/program.hpp"

namespace rehearse {

/// What a body does in a pass, told by its tasks.
struct PassPart {
  enum class Kind { pass, send, receive, input, call } kind = Kind::call;
  int task = -1;  ///< The message.
};
[[nodiscard]] PassPart part_of(const Body& body);

/// The stream for calls between copies of what is sharded; -1 where they have none of their own.
[[nodiscard]] StreamId stream_of_copies(const Program& program);

/// A copy of tokens or labels to the device that the pass needs after `offset` seconds of its compute.
struct InputCopy {
  double offset = 0;
  double seconds = 0;
};

/// A role up to its last pass, and from there on.
struct Stage {
  int role = 0;
  int tail = 0;  ///< First entry after the last pass.
};

}  // namespace rehearse
