#include "core/import/job/collect.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.hpp"
#include "core/config/scenario.hpp"
#include "core/translate/language.hpp"

namespace rehearse::job {

namespace {

namespace fs = std::filesystem;

bool python_file(const std::string& path) { return fs::path(path).extension() == ".py"; }
bool prose(const std::string& path) {
  return fs::path(path).extension() == ".md" || fs::path(path).extension() == ".csv" ||
         fs::path(path).extension() == ".txt";
}

/// What an option that names a file of settings is called, and the language of that file; empty: to be found out.
std::string language_of_file(const std::string& option) {
  if (option.find("deepspeed") != std::string::npos) return "deepspeed";
  if (option == "--config-file" || option == "--config_file") return "huggingface";
  return {};
}

/// The language in which a program takes its options.
std::string language_of_program(const std::string& program, const std::vector<JobSetting>& options) {
  if (program.starts_with("train_gpt2")) return "llm_c";
  if (program.find("torchtitan") != std::string::npos) return "torchtitan";
  if (program == "run_recipe.py") return "megatron_bridge";
  const std::string found = language_of(options);
  if (!found.empty()) return found;
  // Hugging Face's options have underscores, Megatron's dashes.
  std::size_t dashes = 0, underscores = 0;
  for (const JobSetting& o : options) {
    dashes += o.name.find('-', 2) != std::string::npos ? 1 : 0;
    underscores += o.name.find('_') != std::string::npos ? 1 : 0;
  }
  return dashes > underscores ? "megatron" : "huggingface";
}

/// Collects from what a launch says.
class Collector {
 public:
  explicit Collector(const CollectOptions& options) : options_(options), shell_(out_.files, options.environment) {}

  Collected all() {
    for (const std::string& path : options_.files) given_.push_back(out_.files.give(path));
    run_scripts();
    choose_launch();
    if (launch_) add_launch();
    add_files();
    if (!launch_) add_loose_options();
    add_environment();
    share_language();
    out_.notes.insert(out_.notes.end(), shell_.notes().begin(), shell_.notes().end());
    refuse_nothing();
    return std::move(out_);
  }

 private:
  [[nodiscard]] bool script(int file) const {
    const JobFiles::File& f = out_.files.at(file);
    const std::string ending = fs::path(f.path).extension().string();
    if (ending == ".sh" || ending == ".slurm" || ending == ".sbatch" || ending == ".sub" || ending == ".bash" ||
        f.text.text.starts_with("#!"))
      return !python_file(f.path);
    return !is_config_file(f) && !python_file(f.path) && !prose(f.path);
  }

  void run_scripts() {
    if (!options_.launch.empty()) {
      const int line = out_.files.add("--launch", options_.launch + "\n");
      used_.insert(line);
      shell_.run(line, {});
      if (!shell_.commands().empty() && used_scripts()) return;
    }
    std::vector<int> scripts;
    for (const int file : given_)
      if (script(file)) scripts.push_back(file);
    // The first is the job; it may run the others. Those that it does not run are run after it, as people source a
    // configuration and then start the script that reads it.
    for (const int file : scripts) {
      if (ran(file)) continue;
      const std::size_t before = shell_.commands().size();
      shell_.run(file, {});
      used_.insert(file);
      if (file == scripts.front() && shell_.commands().size() > before && launches_since(before)) break;
    }
  }

  /// Whether the launch line itself ran a script that was given.
  [[nodiscard]] bool used_scripts() const {
    return std::any_of(shell_.commands().begin(), shell_.commands().end(),
                       [&](const ShellCommand& c) { return read_launch(c, out_.files).has_value(); });
  }

  [[nodiscard]] bool launches_since(std::size_t first) const {
    for (std::size_t k = first; k < shell_.commands().size(); ++k) {
      const auto launch = read_launch(shell_.commands()[k], out_.files);
      if (launch && launch->options.size() + launch->overrides.size() >= 4) return true;
    }
    return false;
  }

