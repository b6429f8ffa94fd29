#include "core/base/stop.hpp"

#include <utility>

namespace rehearse {

namespace {

thread_local const StopAsked* innermost = nullptr;

}  // namespace

StopScope::StopScope(StopAsked asked) : asked_(std::move(asked)), outer_(innermost) { innermost = &asked_; }

StopScope::~StopScope() { innermost = outer_; }

void check_stop() {
  if (innermost != nullptr && *innermost && (*innermost)()) throw Stopped();
}

StopAsked stop_asked() { return innermost != nullptr ? *innermost : StopAsked{}; }

}  // namespace rehearse
