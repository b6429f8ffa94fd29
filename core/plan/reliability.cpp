#include "core/plan/reliability.hpp"

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "core/base/index.hpp"
#include "core/base/normal.hpp"
#include "core/base/registry.hpp"
#include "core/config/json_file.hpp"
#include "core/config/object_reader.hpp"
#include "core/hardware/source_table.hpp"

namespace rehearse {

namespace {

constexpr double kNormalFrom = 500;  // Expected count from which Poisson is taken as normal: before e^-x underflows.

ReliabilityProfile read_profile(const std::string& file) {
  const nlohmann::json text = load_json(file);
  ObjectReader reader(text, file);
  read_header(reader, "reliability");
  SourceTable sources(reader);
  ReliabilityProfile out;
  out.name = reader.string("name");
  ObjectReader mtbf = reader.object("mtbf");
  sources.cite(mtbf);
  for (int p = 0; p < kParts; ++p) {
    if (const std::string& key = nth(part_names(), p); mtbf.has(key)) {
      const auto time = mtbf.quantity<Seconds>(key);
      if (time <= Seconds{0}) mtbf.fail(key, "a mean time between failures is longer than nothing");
      out.times[static_cast<Part>(p)] = time;
    } else {
      mtbf.expect(key);
    }
  }
  mtbf.finish();
  reader.finish();
  out.sources = sources.finish();
  return out;
}

}  // namespace

const std::array<std::string, kParts>& part_names() {
  static const std::array<std::string, kParts> names{"gpu", "nic", "link", "host", "software", "storage"};
  return names;
}

ReliabilityProfile load_reliability(const std::filesystem::path& folder, const std::string& generation) {
  const std::filesystem::path own = folder / (generation + ".json");
  return read_profile((std::filesystem::is_regular_file(own) ? own : folder / "fallback.json").string());
}

ReliabilityProfile named_reliability(const std::filesystem::path& folder, const std::string& name) {
  std::vector<std::string> names;
  for (const std::string& file : json_files_of(folder.string()))
    names.push_back(std::filesystem::path(file).stem().string());
  std::sort(names.begin(), names.end());
  if (!std::binary_search(names.begin(), names.end(), name)) throw unknown_name("reliability profile", name, names);
  return read_profile((folder / (name + ".json")).string());
}

namespace {

/// How many of a part there are: links go with NICs, software with GPUs, storage with the run.
double count_of(Part part, const PartCounts& counts) {
  switch (part) {
    case Part::gpu:
    case Part::software: return counts.gpus;
    case Part::nic:
    case Part::link: return counts.nics;
    case Part::host: return counts.hosts;
    case Part::storage: return 1;
  }
  return 0;
}

}  // namespace

ReliabilityProfile joined_reliability(const std::vector<FleetPart>& fleet) {
  ReliabilityProfile out = fleet.front().profile;
  if (fleet.size() == 1) return out;
  for (int p = 0; p < kParts; ++p) {
    const auto part = static_cast<Part>(p);
    double rate = 0, count = 0;
    for (const FleetPart& f : fleet) {
      rate += count_of(part, f.counts) / f.profile.times[part].value();
      count += count_of(part, f.counts);
    }
    out.times[part] = Seconds{count / rate};
  }
  for (std::size_t i = 1; i < fleet.size(); ++i) {
    if (const std::string& name = fleet[i].profile.name; out.name.find(name) == std::string::npos)
      out.name += "; " + name;
    out.sources.insert(out.sources.end(), fleet[i].profile.sources.begin(), fleet[i].profile.sources.end());
  }
  return out;
}

FailureTimes times_of(const ReliabilitySettings& settings, const ReliabilityProfile& profile) {
  FailureTimes out = profile.times;
  for (int p = 0; p < kParts; ++p)
    if (const auto& own = nth(settings.mtbf, p)) out[static_cast<Part>(p)] = *own;
  return out;
}

Seconds run_mtbf(const FailureTimes& times, const PartCounts& counts) {
  double rate = 0;
  for (int p = 0; p < kParts; ++p) rate += count_of(static_cast<Part>(p), counts) / nth(times.of, p).value();
  return Seconds{1 / rate};
}

Seconds checkpoint_interval(Seconds write, Seconds mtbf) {
  if (!std::isfinite(mtbf.value())) return mtbf;
  if (write >= 2 * mtbf) return mtbf;
  const double ratio = write / (2 * mtbf);
  return Seconds{std::sqrt(2 * write.value() * mtbf.value()) * (1 + std::sqrt(ratio) / 3 + ratio / 9)} - write;
}

double checkpoint_efficiency(Seconds interval, Seconds write, Seconds restart, Seconds mtbf) {
  if (!std::isfinite(interval.value())) return 1;
  if (!std::isfinite(mtbf.value())) return interval > Seconds{0} ? interval / (interval + write) : 1;
  if (interval <= Seconds{0}) return write > Seconds{0} ? 0 : std::exp(-(restart / mtbf));
  return (interval / mtbf) * std::exp(-(restart / mtbf)) / std::expm1((interval + write) / mtbf);
}

double straggler_factor(double jitter, int ranks) {
  if (ranks <= 1) return 1;
  return 1 + jitter * expected_order_statistic(1, ranks);
}

double spares_suffice(double expected, int spares) {
  if (expected > kNormalFrom) return 0.5 * std::erfc((expected - 0.5 - spares) / std::sqrt(2 * expected));
  double term = std::exp(-expected), sum = term;
  for (int k = 1; k <= spares; ++k) sum += term *= expected / k;
  return std::min(1.0, sum);
}

double share_left(double expected, double machines, int spares) {
  double lost = 0, left = 1 - spares_suffice(expected, spares);  // P(more than k are out), from k = spares on.
  for (int k = spares; k - spares < machines && left > 1e-12; ++k, left = 1 - spares_suffice(expected, k))
    lost += left / machines;
  return std::max(0.0, 1 - lost);
}

int cheapest_spares(double expected, int machines) {
  const auto cost = [&](int spares) {
    return (machines + spares) / std::max(1e-300, spares_suffice(expected, spares));
  };
  // Below the mean each spare is worth more than the one before; from there on the cost has one minimum.
  int spares = static_cast<int>(expected);
  while (spares > 0 && cost(spares - 1) <= cost(spares)) --spares;
  while (cost(spares + 1) < cost(spares)) ++spares;
  return spares;
}

double machines_in_repair(const FailureTimes& times, const PartCounts& counts, Seconds repair) {
  return counts.gpus * (repair / times[Part::gpu]) + counts.nics * (repair / times[Part::nic]) +
         counts.hosts * (repair / times[Part::host]);
}

Goodput goodput(const ReliabilitySettings& s, const GoodputRequest& r) {
  Goodput out;
  out.mtbf = run_mtbf(r.times, r.counts);
  out.interruptions_per_day = Seconds{86400} / out.mtbf;
  out.write = r.checkpoint / (s.checkpoint_bandwidth * std::max(1.0, r.counts.hosts));
  const Seconds blocking = s.checkpoint_blocking * out.write;
  out.interval = s.checkpoint_interval.value_or(checkpoint_interval(blocking, out.mtbf));
  // What is written beside training is not safe until it is there: a failure costs that time too. Reading back takes as
  // long as writing.
  out.restart = s.restart + out.write + (out.write - blocking);
  out.checkpoints = checkpoint_efficiency(out.interval, blocking, out.restart, out.mtbf);
  out.stragglers = 1 / straggler_factor(s.jitter, static_cast<int>(r.counts.gpus));
  const double expected = machines_in_repair(r.times, r.counts, s.repair);
  if (!r.replaced)
    out.spares = s.shrink ? share_left(expected, r.counts.hosts, r.spares) : spares_suffice(expected, r.spares);
  out.total = out.stragglers * out.checkpoints * out.spares;
  return out;
}

}  // namespace rehearse
