#include "core/cost/quick_pipeline.hpp"

#include <algorithm>

namespace rehearse {

namespace {

/// The compute stream idles until `until`; of the gap at most `moving` counts as `exposed`.
inline void idle(QuickLane& lane, double until, double moving, double& exposed) {
  const double gap = until - lane.free;
  if (gap <= 0) return;
  exposed += std::min(std::max(moving, 0.0), gap);
  lane.debt = std::max(0.0, lane.debt - gap);
  lane.free = until;
}

/// `seconds` of kernels, slowed by what runs beside.
inline void compute(QuickLane& lane, const QuickCosts::Pass& pass, double seconds) {
  double slowed = lane.debt;
  lane.debt = 0;
  const double begin = lane.free;
  if (lane.message_end > begin) {
    const double lost = pass.lost[static_cast<std::size_t>(lane.message)], end = begin + seconds / (1 - lost);
    const double beside = std::min(lane.message_end, end) - std::max(lane.message_begin, begin);
    if (beside > 0) slowed += beside * lost;
  }
  if (lane.dp_free > begin) slowed += std::min(lane.dp_free - begin, seconds / (1 - lane.dp_lost)) * lane.dp_lost;
  lane.slowed += slowed;
  lane.free = begin + seconds + slowed;
}

/// A message at this end of the wire.
inline void meet(QuickLane& lane, double begin, double end, int direction, double lost) {
  const double past = std::min(end, lane.free) - begin;
  if (past > 0) lane.debt += past * lost;
  if (end <= lane.free) return;
  begin = std::max(begin, lane.free);
  const double both = std::min(end, lane.message_end) - begin;
  if (both > 0) lane.debt += both * lost;
  if (end < lane.message_end) return;
  lane.message_begin = begin;
  lane.message_end = end;
  lane.message = direction;
}

double lost_beside(const ComputeWork& work, const Interference& load) { return 1 - overlap_rate(work.sm_sensitivity, work.hbm_sensitivity, load); }

}  // namespace

int QuickPipeline::kind_of_stage(int stage) const {
  if (!costs_->mesh->alike()) return stage;
  if (stage == 0) return 0;
  return stage + 1 == stages_ ? static_cast<int>(costs_->mesh->stages().size()) - 1 : 1;
}

/// From `stage` to the next or, backward, to the one before; a shorter pipeline has the ends of the full one.
const Transfer& QuickPipeline::message(int direction, int stage) const {
  const auto& all = direction == 0 ? costs_->forward->forward : costs_->backward->backward;
  const int full = static_cast<int>(all.size());
  if (stages_ == full) return all[static_cast<std::size_t>(stage)];
  const bool end = direction == 0 ? stage + 1 == stages_ : stage == 0;
  if (end) return all[static_cast<std::size_t>(direction == 0 ? full - 1 : 0)];
  return all[direction == 0 ? 0U : 1U];
}

void QuickPipeline::wait(const Visit& v, const QuickCosts::Pass& pass, QuickLane& lane) const {
  if (lane.held > lane.free) idle(lane, lane.held, lane.held - lane.free, lane.exposed_pp);
  if (v.in >= 0) {
    const double arrived = arrival_[static_cast<std::size_t>(v.in)];
    const bool in_line = pass.unpack > 0 && pass.pass->unpacks_in_line;
    const double unpacked = in_line ? std::max(arrived, lane.free - lane.trailing) + pass.unpack : 0.0;
    if (arrived > lane.free) {
      const int from = v.direction == 0 ? (v.stage + stages_ - 1) % stages_ : (v.stage + 1) % stages_;
      idle(lane, arrived, messages_[v.direction][static_cast<std::size_t>(from)]->seconds, lane.exposed_pp);
    }
    if (unpacked > lane.free) idle(lane, unpacked, pass.unpack, lane.exposed_tp);
  }
  for (const InputCopy& copy : pass.pass->inputs) {
    lane.input_done += copy.seconds;
    idle(lane, lane.input_done - copy.offset, copy.seconds, lane.exposed_copy);
  }
}

/// What the step before's tail still does for this chunk's parameters.
void QuickPipeline::first_forward(const Visit& v, const ChunkPass& pass, QuickLane& lane) const {
  if (before_->empty()) return;
  const int kind = kind_of_stage(v.stage), chunk = v.chunk / stages_;
  const int all = pass.blocks(), extra = v.stage == 0 && chunk > 0 ? costs_->passes[static_cast<std::size_t>(ChunkKind::first)][0].pass->blocks() - costs_->layers : 0;
  const int base = chunk * costs_->layers + extra;
  for (const MeshNeed& need : costs_->mesh->stages()[static_cast<std::size_t>(kind)].needs) {
    if (need.blocks < base || need.blocks >= base + all) continue;
    const double until = (*before_)[static_cast<std::size_t>(kind)][static_cast<std::size_t>(need.operation)] - pass.offset(need.blocks - base);
    idle(lane, until, until - lane.free, lane.exposed_dp);
  }
}

/// The pass after which a chunk's gradients are final, with the reductions it sets off.
void QuickPipeline::last_backward(const Visit& v, const QuickCosts::Pass& pass, QuickLane& lane) const {
  const ChunkPass& p = *pass.pass;
  const int chunk = v.chunk / stages_, later = costs_->virtual_stages - 1 - chunk;
  const bool behind = v.stage + 1 == stages_ && later > 0;
  const int extra = behind ? costs_->passes[static_cast<std::size_t>(ChunkKind::last)][1].pass->blocks() - costs_->layers : 0;
  const int base = later * costs_->layers + extra;
  double done = 0;
  for (const MeshCall& call : costs_->mesh->stages()[static_cast<std::size_t>(kind_of_stage(v.stage))].calls) {
    if (call.blocks <= base || call.blocks > base + p.blocks()) continue;
    const double offset = p.offset(call.blocks - base);
    compute(lane, pass, offset - done);
    done = offset;
    lane.dp_free = std::max(lane.free, lane.dp_free) + call.seconds;
    lane.dp_lost = lost_beside(p.work, call.load);
    lane.dp_load = call.load;
  }
  compute(lane, pass, pass.seconds - done);
}

void QuickPipeline::send(const Visit& v, const QuickCosts::Pass& pass, QuickLane& from) {
  const Transfer& t = *messages_[v.direction][v.stage];
  double& channel = channel_free_[2U * v.stage + v.direction];
  const double begin = std::max(from.free, channel), end = begin + t.seconds;
  channel = end;
  const int to = v.direction == 0 ? (v.stage + 1) % stages_ : (v.stage + stages_ - 1) % stages_;
  meet(from, begin, end, v.direction, pass.lost[v.direction]);
  meet(lanes_[static_cast<std::size_t>(to)], begin, end, v.direction, pass.lost[v.direction]);
  if (costs_->blocking) from.held = end;
  const bool in_line = pass.pass->unpacks_in_line;
  arrival_[static_cast<std::size_t>(v.out)] = end + (in_line ? 0.0 : pass.unpack);
}

void QuickPipeline::play(const QuickOrder& order, int stages, const QuickCosts& costs, const TailEnds& before, std::vector<QuickLane>& lanes) {
  costs_ = &costs;
  before_ = &before;
  stages_ = stages;
  lanes_.resize(static_cast<std::size_t>(stages));
  for (int s = 0; s < stages; ++s) lanes_[static_cast<std::size_t>(s)] = lanes[static_cast<std::size_t>(kind_of_stage(s))];
  for (int d = 0; d < 2 && stages > 1; ++d) {
    messages_[static_cast<std::size_t>(d)].clear();
    for (int s = 0; s < stages; ++s) messages_[static_cast<std::size_t>(d)].push_back(&message(d, s));
  }
  channel_free_.assign(2 * static_cast<std::size_t>(stages), 0.0);
  if (arrival_.size() < static_cast<std::size_t>(order.messages)) arrival_.resize(static_cast<std::size_t>(order.messages));
  for (const Visit& v : order.visits) {
    QuickLane& lane = lanes_[v.stage];
    const QuickCosts::Pass& pass = costs.passes[v.kind][v.direction];
    wait(v, pass, lane);
    if ((v.flags & Visit::kFirstForward) != 0) first_forward(v, *pass.pass, lane);
    if ((v.flags & Visit::kLastBackward) != 0) last_backward(v, pass, lane);
    else compute(lane, pass, pass.seconds);
    const ComputeWork& work = pass.pass->work;
    lane.trailing = work.trailing < work.seconds ? work.trailing + pass.prepare : lane.trailing + pass.seconds;
    if (v.out >= 0) send(v, pass, lane);
  }
  for (int s = 0; s < stages; ++s) {
    const int kind = kind_of_stage(s);
    if (s <= 1 || s + 1 == stages || kind == s) lanes[static_cast<std::size_t>(kind)] = lanes_[static_cast<std::size_t>(s)];
  }
}

}  // namespace rehearse
