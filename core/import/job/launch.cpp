#include "core/import/job/launch.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <set>

namespace rehearse::job {

namespace {

std::string base_name(const std::string& path) { return std::filesystem::path(path).filename().string(); }

bool option(const std::string& word) {
  return word.size() > 2 && word[0] == '-' && word[1] == '-' &&
         (std::isalpha(static_cast<unsigned char>(word[2])) != 0 || word[2] == '_');
}

bool short_option(const std::string& word) {
  return word.size() > 1 && word[0] == '-' && std::isalpha(static_cast<unsigned char>(word[1])) != 0;
}

/// "model.tp=4", "+trainer.max_time=1": a path, an equals sign, a value.
bool override_of_hydra(const std::string& word) {
  const std::size_t sign = word.find('=');
  if (sign == std::string::npos || sign == 0) return false;
  const std::size_t begin = word.find_first_not_of("+~");
  return begin < sign && std::all_of(word.begin() + static_cast<std::ptrdiff_t>(begin),
                                     word.begin() + static_cast<std::ptrdiff_t>(sign), [](unsigned char c) {
                                       return std::isalnum(c) != 0 || c == '_' || c == '.' || c == '/' || c == '@' ||
                                              c == '-';
                                     });
}

/// A program of which the rest of the words are arguments.
bool program(const std::string& word) {
  const std::string name = base_name(without_unknown(word));
  static const std::set<std::string> kPrograms{"train_gpt2cu",     "train_gpt2", "train_gpt2fp32cu",
                                               "llamafactory-cli", "axolotl",    "composer_train"};
  return name.ends_with(".py") || kPrograms.contains(name);
}

/// Modules that start others.
bool starts_others(const std::string& module) {
  return module == "torch.distributed.launch" || module == "torch.distributed.run" ||
         module == "accelerate.commands.launch" || module == "torchrun" || module == "pip" || module == "venv";
}

bool python(const std::string& word) {
  const std::string name = base_name(word);
  return name.starts_with("python") || name == "torchrun" || name == "deepspeed" || name == "composer" || name == "uv";
}

/// Position of the program among the words; the size where there is none. `module`: it is the word behind "-m".
std::size_t find_program(const std::vector<Traced>& words, bool& module) {
  bool seen = false;
  for (std::size_t k = 0; k < words.size(); ++k) {
    const std::string& w = words[k].text;
    seen = seen || python(w) || base_name(w) == "accelerate" || base_name(w) == "srun" || base_name(w) == "mpirun" ||
           k == 0;
    if (w == "-m" && k + 1 < words.size() && seen) {
      if (starts_others(words[k + 1].text)) {
        ++k;
        continue;
      }
      module = true;
      return k + 1;
    }
    if (program(w)) return k;
    // A program whose name is a variable: "accelerate launch ... $PROGRAM --model ...".
    if (k > 0 && has_unknown(w) && without_unknown(w).empty() && k + 1 < words.size() && option(words[k + 1].text) &&
        !option(words[k - 1].text) && seen && !short_option(words[k - 1].text) && words[k - 1].text != "-u")
      return k;
  }
  return words.size();
}

std::string dashed(std::string name) {
  if (name.starts_with("--")) std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

void add_option(const std::vector<Traced>& words, std::size_t& k, const JobFiles& files, bool short_options,
                std::vector<JobSetting>& out) {
  const Traced& word = words[k];
  JobSetting s{word.text, {}, files.where(word.place())};
  const std::size_t sign = word.text.find('=');
  if (sign != std::string::npos && option(word.text)) {
    s.name = word.text.substr(0, sign);
    s.values.push_back(word.text.substr(sign + 1));
  }
  while (k + 1 < words.size() && sign == std::string::npos) {
    const std::string& next = words[k + 1].text;
    if (option(next) || (short_options && short_option(next))) break;
    if (!s.values.empty() && override_of_hydra(next)) break;
    s.values.push_back(next);
    ++k;
  }
  if (s.values.empty() && words[k].text.find(' ') != std::string::npos) {
    // One quoted word with its value: "--fp8-format hybrid".
    const std::size_t blank = s.name.find(' ');
    s.values.push_back(s.name.substr(s.name.find_first_not_of(' ', blank)));
    s.name.resize(blank);
  }
  out.push_back(std::move(s));
}

}  // namespace

void read_arguments(const std::vector<Traced>& words, const JobFiles& files, bool short_options, Launch& out) {
  for (std::size_t k = 0; k < words.size(); ++k) {
    const std::string& w = words[k].text;
    if (option(w) || (short_options && short_option(w))) {
      add_option(words, k, files, short_options, out.options);
    } else if (override_of_hydra(w)) {
      const std::size_t begin = w.find_first_not_of('+'), sign = w.find('=');
      out.overrides.push_back({w.substr(begin, sign - begin), {w.substr(sign + 1)}, files.where(words[k].place())});
    } else if (!w.starts_with('~') && !without_unknown(w).empty()) {
      out.words.push_back(words[k]);
    }
  }
}

std::optional<Launch> read_launch(const ShellCommand& command, const JobFiles& files) {
  Launch out;
  out.place = command.place;
  bool module = false;
  const std::vector<Traced>& words = command.words;
  const std::size_t at = find_program(words, module);
  if (at >= words.size()) return std::nullopt;
  out.program = readable(words[at].text);
  if (!module) out.program = base_name(out.program);
  if (!words[at].place().line) out.place = command.place;
  for (std::size_t k = 0; k < at; ++k) {
    const std::string& w = words[k].text;
    if (!short_option(w) && !option(w)) continue;
    const Traced& word = words[k];
    JobSetting s{dashed(w), {}, files.where(word.place())};
    const std::size_t sign = s.name.find('=');
    if (sign != std::string::npos) {
      s.values.push_back(w.substr(sign + 1));
      s.name = dashed(w.substr(0, sign));
    } else if (k + 1 < at && !option(words[k + 1].text) && !short_option(words[k + 1].text)) {
      s.values.push_back(words[k + 1].text);
      ++k;
    }
    if (s.name != "-m" && s.name != "-u") out.launcher.push_back(std::move(s));
  }
  const bool short_options = out.program.starts_with("train_gpt2");
  std::vector<Traced> rest(words.begin() + static_cast<std::ptrdiff_t>(at) + 1, words.end());
  read_arguments(rest, files, short_options, out);
  return out;
}

}  // namespace rehearse::job
