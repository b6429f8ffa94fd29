#include "core/scoreboard/scoreboard.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <mutex>
#include <set>
#include <thread>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/base/portable.hpp"
#include "core/base/stop.hpp"
#include "core/base/worker_threads.hpp"
#include "core/strategy/no_lowering.hpp"

namespace rehearse {

namespace {

void predict(ScoredRow& row, RowPredictor& predictor) {
  if (!row.row.job) return;
  try {
    row.prediction = predictor.predict(*row.row.job);
  } catch (const NoLowering& e) {
    row.row.skipped = "strategy not lowered yet";
    row.row.detail = e.what();
    return;
  } catch (const Error& e) {
    row.row.skipped = "refused";
    row.row.detail = e.what();
    return;
  }
  const Measured& m = row.row.job->measured;
  row.error = row.prediction.step_time / m.time - 1;
  if (!std::isfinite(row.error)) {
    row.row.skipped = "refused";
    row.row.detail = "the prediction is no number";
    return;
  }
  row.predicted = true;
  if (m.peak_allocated)
    row.memory_error = row.prediction.peak_allocated / *m.peak_allocated - 1;
  else if (m.peak_reserved)
    row.memory_error = row.prediction.peak_reserved / *m.peak_reserved - 1;
}

/// Rows are dealt out one by one; each worker has prices of its own.
class Workers {
 public:
  Workers(const std::vector<Measurement>& in, std::vector<ScoredRow>& out, const PredictorPaths& paths,
          const RowDefaults& defaults, const Frameworks& frameworks, const ScoreOptions& options)
      : in_(in), out_(out), paths_(paths), defaults_(defaults), frameworks_(frameworks), options_(options) {}

