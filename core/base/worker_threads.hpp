#pragma once
// Threads that share work whose turns anyone may take.

#include <new>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/stop.hpp"

namespace rehearse {

/// `work` on up to `most` threads beside the one that made them, which works, too: as many as the system gives, as
/// under a limit on processes or where a platform has none. They are joined at the end. What ends their maker's work
/// (stop.hpp) ends theirs.
class WorkerThreads {
 public:
  template <class Work>
  WorkerThreads(int most, const Work& work) {
    threads_.reserve(static_cast<std::size_t>(most > 0 ? most : 0));
    try {
      for (int i = 0; i < most; ++i)
        threads_.emplace_back([work, asked = stop_asked()]() mutable {
          const StopScope scope(std::move(asked));
          work();
        });
    } catch (const std::system_error&) {  // Those that there are do it.
    } catch (const std::bad_alloc&) {     // Likewise, where there is no memory for another.
    }
  }
  ~WorkerThreads() {
    for (std::thread& t : threads_) t.join();
  }
  WorkerThreads(const WorkerThreads&) = delete;
  WorkerThreads& operator=(const WorkerThreads&) = delete;

 private:
  std::vector<std::thread> threads_;
};

}  // namespace rehearse
