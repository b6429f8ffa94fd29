#include "gpu_backend/calibrate/kernel_run.hpp"

#include <algorithm>
#include <cstring>

#include <unistd.h>

namespace rehearse {

namespace {

constexpr std::size_t kSharedCaches = 128u << 20;  // More than a few processors' part of a last-level cache.
// GPUs share one cache: 50 MB on H100 (NVIDIA 2022, H100 whitepaper).
constexpr std::size_t kColdDeviceBytes = 192u << 20;
constexpr std::size_t kMostCopies = 32;
constexpr double kQueuedSeconds = 1e-3;  // So many calls in line that the host is ahead of the device.
constexpr int kMostQueued = 64;
constexpr std::size_t kPeriod = 65521;      // Values repeat after so many: no branch predictor learns them.
constexpr std::size_t kWritten = 64;        // Periods that the host writes of a buffer.
constexpr std::size_t kKernelRunLine = 64;  // Bytes of a cache line.

void touch(const std::byte* from, std::size_t bytes) {
  unsigned sum = 0;
  for (std::size_t i = 0; i < bytes; i += kKernelRunLine) sum += std::to_integer<unsigned>(from[i]);
  [[maybe_unused]] volatile unsigned read = sum;  // So that the walk is not left out.
}

/// Numbers in [0, 1), drawn once.
const std::vector<double>& drawn() {
  static const std::vector<double> numbers = [] {
    std::vector<double> out(kPeriod);
    for (std::size_t i = 0; i < kPeriod; ++i) out[i] = RandomKey(1).uniform(i);
    return out;
  }();
  return numbers;
}

template <class T, class F>
void fill(std::vector<std::byte>& bytes, F value) {
  const std::size_t n = bytes.size() / sizeof(T), first = std::min(n, kPeriod);
  std::vector<T> values(first);
  for (std::size_t i = 0; i < first; ++i) values[i] = static_cast<T>(value(drawn()[i], drawn()[kPeriod - 1 - i]));
  for (std::size_t at = 0; at < n; at += first)
    std::memcpy(bytes.data() + at * sizeof(T), values.data(), std::min(first, n - at) * sizeof(T));
}

/// Values of the first `elements` of a buffer.
std::vector<std::byte> contents(const KernelCase::Buffer& b, std::int64_t elements) {
  std::vector<std::byte> out(static_cast<std::size_t>(elements) * size_of(b.type));
  // About 1 where roots and logarithms are taken; else of either sign, as activations are.
  const auto real = [&](double u, double v) { return b.positive ? 0.75 + 0.5 * u : 1.5 * (u + v - 1); };
  switch (b.type) {
    case ElementType::real32: fill<float>(out, real); break;
    case ElementType::real64: fill<double>(out, real); break;
    case ElementType::real16:
      fill<std::uint16_t>(out, [&](double u, double v) { return to_bfloat16(static_cast<float>(real(u, v))); });
      break;
    case ElementType::int64:
      fill<std::int64_t>(out, [&](double u, double) { return u * static_cast<double>(b.ids_below); });
      break;
    // Dropout keeps most.
    case ElementType::byte: fill<std::uint8_t>(out, [](double u, double) { return u >= 0.1 ? 1 : 0; }); break;
  }
  return out;
}

/// Fills a storage with what its first `have` bytes hold.
void repeat_in(ComputeDevice& device, Storage& storage, std::size_t have, std::size_t bytes) {
  device.wait(device.submit(0, {},
                            {.run =
                                 [&, have]() mutable {
                                   for (; have < bytes; have += std::min(have, bytes - have))
                                     device.copy(storage.data() + have, storage.data(), std::min(have, bytes - have));
                                 },
                             .start = {}}));
}

bool written(KernelCase::State state) {
  return state == KernelCase::State::saved || state == KernelCase::State::scratch;
}
std::size_t bytes_of(const KernelCase::Buffer& b) {
  return std::max<std::size_t>(1, static_cast<std::size_t>(b.elements) * size_of(b.type));
}
bool alone_in_a_call(const KernelCase::Buffer& b) {
  return b.state == KernelCase::State::kept || b.state == KernelCase::State::saved;
}

}  // namespace

Bytes own_cache() {
  const long bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
  return Bytes{bytes > 0 ? static_cast<double>(bytes) : 2 * 1024.0 * 1024.0};
}

OtherMemory::OtherMemory() : bytes_(kSharedCaches) {}
void OtherMemory::walk() const { touch(bytes_.data(), bytes_.size()); }

std::size_t KernelRun::cold_bytes(const KernelCase& what) {
  std::size_t out = 0;
  for (const KernelCase::Buffer& b : what.buffers)
    if (alone_in_a_call(b)) out += bytes_of(b);
  return out;
}

KernelRun::KernelRun(ComputeDevice& device, const KernelCase& what, int cold)
    : device_(device), case_(what), cold_(cold > 0 && !device.queues()) {
  for (const KernelCase::Buffer& b : what.buffers) {
    auto& copies = memory_.emplace_back();
    auto& original = originals_.emplace_back();
    if (written(b.state) && !cold_) continue;
    // On a device with memory of its own a part is written, and copied there: the host is slow.
    std::vector<std::byte> values =
        contents(b, device.queues() ? std::min<std::int64_t>(b.elements, kPeriod * kWritten) : b.elements);
    if (values.empty()) values.resize(1);
    std::size_t wanted = 1;
    if (device.queues() && b.state == KernelCase::State::kept)
      wanted = std::clamp<std::size_t>(kColdDeviceBytes / bytes_of(b), 1, kMostCopies);
    if (cold_ && alone_in_a_call(b)) wanted = static_cast<std::size_t>(cold);
    for (std::size_t i = 0; i < wanted; ++i) {
      copies.push_back(device.allocate(bytes_of(b)));
      device.write(*copies.back(), 0, values);
      if (values.size() < bytes_of(b)) repeat_in(device, *copies.back(), values.size(), bytes_of(b));
    }
    if (b.updated && !device.queues()) original = std::move(values);
  }
  if (cold_) own_cache_.resize(2 * static_cast<std::size_t>(own_cache().value()));
}

EventPtr KernelRun::submit() {
  std::vector<std::shared_ptr<Storage>> owners;
  for (std::size_t i = 0; i < memory_.size(); ++i)
    owners.push_back(memory_[i].empty() ? device_.allocate(bytes_of(case_.buffers[i]))
                                        : memory_[i][turn_ % memory_[i].size()]);
  ++turn_;
  return device_.submit(0, {},
                        {.run =
                             [this, owners = std::move(owners)] {
                               OperatorCall call = case_.call;
                               call.observed = &observed_;
                               for (std::size_t i = 0; i < call.operands.size(); ++i)
                                 call.operands[i].data =
                                     owners[case_.places[i].buffer]->data() + case_.places[i].offset;
                               device_.execute(*case_.op, call);
                             },
                         .start = {}});
}

void KernelRun::prepare() {
  for (std::size_t i = 0; i < memory_.size(); ++i)
    if (!originals_[i].empty()) device_.write(*memory_[i][turn_ % memory_[i].size()], 0, originals_[i]);
  if (!cold_) return;
  touch(own_cache_.data(), own_cache_.size());
  for (std::size_t i = 0; i < memory_.size(); ++i)
    if (case_.buffers[i].state == KernelCase::State::passed)
      touch(memory_[i].front()->data(), bytes_of(case_.buffers[i]));
}

double KernelRun::once() {
  if (!device_.queues()) prepare();
  device_.measure(true);
  std::vector<EventPtr> line;
  for (int i = 0; i < in_line_; ++i) line.push_back(submit());
  device_.measure(false);
  device_.wait(line.back());
  const auto first = device_.times(line.front()), last = device_.times(line.back());
  const double each = first && last ? (last->end - first->begin) / in_line_ : 0;
  if (device_.queues() && each > 0)
    in_line_ = static_cast<int>(std::clamp(kQueuedSeconds / each, 2.0, static_cast<double>(kMostQueued)));
  return each;
}

}  // namespace rehearse
