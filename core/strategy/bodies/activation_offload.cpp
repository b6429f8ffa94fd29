#include "core/strategy/bodies/activation_offload.hpp"

#include <algorithm>

#include "core/base/index.hpp"
#include "core/config/settings/choices.hpp"
#include "core/config/settings/strategy.hpp"

namespace rehearse {

void ActivationOffload::add(const ChunkPlacement& chunk) {
  const Offload offload = plan_.settings.offload;
  if (offload != Offload::activations && offload != Offload::all) return;
  std::vector<int> layers;
  for (int p = chunk.first_layer; p < chunk.last_layer; ++p) {
    const BlockSpec& spec = *nth(plan_.blocks, nth(plan_.block_at, p)).spec;
    // Of a group that runs again together only the first keeps anything.
    const bool inner = std::any_of(plan_.groups.begin(), plan_.groups.end(),
                                   [p](const auto& g) { return g.second < p && p <= g.first; });
    if (spec.input >= 0 && spec.output >= 0 && !inner) layers.push_back(p);
  }
  const int chosen = plan_.settings.offload_layers;
  const std::size_t n = chosen > 0 ? static_cast<std::size_t>(chosen) : layers.empty() ? 0 : layers.size() - 1;
  moved_.insert(layers.begin(), layers.begin() + static_cast<std::ptrdiff_t>(std::min(n, layers.size())));
}

/// Tensors that the layer's forward leaves and its backward frees; a layer that runs again with others makes all but
/// its input then.
std::vector<int> ActivationOffload::kept_at(int position) const {
  const BlockBodies& bodies = plan_.bodies_at(position);
  const BindingSet& forward = nth(frame_.program.binding_sets, bodies.forward.bindings);
  const auto leaves = [&](int tensor) {
    return std::any_of(forward.begin(), forward.end(), [&](const Binding& f) {
      return f.tensor == tensor && f.instance == InstanceRef{} && !f.release;
    });
  };
  std::vector<int> out;
  for (const Binding& b : nth(frame_.program.binding_sets, bodies.backward.bindings))
    if (nth(frame_.program.tensors, b.tensor).lifetime == Lifetime::saved && b.instance == InstanceRef{} && b.release &&
        !b.allocate && leaves(b.tensor))
      out.push_back(b.tensor);
  return out;
}

int ActivationOffload::needed_by(int position) const {
  for (const auto& [last, first] : plan_.groups)
    if (first == position) return last;
  return position;
}

int ActivationOffload::next_needed(int position, int lowest) const {
  int best = -1;
  for (const int m : moved_)
    if (m >= lowest && needed_by(m) < position) best = std::max(best, m);
  return best;
}

int ActivationOffload::host_copy(int tensor) {
  Tensor t = nth(frame_.program.tensors, tensor);
  t.name += ".host";
  t.space = MemorySpace::pinned_host;
  return frame_.add_tensor(std::move(t));
}

const ActivationOffload::Both& ActivationOffload::both(int position) {
  const std::vector<int> kept = kept_at(position);
  const auto [at, fresh] = made_.try_emplace(kept);
  if (!fresh) return at->second;
  BodyBuilder out(frame_, "activations.to_host", Phase::other), in(frame_, "activations.to_device", Phase::other);
  for (const int tensor : kept) {
    const int host = host_copy(tensor);
    out.add({.name = "to_host",
             .kind = CopyTask{},
             .operands = {read(out.bound("kept", tensor, {{}, false, true})),
                          write(out.bound("host", host, {{}, true, false}))},
             .stream = frame_.copies_out,
             .phase = Phase::other,
             .predicate = ExprPool::kOne});
    in.add({.name = "to_device",
            .kind = CopyTask{},
            .operands = {read(in.bound("host", host, {{}, false, true})),
                         write(in.bound("kept", tensor, {{}, true, false}))},
            .stream = frame_.copies,
            .phase = Phase::other,
            .predicate = ExprPool::kOne});
  }
  at->second.out = out.finish();
  at->second.in = in.finish();
  return at->second;
}

}  // namespace rehearse
