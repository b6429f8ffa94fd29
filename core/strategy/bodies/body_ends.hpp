#pragma once
// Which ends of a body the order of one stream does not cover.

#include "core/program/task.hpp"

namespace rehearse {

struct Body;

/// Bodies called one after the other on a stream are ordered by it, but for tasks on other streams that no task of that
/// stream comes before (a gradient gathered first) or after (an embedding reduced last).
struct BodyEnds {
  bool opens_elsewhere = false;   ///< Some other stream's task uses bound storage without waiting for `home`.
  bool closes_elsewhere = false;  ///< ... or is still using it when the last task of `home` is done.
};
[[nodiscard]] BodyEnds ends_of(const Body& body, StreamId home);

}  // namespace rehearse
