#include "gpu_backend/cpu/cpu_device.hpp"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>

#include <vector>

#include "gpu_backend/cpu/host_memory.hpp"

namespace rehearse {

namespace {

class HostStorage final : public Storage {
 public:
  HostStorage(std::shared_ptr<HostMemory> memory, std::size_t bytes) : memory_(std::move(memory)), bytes_(bytes) {}
  ~HostStorage() override {
    if (block_ != nullptr) memory_->give_back(block_, bytes_);
  }
  std::byte* data() override {
    if (block_ == nullptr) block_ = memory_->take(bytes_);
    return block_;
  }

 private:
  std::shared_ptr<HostMemory> memory_;
  std::size_t bytes_;
  std::byte* block_ = nullptr;
};

struct Item final : Event {
  Work work;
  int pending = 0;                          ///< What it still comes after.
  std::vector<std::shared_ptr<Item>> then;  ///< What comes after it.
  bool done = false;
  Interval when;
};
using ItemPtr = std::shared_ptr<Item>;

/// Communication that has ended, told from other threads.
class Mailbox {
 public:
  void put(ItemPtr item, std::exception_ptr failed) {
    const std::lock_guard lock(mutex_);
    items_.push_back({std::move(item), std::move(failed), host_seconds()});
    filled_.notify_one();
  }
  struct Letter {
    ItemPtr item;
    std::exception_ptr failed;
    double at;
  };
  /// Those that are there.
  std::vector<Letter> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(items_, {});
  }
  /// Waits for one, awake at first.
  std::vector<Letter> wait(Seconds awake) {
    std::unique_lock lock(mutex_);
    for (const double end = host_seconds() + awake.value(); items_.empty() && host_seconds() < end;) {
      lock.unlock();
      std::this_thread::yield();
      lock.lock();
    }
    filled_.wait(lock, [this] { return !items_.empty(); });
    return std::exchange(items_, {});
  }

 private:
  std::mutex mutex_;
  std::condition_variable filled_;
  std::vector<Letter> items_;
};

class CpuDevice final : public ComputeDevice {
 public:
  CpuDevice(Numerics numerics, Seconds awake) : numerics_(numerics), awake_(awake), zero_(host_seconds()) {}

  std::string name() const override { return "cpu"; }
  Numerics numerics() const override { return numerics_; }
  std::shared_ptr<Storage> allocate(std::size_t bytes) override {
    return std::make_shared<HostStorage>(memory_, bytes);
  }
  void write(Storage& to, std::size_t offset, std::span<const std::byte> from) override {
    std::memcpy(to.data() + offset, from.data(), from.size());
  }
  void read(Storage& from, std::size_t offset, std::span<std::byte> to) override {
    std::memcpy(to.data(), from.data() + offset, to.size());
  }

  const Operator* find(std::string_view name) const override { return cpu_operators().find(name); }

  EventPtr submit(int stream, std::span<const EventPtr> after, Work work) override {
    auto item = std::make_shared<Item>();
    item->work = std::move(work);
    const auto follow = [&](Item* before) {
      if (before == nullptr || before->done) return;
      before->then.push_back(item);
      ++item->pending;
    };
    for (const EventPtr& e : after) follow(static_cast<Item*>(e.get()));
    ItemPtr& last = last_[stream];
    follow(last.get());
    last = item;
    if (item->pending == 0) make_ready(item);
    return item;
  }

  void wait(const EventPtr& event) override {
    const Item& wanted = static_cast<const Item&>(*event);
    while (!wanted.done) {
      if (failed_) std::rethrow_exception(failed_);
      for (const auto& letter : mail_->take()) finish(letter.item, letter.failed, letter.at);
      if (wanted.done) break;
      if (!communication_.empty()) {
        begin_communication(pop(communication_));
      } else if (!compute_.empty()) {
        compute(pop(compute_));
      } else {
        if (failed_) std::rethrow_exception(failed_);
        if (in_flight_ == 0) throw std::logic_error("a stream waits for work that was never submitted");
        for (const auto& letter : mail_->wait(awake_)) finish(letter.item, letter.failed, letter.at);
      }
    }
  }

  std::optional<Interval> times(const EventPtr& event) const override {
    const auto* item = static_cast<const Item*>(event.get());
    if (item == nullptr || !item->done) return std::nullopt;
    return Interval{item->when.begin - zero_, item->when.end - zero_};
  }
  double now() const override { return host_seconds() - zero_; }

 private:
  static ItemPtr pop(std::deque<ItemPtr>& queue) {
    ItemPtr item = std::move(queue.front());
    queue.pop_front();
    return item;
  }
  void make_ready(const ItemPtr& item) { (item->work.start ? communication_ : compute_).push_back(item); }

  void compute(const ItemPtr& item) {
    item->when.begin = host_seconds();
    std::exception_ptr failed;
    try {
      item->work.run();
    } catch (...) {
      failed = std::current_exception();
    }
    finish(item, failed, host_seconds());
  }

  void begin_communication(const ItemPtr& item) {
    item->when.begin = host_seconds();
    ++in_flight_;
    const std::shared_ptr<Mailbox> mail = mail_;
    try {
      item->work.start([mail, item](std::exception_ptr failed) { mail->put(item, std::move(failed)); });
    } catch (...) {
      mail->put(item, std::current_exception());
    }
  }

  void finish(const ItemPtr& item, const std::exception_ptr& failed, double at) {
    if (item->work.start) --in_flight_;
    item->work = {};
    item->when.end = at;
    if (failed) {
      if (!failed_) failed_ = failed;
      return;  // What comes after it never starts.
    }
    item->done = true;
    for (const ItemPtr& next : item->then)
      if (--next->pending == 0) make_ready(next);
    item->then.clear();
  }

  Numerics numerics_;
  Seconds awake_;
  double zero_;
  std::shared_ptr<HostMemory> memory_ = std::make_shared<HostMemory>();
  std::map<int, ItemPtr> last_;
  std::deque<ItemPtr> compute_, communication_;
  std::shared_ptr<Mailbox> mail_ = std::make_shared<Mailbox>();
  int in_flight_ = 0;
  std::exception_ptr failed_;
};

}  // namespace

Registry<Operator>& cpu_operators() {
  static Registry<Operator> registry("CPU operator");
  return registry;
}

std::unique_ptr<ComputeDevice> make_cpu_device(Numerics numerics, Seconds awake) {
  return std::make_unique<CpuDevice>(numerics, awake);
}

}  // namespace rehearse
