#pragma once
// A job of other people's software as a scenario: launch scripts and argument lists of Megatron-LM, YAML of NeMo and
// Megatron-Bridge, TOML of torchtitan, JSON of DeepSpeed, files of Hugging Face's Trainer and accelerate, MLPerf's
// configuration scripts, llm-foundry, nanotron, GPT-NeoX and llm.c.
//
//   const ImportedJob job = import_job({.files = {"pretrain.sh"}, .cluster = "dgx_h100"}, catalogue, frameworks,
//   models); job.scenario                                   // JSON of rehearse/scenario/v1, empty where something is
//   missing for (const Outcome& o : job.draft.outcomes) ... // what became of every setting for (const Question& q :
//   job.draft.questions) ...
//
// A setting is taken (it says a key), ignored for a reason, or asked for: nothing is dropped. What a job leaves out
// takes what its framework does, by the framework's profile.

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/framework/framework.hpp"
#include "core/hardware/catalogue.hpp"
#include "core/import/job/draft.hpp"

namespace rehearse::job {

struct JobOptions {
  std::vector<std::string> files = {};                  ///< The job's first, then what it reads.
  std::string launch = {};                              ///< The command line that starts it, where no file has it.
  std::map<std::string, std::string> environment = {};  ///< Variables that it finds set.
  int job = 0;                        ///< Which, where a script starts several: from 1; 0 takes the first.
  std::string framework = {};         ///< "megatron-core@0.12"; empty: as the settings tell.
  std::string cluster = {};           ///< A machine or a cluster, by name or file; empty: as the job tells.
  std::string network = {};           ///< Between machines; empty leaves the choice open.
  std::int64_t gpus = 0;              ///< 0: as the job tells.
  std::string model = {};             ///< A registered name or a file; empty: as the job tells.
  std::int64_t vocabulary = 0;        ///< 0: as the job tells.
  std::vector<std::string> set = {};  ///< "strategy.tp=8", before anything else.
};

struct ImportedJob {
  std::string scenario;   ///< Empty where draft.questions are open.
  std::string framework;  ///< "megatron-core@0.19"
  std::string program;    ///< "pretrain_gpt.py"; may be empty.
  Draft draft;
  std::vector<std::string> launches;  ///< One line for each job found.
};

/// Throws Error (usage), `where` "file:line: setting", for what cannot be read and for sizes and degrees that
/// contradict one another. `models` is the folder of registered models.
[[nodiscard]] ImportedJob import_job(const JobOptions& options, const Catalogue& catalogue,
                                     const Frameworks& frameworks, const std::filesystem::path& models);

/// The machines that a job runs on, as a scenario has them; null with a question where nobody says. Sets job.gpus from
/// the cluster where the job leaves it open.
[[nodiscard]] Json cluster_of(Draft& draft, const JobOptions& options, const Catalogue& catalogue);

/// The scenario's text, from what the draft holds.
[[nodiscard]] std::string scenario_of(const Draft& draft, const std::string& framework, const Json& model,
                                      const Json& cluster);

}  // namespace rehearse::job
