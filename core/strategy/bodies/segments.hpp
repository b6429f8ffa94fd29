#pragma once
// Where two bodies that are interleaved take turns.

#include "core/program/task.hpp"

namespace rehearse {

struct Body;

/// Divides a body into pieces that each end with communication: while that is under way, the other body's next piece
/// computes (DeepSeek-V3 technical report 2024, sec. 3.2.1). A body that exchanges tokens with their experts is cut at
/// these exchanges alone, each of which is far longer than what tensor parallelism sends inside a piece. A body without
/// communication is one piece.
void cut_at_communication(Body& body, StreamId compute, StreamId exchanges);

}  // namespace rehearse
