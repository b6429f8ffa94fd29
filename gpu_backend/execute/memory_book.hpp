#pragma once
// Device memory as a rank's step allocates and frees it, in the Program's types and in order of issue.

#include "core/base/index.hpp"
#include "core/program/liveness.hpp"
#include "core/program/tensor.hpp"

namespace rehearse {

class MemoryBook {
 public:
  /// Tensors in other memory do not count.
  void add(const Tensor& t, double bytes) {
    if (t.space != MemorySpace::device) return;
    nth(now_, t.category) += Bytes{bytes};
    total_ += bytes;
    if (total_ > peak_) {
      peak_ = total_;
      at_peak_ = now_;
    }
  }
  void remove(const Tensor& t, double bytes) {
    if (t.space != MemorySpace::device) return;
    nth(now_, t.category) += Bytes{-bytes};
    total_ -= bytes;
  }
  [[nodiscard]] const CategoryBytes& now() const { return now_; }
  [[nodiscard]] const CategoryBytes& at_peak() const { return at_peak_; }
  [[nodiscard]] Bytes peak() const { return Bytes{peak_}; }

 private:
  CategoryBytes now_{}, at_peak_{};
  double total_ = 0, peak_ = 0;
};

}  // namespace rehearse
