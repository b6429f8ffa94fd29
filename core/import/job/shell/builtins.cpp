// What a shell does by itself, and what starts other scripts.

#include <algorithm>
#include <array>
#include <filesystem>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/import/job/shell/shell.hpp"

namespace rehearse::job {

namespace {

namespace fs = std::filesystem;

bool one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::string program_name(const std::string& path) { return fs::path(path).filename().string(); }

Traced joined(const std::vector<Traced>& words, std::size_t from) {
  Traced out;
  for (std::size_t k = from; k < words.size(); ++k) {
    if (k > from) out.add(' ', words[k].place());
    out.add(words[k]);
  }
  return out;
}

bool script_name(const std::string& word) {
  return one_of(fs::path(word).extension().string(), {".sh", ".slurm", ".sbatch", ".sub", ".bash", ".conf", ".slrm"});
}

}  // namespace

/// declare, local, export and readonly: assignments, and what becomes of their names.
Shell::Result Shell::declare(const Node& node, const std::vector<Traced>& /*words*/) {
  const std::string how = node.words.front().raw.text;
  bool map = false, reference = false;
  for (std::size_t k = 1; k < node.words.size(); ++k) {
    const Word& w = node.words[k];
    const std::string& raw = w.raw.text;
    if (raw.starts_with('-')) {
      map = map || raw.find('A') != std::string::npos || raw.find('a') != std::string::npos;
      reference = reference || raw.find('n') != std::string::npos;
      continue;
    }
    if (const std::size_t sign = raw.find('='); reference && sign != std::string::npos) {
      make_local(raw.substr(0, sign));
      variables_[raw.substr(0, sign)] = {};
      variables_[raw.substr(0, sign)].refers = expand_text(w.raw.part(sign + 1), false).text;
      continue;
    }
    const auto names = [&] {
      if (raw.find('=') != std::string::npos) return std::vector<std::string>{raw.substr(0, raw.find_first_of("[+="))};
      std::vector<std::string> out;
      for (const Traced& t : expand(w)) out.push_back(t.text);
      return out;
    }();
    for (const std::string& name : names) {
      if (how == "local") make_local(name);
      if (raw.find('=') != std::string::npos) (void)assign_word(w);
      if (how == "local" && raw.find('=') == std::string::npos) variables_[name] = {};
      if (map) variables_[name].array = true;
      if (how == "export" && find(name) != nullptr) variables_[name].exported = true;
    }
  }
  return {};
}

void unset(std::map<std::string, ShellVariable>& variables, const std::vector<Traced>& words) {
  for (std::size_t k = 1; k < words.size(); ++k) variables.erase(words[k].text);
}

std::optional<Shell::Result> Shell::builtin(const std::vector<Traced>& words, Place place) {
  const std::string& command = words.front().text;
  if (command == ":" || command == "true") return Result{};
  if (command == "false" || command == "getopts") return Result{1};
  if (command == "test" || command == "[") {
    std::vector<Traced> rest(words.begin() + 1, words.end());
    if (command == "[" && !rest.empty() && rest.back().text == "]") rest.pop_back();
    return Result{test(rest, false, nullptr, place)};
  }
  if (command == "source" || command == ".") return source(words, place);
  if (command == "eval") return evaluate(joined(words, 1), place);
  if (command == "unset") return unset(variables_, words), Result{};
  if (command == "shift") {
    std::vector<Traced>& given = scopes_.back().arguments;
    const std::size_t n =
        words.size() > 1 ? static_cast<std::size_t>(std::max(0, std::atoi(words[1].text.c_str()))) : 1;
    const bool enough = n <= given.size();
    given.erase(given.begin(), given.begin() + static_cast<std::ptrdiff_t>(std::min(n, given.size())));
    return Result{enough ? 0 : 1};
  }
  if (command == "set") {
    const auto dashes = std::find_if(words.begin(), words.end(), [](const Traced& w) { return w.text == "--"; });
    if (dashes != words.end()) scopes_.back().arguments.assign(dashes + 1, words.end());
    return Result{};
  }
  if (command == "let") {
    for (std::size_t k = 1; k < words.size(); ++k) (void)arithmetic(words[k]);
    return Result{};
  }
  if (command == "read") return read_line(words);
  if (command == "break") return flow_ = Flow::broken, Result{};
  if (command == "continue") return flow_ = Flow::continued, Result{};
  if (command == "return") return flow_ = Flow::returned, Result{words.size() > 1 && words[1].text != "0" ? 1 : 0};
  if (command == "exit") {
    // A script that stops because it misses something would say no more about the job.
    const bool failed = words.size() > 1 && words[1].text != "0";
    if (failed || commands_.empty()) return note("the script would stop here: read on", place), Result{};
    return flow_ = Flow::stopped, Result{};
  }
  if (one_of(command,
             {"cd",   "pushd",  "popd", "shopt",   "trap",      "wait", "ulimit", "umask", "alias", "mkdir", "sleep",
              "hash", "module", "exit", "mapfile", "readarray", "kill", "rm",     "chmod", "touch", "sync",  "conda"}))
    return Result{};
  if (command == "command" || command == "type" || command == "which") return Result{1};
  return std::nullopt;
}

Shell::Result Shell::source(const std::vector<Traced>& words, Place place) {
  if (words.size() < 2) return {};
  const int file = files_.find(words[1].text, scopes_.empty() ? place.file : scopes_.back().file);
  if (file < 0) {
    note(fmt::format("reads '{}', which is not at hand: if it sets anything of the job, give it too",
                     readable(words[1].text)),
         place);
    return {};
  }
  std::vector<Traced> arguments(words.begin() + 2, words.end());
  if (arguments.empty() && !scopes_.empty()) arguments = scopes_.back().arguments;
  const Flow before = flow_;
  run(file, arguments);
  flow_ = flow_ == Flow::stopped ? flow_ : before;
  return {};
}

/// Runs a text as a script: of eval, of "bash -c", of a command substitution.
Shell::Result Shell::evaluate(const Traced& text, Place place) {
  if (scopes_.size() > 50 || text.empty()) return {};
  const std::string name = place.file >= 0 ? files_.at(place.file).path : "command";
  parsed_.push_back(std::make_shared<List>(parse_shell(text, name)));
  const auto list = parsed_.back();
  read_batch_options(text);
  return run(*list);
}

Shell::Result Shell::read_line(const std::vector<Traced>& words) {
  if (!input_ || input_->empty() || has_unknown(input_->text)) return {1};
  std::size_t end = std::min(input_->text.find('\n'), input_->text.size());
  Traced line = input_->part(0, end);
  input_ = input_->part(end + 1);
  const ShellVariable* separator = find("IFS");
  const std::string cuts = separator != nullptr ? separator->value.text : " \t\n";
  std::vector<std::string> names;
  bool array = false;
  for (std::size_t k = 1; k < words.size(); ++k) {
    if (words[k].text.starts_with('-'))
      array = array || words[k].text.find('a') != std::string::npos;
    else
      names.push_back(words[k].text);
  }
  if (names.empty()) names.emplace_back("REPLY");
  std::vector<Traced> fields;
  for (std::size_t from = 0; from <= line.text.size();) {
    const bool rest = !array && fields.size() + 1 == names.size();
    const std::size_t cut =
        rest || cuts.empty() ? line.text.size() : std::min(line.text.find_first_of(cuts, from), line.text.size());
    if (cut > from || cuts.find(' ') == std::string::npos) fields.push_back(line.part(from, cut - from));
    from = cut + 1;
  }
  if (array) {
    ShellVariable& v = variables_[names.front()];
    v.array = true;
    v.items.clear();
    for (std::size_t k = 0; k < fields.size(); ++k) v.items.emplace_back(std::to_string(k), fields[k]);
    return {};
  }
  for (std::size_t k = 0; k < names.size(); ++k) set(names[k], k < fields.size() ? fields[k] : Traced());
  return {};
}

/// Every plain variable, for whoever reads files that name them.
std::map<std::string, Traced> snapshot(const std::map<std::string, ShellVariable>& variables) {
  std::map<std::string, Traced> out;
  for (const auto& [name, v] : variables)
    if (!v.array && v.refers.empty()) out.emplace(name, v.value);
  return out;
}

/// A program: a shell with a script, what starts one, or something that is not known.
Shell::Result Shell::external(const std::vector<Traced>& words, Place place) {
  // A script by standard input: "sbatch <<EOF", "bash -s < job.sh".
  if (one_of(program_name(words.front().text), {"sbatch", "bash", "sh"}) && input_ &&
      !without_unknown(input_->text).empty()) {
    const Traced script = std::move(*input_);
    input_.reset();
    return evaluate(script, place);
  }
  for (std::size_t k = 0; k < words.size(); ++k) {
    const std::string name = program_name(words[k].text);
    const bool is_shell = one_of(name, {"bash", "sh", "zsh"});
    if (is_shell && k + 2 < words.size() + 1) {
      for (std::size_t c = k + 1; c < words.size() && words[c].text.starts_with('-'); ++c) {
        if (words[c].text.starts_with("--") || !words[c].text.ends_with('c') || c + 1 >= words.size()) continue;
        const std::vector<Traced> before = wrapper_;
        wrapper_.insert(wrapper_.end(), words.begin(), words.begin() + static_cast<std::ptrdiff_t>(k));
        Result r = evaluate(words[c + 1], place);
        wrapper_ = before;
        return r;
      }
    }
    if (name.ends_with(".py")) break;
    if (!is_shell && !script_name(words[k].text)) continue;
    std::size_t s = k + (is_shell ? 1 : 0);
    while (is_shell && s < words.size() && words[s].text.starts_with('-')) ++s;
    if (s >= words.size()) break;
    const int file = files_.find(words[s].text, scopes_.empty() ? place.file : scopes_.back().file);
    if (file < 0 || (!scopes_.empty() && scopes_.back().file == file)) break;
    const std::vector<Traced> before = wrapper_;
    wrapper_.insert(wrapper_.end(), words.begin(), words.begin() + static_cast<std::ptrdiff_t>(k));
    // A process of its own: what it sets is gone with it.
    const auto variables = variables_;
    const auto functions = functions_;
    run(file, {words.begin() + static_cast<std::ptrdiff_t>(s) + 1, words.end()});
    variables_ = variables;
    functions_ = functions;
    wrapper_ = before;
    return {};
  }
  if (captures_ == 0) {
    ShellCommand c{wrapper_, place, snapshot(variables_)};
    c.words.insert(c.words.end(), words.begin(), words.end());
    commands_.push_back(std::move(c));
  }
  return {conditions_ > 0 ? 1 : 0, {}, true};
}

}  // namespace rehearse::job
