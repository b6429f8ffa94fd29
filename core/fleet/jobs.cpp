#include "core/fleet/jobs.hpp"

#include <cmath>
#include <filesystem>
#include <map>
#include <random>
#include <sstream>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/registry.hpp"
#include "core/config/json_file.hpp"

namespace rehearse::fleet {

namespace {

constexpr double kMostGpus = 1e6;
constexpr std::size_t kMostTable = 512'000'000;  // Bytes of a table of jobs.

/// 0.5 is half of one GPU; above 1, whole GPUs.
void set_gpus(Request& r, double gpus, const std::string& where) {
  if (!(gpus >= 0) || gpus > kMostGpus || (gpus > 1 && gpus != std::floor(gpus)))
    refuse_at(where, fmt::format("{:.6g} GPUs", gpus), "a whole number, or a fraction of one GPU such as 0.5");
  const bool fraction = gpus > 0 && gpus < 1;
  r.gpus = fraction ? 1 : static_cast<int>(gpus);
  r.milli = fraction ? std::max(1, static_cast<int>(std::lround(gpus * kWholeGpu))) : kWholeGpu;
}

/// Cells of a line of CSV (RFC 4180), quotes taken off.
std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> out(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"')
      out.back() += line[++i];
    else if (c == '"')
      quoted = !quoted;
    else if (c == ',' && !quoted)
      out.emplace_back();
    else if (c != '\r')
      out.back() += c;
  }
  return out;
}

const std::vector<std::string>& column_keys() {
  static const std::vector<std::string> keys{"name",   "queue",  "priority", "gpus",     "gpu_share", "cpus",
                                             "memory", "models", "arrival",  "duration", "estimate",  "end"};
  return keys;
}

/// Columns of a table by what they hold.
class Columns {
 public:
  Columns(ObjectReader& mapping, const std::vector<std::string>& header) {
    for (const std::string& key : column_keys()) {
      if (!mapping.has(key)) {
        mapping.expect(key);
        continue;
      }
      const std::string name = mapping.string(key);
      const auto found = std::find(header.begin(), header.end(), name);
      if (found == header.end()) {
        Error e = unknown_name("column", name, header);
        e.where = mapping.where(key);
        throw e;
      }
      at_[key] = static_cast<std::size_t>(found - header.begin());
    }
    mapping.finish();
    for (const char* key : {"arrival", "gpus"})
      if (!at_.contains(key)) mapping.fail(key, "no column is named", "\"columns\" names the table's column");
    if (!at_.contains("duration") && !at_.contains("end"))
      mapping.fail("duration", "no column is named", "name one for \"duration\", or one for \"end\"");
  }
  [[nodiscard]] bool has(const std::string& key) const { return at_.contains(key); }
  [[nodiscard]] std::string text(const std::vector<std::string>& row, const std::string& key) const {
    const auto found = at_.find(key);
    return found == at_.end() || found->second >= row.size() ? "" : row[found->second];
  }
  [[nodiscard]] double number(const std::vector<std::string>& row, const std::string& key, double fallback,
                              const std::string& where) const {
    const std::string cell = text(row, key);
    if (cell.empty()) return fallback;
    std::size_t read = 0;
    double out = 0;
    try {
      out = std::stod(cell, &read);
    } catch (const std::logic_error&) {
      read = 0;
    }
    if (read != cell.size() || !std::isfinite(out))
      refuse_at(where, fmt::format("'{}' is no number, for '{}'", cell.substr(0, 40), key),
                "a number alone in its cell");
    return out;
  }

 private:
  std::map<std::string, std::size_t> at_;
};

Job job_of_row(const Columns& c, const std::vector<std::string>& row, double unit, std::size_t line,
               const std::string& where) {
  Job j;
  j.where = where;
  j.name = c.has("name") ? c.text(row, "name") : std::to_string(line - 1);
  j.queue = c.text(row, "queue");
  j.priority = static_cast<int>(c.number(row, "priority", 0, where));
  set_gpus(j.request, c.number(row, "gpus", 1, where), where);
  if (const double share = c.number(row, "gpu_share", kWholeGpu, where); share < kWholeGpu && j.request.gpus == 1)
    j.request.milli = std::max(1, static_cast<int>(share));
  j.request.cpu_milli = std::llround(c.number(row, "cpus", 0, where));
  j.request.memory_mib = std::llround(c.number(row, "memory", 0, where));
  std::istringstream models(c.text(row, "models"));
  for (std::string m; std::getline(models, m, '|');)
    if (!m.empty()) j.request.models.push_back(m);
  j.arrival = Seconds{unit * c.number(row, "arrival", 0, where)};
  j.duration = c.has("duration") ? Seconds{unit * c.number(row, "duration", 0, where)}
                                 : Seconds{unit * c.number(row, "end", 0, where)} - j.arrival;
  j.estimate = Seconds{unit * c.number(row, "estimate", 0, where)};
  return j;
}

}  // namespace

