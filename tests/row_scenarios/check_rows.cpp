// check_rows [--every N] FILE...: holds scenarios that validate() writes to the scoreboard. `estimate` on each must
// give the row's step time, and `memory` its peak memory where the row has one, to the last digit.
//
// FILE: measured rows, as --measurements takes them. Every N-th predicted row is tried (all by default), and ten times
// as many of those with a measured peak, of which there are few. What differs is printed when it is found, how far it
// has come on standard error. Exit code 1 where any differs, or none was tried.

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "core/api/memory.hpp"
#include "core/api/session/session.hpp"
#include "core/api/step.hpp"
#include "core/api/validate.hpp"
#include "tests/support/folder.hpp"

namespace {

namespace fs = std::filesystem;
using namespace rehearse;

struct Given {
  std::size_t every = 1;
  std::vector<std::string> files;
};

Given read(int argc, char* argv[]) {
  Given out;
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]) == "--every" && i + 1 < argc)
      out.every = std::max(1UL, std::stoul(argv[++i]));
    else
      out.files.emplace_back(argv[i]);
  }
  return out;
}

bool has_peak(const ScoredRow& row) { return row.memory_error.has_value(); }

/// Rows that are tried, in the order of the board.
std::vector<const ScoredRow*> tried_of(const Scoreboard& board, std::size_t every) {
  std::vector<const ScoredRow*> out;
  std::size_t at = 0, peaks = 0;
  for (const ScoredRow& row : board.rows) {
    if (!row.predicted) continue;
    const bool peak = has_peak(row) && peaks++ % std::max<std::size_t>(1, every / 10) == 0;
    if (at++ % every == 0 || peak) out.push_back(&row);
  }
  return out;
}

/// What the row's scenario gives otherwise than the scoreboard has it; empty for nothing.
std::string difference(const ScoredRow& row, const fs::path& folder) {
  const Session session = open_session((folder / scenario_file(row.row)).string(), {});
  const Program program = session.lowered();
  const StepReport step = estimate(session, program, {.suggest = false, .despite_memory = true});
  std::string out;
  const auto compare = [&out](const char* what, double found, double wanted) {
    if (found != wanted) out += fmt::format("{}{} {}, scoreboard {}", out.empty() ? "" : "; ", what, found, wanted);
  };
  compare("step", step.metrics.step_time.value(), row.prediction.step_time.value());
  if (!has_peak(row)) return out;
  Bytes allocated, reserved;
  for (const StageMemory& stage : memory(session, program, false).memory.stages) {
    allocated = std::max(allocated, stage.allocated);
    reserved = std::max(reserved, stage.reserved);
  }
  compare("allocated", allocated.value(), row.prediction.peak_allocated.value());
  compare("reserved", reserved.value(), row.prediction.peak_reserved.value());
  return out;
}

/// Rows are dealt to as many threads as there are cores.
class Check {
 public:
  Check(std::vector<const ScoredRow*> rows, fs::path folder) : rows_(std::move(rows)), folder_(std::move(folder)) {}

  std::size_t differing() {
    {
      std::vector<std::jthread> threads;
      for (unsigned i = 0; i < std::max(1U, std::thread::hardware_concurrency()); ++i)
        threads.emplace_back([this] { work(); });
    }
    return differing_;
  }

 private:
  void work() {
    for (std::size_t i = next_++; i < rows_.size(); i = next_++) {
      std::string text;
      try {
        text = difference(*rows_[i], folder_);
      } catch (const std::exception& e) {
        text = e.what();
      }
      report(*rows_[i], text);
    }
  }

  void report(const ScoredRow& row, const std::string& text) {
    constexpr std::size_t kLines = 50;
    const std::lock_guard lock(mutex_);
    if (!text.empty()) {
      ++differing_;
      fmt::print("{}: {}\n", row.row.id, text);
      std::fflush(stdout);
    }
    if (++done_ % kLines == 0) fmt::print(stderr, "{} of {} tried, {} differ\n", done_, rows_.size(), differing_);
  }

  std::vector<const ScoredRow*> rows_;
  fs::path folder_;
  std::atomic<std::size_t> next_{0};
  std::mutex mutex_;
  std::size_t done_ = 0, differing_ = 0;
};

}  // namespace

int main(int argc, char* argv[]) try {
  const Given given = read(argc, argv);
  const test::Folder folder("rows");
  ValidateOptions options;
  options.write_scenarios = folder.path();
  const ValidateAnswer answer = validate(given.files, options);
  fmt::print(stderr, "{} scenarios written\n", answer.scenarios_written);
  std::size_t files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder.path())) files += entry.is_regular_file() ? 1 : 0;
  const std::vector<const ScoredRow*> rows = tried_of(answer.board, given.every);
  const auto peaks = std::count_if(rows.begin(), rows.end(), [](const ScoredRow* r) { return has_peak(*r); });
  const std::size_t differing = Check(rows, folder.path()).differing();
  fmt::print("{} rows predicted, {} files written; {} tried, {} of them with a measured peak, {} differ\n",
             answer.board.predicted(), files, rows.size(), peaks, differing);
  const bool all_written = files == static_cast<std::size_t>(answer.board.predicted());
  return rows.empty() || differing > 0 || !all_written ? 1 : 0;
} catch (const std::exception& e) {
  fmt::print(stderr, "{}\n", e.what());
  return 2;
}
