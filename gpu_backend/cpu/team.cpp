#include "gpu_backend/cpu/team.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace rehearse {

namespace {

constexpr int kPartsAThread = 3;
constexpr int kSpins = 2000;  // Looks for work before a thread sleeps: some ten microseconds.

/// One loop. Its work is called only for parts that are taken, and whoever shares it waits for those.
struct TeamJob {
  const TeamWork* work = nullptr;
  std::int64_t n = 0, parts = 0;
  std::atomic<std::int64_t> next{0}, done{0};

  void take_parts() {
    for (std::int64_t i = next.fetch_add(1); i < parts; i = next.fetch_add(1)) {
      (*work)(n * i / parts, n * (i + 1) / parts);
      done.fetch_add(1, std::memory_order_release);
    }
  }
};

thread_local bool t_in_part = false;

class Team {
 public:
  ~Team() { resize(1); }

  void resize(int threads) {
    const std::lock_guard one(sharing_);
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
      number_.fetch_add(1);
    }
    wake_.notify_all();
    for (std::thread& t : others_) t.join();
    others_.clear();
    ends_ = false;
    job_.reset();
    for (int i = 1; i < threads; ++i) others_.emplace_back([this, seen = number_.load()] { help(seen); });
    size_ = std::max(1, threads);
  }
  [[nodiscard]] int size() const { return size_; }

  void share(std::int64_t n, std::int64_t least, const TeamWork& work) {
    const std::int64_t parts =
        std::min<std::int64_t>(n / std::max<std::int64_t>(1, least), std::int64_t{kPartsAThread} * size_);
    std::unique_lock one(sharing_, std::defer_lock);
    if (parts < 2 || size_ < 2 || t_in_part || !one.try_lock()) return work(0, n);
    const auto job = std::make_shared<TeamJob>();
    job->work = &work;
    job->n = n;
    job->parts = parts;
    {
      const std::lock_guard lock(mutex_);
      job_ = job;
      number_.fetch_add(1, std::memory_order_release);
    }
    wake_.notify_all();
    t_in_part = true;
    job->take_parts();
    t_in_part = false;
    while (job->done.load(std::memory_order_acquire) < parts) std::this_thread::yield();
  }

 private:
  void help(std::uint64_t seen) {
    t_in_part = true;
    for (;;) {
      for (int i = 0; i < kSpins && number_.load(std::memory_order_acquire) == seen; ++i) std::this_thread::yield();
      std::shared_ptr<TeamJob> job;
      {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [&] { return number_.load() != seen; });
        seen = number_.load();
        if (ends_) return;
        job = job_;
      }
      if (job) job->take_parts();
    }
  }

  std::atomic<int> size_{1};
  std::vector<std::thread> others_;
  std::mutex sharing_;  ///< One loop at a time.
  std::mutex mutex_;    ///< Of what follows.
  std::condition_variable wake_;
  std::shared_ptr<TeamJob> job_;
  std::atomic<std::uint64_t> number_{0};  ///< Counts loops, and ends.
  bool ends_ = false;
};

Team& team() {
  static Team one;
  return one;
}

}  // namespace

void set_team(int threads) { team().resize(threads); }
int team_size() { return team().size(); }
void share(std::int64_t n, std::int64_t least, const TeamWork& work) { team().share(n, least, work); }

}  // namespace rehearse
