#include "core/search/bounds/siblings.hpp"

#include <algorithm>

#include "core/base/index.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/strategy/workload.hpp"

namespace rehearse {

StrategySettings alone(StrategySettings s) {
  s.uneven_layers = s.scatter_gather = false;
  s.zero_stage = 0;
  s.fsdp.enabled = s.overlap.param_gather = false;
  s.offload = Offload::none;
  s.balance = Balance::none;
  s.dp = 1;
  while (s.dp * s.cp * s.tp % (s.ep * s.etp) != 0) ++s.dp;
  s.dp_shard = 1;
  s.dp_replicate = s.dp;
  s.placement = {"tp", "cp", "ep", "dp", "pp", "tile_h", "tile_w"};
  return s;
}

Strides strides_of(const StrategySettings& s) {
  Strides out;
  std::int64_t before = 1;
  for (const std::string& axis : s.placement) {
    if (axis == "tp" && s.tp > 1) out.tp = before;
    if (axis == "cp" && s.cp > 1) out.cp = before;
    if (axis == "dp" && s.ep * s.etp > 1) out.dp = before;
    if (axis == "pp" && s.pp > 1) out.pp = before;
    before *= axis == "tp" ? s.tp : axis == "cp" ? s.cp : axis == "dp" ? s.dp : axis == "pp" ? s.pp : 1;
  }
  return out;
}

std::vector<int> devices_of(const StrategySettings& sibling, const Strides& strides) {
  std::vector<int> out;
  const std::int64_t ranks =
      std::int64_t{sibling.tp} * sibling.cp * sibling.dp * sibling.pp * sibling.tile_h * sibling.tile_w;
  for (std::int64_t r = 0; r < ranks; ++r) {
    std::int64_t rest = r, device = 0;
    for (const auto& [size, stride] : {std::pair(sibling.tp, strides.tp), std::pair(sibling.cp, strides.cp),
                                       std::pair(sibling.dp, strides.dp), std::pair(sibling.pp, strides.pp)}) {
      device += rest % size * stride;
      rest /= size;
    }
    out.push_back(static_cast<int>(device));
  }
  return out;
}

double share_of_layers(const Network& network, int stages) {
  double layers = 0, others = 0;
  for (std::size_t b = 0; b < network.blocks.size(); ++b)
    (network.blocks[b].is_layer() ? layers : others) +=
        static_cast<double>(network.blocks[b].parameter_count()) * network.repeat[b];
  return layers / (layers + others * stages);
}

Workload with_layers(Workload w, const std::function<int(int)>& change) {
  for (std::size_t b = 0; b < w.network.blocks.size(); ++b)
    if (w.network.blocks[b].is_layer()) w.network.repeat[b] = std::max(1, change(w.network.repeat[b]));
  // Of each kind of a hybrid's layers the first stay.
  std::vector<int> left = w.network.repeat;
  std::erase_if(w.network.pattern, [&](int b) { return --nth(left, b) < 0; });
  return w;
}

}  // namespace rehearse
