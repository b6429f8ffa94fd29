#pragma once
// A loop whose turns are independent, over several threads.

#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <mutex>

#include "core/base/stop.hpp"
#include "core/base/worker_threads.hpp"

namespace rehearse {

/// Calls do_turn(i) for 0 <= i < count on `jobs` threads, this one among them. After `stop()` turns true (asked before
/// each turn, may be empty) no turn begins, and a turn that ends by Stopped (core/base/stop.hpp) is as one that did not
/// begin; without `stop` every turn is done. `after_turn` is called on this thread only, after each of its turns. The
/// exception of the earliest turn that threw is thrown on when all threads are done.
inline void parallel_for(int jobs, std::size_t count, const std::function<bool()>& stop,
                         const std::function<void(std::size_t)>& do_turn,
                         const std::function<void()>& after_turn = {}) {
  std::atomic<std::size_t> next{0};
  std::atomic<bool> failed{false}, ended{false};
  std::mutex mutex;
  std::size_t failed_turn = count;
  std::exception_ptr failure;
  const StopAsked asked = stop ? stop_asked() : StopAsked{};
  const auto work = [&](bool first) {
    const StopScope scope([&asked] { return asked && asked(); });  // Takes no memory, which may be short in a thread.
    for (std::size_t i = 0; !failed && !ended && !(stop && stop()) && (i = next++) < count;) {
      try {
        do_turn(i);
      } catch (const Stopped&) {
        ended = true;
      } catch (...) {
        const std::lock_guard lock(mutex);
        failed = true;
        if (i < failed_turn) failed_turn = i, failure = std::current_exception();
      }
      if (first && after_turn) after_turn();
    }
  };
  {
    const auto most = static_cast<std::size_t>(std::max(jobs, 1));
    const WorkerThreads workers(static_cast<int>(std::min(most, count)) - 1, [&work] { work(false); });
    work(true);
  }
  if (failure) std::rethrow_exception(failure);
  if (ended && !(stop && stop())) throw Stopped();
}

}  // namespace rehearse
