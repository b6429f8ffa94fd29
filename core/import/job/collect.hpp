#pragma once
// Everything that the files at hand say, as settings in languages: scripts are run on paper, their launch is taken
// apart, and files of settings are read, whether the user gave them or the launch names them.

#include <map>
#include <string>
#include <vector>

#include "core/import/job/files/config_files.hpp"
#include "core/import/job/files/job_files.hpp"
#include "core/import/job/files/setting.hpp"
#include "core/import/job/launch.hpp"

namespace rehearse::job {

struct CollectOptions {
  std::vector<std::string> files;                  ///< The first is the job's; others are what it reads.
  std::string launch;                              ///< A command line that starts it; may be empty.
  std::map<std::string, std::string> environment;  ///< Variables that the user gives.
  int job = 0;                                     ///< Of several launches, which: from 1; 0 takes the first.
};

struct Collected {
  JobFiles files;
  std::vector<Section> sections;      ///< What goes first stands first.
  std::string program;                ///< That the launch starts; may be empty.
  std::vector<std::string> launches;  ///< One line for each job found.
  std::vector<std::string> notes;
  bool python_only = false;  ///< Nothing was at hand but Python.
};

/// Throws Error (usage) for files that cannot be read, or hold no settings at all.
[[nodiscard]] Collected collect(const CollectOptions& options);

/// The language that most of the names are words of, or an empty text where none knows three.
[[nodiscard]] std::string language_of(const std::vector<JobSetting>& settings);

/// A term for a setting, as some language knows it.
struct Known {
  std::string language;
  std::string name;       ///< As that language spells it.
  bool inverted = false;  ///< "bias: false" in place of "--disable-bias".
};
/// How `language`, or one that it builds on, spells a setting; an empty name where none knows it.
[[nodiscard]] Known known_as(const std::string& language, const std::string& name);

}  // namespace rehearse::job
