#pragma once
// Where two bodies that are interleaved take turns.

#include "core/program/task.hpp"

namespace rehearse {

struct Body;

/// Divides a body into pieces that each end with communication: while that is under way, the other body's next piece computes (DeepSeek-V3
/// technical report 2024, sec. 3.2.1). A body without communication is one piece.
void cut_at_communication(Body& body, StreamId compute);

}  // namespace rehearse
