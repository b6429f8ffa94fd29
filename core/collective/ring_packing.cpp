#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "core/collective/node_wiring.hpp"

namespace rehearse::nccl {
namespace {

using Ring = std::vector<int>;

class Packing {
 public:
  explicit Packing(const std::vector<std::vector<int>>& bricks) : left_(bricks), size_(int(bricks.size())) {
    bound_ = std::numeric_limits<int>::max();
    for (const auto& row : left_) bound_ = std::min(bound_, std::accumulate(row.begin(), row.end(), 0));
  }

  std::vector<Ring> run() {
    if (size_ >= 2 && bound_ > 0) {
      path_ = {0};
      used_.assign(std::size_t(size_), false);
      used_[0] = true;
      extend();
    }
    return best_;
  }

 private:
  [[nodiscard]] bool finished() const { return int(best_.size()) >= bound_ || steps_ > kPackingBudget; }

  /// Grows the current ring from its last GPU; a closed ring opens the next one.
  void extend() {
    if (finished()) return;
    ++steps_;
    const int last = path_.back();
    if (int(path_.size()) == size_) {
      if (left_[std::size_t(last)][0] > 0) close(last);
      return;
    }
    for (int next = 1; next < size_; ++next) {
      auto& link = left_[std::size_t(last)][std::size_t(next)];
      if (used_[std::size_t(next)] || link == 0) continue;
      --link;
      used_[std::size_t(next)] = true;
      path_.push_back(next);
      extend();
      path_.pop_back();
      used_[std::size_t(next)] = false;
      ++link;
    }
  }

  void close(int last) {
    // Rings are taken in lexical order, so that each set is met once.
    if (!taken_.empty() && path_ < taken_.back()) return;
    auto& link = left_[std::size_t(last)][0];
    --link;
    taken_.push_back(path_);
    if (taken_.size() > best_.size()) best_ = taken_;
    const Ring saved = std::exchange(path_, Ring{0});
    const auto saved_used = used_;
    std::fill(used_.begin() + 1, used_.end(), false);
    extend();
    path_ = saved;
    used_ = saved_used;
    taken_.pop_back();
    ++link;
  }

  std::vector<std::vector<int>> left_;
  int size_;
  int bound_;
  long steps_ = 0;
  Ring path_;
  std::vector<bool> used_;
  std::vector<Ring> taken_, best_;
};

}  // namespace

std::vector<std::vector<int>> pack_rings(const std::vector<std::vector<int>>& bricks) { return Packing(bricks).run(); }

}  // namespace rehearse::nccl
