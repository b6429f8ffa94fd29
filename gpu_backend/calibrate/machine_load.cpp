#include "gpu_backend/calibrate/machine_load.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>

#include <sys/resource.h>
#include <unistd.h>

#include "gpu_backend/calibrate/calibrate.hpp"
#include "gpu_backend/calibrate/kernel_cases.hpp"
#include "gpu_backend/calibrate/kernel_run.hpp"
#include "gpu_backend/cpu/cores.hpp"

namespace rehearse {

namespace {

constexpr std::int64_t kPaceSide = 256;  // Of a product.
constexpr int kPaceProducts = 64;        // In one piece of work.
constexpr int kFewProducts = 16;
constexpr double kBetweenMeetings = 0.05;  // Seconds of computing.
constexpr int kPaceMeetings = 20;

std::vector<ProcessorTime> processor_times_now() {
  std::ifstream in("/proc/stat");
  return processor_times({std::istreambuf_iterator<char>(in), {}}, static_cast<double>(sysconf(_SC_CLK_TCK)));
}

double own_processor_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

/// Each rank's number, on all ranks of the team.
std::vector<double> of_all(Team& team, double mine) {
  std::vector<double> out(static_cast<std::size_t>(team.ranks()));
  nth(out, team.rank()) = mine;
  team.sum(out);
  return out;
}

double mean_of(const std::vector<double>& x) {
  return std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
}

}  // namespace

std::vector<ProcessorTime> processor_times(const std::string& stat, double ticks) {
  std::vector<ProcessorTime> out;
  std::istringstream lines(stat);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string word;
    words >> word;
    if (word.size() < 4 || word.compare(0, 3, "cpu") != 0 || word[3] < '0' || word[3] > '9') continue;
    const std::size_t number = std::stoul(word.substr(3));
    if (out.size() <= number) out.resize(number + 1);
    // user, nice, system, idle, iowait, irq, softirq, steal; what guests took is in user already.
    double each = 0;
    for (int i = 0; i < 8 && words >> each; ++i) {
      const bool idle = i == 3 || i == 4;
      out[number].all += each / ticks;
      if (!idle) out[number].worked += each / ticks;
    }
  }
  return out;
}

ProcessorWatch::ProcessorWatch()
    : processors_(Cores().numbers()), begun_(processor_times_now()), own_(own_processor_seconds()) {}

std::optional<double> ProcessorWatch::taken_by_others(Transport& transport) const {
  // By processor: what it worked, all its time, and how many ranks say so. Then what ranks worked.
  const auto n = static_cast<std::size_t>(std::max(1L, sysconf(_SC_NPROCESSORS_CONF)));
  std::vector<double> sums(3 * n + 1);
  const std::vector<ProcessorTime> now = processor_times_now();
  for (const int p : processors_) {
    const auto i = static_cast<std::size_t>(p);
    if (i >= std::min({n, now.size(), begun_.size()})) continue;
    sums[3 * i] = now[i].worked - begun_[i].worked;
    sums[3 * i + 1] = now[i].all - begun_[i].all;
    sums[3 * i + 2] = 1;
  }
  sums.back() = own_processor_seconds() - own_;
  transport.sum(sums);
  double worked = 0, all = 0;
  for (std::size_t i = 0; i < n; ++i)
    if (sums[3 * i + 2] > 0) worked += sums[3 * i] / sums[3 * i + 2], all += sums[3 * i + 1] / sums[3 * i + 2];
  if (all <= 0) return std::nullopt;
  return std::clamp((worked - sums.back()) / all, 0.0, 1.0);
}

MachinePace measure_pace(Team& team) {
  const KernelCase product = product_case(team.device(), "linear", kPaceSide, kPaceSide, kPaceSide);
  if (team.device().queues() || product.op == nullptr) return {};
  KernelRun kernel(team.device(), product);
  const OtherMemory other;
  struct Took {
    double products, walk;
  };
  const auto work = [&](int products) -> Took {
    team.meet();
    const double begin = team.device().now();
    for (int i = 0; i < products; ++i) (void)kernel.once();
    const double between = team.device().now();
    other.walk();
    return {between - begin, team.device().now() - between};
  };
  const Took few = work(kFewProducts);
  const double few_mean = mean_of(of_all(team, few.products + few.walk));
  const int products = std::max(kFewProducts, static_cast<int>(kFewProducts * kBetweenMeetings / few_mean));
  double slowest = 0, mean = 0;
  std::vector<double> pieces;
  for (int i = 0; i < kPaceMeetings; ++i) {
    const Took took = work(products);
    const std::vector<double> times = of_all(team, took.products + took.walk);
    slowest += *std::max_element(times.begin(), times.end());
    mean += mean_of(times);
    pieces.push_back(mean_of(of_all(team, took.products / products * kPaceProducts + took.walk)));
  }
  return {Seconds{spread_of(pieces).median}, slowest / mean};
}

}  // namespace rehearse
