// What SimGrid costs in CPU time: building its platform for clusters of 1k to 100k devices, and one event of each kind.
// Usage: bench_sim_platform [devices ...]     One line per cluster; each runs in a process of its own, so that memory
// is its own.

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <vector>

#include <fmt/core.h>

#include "core/play/clocks/analytic_clock.hpp"
#include "sim/simgrid_clock.hpp"
#include "tests/support/small_cluster.hpp"

namespace {

using namespace rehearse;

/// CPU seconds of this process: a busy machine doesn't show.
double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

double resident_mb() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

/// Keeps `live` chains going until `events` events have been told.
class Chains final : public PlayClock::Handler {
 public:
  Chains(PlayClock& clock, int live, int events, std::function<void(PlayClock&, PlayClock::Token)> next)
      : clock_(clock), left_(events), next_(std::move(next)) {
    for (int i = 0; i < live; ++i) next_(clock_, static_cast<PlayClock::Token>(i));
  }
  void on_timer(PlayClock::Token token) override { on_flow(token); }
  void on_flow(PlayClock::Token token) override {
    if (--left_ > 0) next_(clock_, token);
  }

 private:
  PlayClock& clock_;
  int left_;
  std::function<void(PlayClock&, PlayClock::Token)> next_;
};

double microseconds_per_event(PlayClock& clock, int live, int events,
                              std::function<void(PlayClock&, PlayClock::Token)> next) {
  Chains chains(clock, live, events, std::move(next));
  const double start = cpu_seconds();
  clock.run(chains);
  return (cpu_seconds() - start) / events * 1e6;
}

void timer(PlayClock& clock, PlayClock::Token token) {
  clock.set_timer(clock.now() + Seconds{1e-5 * static_cast<double>(1 + token % 97) + 1e-9 * static_cast<double>(token)},
                  token);
}

/// Between neighbouring nodes on the token's own rail: flows of different chains share nothing.
void rail_flow(PlayClock& clock, PlayClock::Token token, int devices, int lanes) {
  const auto src = static_cast<DeviceId>(lanes == 8 ? token * 8 : token) % devices;
  clock.start_flow(src, (src + 8) % devices, Bytes{1e6 * static_cast<double>(1 + token % 97)}, BytesPerSecond{9e9},
                   lanes, 1, token);
}

void events(int devices) {
  const auto cluster = testing::small_cluster(devices / 8, {}, "rail_optimised");
  AnalyticClock analytic(cluster);
  fmt::print("us per event, {} devices: analytic timer {:.3f}", devices,
             microseconds_per_event(analytic, 1024, 2000000, timer));
  sim::SimGridClock clock(cluster);
  fmt::print("; SimGrid timer alone {:.3f}", microseconds_per_event(clock, 1024, 2000000, timer));
  for (PlayClock::Token t : {0, 1}) clock.start_flow(0, 8, Bytes{1e10}, BytesPerSecond{9e9}, 1, 0, (1 << 20) + t);
  fmt::print(", beside SimGrid flows {:.3f}",
             microseconds_per_event(clock, 1024, 500000, [](PlayClock& c, PlayClock::Token token) {
               if (token < 1 << 20) timer(c, token);
             }));
  fmt::print("\n");
}

/// Flows that share no link: as they are, and all handed to SimGrid.
void flows(int devices, sim::Solved solved) {
  const auto cluster = testing::small_cluster(devices / 8, {}, "rail_optimised");
  sim::SimGridClock clock(cluster, solved);
  fmt::print("us per flow, {} devices, {}:", devices, solved == sim::Solved::all ? "solved by SimGrid" : "free");
  for (int live : {64, 512, 2048})
    for (int lanes : {1, 8})
      if (live * lanes <= devices)
        fmt::print("  {} of {} lanes {:.2f}", live, lanes,
                   microseconds_per_event(clock, live, 200000,
                                          [&](PlayClock& c, PlayClock::Token t) { rail_flow(c, t, devices, lanes); }));
  fmt::print("\n");
}

void platform(int devices) {
  const auto cluster = testing::small_cluster(devices / 8, {}, "rail_optimised");
  const double before = resident_mb();
  const double start = cpu_seconds();
  auto clock = std::make_unique<sim::SimGridClock>(cluster, sim::Solved::all);
  // The platform is built for the first flow that a solver gets.
  clock->start_flow(0, 8, Bytes{1e6}, BytesPerSecond{1e9}, 1, 0, 0);
  Chains none(*clock, 0, 1, timer);
  clock->run(none);
  const double built = (cpu_seconds() - start), memory = resident_mb() - before;
  const double end = cpu_seconds();
  clock.reset();
  fmt::print("platform of {} devices, {} links: built in {:.3f} s, {:.0f} MB, dropped in {:.3f} s\n", devices,
             cluster.link_count(), built, memory, cpu_seconds() - end);
}

void in_child(const std::function<void()>& work) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    work();
    std::fflush(stdout);
    _exit(0);
  }
  waitpid(child, nullptr, 0);
}

}  // namespace

int main(int argc, char* argv[]) {
  std::vector<int> sizes{1024, 16384, 65536, 102400};
  if (argc > 1) sizes.clear();
  for (int i = 1; i < argc; ++i) sizes.push_back(std::atoi(argv[i]));
  for (int devices : sizes) in_child([devices] { platform(devices); });
  in_child([] { events(4096); });
  for (sim::Solved solved : {sim::Solved::contended, sim::Solved::all}) in_child([solved] { flows(4096, solved); });
}
