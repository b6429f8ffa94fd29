// A curve: its input is kept, and its gradient is a pass over it.

#include "core/strategy/operators/ops.hpp"

namespace rehearse::ops {

[[maybe_unused]] const bool registered_ops_toy_softplus = lower_operators({"toy_softplus"}, kCurve);

}  // namespace rehearse::ops
