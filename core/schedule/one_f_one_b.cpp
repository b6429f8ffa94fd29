// 1F1B (PipeDream-Flush, Narayanan et al. 2021, sec. 2.2.1): stage i runs p-1-i forwards ahead, then alternates one
// forward and one backward. Bubble (p-1)/m as GPipe, but at most p-i microbatches are alive.

#include <algorithm>

#include "core/schedule/one_chunk.hpp"

namespace rehearse {

namespace {

class OneFOneB final : public Schedule {
 public:
  void check(const PipelineShape& shape) const override { check_one_chunk("1f1b", shape); }
  std::vector<Slot> order(int stage, const PipelineShape& shape) const override {
    const int m = shape.microbatches;
    const int ahead = std::min(m, shape.stages - 1 - stage);
    std::vector<Slot> out;
    for (int i = 0; i < ahead; ++i) out.push_back({Pass::forward, stage, i});
    for (int i = 0; i < m; ++i) {
      if (ahead + i < m) out.push_back({Pass::forward, stage, ahead + i});
      out.push_back({Pass::backward, stage, i});
    }
    return out;
  }
  double bubble_ratio(const PipelineShape& shape, const PassTimes&) const override {
    return static_cast<double>(shape.stages - 1) / shape.microbatches;
  }
  int chunks_in_flight(int stage, const PipelineShape& shape) const override {
    return std::min(shape.microbatches, shape.stages - stage);
  }
};

const bool registered_one_f_one_b =
    schedules().add({"1f1b",
                     "one forward, one backward; bubble (p-1)/m, keeps at most p-i microbatches on stage i",
                     {},
                     std::make_shared<OneFOneB>()});

}  // namespace

}  // namespace rehearse
