#include "core/estimate/quick/quick_blocks.hpp"

#include <algorithm>
#include <cmath>

#include "core/base/index.hpp"
#include "core/price/memory_rule.hpp"
#include "core/program/body.hpp"

namespace rehearse {

QuickBlocks::QuickBlocks(const Program& program, const Network& network, const CostModel& cost,
                         const Schedule& schedule, bool everywhere, bool several)
    : blocks_(network.blocks.size()),
      everywhere_(everywhere),
      several_(several),
      splits_(schedule.splits_backward()),
      stages_(program.roles.size() > 1) {
  for (BlockPasses& b : blocks_) b.body.fill(-1);
  block_at_ = network.order();
  while (!nth(network.blocks, layer_).is_layer()) ++layer_;
  EstimatePrices prices(program, cost);
  for (int m = 0; m < (several_ ? 2 : 1); ++m) {
    if (m > 0) prices.set_microbatch(m);
    for (std::size_t r = 0; r < program.roles.size(); ++r)
      for (const Entry& e : program.roles[r].step)
        if (e.microbatch == m) read(program, e, static_cast<int>(r), prices);
  }
  const auto last = static_cast<int>(program.roles.size()) - 1;
  if (schedule.pairs()) price_pairs(prices);
  complete_ = complete_ && (!everywhere || !prices.unlike());
  cached_at_end_ = cached_blocks(program, program.roles.back(), prices.rank_of(last));
  for (const BlockPasses& b : blocks_) {
    const auto calls = [&](bool first) {
      const auto of = [&](Pass pass) { return nth(b.calls, pass_kind(pass, first)); };
      return splits_ ? std::max(of(Pass::backward_input), of(Pass::backward_weight)) : of(Pass::backward);
    };
    complete_ = complete_ && b.calls[0] > 0 && b.calls[0] == calls(false) + calls(true) &&
                (!several_ || calls(true) == calls(false));
  }
  if (splits_) join_halves();
}

/// A whole backward is both halves of each block.
void QuickBlocks::join_halves() {
  for (BlockPasses& b : blocks_) {
    for (const bool first : {false, true}) {
      const auto whole = static_cast<std::size_t>(pass_kind(Pass::backward, first));
      for (const Pass half : {Pass::backward_input, Pass::backward_weight}) {
        const auto of = static_cast<std::size_t>(pass_kind(half, first));
        if (b.body[of] < 0) continue;
        b.work[whole].append(b.work[of]);
        b.memory[whole].insert(b.memory[whole].end(), b.memory[of].begin(), b.memory[of].end());
        b.open[whole] = b.open[whole] || b.open[of];
      }
    }
  }
}

namespace {

bool about(double a, double b) { return std::abs(a - b) <= 1e-9 * std::max(a, b); }

bool carries_activations(const Program& program, const Body& body, const PassPart& part) {
  if (part.task < 0) return false;
  const auto* message = std::get_if<P2pTask>(&nth(body.graph, part.task).kind);
  return message != nullptr && nth(program.edges, message->edge).kind == MessageKind::activations;
}

}  // namespace

int QuickBlocks::kind_of_body(const Body& body, int microbatch) {
  if (body.phase == Phase::forward) return pass_kind(Pass::forward, false);
  const bool weights = body.phase == Phase::weight_grad;
  if (weights && !splits_) complete_ = false;
  return kind_of(!splits_ ? Pass::backward : weights ? Pass::backward_weight : Pass::backward_input, microbatch == 0);
}

/// Whether the call's pass is known already, from another layer or stage; it must take as long then.
bool QuickBlocks::compare(const Entry& e, int kind, int role, EstimatePrices& prices) {
  BlockPasses& block = nth(blocks_, nth(block_at_, e.layer));
  const auto d = static_cast<std::size_t>(kind);
  if (everywhere_ && !prices.groups_alike(e.body, role)) complete_ = false;
  if (block.calls[d] == 0) return false;
  ++block.calls[d];
  if (!about(prices.work(e.body, role).seconds, block.work[d].seconds)) complete_ = false;
  return true;
}

void QuickBlocks::read(const Program& program, const Entry& e, int role, EstimatePrices& prices) {
  const Body& body = nth(program.bodies, e.body);
  const PassPart part = part_of(body);
  if (part.kind == PassPart::Kind::call) return;
  const int kind = part.kind == PassPart::Kind::pass ? kind_of_body(body, e.microbatch) : 0;
  if (part.kind == PassPart::Kind::pass && compare(e, kind, role, prices)) return;
  ExprContext at = prices.context(role);
  at.tables = &program.tables;
  at.microbatches = program.microbatches;
  at.layer = e.layer;
  at.chunk = e.chunk;
  const BodyCurve curve = body_curve(program, at, body, nth(program.binding_sets, e.bindings));
  if (!curve.later.empty()) complete_ = false;
  const bool forward =
      part.kind == PassPart::Kind::pass ? body.phase == Phase::forward : carries_activations(program, body, part);
  BlockMessage& message = messages_[forward ? 0 : 1];
  if (part.kind == PassPart::Kind::receive) {
    message.receive = {false, true, curve};
    for (const auto v : body.graph.vertices())
      if (std::holds_alternative<CollectiveTask>(body.graph[v].kind))
        message.unpack = prices.collective(e.body, static_cast<int>(v), role);
    return;
  }
  if (part.kind == PassPart::Kind::send) {
    message.send = {false, true, curve};
    message.bytes = Bytes{0};
    for (const Operand& o : nth(body.graph, part.task).operands)
      message.bytes += Bytes{program.local_bytes(nth(program.tensors, nth(body.formals, o.formal).like), at)};
    message.prepare = {};
    for (const auto v : body.graph.vertices())
      if (std::holds_alternative<ComputeTask>(body.graph[v].kind))
        message.prepare.append(prices.task(e.body, static_cast<int>(v), role));
    return;
  }
  BlockPasses& block = nth(blocks_, nth(block_at_, e.layer));
  if (part.kind == PassPart::Kind::input) {
    block.input_seconds = prices.work(e.body, role).seconds;
    block.input = {false, true, curve};
    return;
  }
  const auto d = static_cast<std::size_t>(kind);
  block.work[d] = prices.work(e.body, role);
  block.open[d] = !prices.closed(e.body, role);
  block.body[d] = e.body;
  block.role[d] = role;
  block.at[d] = at;
  block.at[d].microbatch = e.microbatch;
  block.memory[d] = {MemoryCall(true, true, curve)};
  ++block.calls[d];
}

/// On a stage with the block that not every stage has.
void QuickBlocks::price_pairs(EstimatePrices& prices) {
  for (int f = 0; f < static_cast<int>(blocks_.size()); ++f) {
    for (int b = 0; b < static_cast<int>(blocks_.size()); ++b) {
      for (const bool first : {false, true}) {
        const int d = pass_kind(splits_ ? Pass::backward_input : Pass::backward, first);
        const BlockPasses &ahead = nth(blocks_, f), &back = nth(blocks_, b);
        if (ahead.body[0] < 0 || nth(back.body, d) < 0) continue;
        const int role = std::max(ahead.role[0], nth(back.role, d));
        const WholeBodies::Pair* pair = prices.pair(prices.call(ahead.body[0], role, ahead.at[0]),
                                                    prices.call(nth(back.body, d), role, nth(back.at, d)));
        if (pair == nullptr) {
          complete_ = false;
          return;
        }
        const PricedBody& both = pair->both;
        pairs_[{f, b, d}] = {{both.duration.value(), both.sm_sensitivity, both.hbm_sensitivity, 0, both.breakdown},
                             {pair->begin[0].value(), pair->begin[1].value()},
                             pair->end[1].value()};
      }
    }
  }
}

ChunkPair QuickBlocks::pair(const ChunkContent& forward, const ChunkContent& backward, bool first) const {
  const auto listed = [](const ChunkContent& of) {
    std::vector<int> out;
    for (const auto& [block, times] : of.runs) out.insert(out.end(), static_cast<std::size_t>(times), block);
    return out;
  };
  const std::vector<int> ahead = listed(forward);
  std::vector<int> back = listed(backward);
  std::reverse(back.begin(), back.end());
  const int kind = kind_of(splits_ ? Pass::backward_input : Pass::backward, first),
            whole = kind_of(Pass::backward, first), weights = kind_of(Pass::backward_weight, first);
  ChunkPair out;
  ChunkPass& pass = out.pass;
  const auto add = [&](const ComputeWork& work, double more = 0) {
    pass.work.append(work);
    pass.seconds.push_back(work.seconds + more);
    pass.offsets.push_back(pass.offsets.back() + work.seconds + more);
  };
  for (std::size_t k = 0; k < std::max(ahead.size(), back.size()); ++k) {
    if (k < ahead.size())
      if (const BlockPasses& block = nth(blocks_, ahead[k]); block.input_seconds >= 0)
        pass.inputs.push_back({pass.work.seconds, block.input_seconds});
    out.early = 0;
    if (k < ahead.size() && k < back.size()) {
      const BlockPasses& behind = nth(blocks_, back[k]);
      const ComputeWork& later = nth(behind.work, weights);
      if (const auto both = pairs_.find({ahead[k], back[k], kind}); both != pairs_.end()) {
        if (k == 0) out.begin = both->second.begin;
        if (later.seconds == 0) out.early = both->second.work.seconds - both->second.end;
        add(both->second.work, later.seconds);
      } else {
        add(nth(blocks_, ahead[k]).work[0], later.seconds);
      }
      if (later.seconds > 0) pass.work.append(later);
    } else {
      add(k < ahead.size() ? nth(blocks_, ahead[k]).work[0] : nth(nth(blocks_, back[k]).work, whole));
    }
  }
  for (const int b : ahead) pass.unpacks_in_line |= nth(blocks_, b).open[0];
  return out;
}

std::vector<std::pair<const BlockPasses*, int>> QuickBlocks::blocks_of(bool forward, const ChunkContent& of) const {
  std::vector<std::pair<const BlockPasses*, int>> out;
  for (const auto& [block, times] : of.runs) out.emplace_back(&nth(blocks_, block), times);
  if (!forward) std::reverse(out.begin(), out.end());
  return out;
}

PassMemory QuickBlocks::memory_of(int kind, const ChunkContent& of) const {
  const auto pass = static_cast<Pass>(kind % kPasses);
  const bool forward = pass == Pass::forward, hands_on = stages_ && pass != Pass::backward_weight;
  const BlockMessage& message = messages_[forward ? 0 : 1];
  PassMemoryWalk walk;
  if (hands_on && !(forward ? of.first : of.last)) walk.add(message.receive);
  for (const auto& [block, times] : blocks_of(forward, of)) {
    if (forward && block->input_seconds >= 0) walk.add(block->input);
    walk.add(nth(block->memory, kind), times);
  }
  if (hands_on && !(forward ? of.last : of.first)) walk.add(message.send);
  return walk.result();
}

ChunkPass QuickBlocks::make_pass(int kind, const ChunkContent& of) const {
  ChunkPass out;
  const bool forward = kind == pass_kind(Pass::forward, false);
  const auto d = static_cast<std::size_t>(kind);
  for (const auto& [block, times] : blocks_of(forward, of)) {
    if (forward && block->input_seconds >= 0) out.inputs.push_back({out.work.seconds, block->input_seconds});
    for (int i = 0; i < times; ++i) {
      out.work.append(block->work[d]);
      out.seconds.push_back(block->work[d].seconds);
      out.offsets.push_back(out.offsets.back() + block->work[d].seconds);
    }
    out.unpacks_in_line |= block->open[d];
  }
  out.memory = memory_of(kind, of);
  return out;
}

LayerPasses QuickBlocks::layer() const {
  const BlockPasses& layer = nth(blocks_, layer_);
  const BodyCurve& forward = *layer.memory[0].front().curve;
  Amounts kept = forward.at_end;
  subtract(kept, forward.beside);
  return {Seconds{layer.work[0].seconds}, Seconds{layer.work[1].seconds}, Bytes{nth(kept, MemoryCategory::activations)},
          !layer.open[0] && !layer.open[1]};
}

std::size_t QuickBlocks::bytes() const {
  std::size_t out = sizeof *this + block_at_.size() * sizeof(int) + pairs_.size() * sizeof(BlockPair);
  for (const BlockPasses& block : blocks_) {
    out += sizeof block;
    for (const std::vector<MemoryCall>& calls : block.memory) out += calls.size() * kBytesOfMemoryCall;
  }
  return out;
}

ChunkPasses QuickBlocks::passes(const ChunkContent& of) const {
  ChunkPasses out;
  if (of.runs.empty()) return out;
  for (const Pass pass : {Pass::forward, Pass::backward, Pass::backward_input, Pass::backward_weight}) {
    if (!splits_ && pass >= Pass::backward_input) continue;
    for (const bool first : {false, true})
      if (!first || (several_ && pass != Pass::forward))
        nth(out, pass_kind(pass, first)) = make_pass(pass_kind(pass, first), of);
  }
  return out;
}

}  // namespace rehearse
