// Passes over memory that do several tasks: the gradients of a norm with a residual's, a loss with its gradient, an
// update with clipping, cast and clearing.

#include "gpu_backend/cuda/ops/fused.hpp"

#include "gpu_backend/cuda/ops/logits.hpp"
#include "gpu_backend/cuda/ops/operands.hpp"
#include "gpu_backend/cuda/ops/updates.hpp"

namespace rehearse::cuda {

void one_by_one(FusedCalls calls) {
  std::vector<std::pair<FusedCall::Place, std::byte*>> scratch;
  for (const FusedCall& one : calls) {
    OperatorCall call = one.call;
    for (std::size_t i = 0; i < call.operands.size(); ++i) {
      if (!one.unseen[i]) continue;
      auto found =
          std::find_if(scratch.begin(), scratch.end(), [&](const auto& s) { return s.first == one.places[i]; });
      if (found == scratch.end()) {
        const std::size_t bytes =
            static_cast<std::size_t>(call.operands[i].elements()) * size_of(call.operands[i].type);
        scratch.emplace_back(one.places[i], static_cast<std::byte*>(call.launch->scratch(bytes)));
        found = std::prev(scratch.end());
      }
      call.operands[i].data = found->second;
    }
    cuda_operators().at(operator_name(*call.task)).value.run32(call);
  }
}

namespace {

// ---- norms: x, dy, weight, dx; x, dy, dweight, [dbias]; a, b, sum, one of which is dx

[[nodiscard]] NormShape norm_shape(const OperatorCall& c, bool centred) {
  const std::int64_t features = width(c.operand(0));
  return {c.operand(0).elements() / features, features, c.task->epsilon, centred, c.operand(2).elements() / features};
}
[[nodiscard]] bool centred(const FusedCall& one) { return one.call.task->variant == "layer_norm"; }

[[nodiscard]] bool takes_norm(FusedCalls calls) {
  const FusedCall &input = calls[0], &weights = calls[1];
  if (input.call.task->accumulates || !weights.call.task->accumulates || input.places[0] != weights.places[0] ||
      input.places[1] != weights.places[1])
    return false;
  const ElementType type = input.call.operand(0).type;
  if (!takes_norm_grads(norm_shape(input.call, centred(input)), type)) return false;
  if (calls.size() == 2) return true;
  const FusedCall& sum = calls[2];
  if (sum.call.task->accumulates || sum.call.operands.size() != 3 || !input.unseen[3]) return false;
  const bool first = sum.places[0] == input.places[3], second = sum.places[1] == input.places[3];
  return first != second && sum.call.operand(0).type == type && sum.call.operand(1).type == type &&
         sum.call.operand(2).type == type;
}
void run_norm(FusedCalls calls) {
  const OperatorCall &input = calls[0].call, &weights = calls[1].call;
  const NormShape z = norm_shape(input, centred(calls[0]));
  const bool adds = calls.size() > 2;
  const std::size_t other = adds && calls[2].places[0] == calls[0].places[3] ? 1 : 0;
  norm_grads(stream(input), reals(input.operand(0)), reals(input.operand(1)), reals(input.operand(2)),
             adds ? calls[2].call.operand(other).data : nullptr,
             reals(adds ? calls[2].call.operand(2) : input.operand(3)), reals(weights.operand(2)),
             weights.operands.size() > 3 ? weights.operand(3).data : nullptr, z,
             input.launch->scratch(norm_grads_scratch_bytes(z, input.operand(0).type)));
}

// ---- cross-entropy: logits, max; logits, labels, max, sums; sums, loss; logits, labels, gradient, max, sums

[[nodiscard]] bool takes_sums(FusedCalls calls) {
  return calls[0].places[0] == calls[1].places[0] && calls[0].places[1] == calls[1].places[2] &&
         logits_of(calls[0].call.operand(0)).valid > 0;
}
[[nodiscard]] bool takes_loss(FusedCalls calls) {
  const auto &sums = calls[1].places, &loss = calls[2].places, &grad = calls[3].places;
  return takes_sums(calls) && loss[0] == sums[3] && grad[0] == sums[0] && grad[1] == sums[1] && grad[3] == sums[2] &&
         grad[4] == sums[3] && !calls[0].unseen[0] && !calls[3].unseen[2] &&
         fits_in_block(logits_of(calls[0].call.operand(0)), calls[0].call.operand(0).type);
}
/// What only these tasks see of a row's numbers is scratch.
[[nodiscard]] Reals seen_or_scratch(const FusedCall& one, std::size_t i) {
  const TensorView& x = one.call.operand(i);
  if (!one.unseen[i]) return reals(x);
  return {one.call.launch->scratch(static_cast<std::size_t>(x.elements()) * size_of(x.type)), x.type};
}
void run_sums(FusedCalls calls) {
  const OperatorCall& c = calls[1].call;
  xent_max_and_sums(stream(c), reals(c.operand(0)), integers(c.operand(1)), seen_or_scratch(calls[1], 2),
                    seen_or_scratch(calls[1], 3), logits_of(c.operand(0)));
}
void run_loss(FusedCalls calls) {
  const OperatorCall &c = calls[1].call, &loss = calls[2].call, &grad = calls[3].call;
  const Reals sums = seen_or_scratch(calls[1], 3);
  xent_at_once(stream(c), reals(c.operand(0)), integers(c.operand(1)), seen_or_scratch(calls[1], 2), sums,
               reals(grad.operand(2)), logits_of(c.operand(0)), static_cast<double>(grad.dims.at(0)));
  const std::int64_t rows = c.operand(3).elements() / 2;
  xent_loss(stream(c), sums, nullptr, seen_or_scratch(calls[2], 1), observed_loss(loss, rows), rows);
}

// ---- updates: gradients..., sum of squares; per parameter gradient, weights, two moments; pairs of weights and their
// copies; gradients...

struct UpdateTasks {
  const FusedCall *clip = nullptr, *adam = nullptr, *cast = nullptr, *zeros = nullptr;
};
[[nodiscard]] UpdateTasks tasks_of(FusedCalls calls) {
  UpdateTasks out;
  for (const FusedCall& one : calls) switch (one.call.task->op) {
      case ComputeOp::scale: out.clip = &one; break;
      case ComputeOp::cast: out.cast = &one; break;
      case ComputeOp::fill: out.zeros = &one; break;
      default: out.adam = &one;
    }
  return out;
}
constexpr std::size_t kOfParameter = 4;  // Operands.

[[nodiscard]] bool same_set(std::vector<FusedCall::Place> a, std::vector<FusedCall::Place> b) {
  const auto by_place = [](const FusedCall::Place& x, const FusedCall::Place& y) {
    return std::tie(x.slot, x.first, x.elements) < std::tie(y.slot, y.first, y.elements);
  };
  std::sort(a.begin(), a.end(), by_place);
  std::sort(b.begin(), b.end(), by_place);
  return a == b;
}
/// Every fourth operand of the update from `which` on.
[[nodiscard]] std::vector<FusedCall::Place> of_parameters(const FusedCall& adam, std::size_t which) {
  std::vector<FusedCall::Place> out;
  for (std::size_t i = which; i < adam.places.size(); i += kOfParameter) out.push_back(adam.places[i]);
  return out;
}
/// Where a cast reads, and where it writes: pairs in either order.
struct CastPair {
  std::size_t from, to;
};
[[nodiscard]] std::vector<CastPair> pairs_of(const OperatorCall& cast) {
  std::vector<CastPair> out;
  for (std::size_t i = 0; i + 1 < cast.operands.size(); i += 2)
    out.push_back(cast.operand(i).writes() ? CastPair{i + 1, i} : CastPair{i, i + 1});
  return out;
}

[[nodiscard]] bool takes_update(FusedCalls calls) {
  const UpdateTasks t = tasks_of(calls);
  const std::vector<FusedCall::Place> gradients = of_parameters(*t.adam, 0), weights = of_parameters(*t.adam, 1);
  if (std::any_of(t.adam->unseen.begin(), t.adam->unseen.end(), [](bool x) { return x; })) return false;
  std::int64_t elements = 0;
  for (const FusedCall::Place& g : gradients) elements += g.elements;
  if (t.clip != nullptr) {
    std::vector<FusedCall::Place> clipped(t.clip->places.begin(), t.clip->places.end() - 1);
    const ElementType sum = t.clip->call.operands.back().type;
    const bool together =
        std::all_of(t.adam->call.operands.begin(), t.adam->call.operands.end(),
                    [&](const TensorView& x) { return x.type == sum || x.type == ElementType::real16; });
    if (elements == 0 || !same_set(std::move(clipped), gradients) || !together) return false;
  }
  if (t.zeros != nullptr && !same_set(t.zeros->places, gradients)) return false;
  if (t.cast == nullptr) return true;
  const std::vector<CastPair> pairs = pairs_of(t.cast->call);
  return std::all_of(pairs.begin(), pairs.end(), [&](const CastPair& p) {
    return std::find(weights.begin(), weights.end(), t.cast->places[p.from]) != weights.end() &&
           t.cast->call.operand(p.to).type == ElementType::real16 && !t.cast->unseen[p.to];
  });
}
void run_update(FusedCalls calls) {
  const UpdateTasks t = tasks_of(calls);
  AdamRule rule = adam_rule(t.adam->call);
  if (t.clip != nullptr) {
    const OperatorCall& clip = t.clip->call;
    rule.clip = {reals(clip.operands.back()), clip.task->scalars.at(0), observed_norm(clip)};
  }
  rule.clears = t.zeros != nullptr;
  const auto rounded = [&](const FusedCall::Place& weights) -> void* {
    if (t.cast == nullptr) return nullptr;
    for (const CastPair& p : pairs_of(t.cast->call))
      if (t.cast->places[p.from] == weights) return t.cast->call.operand(p.to).data;
    return nullptr;
  };
  std::size_t parameter = 0;
  by_types(t.adam->call, 2, [&](std::vector<Updated>& tensors, const UpdateTypes& types) {
    for (Updated& one : tensors) one.rounded = rounded(t.adam->places[kOfParameter * parameter++ + 1]);
    adam(stream(t.adam->call), tensors.data(), static_cast<int>(tensors.size()), types, rule);
  });
}

void add_updates(std::vector<Fusion>& to) {
  for (const std::string_view adam : {"optimizer.adamw", "optimizer.adam"}) {
    for (const bool clips : {true, false}) {
      for (const bool casts : {true, false}) {
        for (const bool clears : {true, false}) {
          Fusion one{"update", {}, takes_update, run_update};
          if (clips) one.operators.push_back("scale.clip");
          one.operators.push_back(adam);
          if (casts) one.operators.push_back("cast.from_master");
          if (clears) one.operators.push_back("fill.zeros");
          if (one.operators.size() > 1) to.push_back(std::move(one));
        }
      }
    }
  }
}

}  // namespace

const std::vector<Fusion>& fused_passes() {
  static const std::vector<Fusion> kAll = [] {
    std::vector<Fusion> out;
    for (const std::string_view norm : {"norm_grad.layer_norm", "norm_grad.rms_norm"}) {
      out.push_back({"gradients of norm and residual", {norm, norm, "add"}, takes_norm, run_norm});
      out.push_back({"gradients of norm", {norm, norm}, takes_norm, run_norm});
    }
    out.push_back(
        {"loss and its gradient",
         {"cross_entropy.max", "cross_entropy.sums", "cross_entropy.loss_of_sums", "cross_entropy_grad.fused"},
         takes_loss,
         run_loss});
    out.push_back({"sums of the loss", {"cross_entropy.max", "cross_entropy.sums"}, takes_sums, run_sums});
    add_updates(out);
    return out;
  }();
  return kAll;
}

const std::vector<Fusion>& fusions() {
  static const std::vector<Fusion> kAll = [] {
    std::vector<Fusion> out = fused_rotations();
    out.insert(out.end(), fused_products().begin(), fused_products().end());
    out.insert(out.end(), fused_passes().begin(), fused_passes().end());
    return out;
  }();
  return kAll;
}

}  // namespace rehearse::cuda
