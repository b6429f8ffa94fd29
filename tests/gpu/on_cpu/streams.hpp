#pragma once
// Streams that run late. By default a stream of this machine does what it is given at once, which is one of the orders
// that a GPU may choose. A late stream keeps it, and runs it only while the host waits for something: no more than that
// takes, and streams made last go first, so that whatever no event orders comes in another order than it was issued in.
// Work may also have to wait for other ranks, which are threads of this process. Where all of them wait and nothing can
// move, the wait fails, and says who waits for what: a hang is an error at once, and no time-out.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace on_cpu {

/// Work of a late stream.
struct Step {
  std::function<bool()> go;  ///< False while it must wait.
  std::string what;          ///< What it waits for, for messages.
};

/// Streams that share one do what they are given in order of issue, as those that share a hardware queue.
using Queue = std::deque<Step>;

/// How the GPU of each thread behaves.
struct GpuSettings {
  bool late = false;
  int queues = 8;  ///< CUDA_DEVICE_MAX_CONNECTIONS.
  /// The first launch of a kernel waits for the whole device, unless CUDA_MODULE_LOADING is EAGER.
  bool loads_lazily = true;
  bool computes = true;  ///< Else kernels and products do nothing, where only the order of work is looked at.
  bool moves = true;     ///< Else copies and fills do nothing either, and memory is never touched.
};

/// What this thread put on streams so far.
struct Issued {
  std::int64_t kernels = 0, products = 0, copies = 0, fills = 0;
  double product_bytes = 0;  ///< That products read and write: each operand once.
};
extern thread_local Issued issued;

/// As CUDA behaves where these variables are set, and all others are not.
[[nodiscard]] GpuSettings gpu_with(const std::vector<std::pair<std::string, std::string>>& variables);

/// For all threads, while it lives: streams made meanwhile are late. Not two at once.
class LateStreams {
 public:
  explicit LateStreams(GpuSettings settings);
  ~LateStreams();
  LateStreams(const LateStreams&) = delete;
  LateStreams& operator=(const LateStreams&) = delete;
};
[[nodiscard]] const GpuSettings& settings();

/// The queue of a new stream; null where streams are not late. That of the null stream, which waits for no other.
[[nodiscard]] std::shared_ptr<Queue> queue_of_new_stream();
[[nodiscard]] std::shared_ptr<Queue> queue_of_null_stream();

/// Runs this thread's streams until `done`. False where that will never be, because all ranks wait: why_not() says
/// more.
[[nodiscard]] bool run_until(const std::function<bool()>& done, const std::string& what);
/// Until they have nothing left.
[[nodiscard]] bool run_all(const std::string& what);
[[nodiscard]] const std::string& why_not();
/// Before a launch: waits for the device where `kernel` is not loaded yet.
[[nodiscard]] bool load(const void* kernel);

/// This thread becomes, or is no longer, one of the ranks that wait for each other.
void join_ranks();
void leave_ranks();
/// Something happened that another rank may wait for.
void tell_ranks();

}  // namespace on_cpu
