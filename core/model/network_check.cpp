#include "core/model/network_check.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/model/op_table.hpp"

namespace rehearse {
namespace {

/// What an adapter makes is added to what its layer makes.
DimTag kind_of(const Dim& d) { return d.tag == DimTag::adapted ? DimTag::hidden : d.tag; }

bool equal(const Shape& a, const Shape& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Dim& x, const Dim& y) { return kind_of(x) == kind_of(y) && x.size == y.size; });
}

/// Elements of one token's part of a tensor. A second dimension of fixed size counts rows of a sample, as a sequence
/// does.
std::int64_t per_token(const TensorSpec& t) {
  const bool rows = t.shape.size() > 1 && t.shape[1].tag == DimTag::fixed;
  return elements(t.shape, 1, 1) / (rows ? t.shape[1].size : 1);
}

class BlockCheck {
 public:
  BlockCheck(const std::string& network, const BlockSpec& block) : network_(network), block_(block) {}

  void run() {
    unique(block_.tensors, "tensor");
    unique(block_.params, "parameter");
    unique(block_.ops, "operator");
    made_.assign(block_.tensors.size(), false);
    used_.assign(block_.params.size(), false);
    if (block_.input >= 0) made_.at(index(block_.input, made_.size(), block_.name)) = true;
    for (std::size_t i = 0; i < made_.size(); ++i)
      if (block_.tensors[i].is_input() || !block_.tensors[i].from.empty()) made_[i] = true;
    for (const auto& op : block_.ops) check(op);
    for (std::size_t i = 0; i < used_.size(); ++i)
      if (!used_[i]) fail(block_.params[i].name, "no operator uses this parameter");
    if (block_.output >= 0 && !made_[index(block_.output, made_.size(), block_.name)])
      fail(block_.name, "the output is never made");
  }

 private:
  [[noreturn]] void fail(const std::string& at, const std::string& what) const {
    throw Error(ErrorKind::usage, what, fmt::format("{}: {}/{}", network_, block_.name, at));
  }

  template <class Named>
  void unique(const std::vector<Named>& items, const char* kind) const {
    std::set<std::string> seen;
    for (const auto& item : items)
      if (!seen.insert(item.name).second) fail(item.name, fmt::format("two {}s have this name", kind));
  }

  std::size_t index(int i, std::size_t size, const std::string& at) const {
    if (i < 0 || static_cast<std::size_t>(i) >= size) fail(at, fmt::format("index {} is outside 0..{}", i, size));
    return static_cast<std::size_t>(i);
  }

  void check(const OpSpec& op) {
    const OpInfo& info = op_info(op.kind);
    const auto params = static_cast<int>(op.params.size());
    const bool weighted = op.kind == OpKind::grouped_linear && op.inputs.size() == 2 && params == 2;
    const bool arity = weighted || info.inputs == kAnyInputs ? op.inputs.size() >= 2
                                                             : static_cast<int>(op.inputs.size()) == info.inputs;
    if (!arity || params < info.min_params || params > info.max_params || op.outputs.empty() ||
        (op.outputs.size() > 1 && op.kind != OpKind::linear && op.kind != OpKind::grouped_linear &&
         op.kind != OpKind::dispatch))
      fail(op.name, fmt::format("{} takes {} tensors and {} to {} parameters", info.name, info.inputs, info.min_params,
                                info.max_params));
    for (int i : op.inputs)
      if (!made_[index(i, made_.size(), op.name)])
        fail(op.name, fmt::format("'{}' is read before it is made", block_.tensors[i].name));
    for (int i : op.params) used_[index(i, used_.size(), op.name)] = true;
    for (int i : op.outputs) {
      const auto at = index(i, made_.size(), op.name);
      if (made_[at]) fail(op.name, fmt::format("'{}' is made twice", block_.tensors[at].name));
      made_[at] = true;
    }
    if (info.wrong == nullptr) return check_shapes(op);
    if (const std::string what = info.wrong(block_, op); !what.empty()) fail(op.name, what);
  }

  const TensorSpec& in(const OpSpec& op, std::size_t i) const { return block_.tensors[op.inputs[i]]; }
  const TensorSpec& out(const OpSpec& op) const { return block_.tensors[op.outputs[0]]; }

