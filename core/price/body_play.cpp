#include "core/price/body_play.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "core/base/index.hpp"

namespace rehearse {

namespace {

class BodyPlay {
 public:
  explicit BodyPlay(const std::vector<BodyTask>& tasks)
      : tasks_(tasks), begin_(tasks.size()), done_(tasks.size(), false) {
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      const auto stream = static_cast<std::size_t>(tasks[i].stream);
      if (queues_.size() <= stream) queues_.resize(stream + 1);
      queues_[stream].tasks.push_back(static_cast<int>(i));
    }
  }

  PricedBody run() {
    std::size_t left = tasks_.size();
    while (left > 0) {
      start_heads();
      if (running_.empty()) throw std::logic_error("a body waits for itself");
      left -= advance();
    }
    out_.duration = Seconds{now_};
    finish_sensitivities();
    return out_;
  }

 private:
  struct Queue {
    std::vector<int> tasks;
    std::size_t head = 0;
    bool busy = false;
  };
  struct Running {
    int task;
    double left;
    double rate;
  };

  void start_heads() {
    for (Queue& queue : queues_) {
      if (queue.head == queue.tasks.size() || queue.busy) continue;
      const int t = queue.tasks[queue.head];
      const auto& after = nth(tasks_, t).after;
      if (!std::all_of(after.begin(), after.end(), [&](int a) { return nth(done_, a); })) continue;
      queue.busy = true;
      nth(begin_, t) = now_;
      running_.push_back({t, nth(tasks_, t).priced.time.value(), 1.0});
    }
    Interference load;
    for (const Running& r : running_) {
      load.sm_share += nth(tasks_, r.task).load.sm_share;
      load.hbm_share += nth(tasks_, r.task).load.hbm_share;
    }
    for (Running& r : running_) {
      const BodyTask& t = nth(tasks_, r.task);
      r.rate = t.computes ? overlap_rate(t.priced.sm_sensitivity, t.priced.hbm_sensitivity, load) : 1.0;
    }
  }

  /// To the next completion; returns how many tasks completed.
  std::size_t advance() {
    double dt = std::numeric_limits<double>::infinity();
    for (const Running& r : running_) dt = std::min(dt, r.left / r.rate);
    attribute(dt);
    now_ += dt;
    std::size_t completed = 0;
    for (Running& r : running_) r.left -= dt * r.rate;
    std::erase_if(running_, [&](const Running& r) {
      const auto i = static_cast<std::size_t>(r.task);
      if (r.left > 1e-15 * std::max(1.0, now_)) return false;
      done_[i] = true;
      Queue& queue = nth(queues_, tasks_[i].stream);
      queue.busy = false;
      ++queue.head;
      out_.spans.push_back({r.task, Seconds{begin_[i]}, Seconds{now_}});
      ++completed;
      return true;
    });
    return completed;
  }

  void attribute(double dt) {
    const Running* kernel = nullptr;
    const Running* other = nullptr;
    for (const Running& r : running_) (nth(tasks_, r.task).computes ? kernel : other) = &r;
    if (kernel != nullptr) {
      const BodyTask& t = nth(tasks_, kernel->task);
      out_.breakdown[t.priced.category] += Seconds{dt * kernel->rate};
      out_.breakdown[TimeCategory::overlap_slowdown] += Seconds{dt * (1.0 - kernel->rate)};
      sm_ += dt * t.priced.sm_sensitivity;
      hbm_ += dt * t.priced.hbm_sensitivity;
    } else if (other != nullptr) {
      out_.breakdown[nth(tasks_, other->task).priced.category] += Seconds{dt};
    }
  }

  void finish_sensitivities() {
    if (now_ <= 0) return;
    out_.sm_sensitivity = sm_ / now_;
    out_.hbm_sensitivity = hbm_ / now_;
  }

  const std::vector<BodyTask>& tasks_;
  std::vector<Queue> queues_;  // By stream.
  std::vector<Running> running_;
  std::vector<double> begin_;
  std::vector<bool> done_;
  PricedBody out_;
  double now_ = 0, sm_ = 0, hbm_ = 0;
};

/// Categories of kernels: those before launch, and the optimizer's.
bool holds_kernels(TimeCategory c) { return c < TimeCategory::launch || c == TimeCategory::optimizer; }

}  // namespace

PricedBody play_body(const std::vector<BodyTask>& tasks) { return BodyPlay(tasks).run(); }

namespace {

/// The body takes `total` seconds, those beyond its own for launches.
void stretch_to(PricedBody& body, double total) {
  const double gpu = body.duration.value(), stretch = total / gpu;
  body.breakdown[TimeCategory::launch] += Seconds{total - gpu};
  body.duration = Seconds{total};
  for (PricedBody::TaskSpan& s : body.spans) {
    s.begin *= stretch;
    s.end *= stretch;
  }
}

}  // namespace

void apply_launch_floor(PricedBody& body) {
  constexpr double q = 4.5;
  const double gpu = body.duration.value(), cpu = body.host.value();
  if (gpu <= 0 || cpu <= 0) return;
  // Relative to the larger, so that no power overflows; far apart the smaller does not count.
  const double larger = std::max(gpu, cpu), smaller = std::min(gpu, cpu);
  stretch_to(body, larger * std::pow(1.0 + std::pow(smaller / larger, q), 1.0 / q));
}

void add_host_time(PricedBody& body) {
  if (body.duration > Seconds{0}) stretch_to(body, (body.duration + body.host).value());
}

double kernel_stretch(const PricedBody& body) {
  Seconds kernels;
  for (int c = 0; c < kTimeCategories; ++c)
    if (holds_kernels(static_cast<TimeCategory>(c))) kernels += body.breakdown[static_cast<TimeCategory>(c)];
  return kernels > Seconds{0} ? 1 + body.breakdown[TimeCategory::launch] / kernels : 1.0;
}

void attribute_stretch(Breakdown& breakdown, double stretch) {
  for (int c = 0; c < kTimeCategories; ++c) {
    if (!holds_kernels(static_cast<TimeCategory>(c))) continue;
    Seconds& kernels = breakdown[static_cast<TimeCategory>(c)];
    breakdown[TimeCategory::launch] += kernels * (1 - 1 / stretch);
    kernels *= 1 / stretch;
  }
}

}  // namespace rehearse
