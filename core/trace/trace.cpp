#include "core/trace/trace.hpp"

#include <algorithm>

#include "core/base/index.hpp"

namespace rehearse {

std::string_view name_of(TimeCategory c) {
  constexpr std::array<std::string_view, kTimeCategories> kNames{
      "matmul",           "attention",    "memory_bound", "loss",       "recompute",  "launch",
      "overlap_slowdown", "optimizer",    "exposed_tp",   "exposed_cp", "exposed_ep", "exposed_dp",
      "exposed_pp",       "exposed_tile", "exposed_copy", "input",      "bubble"};
  return nth(kNames, c);
}

Seconds Breakdown::total() const {
  Seconds sum;
  for (const Seconds s : seconds) sum += s;
  return sum;
}

Breakdown& Breakdown::operator+=(const Breakdown& other) {
  for (std::size_t i = 0; i < seconds.size(); ++i) seconds[i] += other.seconds[i];
  return *this;
}

Breakdown& Breakdown::operator*=(double k) {
  for (Seconds& s : seconds) s *= k;
  return *this;
}

bool Trace::wants(int rank) const { return std::find(ranks_.begin(), ranks_.end(), rank) != ranks_.end(); }

}  // namespace rehearse