  void check_shapes(const OpSpec& op) const {
    switch (op.kind) {
      case OpKind::linear: return check_linear(op);
      case OpKind::attention: return check_attention(op);
      case OpKind::append: return check_append(op);
      case OpKind::router: return check_router(op);
      case OpKind::dispatch: return check_dispatch(op);
      case OpKind::grouped_linear: return check_grouped(op);
      case OpKind::weighted_silu_mul: return check_weighted(op);
      case OpKind::weighted_squared_relu: return check_weighted_rows(op);
      case OpKind::combine: return check_combine(op);
      case OpKind::state_space: return check_state_space(op);
      case OpKind::grouped_rms_norm: check_runs(op); break;
      case OpKind::embedding: return check_rows(op);
      case OpKind::position_embedding: check_rows(op); break;
      case OpKind::layer_norm:
      case OpKind::rms_norm:
        for (int p : op.params)
          if (block_.params[p].elements() != in(op, 0).shape.back().size)
            fail(op.name, "weight and last dimension differ in size");
        break;
      case OpKind::convolution: return check_convolution(op);
      case OpKind::pool:
      case OpKind::global_pool:
      case OpKind::upsample: return check_channels(op);
      case OpKind::concat: return check_concat(op);
      case OpKind::batch_norm:
        for (int p : op.params)
          if (block_.params[p].elements() != channels(in(op, 0))) fail(op.name, "weight and channels differ in size");
        break;
      case OpKind::pixel_loss:
      case OpKind::cross_entropy:
        if (!in(op, 1).integer) fail(op.name, "labels are integers");
        return;
      case OpKind::adversarial_loss: return;
      default: break;
    }
    for (std::size_t i = 0; i < op.inputs.size(); ++i)
      if (!equal(in(op, i).shape, out(op).shape))
        fail(op.name, fmt::format("'{}' and the output differ in shape", in(op, i).name));
  }

  static std::int64_t channels(const TensorSpec& t) {
    return t.shape.size() > 1 && t.shape[1].tag == DimTag::channels ? t.shape[1].size : 0;
  }

  void check_channels(const OpSpec& op) const {
    const std::int64_t from = channels(in(op, 0)),
                       to = op.kind == OpKind::global_pool ? out(op).shape.back().size : channels(out(op));
    if (from == 0 || from != to) fail(op.name, "takes an image and keeps its channels");
  }

