#include "streams.hpp"

#include <condition_variable>
#include <exception>
#include <mutex>
#include <set>
#include <vector>

namespace on_cpu {

thread_local Issued issued;

namespace {

GpuSettings now;
int generation = 0;  ///< Of settings: what threads keep from an earlier one is dropped.

/// Who waits, for all ranks.
struct Ranks {
  std::mutex mutex;
  std::condition_variable changed;
  std::uint64_t version = 0;
  int members = 0, idle = 0;
  std::string waits, hung;
};
Ranks& ranks() {
  static Ranks one;
  return one;
}

struct Gpu {
  int generation = 0;
  std::vector<std::shared_ptr<Queue>> queues;  ///< The null stream's first.
  int streams = 0;
  std::set<const void*> loaded;
  std::string failed;
  bool is_rank = false;

  static Gpu& mine() {
    thread_local Gpu one;
    if (one.generation != on_cpu::generation) {
      one = Gpu();
      one.generation = on_cpu::generation;
      one.queues.push_back(std::make_shared<Queue>());
    }
    return one;
  }

  void fail(const std::string& why) {
    failed = why;
    for (const auto& q : queues) q->clear();
  }

  /// Whether any work of any stream was done: of one made late before one made early.
  bool advance() {
    for (std::size_t i = queues.size(); i-- > 0;) {
      const auto queue = queues[i];
      if (queue->empty()) continue;
      try {
        if (!queue->front().go()) continue;
      } catch (const std::exception& e) {
        fail(e.what());
        return false;
      }
      queue->pop_front();
      return true;
    }
    return false;
  }

  [[nodiscard]] std::string heads() const {
    std::string out;
    for (const auto& q : queues)
      if (!q->empty() && !q->front().what.empty()) out += "; a stream waits for " + q->front().what;
    return out;
  }
};

/// False where all wait.
bool wait_for_change(std::uint64_t seen, const std::string& what, std::string& why) {
  Ranks& r = ranks();
  std::unique_lock lock(r.mutex);
  if (r.version != seen) return true;
  if (r.hung.empty()) {
    r.waits += "\n  the host waits for " + what;
    if (++r.idle < r.members) r.changed.wait(lock, [&] { return r.version != seen || !r.hung.empty(); });
    if (r.version != seen) return true;
    if (r.hung.empty()) {
      r.hung = "all ranks wait for each other:" + r.waits;
      r.changed.notify_all();
    }
  }
  why = r.hung;
  return false;
}

std::uint64_t version() {
  const std::lock_guard lock(ranks().mutex);
  return ranks().version;
}

}  // namespace

GpuSettings gpu_with(const std::vector<std::pair<std::string, std::string>>& variables) {
  GpuSettings out;
  for (const auto& [name, value] : variables) {
    if (name == "CUDA_DEVICE_MAX_CONNECTIONS") out.queues = std::stoi(value);
    if (name == "CUDA_MODULE_LOADING") out.loads_lazily = value != "EAGER";
  }
  return out;
}

LateStreams::LateStreams(GpuSettings settings) {
  now = settings, now.late = true;
  ++generation;
  ranks().hung.clear(), ranks().waits.clear(), ranks().idle = 0, ranks().members = 0;
}
LateStreams::~LateStreams() {
  now = {};
  ++generation;
}
const GpuSettings& settings() { return now; }

std::shared_ptr<Queue> queue_of_new_stream() {
  if (!now.late) return nullptr;
  Gpu& gpu = Gpu::mine();
  const int number = gpu.streams++ % now.queues + 1;
  if (static_cast<std::size_t>(number) == gpu.queues.size()) gpu.queues.push_back(std::make_shared<Queue>());
  return gpu.queues[static_cast<std::size_t>(number)];
}

std::shared_ptr<Queue> queue_of_null_stream() { return now.late ? Gpu::mine().queues.front() : nullptr; }

bool run_until(const std::function<bool()>& done, const std::string& what) {
  Gpu& gpu = Gpu::mine();
  for (;;) {
    const std::uint64_t seen = version();
    if (!gpu.failed.empty()) return false;
    if (done()) return true;
    if (gpu.advance() || !gpu.failed.empty()) continue;
    if (!gpu.is_rank) {
      gpu.fail("nothing will ever end " + what + gpu.heads());
    } else if (std::string why; !wait_for_change(seen, what + gpu.heads(), why)) {
      gpu.fail(why);
    }
  }
}

bool run_all(const std::string& what) {
  return run_until(
      [] {
        for (const auto& q : Gpu::mine().queues)
          if (!q->empty()) return false;
        return true;
      },
      what);
}

const std::string& why_not() { return Gpu::mine().failed; }

bool load(const void* kernel) {
  if (!now.late || !now.loads_lazily || !Gpu::mine().loaded.insert(kernel).second) return true;
  return run_all("the device, to load a kernel");
}

void join_ranks() {
  const std::lock_guard lock(ranks().mutex);
  ++ranks().members;
  Gpu::mine().is_rank = true;
}
void leave_ranks() {
  {
    const std::lock_guard lock(ranks().mutex);
    --ranks().members;
    Gpu::mine().is_rank = false;
  }
  tell_ranks();  // Others may now be all that wait.
}
void tell_ranks() {
  Ranks& r = ranks();
  const std::lock_guard lock(r.mutex);
  ++r.version;
  r.idle = 0;
  r.waits.clear();
  r.changed.notify_all();
}

}  // namespace on_cpu
