#include "core/estimate/quick/chunk_layout.hpp"

#include <algorithm>

#include "core/strategy/stage_cuts.hpp"

namespace rehearse {

namespace {

ChunkContent content_of(const std::vector<int>& order, int first, int end) {
  ChunkContent out;
  for (int i = first; i < end; ++i) {
    const int block = nth(order, i);
    if (out.runs.empty() || out.runs.back().first != block) out.runs.emplace_back(block, 0);
    ++out.runs.back().second;
  }
  out.first = first == 0;
  out.last = end == static_cast<int>(order.size());
  return out;
}

}  // namespace

ChunkKind chunk_kind(int chunk, int chunks) {
  if (chunks == 1) return ChunkKind::whole;
  if (chunk == 0) return ChunkKind::first;
  return chunk + 1 == chunks ? ChunkKind::last : ChunkKind::middle;
}

int ChunkContent::blocks() const {
  int out = 0;
  for (const auto& [block, times] : runs) out += times;
  return out;
}

ChunkLayout::ChunkLayout(const Network& network, const StrategySettings& settings)
    : stages_(settings.pp), per_stage_(settings.virtual_stages) {
  const std::vector<int> order = network.order(), cuts = chunk_cuts(network, settings);
  for (std::size_t c = 0; c + 1 < cuts.size(); ++c) contents_.push_back(content_of(order, cuts[c], cuts[c + 1]));
  const auto layers = [&](const ChunkContent& of) {
    std::vector<std::pair<int, int>> out;
    for (const auto& run : of.runs)
      if (nth(network.blocks, run.first).is_layer()) out.push_back(run);
    return out;
  };
  for (const ChunkContent& of : contents_)
    equal_ = equal_ && layers(of) == layers(contents_.front()) && layers(of).size() == 1;
  const std::size_t n = contents_.size();
  for (std::size_t c = 2; c + 1 < n; ++c) by_kind_ = by_kind_ && contents_[c] == contents_[1];
  before_.resize(2 * n);
  for (int s = 0; s < stages_; ++s) {
    int forward = 0, backward = 0;
    for (int c = 0; c < per_stage_; ++c) {
      nth(before_, (s * per_stage_ + c) * 2) = forward;
      forward += nth(contents_, c * stages_ + s).blocks();
    }
    for (int c = per_stage_ - 1; c >= 0; --c) {
      nth(before_, (s * per_stage_ + c) * 2 + 1) = backward;
      backward += nth(contents_, c * stages_ + s).blocks();
    }
  }
  for (int stage = 0; stage < stages_; ++stage) {
    auto& list = of_stage_.emplace_back();
    for (int c = 0; c < per_stage_; ++c) {
      if (list.empty() || list.back().first != content(stage, c)) list.emplace_back(content(stage, c), 0);
      ++list.back().second;
    }
  }
  if (!by_kind_) return;
  std::vector<ChunkContent> kinds(kChunkKinds);
  if (n == 1) {
    nth(kinds, ChunkKind::whole) = contents_.front();
  } else {
    nth(kinds, ChunkKind::first) = contents_.front();
    nth(kinds, ChunkKind::middle) = n > 2 ? contents_[1] : ChunkContent{layers(contents_.front())};
    nth(kinds, ChunkKind::last) = contents_.back();
  }
  contents_ = std::move(kinds);
}

Network ChunkLayout::by_stage(const Network& network, std::vector<std::int64_t>& layers_per_stage) const {
  Network out = network;
  out.alternating = false;
  out.pattern.clear();
  layers_per_stage.clear();
  for (int s = 0; s < stages_; ++s) {
    const std::size_t before = out.pattern.size();
    for (int c = 0; c < per_stage_; ++c)
      for (const auto& [block, times] : nth(contents_, content(s, c)).runs)
        if (nth(network.blocks, block).is_layer()) out.pattern.insert(out.pattern.end(), times, block);
    layers_per_stage.push_back(static_cast<std::int64_t>(out.pattern.size() - before));
  }
  return out;
}

}  // namespace rehearse