  void check_concat(const OpSpec& op) const {
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      sum += channels(in(op, i));
      Shape as_output = in(op, i).shape;
      if (as_output.size() > 1) as_output[1].size = channels(out(op));
      if (!equal(as_output, out(op).shape))
        fail(op.name, fmt::format("'{}' has other sides than the output", in(op, i).name));
    }
    if (sum != channels(out(op))) fail(op.name, "the output has not as many channels as its parts together");
  }

  void check_convolution(const OpSpec& op) const {
    const ParamSpec& weight = block_.params[op.params[0]];
    const std::int64_t from = channels(in(op, 0)), to = channels(out(op));
    const std::int64_t first = op.transposed ? from : to, second = op.transposed ? to : from;
    if (weight.shape.size() != op.window.size() + 2 || in(op, 0).shape.size() != weight.shape.size())
      fail(op.name, "weight, window and image have different numbers of sides");
    if (from == 0 || weight.shape[0].size != first || weight.shape[1].size * op.groups != second)
      fail(op.name, "the weight does not fit the channels");
    for (std::size_t i = 0; i < op.window.size(); ++i)
      if (weight.shape[i + 2].size != op.window[i].kernel) fail(op.name, "the weight is not as long as the window");
    if (op.params.size() == 2 && block_.params[op.params[1]].elements() != to)
      fail(op.name, "the bias is not as long as the output");
  }

  void check_rows(const OpSpec& op) const {
    const Shape& table = block_.params[op.params[0]].shape;
    if (table.size() != 2 || table[1].size != per_token(out(op)))
      fail(op.name, "a row of the table is not one token's output");
  }

  void check_linear(const OpSpec& op) const {
    const ParamSpec& weight = block_.params[op.params[0]];
    std::int64_t made = 0;
    for (int o : op.outputs) made += per_token(block_.tensors[o]);
    if (weight.shape.size() != 2) fail(op.name, "a linear's weight is [out, in]");
    if (weight.shape[1].size != per_token(in(op, 0)))
      fail(op.name,
           fmt::format("the weight takes {} elements, the input has {}", weight.shape[1].size, per_token(in(op, 0))));
    if (weight.shape[0].size != made)
      fail(op.name, fmt::format("the weight makes {} elements, the outputs have {}", weight.shape[0].size, made));
    if (op.params.size() == 2 && block_.params[op.params[1]].elements() != made)
      fail(op.name, "the bias is not as long as the output");
    for (int p : op.params) check_segments(op, block_.params[p]);
  }

  void check_segments(const OpSpec& op, const ParamSpec& param) const {
    if (param.segments.empty() && op.outputs.size() == 1) return;
    if (param.segments.size() != op.outputs.size()) fail(op.name, "a fused parameter has one segment per output");
    for (std::size_t i = 0; i < param.segments.size(); ++i)
      if (param.segments[i] != per_token(block_.tensors[op.outputs[i]]))
        fail(op.name, "a segment is not as long as its output");
  }

  void check_attention(const OpSpec& op) const {
    const Shape &q = in(op, 0).shape, &k = in(op, 1).shape, &v = in(op, 2).shape;
    if (q.size() != 4 || k.size() != 4 || v.size() != 4 || k[2].size != v[2].size)
      fail(op.name, "q, k, v are [b, s, heads, head_dim]");
    Shape made = q;
    made[3] = v[3];
    if (!equal(made, out(op).shape)) fail(op.name, "the output has q's heads, of the size of v's");
    if (k[2].size < 1 || q[2].size % k[2].size != 0 || q[3].size != k[3].size)
      fail(op.name, "key/value heads do not divide the query heads");
    if (!op.params.empty() && block_.params[op.params[0]].elements() != q[2].size)
      fail(op.name, "there is one sink for each query head");
    if (op.attention_window < 0 || (op.attention_window > 0 && !op.causal))
      fail(op.name, "a window is a number of tokens up to the query's own, of causal attention");
  }

  void check_append(const OpSpec& op) const {
    Shape made = in(op, 0).shape;
    if (made.size() != 4 || in(op, 1).shape.size() != 3) fail(op.name, "a vector per token is appended to heads");
    made.back().size += in(op, 1).shape.back().size;
    if (!equal(made, out(op).shape)) fail(op.name, "the output's heads are not as long as both inputs");
  }

  void check_router(const OpSpec& op) const {
    const Shape& weight = block_.params[op.params[0]].shape;
    if (weight.size() != 2 || weight[0].size != op.routing.experts || weight[1].size != per_token(in(op, 0)))
      fail(op.name, "a router's weight is [experts, in]");
    if (op.params.size() == 2 && block_.params[op.params[1]].elements() != op.routing.experts)
      fail(op.name, "a router's bias is [experts]");
    if (per_token(out(op)) != op.routing.top_k || op.routing.top_k > op.routing.experts)
      fail(op.name, "a token has one weight for each of its experts");
  }

  void check_dispatch(const OpSpec& op) const {
    const Shape &rows = out(op).shape, &weights = block_.tensors[op.outputs.back()].shape;
    if (op.outputs.size() != 2 || rows.size() != 2 || weights.size() != 1)
      fail(op.name, "makes rows and a weight for each");
    if (rows[0].tag != DimTag::routed || rows[0].size != op.routing.top_k || weights[0].size != rows[0].size)
      fail(op.name, "every token has top_k rows");
    if (rows[1].size != per_token(in(op, 0)) || per_token(in(op, 1)) != op.routing.top_k)
      fail(op.name, "rows are tokens");
  }

  void check_grouped(const OpSpec& op) const {
    const Shape &weight = block_.params[op.params[0]].shape, &rows = in(op, 0).shape;
    if (weight.size() != 3 || rows.size() != 2 || weight[0].tag != DimTag::experts || weight[2].size != rows[1].size)
      fail(op.name, "a grouped weight is [experts, out, in]");
    std::int64_t made = 0;
    for (const int o : op.outputs) {
      const Shape& y = block_.tensors[o].shape;
      if (y.size() != 2 || y[0].size != rows[0].size) fail(op.name, "one row comes out for each that goes in");
      made += y[1].size;
    }
    if (made != weight[1].size)
      fail(op.name, fmt::format("the weight makes {} elements, the outputs have {}", weight[1].size, made));
    if (op.params.size() == 2 && !equal(block_.params[op.params[1]].shape, {weight[0], weight[1]}))
      fail(op.name, "a grouped bias is [experts, out]");
    if (op.inputs.size() == 2 && in(op, 1).shape.size() != 1) fail(op.name, "every row has one weight");
  }

  void check_weighted(const OpSpec& op) const {
    if (!equal(in(op, 0).shape, in(op, 1).shape) || !equal(in(op, 0).shape, out(op).shape) ||
        in(op, 2).shape.size() != 1)
      fail(op.name, "gate, up and the output are alike, and every row has one weight");
  }

  void check_weighted_rows(const OpSpec& op) const {
    if (!equal(in(op, 0).shape, out(op).shape) || in(op, 1).shape.size() != 1)
      fail(op.name, "the output is like the rows, and every row has one weight");
  }

  void check_runs(const OpSpec& op) const {
    const std::int64_t features = per_token(in(op, 0));
    if (block_.params[op.params[0]].elements() != features)
      fail(op.name, "weight and features of a token differ in size");
    if (op.groups < 1 || features % op.groups != 0)
      fail(op.name, fmt::format("{} features do not fall into {} equal runs", features, op.groups));
  }

  void check_state_space(const OpSpec& op) const {
    const Shape &x = in(op, 1).shape, &b = in(op, 2).shape, &dt = in(op, 4).shape;
    if (x.size() != 4 || !equal(in(op, 0).shape, x) || !equal(out(op).shape, x))
      fail(op.name, "z, x and the output are [b, s, heads, head_dim]");
    if (b.size() != 4 || !equal(in(op, 3).shape, b)) fail(op.name, "b and c are [b, s, groups, state]");
    if (dt.size() != 3 || dt[2].size != x[2].size) fail(op.name, "there is one dt for each head");
    if (b[2].size < 1 || x[2].size % b[2].size != 0) fail(op.name, "groups do not divide the heads");
    if (op.chunk < 1) fail(op.name, "a chunk is one token or more");
    const ParamSpec& weight = block_.params[op.params[0]];
    const std::vector<std::int64_t> pieces{per_token(in(op, 1)), per_token(in(op, 2)), per_token(in(op, 3))};
    const std::int64_t channels = pieces[0] + pieces[1] + pieces[2];
    if (weight.shape.size() != 2 || weight.shape[0].size != channels)
      fail(op.name, "the convolution's weight is [x, b and c of a token, window]");
    if (block_.params[op.params[1]].elements() != channels)
      fail(op.name, "the convolution's bias is not as long as its output");
    for (std::size_t p = 0; p < 2; ++p)
      if (block_.params[op.params[p]].segments != pieces)
        fail(op.name, "the convolution's segments are those of x, b and c");
    for (std::size_t p = 2; p < op.params.size(); ++p)
      if (block_.params[op.params[p]].elements() != x[2].size)
        fail(op.name, "there is one a, d and bias of dt for each head");
  }

  void check_combine(const OpSpec& op) const {
    if (in(op, 0).shape.size() != 2 || in(op, 0).shape[1].size != per_token(out(op)) ||
        per_token(in(op, 1)) != op.routing.top_k)
      fail(op.name, "rows become tokens again");
  }

  const std::string& network_;
  const BlockSpec& block_;
  std::vector<bool> made_;
  std::vector<bool> used_;
};

