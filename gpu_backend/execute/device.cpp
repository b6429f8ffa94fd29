#include "gpu_backend/execute/device.hpp"

#include <chrono>
#include <stdexcept>

#include "gpu_backend/communicate/transfer.hpp"

namespace rehearse {

namespace {

template <class T>
void divide_all(std::byte* data, std::int64_t n, double by) {
  auto* x = reinterpret_cast<T*>(data);
  for (std::int64_t i = 0; i < n; ++i) x[i] = static_cast<T>(x[i] / static_cast<T>(by));
}

}  // namespace

double host_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::byte* ComputeDevice::pack_blocks(const std::byte* from, const ElementRanges& blocks, ElementType type,
                                      std::byte* to) {
  return pack(from, blocks, size_of(type), to);
}

const std::byte* ComputeDevice::unpack_blocks(const std::byte* from, const ElementRanges& blocks, ElementType type,
                                              std::byte* to) {
  return unpack(from, blocks, size_of(type), to);
}

std::unique_ptr<Recording> ComputeDevice::record(const std::function<void()>&) {
  throw std::logic_error(records_nothing_because());
}
EventPtr ComputeDevice::replay(Recording&, std::int64_t) { throw std::logic_error(records_nothing_because()); }

void ComputeDevice::divide_on_host(std::byte* data, std::int64_t n, ElementType type, double by) {
  if (type == ElementType::real64)
    divide_all<double>(data, n, by);
  else if (type == ElementType::real32)
    divide_all<float>(data, n, by);
  else
    throw std::logic_error("the host divides float and double");
}

}  // namespace rehearse
