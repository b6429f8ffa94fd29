#pragma once
// The command that starts a job, taken apart: what starts the ranks, the program, and what the program is told.

#include <optional>
#include <string>
#include <vector>

#include "core/import/job/files/job_files.hpp"
#include "core/import/job/files/setting.hpp"
#include "core/import/job/shell/shell.hpp"

namespace rehearse::job {

struct Launch {
  std::vector<JobSetting> launcher;   ///< Options of torchrun, srun, deepspeed, accelerate; spelled with dashes.
  std::string program;                ///< "pretrain_gpt.py", "torchtitan.train"; empty: none was found.
  std::vector<JobSetting> options;    ///< "--num-layers 32"
  std::vector<JobSetting> overrides;  ///< Hydra's "model.tp=4", without its plus signs.
  std::vector<Traced> words;          ///< What is neither: files, for one.
  Place place;
};

/// Takes a command apart; nothing where it starts no program with settings (mkdir, pip).
[[nodiscard]] std::optional<Launch> read_launch(const ShellCommand& command, const JobFiles& files);

/// Reads options and what stands behind them, up to the next option. `short_options`: "-b 4" too.
void read_arguments(const std::vector<Traced>& words, const JobFiles& files, bool short_options, Launch& out);

}  // namespace rehearse::job
