#pragma once
// What failures cost a run: how often something breaks, how often to write a checkpoint, and the share of the time that
// is left for training. Formulas of J. W. Young, "A first order approximation to the optimum checkpoint interval" (CACM
// 17(9), 1974) and J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps" (FGCS
// 22(3), 2006).
//
// Failures are independent and memoryless; one of any part stops the whole run, which starts again from its last
// checkpoint.

#include <array>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/index.hpp"
#include "core/base/units.hpp"
#include "core/hardware/specs.hpp"

namespace rehearse {

/// What breaks. `link` is a switch port with its cable, counted once per NIC; `software` counts once per GPU; `storage`
/// once per run.
enum class Part { gpu, nic, link, host, software, storage };
inline constexpr int kParts = 6;
/// "gpu", "nic", "link", "host", "software", "storage": the keys of the files.
[[nodiscard]] const std::array<std::string, kParts>& part_names();

/// Mean time between failures of one part of each kind; infinite where none was counted.
struct FailureTimes {
  std::array<Seconds, kParts> of;
  FailureTimes() { of.fill(Seconds{std::numeric_limits<double>::infinity()}); }
  Seconds& operator[](Part p) { return nth(of, p); }
  Seconds operator[](Part p) const { return nth(of, p); }
};

/// A file of topologies/reliability (schema rehearse/reliability/v1, described in topologies/README.md): the failures
/// of one fleet.
struct ReliabilityProfile {
  std::string name;
  FailureTimes times;
  std::vector<Source> sources;
};
/// Reads GENERATION.json of `folder`, else fallback.json. Throws Error (usage) with the file and JSON path of what is
/// wrong.
[[nodiscard]] ReliabilityProfile load_reliability(const std::filesystem::path& folder, const std::string& generation);
/// Reads NAME.json. Throws Error (usage) with the nearest name and the valid ones where there is none.
[[nodiscard]] ReliabilityProfile named_reliability(const std::filesystem::path& folder, const std::string& name);

/// How many of each part a run stands on.
struct PartCounts {
  double gpus = 0, nics = 0, hosts = 0;
};

/// Machines of one kind.
struct FleetPart {
  ReliabilityProfile profile;
  PartCounts counts;
};
/// Of all together: of each part the mean rate, by how many of it there are. One part is what it was.
[[nodiscard]] ReliabilityProfile joined_reliability(const std::vector<FleetPart>& fleet);

/// 1 / sum over parts of count / MTBF; infinite where nothing breaks.
[[nodiscard]] Seconds run_mtbf(const FailureTimes& times, const PartCounts& counts);

/// Compute time between checkpoints that loses least. With d the time of a write and M the MTBF, for d < 2 M
///   t = sqrt(2 d M) (1 + sqrt(d / 2M) / 3 + (d / 2M) / 9) - d   (Daly 2006, eq. 37; Young 1974 is its first factor),
///   else t = M.
/// 0 where writes cost nothing; infinite where nothing breaks.
[[nodiscard]] Seconds checkpoint_interval(Seconds write, Seconds mtbf);

/// Share of the time that ends up in training, 0..1:
///   t / (M e^(R/M) (e^((t+d)/M) - 1))   (Daly 2006, eq. 20, over the solve time)
/// with t = `interval` between writes of d = `write`, and R = `restart` until training goes on after a failure.
[[nodiscard]] double checkpoint_efficiency(Seconds interval, Seconds write, Seconds restart, Seconds mtbf);

/// A synchronous step waits for its slowest rank. Where steps of a rank vary by the standard deviation `jitter`
/// (relative, normal), n of them take
///   1 + jitter F^-1((n - 0.375) / (n + 0.25))   (expected maximum of n normal values; Blom 1958)
/// times the mean. 1 for one rank.
[[nodiscard]] double straggler_factor(double jitter, int ranks);

/// Probability that no more than `spares` machines are out at once, where `expected` of them are on average (Poisson).
[[nodiscard]] double spares_suffice(double expected, int spares);
/// Share of `machines` that is there, of those that train, where `expected` are out on average (Poisson) and `spares`
/// stand in for the first:
///   1 - sum over k > spares of P(k) min(1, (k - spares) / machines).
[[nodiscard]] double share_left(double expected, double machines, int spares);
/// The number of spares with which `machines` that train cost least, (machines + n) / spares_suffice(expected, n): a
/// spare beside three machines is dear, one beside a hundred is not.
[[nodiscard]] int cheapest_spares(double expected, int machines);

/// How a run deals with failures; the user's to change. What is left out comes from the profile of the GPU's
/// generation.
struct ReliabilitySettings {
  /// File name in topologies/reliability without ".json"; empty: the GPU's generation.
  std::string profile;
  std::array<std::optional<Seconds>, kParts> mtbf{};  ///< In place of the profile's.
  /// Rate at which one host writes a checkpoint, all hosts at once. Estimate: DGX SuperPOD storage of the middle class
  /// writes about 20 GB/s for 32 machines (reference architecture RA-11333-001; figure from general knowledge, not
  /// re-checked).
  BytesPerSecond checkpoint_bandwidth{0.6e9};
  /// Share of the write that training waits for; the rest happens beside it, and is lost work if the run stops
  /// meanwhile. 0..1.
  double checkpoint_blocking = 1;
  std::optional<Seconds> checkpoint_interval;  ///< Empty: checkpoint_interval().
  /// From a failure until the job computes again, besides reading the checkpoint: detection, scheduling, start, NCCL.
  /// Estimate; Llama 3's 466 interruptions in 54 days with more than 90 % effective training time leave at most 17
  /// minutes each, lost work included.
  Seconds restart{600};
  /// Until a machine that failed is back. Estimate: a day for a visit and a burn-in.
  Seconds repair{86400};
  /// Machines bought beyond those that train; empty: cheapest_spares().
  std::optional<int> spares;
  /// While machines are short, training goes on with those left; else it waits for the repair. Going on needs a
  /// strategy that divides over any number.
  bool shrink = false;
  /// Relative standard deviation of a rank's step. Estimate; MegaScale (Jiang et al. 2024) reports about 0.5 % of
  /// machines slower by 10 %, which is a standard deviation of 0.7 % where they are not taken out.
  double jitter = 0.005;
};

/// The profile's times between failures, where `settings` have none of their own.
[[nodiscard]] FailureTimes times_of(const ReliabilitySettings& settings, const ReliabilityProfile& profile);

/// Where the time goes; the product of the shares is `total`.
struct Goodput {
  double total = 1;        ///< Share of the calendar that trains at the step time of an undisturbed run.
  double stragglers = 1;   ///< 1 / straggler_factor.
  double checkpoints = 1;  ///< checkpoint_efficiency: writes, lost work, restarts.
  /// Time with enough machines; where training goes on with fewer, the share of them that is there.
  double spares = 1;
  Seconds mtbf;
  Seconds interval;
  Seconds write;    ///< Of one checkpoint, blocking or not.
  Seconds restart;  ///< From a failure until training goes on, reading the checkpoint included.
  double interruptions_per_day = 0;
};

struct GoodputRequest {
  FailureTimes times;
  PartCounts counts;
  int spares = 0;
  bool replaced = false;  ///< A provider replaces what fails: no spares are needed.
  Bytes checkpoint;
};
[[nodiscard]] Goodput goodput(const ReliabilitySettings& settings, const GoodputRequest& request);

/// Machines out of service on average, or hosts where a machine has several: those with a broken GPU, NIC or host, for
/// the time of a repair.
[[nodiscard]] double machines_in_repair(const FailureTimes& times, const PartCounts& counts, Seconds repair);

}  // namespace rehearse
