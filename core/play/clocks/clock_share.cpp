#include "core/play/clocks/clock_share.hpp"

#include <algorithm>
#include <stdexcept>

namespace rehearse {

ClockShare::ClockShare(PlayClock& whole, std::uint32_t user, Seconds begin, const std::vector<DeviceId>& devices)
    : whole_(whole), user_(user), begin_(begin) {
  if (user >= 1U << 16) throw std::logic_error("more users of one clock than it can tell apart");
  for (const DeviceId d : devices) {
    const auto at = static_cast<std::size_t>(d);
    devices_.resize(std::max(devices_.size(), at + 1));
    devices_[at] = true;
  }
}

void ClockShare::run(Handler& /*handler*/) { throw std::logic_error("a share of a clock is not run by itself"); }

std::vector<double> ClockShare::link_bytes(const std::vector<bool>& from) const {
  if (from.empty()) return whole_.link_bytes(devices_);
  std::vector<bool> both = devices_;
  for (std::size_t d = 0; d < both.size(); ++d) both[d] = both[d] && d < from.size() && from[d];
  return whole_.link_bytes(both);
}

}  // namespace rehearse
