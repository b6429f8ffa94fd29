#include "core/schedule/interleaving.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace rehearse {

namespace {

int passes_of(const PipelineShape& shape) { return shape.microbatches * shape.virtual_stages; }

/// The i-th pass of its kind on any rank.
Slot slot(Pass pass, int i, int stage, const PipelineShape& shape) {
  const int p = shape.stages, v = shape.virtual_stages;
  const int group = i / (p * v);
  const int local_chunk = (i % (p * v)) / p;
  const int chunk = pass == Pass::forward ? local_chunk : v - 1 - local_chunk;
  return {pass, chunk * p + stage, group * p + i % p};
}

}  // namespace

void Interleaving::check_groups(std::string_view name, const PipelineShape& shape) {
  if (shape.microbatches % shape.stages != 0)
    throw Error(ErrorKind::usage,
                fmt::format("schedule {} sends microbatches in groups of pp: microbatches({}) % pp({}) = {} != 0", name,
                            shape.microbatches, shape.stages, shape.microbatches % shape.stages),
                "strategy.schedule",
                "change training.global_batch, strategy.microbatch or strategy.dp so that pp divides the microbatches");
}

int Interleaving::warmup(int stage, const PipelineShape& shape) const {
  return std::min(passes_of(shape),
                  2 * (shape.stages - 1 - stage) + (shape.virtual_stages - 1) * shape.stages + more_ahead_);
}

std::vector<Slot> Interleaving::order(int stage, const PipelineShape& shape) const {
  const int total = passes_of(shape), ahead = warmup(stage, shape);
  std::vector<Slot> out;
  out.reserve(2 * static_cast<std::size_t>(total));
  for (int i = 0; i < ahead; ++i) out.push_back(slot(Pass::forward, i, stage, shape));
  for (int i = 0; i < total; ++i) {
    const bool both = ahead + i < total;
    if (both) out.push_back(slot(Pass::forward, ahead + i, stage, shape));
    out.push_back(slot(Pass::backward, i, stage, shape));
    out.back().paired = both && pairs();
  }
  return out;
}

double Interleaving::bubble_ratio(const PipelineShape& shape, const PassTimes&) const {
  return static_cast<double>(shape.stages - 1) / passes_of(shape);
}

int Interleaving::chunks_in_flight(int stage, const PipelineShape& shape) const {
  return std::min(passes_of(shape), warmup(stage, shape) + 1);
}

}  // namespace rehearse