  /// A file whose lines stand in what was run already.
  [[nodiscard]] bool ran(int file) const {
    if (used_.contains(file)) return true;
    for (const auto& [name, v] : shell_.variables()) {
      if (v.value.place().file == file) return true;
      for (const auto& [key, item] : v.items)
        if (item.place().file == file) return true;
    }
    return std::any_of(shell_.commands().begin(), shell_.commands().end(),
                       [&](const ShellCommand& c) { return c.place.file == file; });
  }

  void choose_launch() {
    std::vector<Launch> all;
    std::vector<const ShellCommand*> commands;
    for (const ShellCommand& c : shell_.commands()) {
      auto launch = read_launch(c, out_.files);
      if (!launch) continue;
      all.push_back(std::move(*launch));
      commands.push_back(&c);
    }
    if (all.empty()) return;
    const auto weight = [](const Launch& l) {
      return l.options.size() + l.overrides.size() + l.words.size() + 2 * l.launcher.size();
    };
    const Launch& heaviest = *std::max_element(all.begin(), all.end(),
                                               [&](const Launch& a, const Launch& b) { return weight(a) < weight(b); });
    const std::string program = heaviest.program;
    std::vector<std::size_t> jobs;
    for (std::size_t k = 0; k < all.size(); ++k)
      if (all[k].program == program && 2 * weight(all[k]) >= weight(heaviest)) jobs.push_back(k);
    for (const std::size_t k : jobs)
      out_.launches.push_back(fmt::format("{}: {}", out_.files.where(all[k].place), all[k].program));
    const auto wanted = static_cast<std::size_t>(std::max(1, options_.job));
    if (wanted > jobs.size())
      throw Error(ErrorKind::usage, fmt::format("there is no job {}: {} found", wanted, jobs.size()), "--job",
                  fmt::format("--job 1 to --job {}", jobs.size()));
    launch_ = std::move(all[jobs[wanted - 1]]);
    environment_ = commands[jobs[wanted - 1]]->environment;
    out_.program = launch_->program;
    if (jobs.size() > 1 && options_.job == 0)
      out_.notes.push_back(
          fmt::format("{} jobs are started here, and the first is translated: --job 2 takes the next", jobs.size()));
  }

  [[nodiscard]] Environment environment() const {
    return [this](const std::string& name) -> std::optional<std::string> {
      if (const auto given = options_.environment.find(name); given != options_.environment.end()) return given->second;
      const auto at = environment_.find(name);
      if (at != environment_.end()) return at->second.text;
      const auto now = shell_.variables().find(name);
      return now != shell_.variables().end() ? std::optional(now->second.value.text) : std::nullopt;
    };
  }

  /// Throws Error (usage) for a file that is in Rehearse's own words.
  static void refuse_scenario(const std::vector<JobSetting>& settings, const std::string& path) {
    if (std::any_of(settings.begin(), settings.end(),
                    [](const JobSetting& s) { return s.name == "schema" && s.text() == kScenarioSchema; }))
      throw Error(ErrorKind::usage, "this is a scenario of Rehearse already, and needs no translation", path,
                  fmt::format("rehearse simulate {}", path));
  }

  /// Launchers that exports write start a scenario, which lies beside them.
  void refuse_launched_scenario() {
    for (const ShellCommand& c : shell_.commands())
      for (const Traced& word : c.words)
        if (const int file = word.text.ends_with(".json") ? out_.files.find(word.text, c.place.file) : -1; file >= 0)
          refuse_scenario(read_yaml(out_.files, file), out_.files.at(file).path);
  }

  /// Reads a file of settings once.
  void add_file(int file, const std::string& language) {
    if (!used_.insert(file).second) return;
    const JobFiles::File& f = out_.files.at(file);
    std::vector<JobSetting> settings =
        f.path.ends_with(".toml") ? read_toml(out_.files, file) : read_yaml(out_.files, file);
    // What the command line overrides is so wherever other settings refer to it.
    if (launch_)
      for (const JobSetting& o : launch_->overrides)
        for (JobSetting& s : settings)
          if (s.name == o.name) s.values = o.values;
    refuse_scenario(settings, f.path);
    interpolate(settings, environment());
    Section section{f.path, language.empty() ? language_of(settings) : language, {}};
    for (const JobSetting& s : settings) {
      const std::string option =
          s.name.substr(s.name.find_last_of('.') == std::string::npos ? 0 : s.name.find_last_of('.') + 1);
      named(option, s.text(), file);
    }
    section.settings = std::move(settings);
    out_.sections.push_back(std::move(section));
  }

