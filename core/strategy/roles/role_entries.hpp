#pragma once
// The entries of one role under construction: calls of bodies in issue order, with the waits and events between
// streams.

#include <map>
#include <vector>

#include "core/strategy/bodies/body_builder.hpp"
#include "core/strategy/bodies/body_ends.hpp"

namespace rehearse {

/// One call of a body to come.
struct RoleCall {
  BodyBuilder::Finished made;
  StreamId stream;
  int layer = 0, chunk = 0, microbatch = 0, copy = 0;
  std::vector<Wait> waits{};
  bool record = false;  ///< Others wait for its end.
  int pass = 0;         ///< Of several passes of one microbatch through the same blocks.
};

class RoleEntries {
 public:
  RoleEntries(ProgramFrame& frame, std::string name) : frame_(frame) { role_.name = std::move(name); }

  /// Returns the event of the call's end, or -1 where it records none.
  EventId add(const RoleCall& call);
  /// Adds a block's pass. Where the compute stream alone does not order it after the pass before, it waits for that
  /// one's end.
  EventId add_pass(RoleCall call);
  /// Two passes interleaved, both after the pass before; the event of each.
  std::pair<EventId, EventId> add_pair(RoleCall first, RoleCall second);

  /// What the next pass is to wait for besides.
  void hold_back(EventId event) { pending_.push_back({event}); }
  void hold_back(const std::vector<Wait>& waits) { pending_.insert(pending_.end(), waits.begin(), waits.end()); }
  [[nodiscard]] std::vector<Wait> take_held_back();

  /// Adds a wait for an event of the step before to an entry that exists already.
  void wait_next_step(Entry& e, EventId event);
  [[nodiscard]] Role& role() { return role_; }
  /// The role, complete.
  [[nodiscard]] Role take();

 private:
  const BodyEnds& ends(int body);
  void follow_passes(RoleCall& call);

  ProgramFrame& frame_;
  Role role_;
  EventId next_event_ = 0;
  std::vector<int> last_passes_;  ///< Entries of the block's pass before; two where they were interleaved.
  std::map<int, BodyEnds> ends_;
  std::vector<Wait> pending_;
};

}  // namespace rehearse
