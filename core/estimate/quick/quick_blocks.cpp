#include "core/estimate/quick/quick_blocks.hpp"

#include <algorithm>
#include <cmath>

#include "core/base/index.hpp"
#include "core/price/memory_rule.hpp"
#include "core/program/body.hpp"

namespace rehearse {

QuickBlocks::QuickBlocks(const Program& program, const Network& network, const CostModel& cost, bool everywhere,
                         bool pairs)
    : blocks_(network.blocks.size()),
      everywhere_(everywhere),
      stages_(program.roles.size() > 1),
      several_(program.microbatches > 1) {
  block_at_ = network.order();
  while (!nth(network.blocks, layer_).is_layer()) ++layer_;
  EstimatePrices prices(program, cost);
  for (int m = 0; m < program.microbatches; ++m) {
    if (m > 0) prices.set_microbatch(m);
    for (std::size_t r = 0; r < program.roles.size(); ++r)
      for (const Entry& e : program.roles[r].step)
        if (e.microbatch == m) read(program, e, static_cast<int>(r), prices);
  }
  const auto last = static_cast<int>(program.roles.size()) - 1;
  if (pairs) price_pairs(prices);
  complete_ = complete_ && (!everywhere || !prices.unlike());
  cached_at_end_ = cached_blocks(program, program.roles.back(), prices.rank_of(last));
  for (const BlockPasses& b : blocks_) {
    const int microbatches = several_ ? 2 : 1;
    complete_ = complete_ && b.calls[0] > 0 && b.calls[0] == b.calls[1] * microbatches &&
                (!several_ || b.calls[2] == b.calls[1]);
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

PassKind QuickBlocks::pass_of(const Entry& e, bool forward) const {
  return forward ? PassKind::forward : several_ && e.microbatch == 0 ? PassKind::first_backward : PassKind::backward;
}

/// Whether the call's pass is known already, from another layer or stage; it must take as long then.
bool QuickBlocks::compare(const Entry& e, bool forward, int role, EstimatePrices& prices) {
  BlockPasses& block = nth(blocks_, nth(block_at_, e.layer));
  const auto d = static_cast<std::size_t>(pass_of(e, forward));
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
  if (part.kind == PassPart::Kind::pass && compare(e, body.phase == Phase::forward, role, prices)) return;
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
  const auto d = static_cast<std::size_t>(pass_of(e, forward));
  block.work[d] = prices.work(e.body, role);
  block.open[d] = !prices.closed(e.body, role);
  block.body[d] = e.body;
  block.role[d] = role;
  block.at[d] = at;
  block.at[d].microbatch = e.microbatch;
  block.memory[d] = {true, true, curve};
  ++block.calls[d];
}

/// On a stage with the block that not every stage has.
void QuickBlocks::price_pairs(EstimatePrices& prices) {
  for (int f = 0; f < static_cast<int>(blocks_.size()); ++f) {
    for (int b = 0; b < static_cast<int>(blocks_.size()); ++b) {
      for (int d = 1; d < kPassKinds; ++d) {
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
  const PassKind kind = first ? first_backward() : PassKind::backward;
  ChunkPair out;
  ChunkPass& pass = out.pass;
  const auto add = [&](const ComputeWork& work) {
    pass.work.append(work);
    pass.seconds.push_back(work.seconds);
    pass.offsets.push_back(pass.offsets.back() + work.seconds);
  };
  for (std::size_t k = 0; k < std::max(ahead.size(), back.size()); ++k) {
    if (k < ahead.size())
      if (const BlockPasses& block = nth(blocks_, ahead[k]); block.input_seconds >= 0)
        pass.inputs.push_back({pass.work.seconds, block.input_seconds});
    out.early = 0;
    if (k < ahead.size() && k < back.size()) {
      const BlockPair& both = pairs_.at({ahead[k], back[k], static_cast<int>(kind)});
      if (k == 0) out.begin = both.begin;
      out.early = both.work.seconds - both.end;
      add(both.work);
    } else {
      add(k < ahead.size() ? nth(blocks_, ahead[k]).work[0] : nth(nth(blocks_, back[k]).work, kind));
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

PassMemory QuickBlocks::memory_of(PassKind pass, const ChunkContent& of) const {
  const bool forward = pass == PassKind::forward;
  const BlockMessage& message = messages_[forward ? 0 : 1];
  PassMemoryWalk walk;
  if (stages_ && !(forward ? of.first : of.last)) walk.add(message.receive);
  for (const auto& [block, times] : blocks_of(forward, of)) {
    if (forward && block->input_seconds >= 0) walk.add(block->input);
    walk.add(nth(block->memory, pass), times);
  }
  if (stages_ && !(forward ? of.last : of.first)) walk.add(message.send);
  return walk.result();
}

ChunkPass QuickBlocks::make_pass(PassKind pass, const ChunkContent& of) const {
  ChunkPass out;
  const bool forward = pass == PassKind::forward;
  const auto d = static_cast<std::size_t>(pass);
  for (const auto& [block, times] : blocks_of(forward, of)) {
    if (forward && block->input_seconds >= 0) out.inputs.push_back({out.work.seconds, block->input_seconds});
    for (int i = 0; i < times; ++i) {
      out.work.append(block->work[d]);
      out.seconds.push_back(block->work[d].seconds);
      out.offsets.push_back(out.offsets.back() + block->work[d].seconds);
    }
    out.unpacks_in_line |= block->open[d];
  }
  out.memory = memory_of(pass, of);
  return out;
}

LayerPasses QuickBlocks::layer() const {
  const BlockPasses& layer = nth(blocks_, layer_);
  Amounts kept = layer.memory[0].curve->at_end;
  subtract(kept, layer.memory[0].curve->beside);
  return {Seconds{layer.work[0].seconds}, Seconds{layer.work[1].seconds}, Bytes{nth(kept, MemoryCategory::activations)},
          !layer.open[0] && !layer.open[1]};
}

ChunkPasses QuickBlocks::passes(const ChunkContent& of) const {
  ChunkPasses out;
  if (of.runs.empty()) return out;
  for (int pass = 0; pass < (several_ ? kPassKinds : 2); ++pass)
    nth(out, pass) = make_pass(static_cast<PassKind>(pass), of);
  return out;
}

}  // namespace rehearse