  /// Notes a file that an option names, to be read after what names it.
  void named(const std::string& option, const std::string& value, int from) {
    if (value.empty() || value.size() > 400 || value.find('\n') != std::string::npos) return;
    const std::string ending = fs::path(without_unknown(value)).extension().string();
    const bool settings = ending == ".json" || ending == ".yaml" || ending == ".yml" || ending == ".toml" ||
                          ending == ".conf" || option.find("deepspeed") != std::string::npos;
    if (!settings || option.find("data") != std::string::npos || option.find("tokenizer") != std::string::npos ||
        option.find("vocab") != std::string::npos || option.find("tp_comm") != std::string::npos)
      return;
    const int file = out_.files.find(value, from);
    if (file >= 0 && is_config_file(out_.files.at(file)))
      waiting_.emplace_back(file, language_of_file(option));
    else if (option == "deepspeed" || option == "--deepspeed" || option.ends_with("deepspeed_config") ||
             option.ends_with("deepspeed_config_file") || option == "--config-file" || option == "config")
      out_.notes.push_back(fmt::format(
          "'{}' names {}, which is not at hand: if it sets anything of the job, give it too", option, readable(value)));
  }

  void read_waiting() {
    for (std::size_t k = 0; k < waiting_.size(); ++k) {
      const auto [file, language] = waiting_[k];
      add_file(file, language);
    }
    waiting_.clear();
  }

  void add_launch() {
    Launch& l = *launch_;
    const int from = l.place.file;
    std::vector<JobSetting> all = l.options;
    all.insert(all.end(), l.overrides.begin(), l.overrides.end());
    const std::string language = language_of_program(l.program, all);
    if (!all.empty()) {
      Section section{out_.files.where(l.place), language, all};
      // Options of Hugging Face's are named as in a file.
      if (language == "huggingface" || language == "torchtitan" || language == "deepspeed" || language == "llm_foundry")
        for (JobSetting& s : section.settings)
          if (s.name.starts_with("--")) s.name = s.name.substr(2);
      out_.sections.push_back(std::move(section));
    }
    if (!l.launcher.empty()) out_.sections.push_back({out_.files.where(l.place), "launcher", l.launcher});
    std::string path, name;
    for (const JobSetting& s : l.options) {
      named(s.name, s.text(), from);
      if (s.name == "--config-path") path = s.text();
      if (s.name == "--config-name") name = s.text();
    }
    for (const JobSetting& s : l.launcher) named(s.name, s.text(), from);
    for (const Traced& w : l.words) named("config", w.text, from);
    if (!name.empty())
      named("config", path + "/" + name + (name.find(".yaml") == std::string::npos ? ".yaml" : ""), from);
    read_waiting();
  }

  void add_files() {
    for (const int file : given_) {
      if (used_.contains(file) || !is_config_file(out_.files.at(file)) || script(file)) continue;
      add_file(file, "");
      read_waiting();
    }
  }

  /// Without a launch: options that variables hold, and what MLPerf's scripts export.
  void add_loose_options() {
    Launch loose;
    for (const auto& [name, v] : shell_.variables()) {
      std::vector<Traced> words;
      if (v.array)
        for (const auto& [key, item] : v.items) words.push_back(item);
      else if (v.value.text.find("--") != std::string::npos)
        words = split(v.value);
      if (std::any_of(words.begin(), words.end(), [](const Traced& w) { return w.text.starts_with("--"); }))
        read_arguments(words, out_.files, false, loose);
    }
    if (loose.options.size() >= 3) {
      // What is put together from other variables says the same twice.
      std::set<std::pair<std::string, std::string>> seen;
      std::vector<JobSetting> kept;
      for (JobSetting& s : loose.options)
        if (seen.emplace(s.name, s.text()).second) kept.push_back(std::move(s));
      Section section{out_.files.at(given_.front()).path, language_of_program("", kept), std::move(kept)};
      if (section.language == "huggingface")
        for (JobSetting& s : section.settings) s.name = s.name.substr(2);
      out_.sections.push_back(std::move(section));
    }
  }