  void run(int workers) {
    {
      const WorkerThreads others(workers - 1, [this] { work(); });
      work();
    }
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  void work() {
    try {
      RowPredictor predictor(paths_, options_.backend, options_.without);
      for (std::size_t i = next_++; i < in_.size(); i = next_++) {
        out_[i].row = map_row(in_[i], {defaults_, frameworks_, predictor.catalogue(), predictor.known_models()});
        predict(out_[i], predictor);
        report();
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
      next_ = in_.size();
    }
  }

  void report() {
    const std::lock_guard lock(mutex_);
    ++done_;
    if (options_.progress) options_.progress(done_, static_cast<int>(in_.size()));
  }

  const std::vector<Measurement>& in_;
  std::vector<ScoredRow>& out_;
  const PredictorPaths& paths_;
  const RowDefaults& defaults_;
  const Frameworks& frameworks_;
  const ScoreOptions& options_;
  std::atomic<std::size_t> next_{0};
  std::mutex mutex_;
  int done_ = 0;
  std::exception_ptr failure_;
};

struct Errors {
  std::vector<double> time, memory;
};

/// What groups are made by.
const std::vector<std::string>& groupings() {
  static const std::vector<std::string> out{"source", "GPU", "generation", "strategy", "model", "release", "newest"};
  return out;
}

void add(Errors& to, const ScoredRow& row) {
  to.time.push_back(row.error);
  if (row.memory_error) to.memory.push_back(*row.memory_error);
}

/// "26.02.01" after "26.02": numbers between points.
std::vector<int> version(const std::string& release) {
  std::vector<int> out{0};
  for (const char c : release) {
    if (c == '.')
      out.push_back(0);
    else if (c >= '0' && c <= '9')
      out.back() = out.back() * 10 + (c - '0');
  }
  return out;
}

/// The newest release that any row of a configuration names, and the files that hold one configuration under several.
struct Releases {
  std::map<std::string, std::vector<int>> newest;
  std::set<std::string> several;
};

Releases releases_of(const Scoreboard& board) {
  Releases out;
  for (const ScoredRow& row : board.rows) {
    if (!row.counts()) continue;
    const std::vector<int> mine = version(row.row.job->release);
    const auto [at, fresh] = out.newest.try_emplace(row.row.job->configuration, mine);
    if (!fresh && at->second != mine) out.several.insert(row.row.file);
    at->second = std::max(at->second, mine);
  }
  return out;
}

/// Of the row's group by each of groupings(); empty where it has none.
std::vector<std::string> names_of(const ScoredRow& row, const Releases& releases) {
  const RowJob& job = *row.row.job;
  const bool newest =
      releases.several.contains(row.row.file) && releases.newest.at(job.configuration) == version(job.release);
  return {short_source(row.row),
          job.gpu,
          job.generation,
          job.strategy,
          job.model_kind,
          job.release,
          newest ? fmt::format("{}, {}", short_source(row.row), job.model_kind) : std::string()};
}

void summarise(Scoreboard& board) {
  const Releases releases = releases_of(board);
  Errors all;
  std::map<std::pair<int, std::string>, Errors> groups;
  for (const ScoredRow& row : board.rows) {
    if (!row.predicted)
      ++board.skipped[row.row.skipped];
    else if (!row.counts())
      ++board.listed;
    if (!row.counts()) continue;
    add(all, row);
    const std::vector<std::string> names = names_of(row, releases);
    for (std::size_t k = 0; k < names.size(); ++k)
      if (!names[k].empty()) add(groups[{static_cast<int>(k), names[k]}], row);
  }
  board.time = statistics(all.time);
  board.memory = statistics(all.memory);
  for (auto& [key, errors] : groups) {
    board.groups.push_back({nth(groupings(), key.first),
                            key.second,
                            statistics(std::move(errors.time)),
                            statistics(std::move(errors.memory)),
                            0,
                            {}});
  }
}

}  // namespace

int Scoreboard::predicted() const {
  return static_cast<int>(std::count_if(rows.begin(), rows.end(), [](const ScoredRow& r) { return r.predicted; }));
}

Scoreboard score(const std::vector<Measurement>& rows, const PredictorPaths& paths, const ScoreOptions& options) {
  const RowDefaults defaults = RowDefaults::load(paths.topologies / "row_defaults.json");
  const Frameworks frameworks = Frameworks::load(paths.topologies / "frameworks");
  Scoreboard out;
  out.rows.resize(rows.size());
  const int cores = usable_threads();
  const int wanted = options.backend != "estimate" ? 1 : options.workers > 0 ? options.workers : cores;
  Workers(rows, out.rows, paths, defaults, frameworks, options)
      .run(std::min(wanted, std::max(1, static_cast<int>(rows.size()))));
  summarise(out);
  return out;
}

void give_ranges(Scoreboard& board, const PredictionRanges& ranges) {
  const Releases releases = releases_of(board);
  std::map<std::pair<std::string, std::string>, int> inside, memory_inside, memory_ranged;
  int all = 0;
  for (ScoredRow& row : board.rows) {
    if (!row.predicted) continue;
    const RowJob& job = *row.row.job;
    row.range = ranges.range({job.model_kind, job.generation, job.framework});
    row.memory_range = ranges.memory_range({job.model_kind, job.generation, job.framework});
    if (!row.counts()) continue;
    all += row.inside() ? 1 : 0;
    const std::vector<std::string> names = names_of(row, releases);
    for (std::size_t k = 0; k < names.size(); ++k) {
      inside[{groupings()[k], names[k]}] += row.inside() ? 1 : 0;
      memory_inside[{groupings()[k], names[k]}] += row.memory_inside() ? 1 : 0;
      memory_ranged[{groupings()[k], names[k]}] += row.memory_error && row.memory_range.rows > 0 ? 1 : 0;
    }
  }
  if (board.time.rows > 0) board.inside = static_cast<double>(all) / board.time.rows;
  int sources = 0;
  double sum = 0;
  for (ScoreGroup& g : board.groups) {
    g.inside = static_cast<double>(inside[{g.by, g.name}]) / g.time.rows;
    if (const int ranged = memory_ranged[{g.by, g.name}]; ranged > 0)
      g.memory_inside = static_cast<double>(memory_inside[{g.by, g.name}]) / ranged;
    if (g.by != "source") continue;
    sum += g.inside;
    ++sources;
  }
  if (sources > 0) board.inside_of_sources = sum / sources;
}

std::string short_source(const MappedRow& row) {
  if (row.source == kCsvSource) return "single-node CSV";
  if (row.source == kCsvNodesSource) return "multi-node CSV";
  const std::string text = row.source.substr(0, row.source.find_first_of(",;("));
  return text.size() <= 48 ? text : text.substr(0, 48);
}

}  // namespace rehearse
