#include "gpu_backend/calibrate/calibrate.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <span>

#include <fmt/format.h>

#include "core/base/index.hpp"
#include "gpu_backend/calibrate/communication.hpp"
#include "gpu_backend/calibrate/kernel_cases.hpp"
#include "gpu_backend/calibrate/kernel_run.hpp"
#include "gpu_backend/calibrate/machine_load.hpp"
#include "gpu_backend/calibrate/probes.hpp"
#include "gpu_backend/communicate/local_world.hpp"
#include "gpu_backend/execute/executor.hpp"

namespace rehearse {

namespace {

constexpr int kCalibratePasses = 2;  // So that a moment of noise does not hold all repetitions of a case.
constexpr int kCalibrateLeast = 3, kCalibrateMost = 200;  // Repetitions in one pass.
constexpr int kMostCold = 30;                             // The same of calls that have memory of their own each.
constexpr std::size_t kTogether = 8;                      // Cases whose calls find the same caches emptied.
constexpr double kColdBytes = 128e6;                      // Of their memory.
constexpr double kCommunicationShare = 0.2, kDispatchSeconds = 0.5;

double quantile(const std::vector<double>& sorted, double share) {
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

class Calibration {
 public:
  Calibration(Transport& transport, const CalibrationRequest& request) : transport_(transport), request_(request) {}

  DeviceProfile run() {
    DeviceProfile out;
    std::vector<int> stages = calibrated_ranks(transport_.ranks());
    if (request_.apart && stages.size() > 2) stages = {stages.front(), stages.back()};
    const double stage_seconds = request_.budget_s / static_cast<double>(stages.size());
    for (std::size_t i = 0; i < stages.size(); ++i) {
      done_ = static_cast<double>(i) / static_cast<double>(stages.size());
      share_ = 1.0 / static_cast<double>(stages.size());
      const bool works = transport_.rank() < stages[i];
      const int threads = works ? request_.share_machine(stages[i]) : 1;
      const ProcessorWatch watch;
      const std::size_t before = out.settings.size();
      if (works) stage(stages[i], threads, stage_seconds, out);
      const std::optional<double> taken = watch.taken_by_others(transport_);  // Also the moment at which all are there.
      if (request_.apart) continue;
      for (std::size_t s = before; s < out.settings.size(); ++s) out.settings[s].taken_by_others = taken;
    }
    if (transport_.rank() != 0) return {};
    return out;
  }

 private:
  void stage(int ranks, int threads, double seconds, DeviceProfile& out) {
    const double kernels = (ranks > 1 ? 1 - kCommunicationShare : 1.0) * seconds;
    double taken = 0;
    if (ranks > 1) {
      const auto device = request_.make_device(request_.numerics.front());
      Team team(*device, transport_, ranks, "collectives");
      tell(0, ranks, "collectives");
      auto measured = measure_communication(team, transport_, kCommunicationShare * seconds * 0.8);
      merge(out.collectives, measured);
      taken = taken_by_communication(team, transport_, kCommunicationShare * seconds * 0.2, beside_compute(*device));
      done_ += share_ * kCommunicationShare;
    }
    const double share = share_ * kernels / seconds / static_cast<double>(request_.numerics.size());
    for (const Numerics n : request_.numerics) {
      const auto device = request_.make_device(n);
      Team team(*device, transport_, ranks, n == Numerics::fp64 ? "kernels in fp64" : "kernels");
      for (DeviceProfile::Setting& made :
           settings(team, threads, kernels / static_cast<double>(request_.numerics.size()), share)) {
        made.taken_by_communication = taken;
        out.settings.push_back(std::move(made));
      }
      done_ += share;
    }
  }

  /// A group's times are those with most ranks at work.
  static void merge(std::vector<DeviceProfile::Collective>& into, std::vector<DeviceProfile::Collective>& from) {
    for (auto& c : from) {
      std::erase_if(into, [&](const auto& old) { return old.op == c.op && old.ranks == c.ranks; });
      into.push_back(std::move(c));
    }
  }

  void tell(double part, int ranks, const std::string& what) const {
    if (request_.progress)
      request_.progress(std::min(1.0, done_ + part),
                        fmt::format("{} of {} rank{}", what, ranks, ranks == 1 ? "" : "s"));
  }

  /// One per type that operators are filed under.
  std::vector<DeviceProfile::Setting> settings(Team& team, int threads, double seconds, double share) {
    const Seconds between{dispatch(team)};
    const std::vector<KernelCase> cases = kernel_cases(team.device(), request_.grid);
    const double each = seconds / static_cast<double>(cases.size() * kCalibratePasses);
    std::vector<std::vector<double>> samples(cases.size());
    const std::size_t together = team.device().queues() ? 1 : kTogether;
    const OtherMemory other;
    const Order order = order_of(team.device().queues() ? cases : std::vector<KernelCase>{});
    const double begin = team.device().now();
    for (int pass = 0; pass < kCalibratePasses; ++pass) {
      for (std::size_t first = 0; first < cases.size(); first += together) {
        tell(share * (pass + static_cast<double>(first) / static_cast<double>(cases.size())) / kCalibratePasses,
             team.ranks(), fmt::format("{} kernels", name_of(cases[first].arithmetic)));
        if (team.device().queues()) {
          if ((pass > 0 || first >= order.copies) && time_is_over(team, begin, seconds)) break;
          repeat(team, cases[order.cases[first]], each, begin + seconds, samples[order.cases[first]]);
        } else {
          const std::span some = std::span(cases).subspan(first, std::min(together, cases.size() - first));
          repeat_cold(team, other, some, each, std::span(samples).subspan(first, some.size()));
        }
      }
    }
    std::vector<DeviceProfile::Setting> out;
    for (const KernelCase& c : cases) {
      if (std::any_of(out.begin(), out.end(), [&](const auto& s) { return s.arithmetic == c.arithmetic; })) continue;
      DeviceProfile::Setting& made = out.emplace_back();
      made.ranks = team.ranks();
      made.arithmetic = c.arithmetic;
      made.threads = threads;
      made.dispatch = between;
    }
    const MachinePace pace = measure_pace(team);
    collect(team, cases, samples, pace.slowest_to_mean, out);
    std::erase_if(out, [](const DeviceProfile::Setting& made) { return made.operators.empty(); });
    for (DeviceProfile::Setting& made : out)
      if (pace.work > Seconds{0}) made.pace = pace.work;
    return out;
  }

  /// Two read, one written, and nothing computed: memory's own pace.
  static bool is_copy(const KernelCase& c) { return c.what.name == "add"; }

  /// Each case once, those first that are measured however short the time is.
  struct Order {
    std::vector<std::size_t> cases;
    std::size_t copies = 0;
  };
  /// Of each type that copy first whose rate counts, the largest: nothing is predicted without it. Then what halves
  /// that between those before (van der Corput 1935): wherever it is cut off, all operators and sizes have had their
  /// share.
  static Order order_of(const std::vector<KernelCase>& cases) {
    std::map<DType, std::size_t> largest;
    for (std::size_t i = 0; i < cases.size(); ++i) {
      if (!is_copy(cases[i])) continue;
      const auto [at, made] = largest.try_emplace(cases[i].arithmetic, i);
      if (cases[i].what.size[0] > cases[at->second].what.size[0]) at->second = i;
    }
    Order out;
    std::vector<bool> taken(cases.size());
    const auto take = [&](std::size_t i) {
      if (i < cases.size() && !taken[i]) out.cases.push_back(i), taken[i] = true;
    };
    for (const auto& [type, i] : largest) take(i);
    out.copies = out.cases.size();
    std::size_t size = 1;
    while (size < cases.size()) size *= 2;
    for (std::size_t i = 0; i < size; ++i) {
      std::size_t turned = 0;
      for (std::size_t bit = 1, back = size / 2; bit < size; bit *= 2, back /= 2)
        if ((i & bit) != 0) turned += back;
      take(turned);
    }
    return out;
  }

  /// On any rank: all stop after the same case. What was not reached has no row.
  static bool time_is_over(Team& team, double begin, double seconds) {
    std::vector<double> late{team.device().now() - begin > seconds ? 1.0 : 0.0};
    team.sum(late);
    return late[0] > 0;
  }

  /// About `seconds`, and no more than once where the time of all cases ends (`latest`, as ComputeDevice::now()).
  static void repeat(Team& team, const KernelCase& what, double seconds, double latest, std::vector<double>& samples) {
    const double begin = team.device().now();
    KernelRun run(team.device(), what);
    (void)run.once();
    team.meet();
    for (int i = 0; i < kCalibrateMost; ++i) {
      const double now = team.device().now();
      if (i >= 1 && (now >= latest || (i >= kCalibrateLeast && now - begin >= seconds))) break;
      samples.push_back(run.once());
    }
  }

  /// Several cases at a time, so that caches are emptied once for all their calls. Those of the first pass tell how
  /// many there are time for in the next.
  static void repeat_cold(Team& team, const OtherMemory& other, std::span<const KernelCase> cases, double seconds,
                          std::span<std::vector<double>> samples) {
    std::vector<int> calls;
    std::vector<std::unique_ptr<KernelRun>> runs;
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const double time_for =
          samples[i].empty() ? kCalibrateLeast : seconds / std::max(1e-7, spread_of(samples[i]).median);
      const double room_for =
          kColdBytes / kTogether / static_cast<double>(std::max<std::size_t>(1, KernelRun::cold_bytes(cases[i])));
      calls.push_back(static_cast<int>(std::clamp(std::min(time_for, room_for), static_cast<double>(kCalibrateLeast),
                                                  static_cast<double>(kMostCold))));
      runs.push_back(std::make_unique<KernelRun>(team.device(), cases[i], calls.back() + 1));
    }
    other.walk();
    for (std::size_t i = 0; i < cases.size(); ++i) {
      team.meet();
      (void)runs[i]->once();  // Code is warm in a step.
      for (int k = 0; k < calls[i]; ++k) samples[i].push_back(runs[i]->once());
    }
  }

  static void collect(Team& team, const std::vector<KernelCase>& cases, const std::vector<std::vector<double>>& samples,
                      double slowest, std::vector<DeviceProfile::Setting>& settings) {
    std::vector<double> figures;
    for (const auto& s : samples) {
      const Spread spread = s.empty() ? Spread{} : spread_of(s);
      figures.insert(figures.end(), {spread.median / team.ranks(), spread.relative / team.ranks()});
    }
    team.sum(figures);
    std::map<DType, double> longest;
    for (std::size_t i = 0; i < cases.size(); ++i) {
      if (samples[i].empty()) continue;
      DeviceProfile::Setting& out = *std::find_if(settings.begin(), settings.end(),
                                                  [&](const auto& s) { return s.arithmetic == cases[i].arithmetic; });
      double& copied = longest[out.arithmetic];
      const SizedOperation& what = cases[i].what;
      auto& op = out.operators[what.name];
      op.axes = what.axes;
      const double time = std::max(slowest * figures[2 * i], 1e-9);
      op.rows.push_back({what.size, Seconds{time}, figures[2 * i + 1]});
      if (is_copy(cases[i]) && what.size[0] > copied) {
        copied = what.size[0];
        out.copy_rate = BytesPerSecond{copied * size_of(out.arithmetic) / time};
      }
    }
  }

  /// What a step takes beyond its kernels, per kernel: by an executor of its own on every rank. Nothing where calls
  /// wait in line: the time of one in line has what lies between them.
  double dispatch(Team& team) const {
    if (team.device().queues()) return 0;
    const Program program = dispatch_probe();
    const auto device = request_.make_device(team.device().numerics());
    LocalWorld alone(1);
    const auto transport = alone.transport(0);
    const auto data = synthetic_tokens(1, kDispatchVocabulary);
    Executor executor(program, *device, *transport, *data, {});
    team.meet();
    std::vector<double> samples;
    for (const double begin = device->now(); samples.size() < 10 || device->now() - begin < kDispatchSeconds;) {
      const double seconds = executor.step().seconds;
      double busy = 0;
      std::size_t kernels = 0;
      for (const Interval& i : executor.intervals())
        if (i.end > i.begin) busy += i.end - i.begin, ++kernels;
      if (kernels > 0) samples.push_back(std::max(0.0, seconds - busy) / static_cast<double>(kernels));
    }
    std::vector<double> mean{spread_of(samples).median};
    team.sum(mean);
    return mean[0] / team.ranks();
  }

  Transport& transport_;
  const CalibrationRequest& request_;
  double done_ = 0, share_ = 1;
};

}  // namespace

Spread spread_of(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  const double median = quantile(samples, 0.5);
  return {median, median > 0 ? (quantile(samples, 0.75) - quantile(samples, 0.25)) / 2 / median : 0};
}

std::vector<int> calibrated_ranks(int ranks) {
  std::vector<int> out;
  for (int k = 1; k < ranks; k *= 2) out.push_back(k);
  out.push_back(ranks);
  return out;
}

DeviceProfile calibrate(Transport& transport, const CalibrationRequest& request) {
  return Calibration(transport, request).run();
}

}  // namespace rehearse