[[noreturn]] void fail(const Network& network, const std::string& block, const std::string& what) {
  throw Error(ErrorKind::usage, what, fmt::format("{}: {}", network.name, block));
}

const ParamSpec* find_param(const Network& network, const std::string& full_name) {
  for (const auto& block : network.blocks)
    for (const auto& p : block.params)
      if (block.name + "." + p.name == full_name) return &p;
  return nullptr;
}

void check_ties(const Network& network) {
  for (const auto& block : network.blocks) {
    for (const auto& p : block.params) {
      if (p.tied_to.empty()) continue;
      const auto* owner = find_param(network, p.tied_to);
      if (!owner || !owner->tied_to.empty() || !equal(owner->shape, p.shape))
        fail(network, block.name,
             fmt::format("{} is tied to {}, which is no parameter of its shape", p.name, p.tied_to));
    }
  }
}

/// Only what one instance makes and no boundary hands on can be read further down.
void check_skips(const Network& network) {
  for (std::size_t b = 0; b < network.blocks.size(); ++b) {
    for (const TensorSpec& t : network.blocks[b].tensors) {
      if (t.from.empty()) continue;
      const auto [block, tensor] = find_skip(network, t.from);
      const BlockSpec& owner = nth(network.blocks, block);
      const auto from = static_cast<std::size_t>(block);
      const auto second = static_cast<std::size_t>(network.discriminator);
      if (from < second && b >= second)
        fail(network, network.blocks[b].name,
             fmt::format("'{}' is the generator's own: a discriminator sees what is made of it", t.from));
      if (from >= b || network.repeat[from] != 1 || network.repeat[b] != 1)
        fail(network, network.blocks[b].name,
             fmt::format("'{}' must stand once in an earlier block, and so must its reader", t.from));
      if (tensor == owner.output || nth(owner.tensors, tensor).is_input())
        fail(network, network.blocks[b].name,
             fmt::format("'{}' is handed on to the next block: read it there, or before the block's last layer",
                         t.from));
      if (!equal(nth(owner.tensors, tensor).shape, t.shape))
        fail(network, network.blocks[b].name, fmt::format("'{}' has another shape", t.from));
    }
  }
}

