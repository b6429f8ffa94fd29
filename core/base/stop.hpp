#pragma once
// Work that its caller may end wherever it is: a program that has the library inside and must go on after Ctrl-C.
// Functions that take a `stop` end with what they have; this ends everything else.
//
//   const StopScope scope([&] { return flag.load(); });
//   simulate(scenario);  // Throws Stopped soon after `flag` is set.
//
// The scope belongs to the thread that opens it; parallel_for() (core/search/parallel.hpp) hands it to its threads.

#include <functional>

namespace rehearse {

/// The work was ended. No std::exception: whoever catches what went wrong does not catch it.
class Stopped {};

/// Asked often, from any thread that the scope was handed to. Empty: nothing ends.
using StopAsked = std::function<bool()>;

/// While it lives, check_stop() on this thread asks `asked`. Scopes nest; the innermost counts.
class StopScope {
 public:
  explicit StopScope(StopAsked asked);
  ~StopScope();
  StopScope(const StopScope&) = delete;
  StopScope& operator=(const StopScope&) = delete;

 private:
  StopAsked asked_;
  const StopAsked* outer_;
};

/// Throws Stopped where the thread's innermost scope says so. For loops that take long: once every millisecond or so.
void check_stop();

/// What check_stop() asks on this thread, to be handed to another; empty without a scope.
[[nodiscard]] StopAsked stop_asked();

}  // namespace rehearse