Request read_request(ObjectReader& r) {
  Request out;
  set_gpus(out, r.number("gpus", {0, kMostGpus}, 1), r.where("gpus"));
  out.min_gpus = static_cast<int>(r.integer("min_gpus", {0, static_cast<std::int64_t>(kMostGpus)}, 0));
  out.pod_gpus = static_cast<int>(r.integer("pod_gpus", {0, 1024}, 0));
  out.cpu_milli = std::llround(1000 * r.number("cpus", {0, 1e6}, 0));
  out.memory_mib = std::llround(r.quantity<Bytes>("memory", Bytes{0}).value() / (1 << 20));
  const auto list = [&r](const std::string& key) {
    if (!r.has(key)) return r.expect(key), std::vector<std::string>{};
    return r.strings(key);
  };
  out.models = list("models");
  out.pools = list("pools");
  return out;
}

std::optional<ScenarioWork> read_work(ObjectReader& r) {
  for (const char* key : {"scenario", "set", "steps"}) r.expect(key);
  if (!r.has("scenario")) {
    for (const char* key : {"set", "steps"})
      if (r.has(key)) r.fail(key, "stands without a scenario", "add \"scenario\": \"job.json\"");
    return std::nullopt;
  }
  ScenarioWork out;
  out.file = r.string("scenario");
  if (r.has("set")) out.set = r.strings("set");
  out.steps = r.number("steps", {1, 1e12}, 0);
  return out;
}

std::vector<Job> read_job_table(ObjectReader& table) {
  namespace fs = std::filesystem;
  const std::string file = (fs::path(table.origin()).parent_path() / table.string("file")).lexically_normal().string();
  const std::vector<std::string> units{"ms", "s", "min", "h"};
  const double unit = parse<Seconds>("1" + table.choice("unit", units, "s")).value();
  ObjectReader mapping = table.object("columns");
  table.finish();
  std::istringstream lines(read_text(file, kMostTable));
  std::string line;
  if (!std::getline(lines, line)) refuse_at(file, "is empty", "a line of names of columns, then a line for each job");
  const Columns columns(mapping, cells_of(line));
  std::vector<Job> out;
  for (std::size_t number = 2; std::getline(lines, line); ++number) {
    if (line.empty() || line == "\r") continue;
    out.push_back(job_of_row(columns, cells_of(line), unit, number, fmt::format("{}:{}", file, number)));
  }
  return out;
}

std::vector<Job> draw_jobs(ObjectReader& g) {
  const auto count = g.integer("count", {1, 10'000'000});
  const double every = g.quantity<Seconds>("every").value();
  std::mt19937_64 draw(static_cast<std::uint64_t>(g.integer("seed", {0}, 1)));
  std::vector<double> shares;
  std::vector<Job> kinds;
  std::vector<double> means;
  for (ObjectReader& k : g.objects("kinds")) {
    shares.push_back(k.number("share", {0, 1e9}, 1));
    Job j;
    j.name = k.string("name", "job");
    j.queue = k.string("queue", "");
    j.priority = static_cast<int>(k.integer("priority", {-1'000'000, 1'000'000}, 0));
    j.request = read_request(k);
    j.preemptible = k.boolean("preemptible", true);
    j.duration = k.quantity<Seconds>("duration", Seconds{0});
    means.push_back(k.quantity<Seconds>("mean", Seconds{0}).value());
    j.work = read_work(k);
    if ((means.back() > 0 ? 1 : 0) + (j.duration.value() > 0 ? 1 : 0) + (j.work ? 1 : 0) != 1)
      k.fail("mean", "a kind has a mean, a duration or a scenario", "\"mean\": \"2h\" draws exponential times");
    j.where = k.where();
    k.finish();
    kinds.push_back(j);
  }
  if (kinds.empty()) g.fail("kinds", "no kind of job", "add {\"gpus\": 8, \"mean\": \"2h\"}");
  g.finish();
  std::discrete_distribution<std::size_t> which(shares.begin(), shares.end());
  std::exponential_distribution<double> one(1);
  std::vector<Job> out;
  double now = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    now += every * one(draw);
    const std::size_t kind = which(draw);
    Job j = kinds[kind];
    j.name += fmt::format("-{}", i);
    j.arrival = Seconds{now};
    if (means[kind] > 0) j.duration = Seconds{std::max(1.0, means[kind] * one(draw))};
    out.push_back(std::move(j));
  }
  return out;
}

}  // namespace rehearse::fleet
