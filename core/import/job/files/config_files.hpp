#pragma once
// YAML, JSON and TOML as flat lists of settings.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/import/job/files/job_files.hpp"
#include "core/import/job/files/setting.hpp"

namespace rehearse::job {

/// The value of a variable of the environment, nothing where it is unset.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;

/// Whether a file's name says that it holds settings: .yaml, .yml, .json, .toml, or .conf and no name where the text
/// begins as one.
[[nodiscard]] bool is_config_file(const JobFiles::File& file);

/// All settings of a file under dotted names ("model.optim.lr"), items of lists as words, each with its line. What
/// "${...}" stands for is put in: other settings, arithmetic, variables. Throws Error (usage), `where` "file:line", for
/// what is no YAML, JSON or TOML.
[[nodiscard]] std::vector<JobSetting> read_config(const JobFiles& files, int file, const Environment& environment);

// One file each; read_config() chooses by name and content.
[[nodiscard]] std::vector<JobSetting> read_yaml(const JobFiles& files, int file);
[[nodiscard]] std::vector<JobSetting> read_toml(const JobFiles& files, int file);

/// Puts in what "${...}" stands for, as OmegaConf (Hydra), Primus and envsubst do. Unknown things become marks.
void interpolate(std::vector<JobSetting>& settings, const Environment& environment);

/// The place of the line'th line (from 0) of a file's text.
[[nodiscard]] Place place_of_line(const JobFiles::File& file, int index, int line);

}  // namespace rehearse::job
