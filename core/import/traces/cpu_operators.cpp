#include "core/import/traces/cpu_operators.hpp"

#include <algorithm>
#include <tuple>

namespace rehearse {

std::vector<DeviceEvent> CpuOperators::own_times() {
  // Those that call others stand before them.
  std::stable_sort(all_.begin(), all_.end(), [](const Operator& a, const Operator& b) {
    return std::tie(a.thread, a.begin, b.end) < std::tie(b.thread, b.begin, a.end);
  });
  std::vector<DeviceEvent> out;
  std::vector<const Operator*> open;  // Each inside the one before it.
  Seconds at{};                       // Up to where the innermost one's time is told.
  const auto told = [&](Seconds to) {
    if (to <= at) return;
    const Operator& o = *open.back();
    out.push_back({.begin = at, .duration = to - at, .name = o.name, .stream = o.thread, .cls = o.cls});
    at = to;
  };
  const auto close = [&](Seconds to) {
    for (; !open.empty() && open.back()->end <= to; open.pop_back()) told(open.back()->end);
  };
  for (Operator& o : all_) {
    if (!open.empty() && open.back()->thread != o.thread) close(Seconds{1e300});
    close(o.begin);
    if (open.empty())
      at = o.begin;
    else
      o.end = std::min(o.end, open.back()->end);  // Times are rounded.
    if (!open.empty()) told(o.begin);
    open.push_back(&o);
  }
  close(Seconds{1e300});
  return out;
}

}  // namespace rehearse
