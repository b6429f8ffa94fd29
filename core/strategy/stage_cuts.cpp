#include "core/strategy/stage_cuts.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "core/base/index.hpp"

namespace rehearse {

namespace {

constexpr double kOperationsPerElement = 50;

double work_of(const BlockSpec& block) {
  double work = 0;
  for (const OpSpec& op : block.ops) {
    work += forward_matmul_flops(block, op, 1, 1, false).value();
    for (const int t : op.outputs)
      work += kOperationsPerElement * static_cast<double>(elements(nth(block.tensors, t).shape, 1, 1));
  }
  return work;
}

}  // namespace

std::vector<int> cut_by_work(const Network& network, int chunks) {
  std::vector<double> sum{0.0};  // Work of all positions before.
  for (const int b : network.order()) sum.push_back(sum.back() + work_of(nth(network.blocks, b)));
  const auto n = sum.size() - 1, k = static_cast<std::size_t>(chunks);
  // heaviest[c][i]: of the best cut of the first i positions into c chunks; from[c][i]: where its last chunk begins.
  std::vector<std::vector<double>> heaviest(k + 1, std::vector<double>(n + 1, std::numeric_limits<double>::infinity()));
  std::vector<std::vector<std::size_t>> from(k + 1, std::vector<std::size_t>(n + 1, 0));
  heaviest[0][0] = 0;
  for (std::size_t c = 1; c <= k; ++c) {
    for (std::size_t i = c; i <= n; ++i)
      for (std::size_t j = c - 1; j < i; ++j)
        if (const double w = std::max(heaviest[c - 1][j], sum[i] - sum[j]); w < heaviest[c][i]) {
          heaviest[c][i] = w;
          from[c][i] = j;
        }
  }
  std::vector<int> cuts(k + 1, static_cast<int>(n));
  for (std::size_t c = k, i = n; c > 0; --c) {
    i = from[c][i];
    cuts[c - 1] = static_cast<int>(i);
  }
  return cuts;
}

std::vector<int> chunk_cuts(const Network& network, const StrategySettings& settings) {
  const int chunks = settings.pp * settings.virtual_stages, layers = network.layers();
  int before = 0, positions = std::accumulate(network.repeat.begin(), network.repeat.end(), 0);
  for (std::size_t b = 0; b < network.blocks.size() && !network.uneven() && !network.blocks[b].is_layer(); ++b)
    before += network.repeat[b];
  std::vector<int> cuts;
  if (!settings.layers_per_stage.empty()) {
    cuts = {before};
    for (const std::int64_t given : settings.layers_per_stage) cuts.push_back(cuts.back() + static_cast<int>(given));
  } else if (network.uneven()) {
    cuts = cut_by_work(network, chunks);
  } else {
    for (int c = 0; c <= chunks; ++c) cuts.push_back(before + (c * layers + chunks - 1) / chunks);
  }
  cuts.front() = 0;
  cuts.back() = positions;
  return cuts;
}

}  // namespace rehearse