  static std::vector<Traced> split(const Traced& text) {
    std::vector<Traced> out(1);
    for (std::size_t k = 0; k < text.text.size(); ++k) {
      if (std::isspace(static_cast<unsigned char>(text.text[k])) != 0) {
        if (!out.back().empty()) out.emplace_back();
      } else {
        out.back().add(text.text[k], text.places[k]);
      }
    }
    if (out.back().empty()) out.pop_back();
    return out;
  }

  void add_environment() {
    Section own{"variables", "environment", {}}, mlperf{"variables", "mlperf", {}};
    const translate::Language& known = translate::languages().at("environment").value;
    const translate::Language& submission = translate::languages().at("mlperf").value;
    for (const auto& [name, v] : shell_.variables()) {
      if (!v.exported || v.array || v.from_outside) continue;
      const JobSetting s{name, {v.value.text}, out_.files.where(v.value.place())};
      if (known.find(name) != nullptr)
        own.settings.push_back(s);
      else if (const auto* t = submission.find(name); t != nullptr && t->theirs == name)
        mlperf.settings.push_back(s);
    }
    for (const Traced& option : shell_.batch_options()) {
      const std::size_t sign = option.text.find('=');
      batch_.push_back({option.text.substr(0, sign),
                        {sign == std::string::npos ? "" : option.text.substr(sign + 1)},
                        out_.files.where(option.place())});
    }
    // Slurm's lines say what the launch left to Slurm.
    if (!batch_.empty()) out_.sections.push_back({"#SBATCH", "launcher", batch_});
    constexpr std::size_t kFew = 4;
    if (mlperf.settings.size() >= kFew) out_.sections.push_back(std::move(mlperf));
    if (!own.settings.empty()) out_.sections.push_back(std::move(own));
  }

  /// A file of few settings is in the language of the others.
  void share_language() {
    std::string told;
    for (const Section& s : out_.sections)
      if (told.empty() && s.language != "launcher" && s.language != "environment") told = s.language;
    for (Section& s : out_.sections)
      if (s.language.empty()) s.language = told;
  }

  /// Whether a section has a setting that says something of the job.
  static bool says_something(const Section& section) {
    if (section.language == "environment" || section.language == "launcher") return false;
    return std::any_of(section.settings.begin(), section.settings.end(), [&](const JobSetting& s) {
      const Known known = known_as(section.language, s.name);
      const translate::Language* language = known.name.empty() ? nullptr : translate::languages().find(known.language);
      const translate::Term* term = language == nullptr ? nullptr : language->find(known.name);
      return term != nullptr && term->sense != translate::Sense::ignored;
    });
  }

  void refuse_nothing() {
    if (std::any_of(out_.sections.begin(), out_.sections.end(), says_something)) return;
    refuse_launched_scenario();
    const std::string& first = options_.files.front();
    const bool python =
        std::any_of(options_.files.begin(), options_.files.end(), [](const std::string& f) { return python_file(f); });
    if (python)
      throw Error(ErrorKind::usage, "the settings stand in Python, which is code and no data", first,
                  "have the program write them out (NeMo and Megatron-Bridge: the run's YAML; torchtitan: v0.2.2's "
                  "TOML; Hugging Face: "
                  "training_args as JSON), and give that file");
    throw Error(ErrorKind::usage, "no settings of a training job are found", first,
                "give the launch script, and the files that it reads after it; or the command with --launch 'torchrun "
                "... train.py --option ...'");
  }

  const CollectOptions& options_;
  Collected out_;
  Shell shell_;
  std::vector<int> given_;
  std::set<int> used_;
  std::optional<Launch> launch_;
  std::map<std::string, Traced> environment_;
  std::vector<std::pair<int, std::string>> waiting_;
  std::vector<JobSetting> batch_;
};

}  // namespace

Collected collect(const CollectOptions& options) { return Collector(options).all(); }

}  // namespace rehearse::job
