#include "gpu_backend/calibrate/kernel_run.hpp"

#include <algorithm>
#include <cstring>

#include <unistd.h>

namespace rehearse {

namespace {

constexpr std::size_t kColdDeviceBytes = 192u << 20;  // GPUs share one cache: 50 MB on H100 (NVIDIA 2022, H100 whitepaper).
constexpr std::size_t kMostCopies = 32;
constexpr double kQueuedSeconds = 1e-3;               // So many calls in line that the host is ahead of the device.
constexpr int kMostQueued = 64;
constexpr std::size_t kPeriod = 65521;                // Values repeat after so many: no branch predictor learns them.
constexpr std::size_t kLine = 64;                     // Bytes of a cache line.

/// Twice the cache that a core has to itself.
std::size_t own_cache_twice() {
  const long bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
  return 2 * (bytes > 0 ? static_cast<std::size_t>(bytes) : std::size_t{2} << 20);
}

template <class T, class F>
void fill(std::vector<std::byte>& bytes, F value) {
  const std::size_t n = bytes.size() / sizeof(T), first = std::min(n, kPeriod);
  std::vector<T> values(first);
  for (std::size_t i = 0; i < first; ++i) values[i] = value(i);
  for (std::size_t at = 0; at < n; at += first) std::memcpy(bytes.data() + at * sizeof(T), values.data(), std::min(first, n - at) * sizeof(T));
}

std::vector<std::byte> contents(const KernelCase::Buffer& b) {
  const RandomKey key(1);
  std::vector<std::byte> out(static_cast<std::size_t>(b.elements) * size_of(b.type));
  // About 1 where roots and logarithms are taken; else of either sign, as activations are.
  const auto real = [&](std::size_t i) { return b.positive ? 0.75 + 0.5 * key.uniform(i) : 1.5 * (key.uniform(2 * i) + key.uniform(2 * i + 1) - 1); };
  switch (b.type) {
    case ElementType::real32: fill<float>(out, [&](std::size_t i) { return static_cast<float>(real(i)); }); break;
    case ElementType::real64: fill<double>(out, real); break;
    case ElementType::real16: fill<std::uint16_t>(out, [&](std::size_t i) { return to_bfloat16(static_cast<float>(real(i))); }); break;
    case ElementType::int64: fill<std::int64_t>(out, [&](std::size_t i) { return static_cast<std::int64_t>(key.bits(i) % static_cast<std::uint64_t>(b.ids_below)); }); break;
    case ElementType::byte: fill<std::uint8_t>(out, [&](std::size_t i) { return std::uint8_t{key.uniform(i) >= 0.1}; }); break;  // Dropout keeps most.
  }
  return out;
}

}  // namespace

KernelRun::KernelRun(ComputeDevice& device, const KernelCase& what, Caches caches) : device_(device), case_(what), caches_(caches) {
  for (const KernelCase::Buffer& b : what.buffers) {
    auto& copies = memory_.emplace_back();
    auto& original = originals_.emplace_back();
    if (b.state == KernelCase::State::made) continue;
    std::vector<std::byte> values = contents(b);
    values.resize(std::max<std::size_t>(1, values.size()));
    const bool rotates = device.queues() && b.state == KernelCase::State::kept;
    const std::size_t wanted = rotates ? std::clamp<std::size_t>(kColdDeviceBytes / values.size(), 1, kMostCopies) : 1;
    for (std::size_t i = 0; i < wanted; ++i) {
      copies.push_back(device.allocate(values.size()));
      device.write(*copies.back(), 0, values);
    }
    if (b.updated && !device.queues()) original = std::move(values);
  }
  if (!device.queues() && caches == Caches::as_in_a_step) other_.resize(own_cache_twice());
}

EventPtr KernelRun::submit() {
  std::vector<std::shared_ptr<Storage>> owners;
  for (std::size_t i = 0; i < memory_.size(); ++i) {
    const KernelCase::Buffer& b = case_.buffers[i];
    owners.push_back(memory_[i].empty() ? device_.allocate(std::max<std::size_t>(1, static_cast<std::size_t>(b.elements) * size_of(b.type))) : memory_[i][turn_ % memory_[i].size()]);
  }
  ++turn_;
  return device_.submit(0, {}, {.run = [this, owners = std::move(owners)] {
                                  OperatorCall call = case_.call;
                                  call.observed = &observed_;
                                  for (std::size_t i = 0; i < call.operands.size(); ++i) call.operands[i].data = owners[case_.places[i].buffer]->data() + case_.places[i].offset;
                                  device_.execute(*case_.op, call);
                                }, .start = {}});
}

void KernelRun::touch(const std::byte* from, std::size_t bytes) {
  unsigned sum = 0;
  for (std::size_t i = 0; i < bytes; i += kLine) sum += std::to_integer<unsigned>(from[i]);
  observed_.tokens += sum & 1;  // So that the walk is not left out.
}

void KernelRun::prepare() {
  for (std::size_t i = 0; i < memory_.size(); ++i)
    if (!originals_[i].empty()) device_.write(*memory_[i].front(), 0, originals_[i]);
  if (caches_ == Caches::warm) return;
  touch(other_.data(), other_.size());
  for (std::size_t i = 0; i < memory_.size(); ++i)
    if (case_.buffers[i].state == KernelCase::State::passed) touch(memory_[i].front()->data(), static_cast<std::size_t>(case_.buffers[i].elements) * size_of(case_.buffers[i].type));
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
  if (device_.queues() && each > 0) in_line_ = static_cast<int>(std::clamp(kQueuedSeconds / each, 2.0, static_cast<double>(kMostQueued)));
  return each;
}

}  // namespace rehearse
