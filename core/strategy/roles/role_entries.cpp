#include "core/strategy/roles/role_entries.hpp"

#include <utility>

#include "core/base/index.hpp"
#include "core/program/body.hpp"

namespace rehearse {

EventId RoleEntries::add(const RoleCall& call) {
  Entry e;
  e.body = call.made.body;
  e.bindings = call.made.bindings;
  e.stream = call.stream;
  e.layer = call.layer;
  e.chunk = call.chunk;
  e.microbatch = call.microbatch;
  e.copy = call.copy;
  e.pass = call.pass;
  e.first_wait = static_cast<std::int32_t>(role_.waits.size());
  e.wait_count = static_cast<std::int32_t>(call.waits.size());
  role_.waits.insert(role_.waits.end(), call.waits.begin(), call.waits.end());
  if (call.record) e.record = next_event_++;
  role_.step.push_back(e);
  return e.record;
}

void RoleEntries::follow_passes(RoleCall& call) {
  for (const int pass : last_passes_) {
    Entry& before = nth(role_.step, pass);
    if (!ends(call.made.body).opens_elsewhere && !ends(before.body).closes_elsewhere) continue;
    if (before.record < 0) before.record = next_event_++;
    call.waits.push_back({before.record});
  }
}

EventId RoleEntries::add_pass(RoleCall call) {
  follow_passes(call);
  last_passes_ = {static_cast<int>(role_.step.size())};
  return add(call);
}

std::pair<EventId, EventId> RoleEntries::add_pair(RoleCall first, RoleCall second) {
  follow_passes(first);
  follow_passes(second);
  const auto at = static_cast<std::int32_t>(role_.step.size());
  last_passes_ = {at, at + 1};
  const EventId one = add(first), other = add(second);
  nth(role_.step, at).interleave = at + 1;
  role_.step[static_cast<std::size_t>(at) + 1].interleave = at;
  return {one, other};
}

const BodyEnds& RoleEntries::ends(int body) {
  const auto [at, fresh] = ends_.try_emplace(body);
  if (fresh) at->second = ends_of(nth(frame_.program.bodies, body), frame_.compute);
  return at->second;
}

std::vector<Wait> RoleEntries::take_held_back() { return std::exchange(pending_, {}); }

void RoleEntries::wait_next_step(Entry& e, EventId event) {
  const auto first = static_cast<std::int32_t>(role_.waits.size());
  for (std::int32_t w = 0; w < e.wait_count; ++w) role_.waits.push_back(Wait(nth(role_.waits, e.first_wait + w)));
  role_.waits.push_back({event, 1});
  e.first_wait = first;
  ++e.wait_count;
}

Role RoleEntries::take() {
  role_.events = next_event_;
  return std::move(role_);
}

}  // namespace rehearse
