#pragma once
// The refusal of a plan that could exist, and that nobody has written a lowering for.

#include <string>

#include "core/base/error.hpp"

namespace rehearse {

/// An error of usage like others to whoever typed the plan; a list of plans (the scoreboard's) counts it apart.
class NoLowering : public Error {
 public:
  NoLowering(const std::string& what, std::string at, std::string advice)
      : Error(ErrorKind::usage, what, std::move(at), std::move(advice)) {}
};

}  // namespace rehearse
