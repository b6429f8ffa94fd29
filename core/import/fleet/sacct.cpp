// What Slurm's `sacct --parsable2` prints: a line of names, then a line for each job and each of its steps, with |
// between cells. Formats of times and of trackable resources (TRES) as in Slurm's manual of sacct.

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/portable.hpp"
#include "core/import/fleet/fleet_draft.hpp"

namespace rehearse::fleet_import {

namespace {

constexpr double kMostGpus = 1e9;  ///< Of a job, and nodes.

std::vector<std::string> split(std::string_view text, char by) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t next = std::min(text.find(by, at), text.size());
    out.emplace_back(text.substr(at, next - at));
    at = next + 1;
  }
  return out;
}

std::optional<double> number(std::string_view text) {
  double out = 0;
  const auto [end, failed] = number_from_chars(text.data(), text.data() + text.size(), out);
  if (failed != std::errc{} || end != text.data() + text.size() || !std::isfinite(out)) return std::nullopt;
  return out;
}

/// A whole number from `least` to `most`.
std::optional<std::int64_t> whole(std::string_view text, double least, double most) {
  const auto out = number(text);
  if (!out || *out < least || *out > most || std::floor(*out) != *out) return std::nullopt;
  return static_cast<std::int64_t>(*out);
}

/// "1-02:03:04", "02:03:04", "03:04".
std::optional<double> clock_time(std::string_view text) {
  double days = 0;
  if (const std::size_t dash = text.find('-'); dash != std::string_view::npos) {
    const auto d = number(text.substr(0, dash));
    if (!d) return std::nullopt;
    days = *d;
    text.remove_prefix(dash + 1);
  }
  double seconds = 0;
  for (const std::string& part : split(text, ':')) {
    const auto n = number(part);
    if (!n) return std::nullopt;
    seconds = 60 * seconds + *n;
  }
  return 86400 * days + seconds;
}

/// "2024-03-01T10:00:00" in seconds since 1970, no time zone applied: differences are what counts. Days by H. Hinnant,
/// "chrono-Compatible Low-Level Date Algorithms".
std::optional<double> date(std::string_view text) {
  if (text.size() < 19 || text[4] != '-' || text[7] != '-' || text[10] != 'T') return std::nullopt;
  const auto y = whole(text.substr(0, 4), 0, 9999), m = whole(text.substr(5, 2), 1, 12),
             d = whole(text.substr(8, 2), 1, 31);
  const auto t = clock_time(text.substr(11, 8));
  if (!y || !m || !d || !t) return std::nullopt;
  const std::int64_t month = *m, year = *y - (month <= 2 ? 1 : 0);
  const std::int64_t era = year / 400, of_era = year - era * 400;
  const std::int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + *d - 1;
  const std::int64_t leap_days = of_era / 4 - of_era / 100, days = era * 146097 + of_era * 365 + leap_days + of_year;
  return 86400.0 * static_cast<double>(days) + *t;
}

/// "gres/gpu=8" and "gres/gpu:a100=8" of "billing=64,cpu=64,gres/gpu:a100=8,gres/gpu=8,mem=1T,node=1".
struct Resources {
  double gpus = 0, nodes = 0;
  std::string model;
};
Resources resources(std::string_view tres) {
  Resources out;
  double typed = 0;
  for (const std::string& part : split(tres, ',')) {
    const std::size_t equals = part.find('=');
    if (equals == std::string::npos) continue;
    const double amount = number(std::string_view(part).substr(equals + 1)).value_or(0);
    const std::string key = part.substr(0, equals);
    if (key == "gres/gpu") out.gpus = amount;
    if (key == "node") out.nodes = amount;
    if (key.starts_with("gres/gpu:")) {
      typed += amount;
      out.model = key.substr(std::string("gres/gpu:").size());
    }
  }
  if (out.gpus == 0) out.gpus = typed;
  return out;
}

/// Cells of a line by the names of the columns.
class Line {
 public:
  Line(const std::map<std::string, std::size_t>& at, std::vector<std::string> cells, std::string where)
      : at_(at), cells_(std::move(cells)), where_(std::move(where)) {}
  [[nodiscard]] std::string cell(const std::string& name) const {
    const auto found = at_.find(name);
    return found == at_.end() || found->second >= cells_.size() ? "" : cells_[found->second];
  }
  [[nodiscard]] double need(const std::string& name, std::optional<double> value) const {
    if (value) return *value;
    refuse_at(where_, fmt::format("{}: '{}' is no time as sacct prints it", name, cell(name).substr(0, 40)),
              "print it with sacct --parsable2");
  }

