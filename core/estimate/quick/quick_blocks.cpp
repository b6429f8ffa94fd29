#include "core/estimate/quick/quick_blocks.hpp"

#include <algorithm>
#include <cmath>

#include "core/base/index.hpp"
#include "core/price/memory_rule.hpp"
#include "core/program/body.hpp"

namespace rehearse {

QuickBlocks::QuickBlocks(const Program& program, const Network& network, const CostModel& cost, bool everywhere)
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

void QuickBlocks::read(const Program& program, const Entry& e, int role, EstimatePrices& prices) {
  const Body& body = nth(program.bodies, e.body);
  const PassPart part = part_of(body);
  if (part.kind == PassPart::Kind::call) return;
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
  const PassKind pass = forward                         ? PassKind::forward
                        : several_ && e.microbatch == 0 ? PassKind::first_backward
                                                        : PassKind::backward;
  const auto d = static_cast<std::size_t>(pass);
  if (everywhere_ && !prices.groups_alike(e.body, role)) complete_ = false;
  const double before = block.work[d].seconds;
  block.work[d] = prices.work(e.body, role);
  if (block.calls[d] > 0 && !about(block.work[d].seconds, before)) complete_ = false;
  block.open[d] = !prices.closed(e.body, role);
  block.memory[d] = {true, true, curve};
  ++block.calls[d];
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
