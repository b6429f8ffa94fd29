#include "core/play/player/traffic_book.hpp"

#include <algorithm>
#include <utility>

#include "core/base/index.hpp"

namespace rehearse {

TrafficBook::TrafficBook(const TrafficPlanner& planner, const Cast& cast, const Alike* alike, PlayClock& clock)
    : planner_(planner), cast_(cast), alike_(alike), clock_(clock), messages_(cast.channel_list.size()) {
  if (alike_ != nullptr) clock_.keep_to(alike_->links());
}

const TrafficBook::Call& TrafficBook::collective(std::int32_t group, CollectiveOp op, double bytes,
                                                 const CallOptions& options) {
  const auto key = std::tuple(group, op, bytes, options);
  const auto at = collectives_.find(key);
  if (at != collectives_.end()) return at->second;
  const Cast::Group& who = nth(cast_.groups, group);
  const StandIns* stand_ins = alike_ == nullptr ? nullptr : alike_->collective(group, op, bytes, options);
  return collectives_.emplace(key, lay_out(planner_.collective(who, op, bytes, options), stand_ins, who.lanes))
      .first->second;
}

const TrafficBook::Call& TrafficBook::message(std::int32_t channel, double bytes) {
  auto& sizes = nth(messages_, channel);
  const auto at = std::find_if(sizes.begin(), sizes.end(), [&](const Sized& s) { return s.bytes == bytes; });
  if (at != sizes.end()) return at->call;
  const StandIns* stand_ins = alike_ == nullptr ? nullptr : alike_->message(channel);
  PlannedTraffic planned = planner_.message(nth(cast_.channel_list, channel), bytes);
  sizes.push_back({bytes, lay_out(std::move(planned), stand_ins, cast_.lanes)});
  return sizes.back().call;
}

TrafficBook::Call TrafficBook::lay_out(PlannedTraffic planned, const StandIns* stand_ins, int lanes) {
  Call call;
  call.latency = planned.latency;
  call.wait = planned.wait;
  call.load = planned.load;
  call.narrowest = planned.narrowest;
  if (planned.flows.empty()) return call;
  for (const PlayClock::Flow& f : planned.flows) call.most = std::max(call.most, f.bytes.value());
  if (stand_ins != nullptr) {
    std::vector<PlayClock::Flow> few;
    for (const StandIns::One& one : stand_ins->flows) {
      few.push_back(nth(planned.flows, one.flow));
      few.back().over = &one.over;
    }
    planned.flows = std::move(few);
  }
  call.stand_ins = stand_ins;
  call.flows = static_cast<int>(planned.flows.size());
  call.bundle = clock_.prepare(planned.flows, lanes, cast_.lane_stride);
  return call;
}

void TrafficBook::start(const Call& call, PlayClock::Token token) {
  if (call.stand_ins != nullptr) call.stand_ins->carried += call.most;
  clock_.start(call.bundle, token);
}

std::vector<double> TrafficBook::link_bytes() const {
  return alike_ == nullptr ? clock_.link_bytes() : alike_->link_bytes();
}

}  // namespace rehearse
