#include "core/model/network.hpp"

#include <algorithm>
#include <stdexcept>

#include "core/model/operator_count.hpp"

namespace rehearse {

std::int64_t elements(const Shape& shape, std::int64_t b, std::int64_t s) {
  std::int64_t n = 1;
  for (const Dim& d : shape)
    n *= d.tag == DimTag::batch ? b : d.tag == DimTag::sequence ? s : d.tag == DimTag::routed ? b * s * d.size : d.size;
  return n;
}

std::int64_t ParamSpec::elements() const { return rehearse::elements(shape, 0, 0); }

std::int64_t BlockSpec::parameter_count() const {
  std::int64_t n = 0;
  for (const auto& p : params) n += p.elements();
  return n;
}

std::int64_t Network::parameter_count() const {
  std::int64_t n = 0;
  for (std::size_t i = 0; i < blocks.size(); ++i)
    for (const auto& p : blocks[i].params)
      if (p.tied_to.empty()) n += p.elements() * repeat[i];
  return n;
}

std::int64_t Network::active_parameter_count() const {
  const Routing* route = routing();
  std::int64_t n = 0;
  for (std::size_t i = 0; i < blocks.size(); ++i)
    for (const auto& p : blocks[i].params) {
      if (!p.tied_to.empty()) continue;
      const bool expert = route != nullptr && p.shape.front().tag == DimTag::experts;
      n += (expert ? p.elements() / route->experts * route->top_k : p.elements()) * repeat[i];
    }
  return n;
}

std::vector<int> Network::order() const {
  std::vector<int> out, left = repeat;
  const auto turns = [this](std::size_t b) { return alternating && blocks[b].is_layer(); };
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    if (!pattern.empty() && blocks[b].is_layer()) {
      if (b == 0 || !blocks[b - 1].is_layer()) out.insert(out.end(), pattern.begin(), pattern.end());
    } else if (!turns(b))
      out.insert(out.end(), static_cast<std::size_t>(left[b]), static_cast<int>(b));
    else {
      for (bool any = true; any;) {  // The first kind of layer brings the others' turns with it.
        any = false;
        for (std::size_t l = b; l < blocks.size(); ++l)
          if (turns(l) && left[l] > 0) {
            out.push_back(static_cast<int>(l));
            any = --left[l] > 0 || any;
          }
      }
    }
  }
  return out;
}

int Network::layers() const {
  int n = 0;
  for (std::size_t i = 0; i < blocks.size(); ++i)
    if (uneven() || blocks[i].is_layer()) n += repeat[i];
  return n;
}

const Routing* Network::routing() const {
  for (const BlockSpec& block : blocks)
    for (const OpSpec& op : block.ops)
      if (op.kind == OpKind::router) return &op.routing;
  return nullptr;
}

bool Network::uneven() const {
  return std::none_of(blocks.begin(), blocks.end(), [](const BlockSpec& b) { return b.is_layer(); });
}

std::pair<int, int> find_skip(const Network& network, const std::string& from) {
  for (std::size_t b = 0; b < network.blocks.size(); ++b)
    for (std::size_t t = 0; t < network.blocks[b].tensors.size(); ++t)
      if (network.blocks[b].name + "." + network.blocks[b].tensors[t].name == from)
        return {static_cast<int>(b), static_cast<int>(t)};
  throw std::logic_error("no block makes '" + from + "'");
}

namespace {

Flops training_flops(const Network& network, std::int64_t b, std::int64_t s, bool causal_half) {
  constexpr double kPasses = 3, kDiscriminatorPasses = 8;
  Flops trained;
  for (std::size_t i = 0; i < network.blocks.size(); ++i) {
    Flops forward;
    for (const auto& op : network.blocks[i].ops) {
      const Flops once = forward_matmul_flops(network.blocks[i], op, b, s, causal_half);
      forward += op.frozen ? once * ((kPasses - 1) / kPasses) : once;
    }
    const bool judges = network.adversarial() && static_cast<int>(i) >= network.discriminator;
    trained += forward * (network.repeat[i] * (judges ? kDiscriminatorPasses : kPasses));
  }
  return trained;
}

}  // namespace

Flops model_flops(const Network& network, std::int64_t b, std::int64_t s) {
  return training_flops(network, b, s, false);
}
Flops causal_model_flops(const Network& network, std::int64_t b, std::int64_t s) {
  return training_flops(network, b, s, true);
}

}  // namespace rehearse