 private:
  const std::map<std::string, std::size_t>& at_;
  std::vector<std::string> cells_;
  std::string where_;
};

double elapsed(const Line& l) {
  if (const std::string raw = l.cell("ElapsedRaw"); !raw.empty()) return l.need("ElapsedRaw", number(raw));
  return l.need("Elapsed", clock_time(l.cell("Elapsed")));
}

/// 0 where there is none ("UNLIMITED", "Partition_Limit").
double time_limit(const Line& l) {
  if (const auto minutes = number(l.cell("TimelimitRaw"))) return 60 * *minutes;
  return clock_time(l.cell("Timelimit")).value_or(0);
}

}  // namespace

bool is_sacct(std::string_view text) {
  const std::string_view first = text.substr(0, text.find('\n'));
  return first.find('|') != std::string_view::npos && first.find("JobID") != std::string_view::npos;
}

void read_sacct(const FleetFile& file, Draft& to) {
  std::istringstream lines(file.text);
  std::string line;
  std::getline(lines, line);
  std::map<std::string, std::size_t> at;
  const auto header = split(line.substr(0, line.find('\r')), '|');
  for (std::size_t i = 0; i < header.size(); ++i) at[header[i]] = i;
  const auto either = [&](const char* a, const char* b) {
    if (at.contains(a) || at.contains(b)) return;
    refuse_at(file.path + ":1", fmt::format("no column {} or {}", a, b),
              "sacct -a -X --parsable2 --format=JobID,Account,Submit,ElapsedRaw,TimelimitRaw,AllocTRES");
  };
  either("Submit", "Submit"), either("Elapsed", "ElapsedRaw"), either("AllocTRES", "ReqTRES");
  struct Found {
    double submit;
    ordered_json job;
  };
  std::vector<Found> found;
  std::set<std::string> accounts;
  std::size_t without_gpus = 0, never_ran = 0;
  for (std::size_t n = 2; std::getline(lines, line); ++n) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty()) continue;
    const Line l(at, split(line, '|'), fmt::format("{}:{}", file.path, n));
    const std::string id = l.cell("JobID");
    if (id.find('.') != std::string::npos) continue;  // A step of a job.
    const Resources r = resources(l.cell("AllocTRES").empty() ? l.cell("ReqTRES") : l.cell("AllocTRES"));
    if (!(r.gpus <= kMostGpus && r.nodes <= kMostGpus))
      refuse_at(fmt::format("{}:{}", file.path, n),
                fmt::format("{} GPUs on {} nodes are more than there are", r.gpus, r.nodes),
                "print it with sacct --parsable2");
    const double seconds = elapsed(l);
    if (r.gpus <= 0 || seconds <= 0) {
      ++(r.gpus <= 0 ? without_gpus : never_ran);
      continue;
    }
    const double submit = l.need("Submit", date(l.cell("Submit")));
    ordered_json job{{"name", id}};
    if (const std::string account = l.cell("Account"); !account.empty()) {
      job["queue"] = account;
      accounts.insert(account);
    }
    job["gpus"] = r.gpus;
    if (r.nodes > 1 && std::fmod(r.gpus, r.nodes) == 0) job["pod_gpus"] = static_cast<std::int64_t>(r.gpus / r.nodes);
    job["duration"] = fmt::format("{}s", seconds);
    if (const double limit = time_limit(l); limit > 0) job["estimate"] = fmt::format("{}s", limit);
    found.push_back({submit, std::move(job)});
  }
  double first = found.empty() ? 0 : found.front().submit;
  for (const Found& f : found) first = std::min(first, f.submit);
  const bool queued = std::all_of(found.begin(), found.end(), [](const Found& f) { return f.job.contains("queue"); });
  for (Found& f : found) {
    f.job["arrival"] = fmt::format("{}s", f.submit - first);
    if (!queued) f.job.erase("queue");
    to.jobs.push_back(std::move(f.job));
  }
  if (queued)
    for (const std::string& a : accounts) to.queues.push_back({{"name", a}});
  if (without_gpus + never_ran > 0)
    to.notes.push_back(
        fmt::format("{}: {} jobs without GPUs and {} that never ran are left out", file.path, without_gpus, never_ran));
}

}  // namespace rehearse::fleet_import