bool judges(const BlockSpec& block) {
  return std::any_of(block.ops.begin(), block.ops.end(),
                     [](const OpSpec& op) { return op.kind == OpKind::adversarial_loss; });
}

/// A discriminator sees images alone, and its last block says what it takes them for.
void check_discriminator(const Network& network) {
  const auto first = static_cast<std::size_t>(network.discriminator);
  if (network.discriminator < 0 || first >= network.blocks.size()) fail(network, "discriminator", "has no blocks");
  for (std::size_t b = 0; b < network.blocks.size(); ++b) {
    const BlockSpec& block = network.blocks[b];
    const bool last = network.adversarial() && b + 1 == network.blocks.size();
    if (judges(block) != last)
      fail(network, block.name,
           last ? "the last layer of a discriminator is an adversarial_loss"
                : "an adversarial_loss stands in the last block of a discriminator");
    if (last && network.repeat[b] != 1) fail(network, block.name, "a block with a loss stands once");
    if (!network.adversarial() || b < first) continue;
    for (const TensorSpec& t : block.tensors)
      if (t.is_input())
        fail(network, block.name,
             fmt::format("'{}' comes from the input: a discriminator is shown images alone", t.name));
  }
}

/// A pattern deals out every layer, each as often as it stands.
void check_pattern(const Network& network) {
  if (network.pattern.empty()) return;
  std::vector<int> found(network.blocks.size(), 0);
  for (const int b : network.pattern) {
    if (b < 0 || static_cast<std::size_t>(b) >= found.size() || !nth(network.blocks, b).is_layer())
      fail(network, "pattern", fmt::format("block {} is no layer", b));
    ++nth(found, b);
  }
  for (std::size_t b = 0; b < found.size(); ++b)
    if (network.blocks[b].is_layer() && found[b] != network.repeat[b])
      fail(network, network.blocks[b].name,
           fmt::format("stands {} times, and {} times in the pattern", network.repeat[b], found[b]));
}

void check_chain(const Network& network) {
  const BlockSpec* before = nullptr;
  for (std::size_t i = 0; i < network.blocks.size(); ++i) {
    const BlockSpec& block = network.blocks[i];
    const auto follows = [&](const BlockSpec& from) {
      if (from.output < 0 || block.input < 0 ||
          !equal(from.tensors[from.output].shape, block.tensors[block.input].shape))
        fail(network, block.name, fmt::format("does not take what '{}' hands on", from.name));
    };
    if (network.repeat[i] < 1) fail(network, block.name, fmt::format("stands {} times", network.repeat[i]));
    if (before) follows(*before);
    if (network.repeat[i] > 1) follows(block);
    before = &block;
  }
}

}  // namespace

void validate(const Network& network) {
  if (network.blocks.empty() || network.blocks.size() != network.repeat.size())
    throw Error(ErrorKind::usage, fmt::format("{} blocks and {} repeats", network.blocks.size(), network.repeat.size()),
                network.name);
  std::set<std::string> names;
  for (const auto& block : network.blocks) {
    if (!names.insert(block.name).second) fail(network, block.name, "two blocks have this name");
    BlockCheck(network.name, block).run();
  }
  check_ties(network);
  check_skips(network);
  check_discriminator(network);
  check_chain(network);
  check_pattern(network);
}

}  // namespace rehearse
