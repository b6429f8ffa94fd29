#include "core/estimate/quick/chunk_layout.hpp"

#include <algorithm>

#include "core/base/error.hpp"
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

bool runs(const Schedule& schedule, const PipelineShape& shape) {
  try {
    schedule.check(shape);
    return true;
  } catch (const Error&) {
    return false;
  }
}

bool runs_back(const Schedule& schedule, const PipelineShape& shape) {
  return shape.stages > 1 && (schedule.copies() > 1 ||
                              (shape.virtual_stages > 1 && schedule.stage_of(shape.stages, shape) == shape.stages - 1));
}

bool goes_round(const Schedule& schedule, const PipelineShape& shape) {
  for (int c = 0; c < shape.stages * shape.virtual_stages; ++c)
    if (schedule.stage_of(c, shape) != c % shape.stages) return false;
  return schedule.copies() == 1;
}

ChunkLayout::ChunkLayout(const Network& network, const StrategySettings& settings, const Schedule& schedule)
    : stages_(settings.pp),
      per_stage_(settings.virtual_stages),
      round_(goes_round(schedule, {stages_, per_stage_, 1})),
      placed_(static_cast<std::size_t>(stages_)) {
  const PipelineShape shape{stages_, per_stage_, 1};
  for (int copy = 0; copy < schedule.copies(); ++copy)
    for (int c = 0; c < stages_ * per_stage_; ++c) nth(placed_, schedule.stage_of(c, shape, copy)).push_back(c);
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
  const int places = this->places();
  before_.resize(2 * static_cast<std::size_t>(stages_ * places));
  for (int s = 0; s < stages_; ++s) {
    int forward = 0, backward = 0;
    for (int c = 0; c < places; ++c) {
      nth(before_, (s * places + c) * 2) = forward;
      forward += nth(contents_, nth(nth(placed_, s), c)).blocks();
    }
    for (int c = places - 1; c >= 0; --c) {
      nth(before_, (s * places + c) * 2 + 1) = backward;
      backward += nth(contents_, nth(nth(placed_, s), c)).blocks();
    }
  }
  for (int stage = 0; stage < stages_; ++stage) {
    auto& list = of_stage_.emplace_back();
    for (int c = 0; c < places; ++c) {
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
