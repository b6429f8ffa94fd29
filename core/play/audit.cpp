#include "core/play/audit.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/base/index.hpp"

namespace rehearse {

namespace {

constexpr double kSlack = 1e-6;  // Rounding of simulated clocks.

}  // namespace

void Audit::flow(DeviceId src, DeviceId dst, double narrowest, double bytes, double seconds) {
  if (bytes > seconds * narrowest * (1 + kSlack) && breaches_.size() < 8)
    breaches_.push_back(
        {"wire", fmt::format("{} from device {} to {} in {}: the narrowest link carries {}", to_string(Bytes{bytes}),
                             src, dst, to_string(Seconds{seconds}), to_string(BytesPerSecond{narrowest}))});
}

void Audit::close(const std::vector<double>& link_bytes, double seconds, int steps, RunResult& result) const {
  result.breaches.insert(result.breaches.end(), breaches_.begin(), breaches_.end());
  result.link_bytes = link_bytes;
  for (double& bytes : result.link_bytes) bytes /= steps;
  result.link_time = Seconds{seconds / steps};
  std::vector<std::pair<double, LinkId>> load;
  for (std::size_t l = 0; l < link_bytes.size(); ++l) {
    if (link_bytes[l] <= 0) continue;
    const double rate = cluster_.link_rate(static_cast<LinkId>(l)).value();
    const double used = link_bytes[l] / (rate * seconds);
    if (used > 1 + kSlack)
      result.breaches.push_back(
          {"link", fmt::format("{} carried {} in {}, {:.3f} times its rate of {}",
                               cluster_.link(static_cast<LinkId>(l)).name, to_string(Bytes{link_bytes[l]}),
                               to_string(Seconds{seconds}), used, to_string(BytesPerSecond{rate}))});
    load.emplace_back(used, static_cast<LinkId>(l));
  }
  const std::size_t shown = std::min<std::size_t>(load.size(), 5);
  std::partial_sort(
      load.begin(), load.begin() + static_cast<std::ptrdiff_t>(shown), load.end(),
      [](const auto& a, const auto& b) { return a.first != b.first ? a.first > b.first : a.second < b.second; });
  for (std::size_t i = 0; i < shown; ++i)
    result.busiest_links.push_back(
        {cluster_.link(load[i].second).name, load[i].first, Bytes{nth(result.link_bytes, load[i].second)}});
}

}  // namespace rehearse
