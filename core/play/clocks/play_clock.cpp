#include "core/play/clocks/play_clock.hpp"

namespace rehearse {

void PlayClock::start_flow(DeviceId src, DeviceId dst, Bytes bytes, BytesPerSecond cap, int lanes, int lane_stride,
                           Token token) {
  const auto key = std::tuple(src, dst, bytes.value(), cap.value(), lanes, lane_stride);
  auto at = single_.find(key);
  if (at == single_.end()) {
    const Flow flow{src, dst, bytes, cap};
    at = single_.emplace(key, prepare({&flow, 1}, lanes, lane_stride)).first;
  }
  start(at->second, token);
}

}  // namespace rehearse
