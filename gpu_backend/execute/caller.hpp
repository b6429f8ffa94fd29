#pragma once
// A thread that makes blocking calls one after the other, so that whoever asks for them goes on.

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include "gpu_backend/execute/device.hpp"

namespace rehearse {

class Caller {
 public:
  Caller() : thread_([this] { work(); }) {}
  /// Waits for the calls that were asked for.
  ~Caller() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
      filled_.notify_one();
    }
    thread_.join();
  }
  /// `done` is called by the thread, with what `what` threw.
  void call(std::function<void()> what, Done done) {
    const std::lock_guard lock(mutex_);
    queue_.push_back({std::move(what), std::move(done)});
    filled_.notify_one();
  }

 private:
  struct Job {
    std::function<void()> what;
    Done done;
  };
  void work() {
    while (true) {
      std::unique_lock lock(mutex_);
      filled_.wait(lock, [this] { return ending_ || !queue_.empty(); });
      if (queue_.empty()) return;
      const Job job = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      std::exception_ptr failed;
      try {
        job.what();
      } catch (...) {
        failed = std::current_exception();
      }
      job.done(failed);
    }
  }

  std::mutex mutex_;
  std::condition_variable filled_;
  std::deque<Job> queue_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace rehearse
