#include <algorithm>
#include <charconv>

#include "core/import/job/shell/arithmetic.hpp"
#include "core/import/job/shell/shell.hpp"

namespace rehearse::job {

Shell::Shell(JobFiles& files, const std::map<std::string, std::string>& environment) : files_(files) {
  for (const auto& [name, value] : environment) {
    ShellVariable& v = variables_[name];
    v.value = Traced(value, {});
    v.exported = v.from_outside = true;
  }
  for (const auto& [name, value] : {std::pair{"HOME", "/home/user"}, {"PWD", "."}, {"USER", "user"}, {"RANDOM", "1"}})
    if (!variables_.contains(name)) variables_[name].value = Traced(value, {});
}

void Shell::note(const std::string& text, Place place) {
  const std::string where = files_.where(place);
  const std::string line = where.empty() ? text : where + ": " + text;
  if (std::find(notes_.begin(), notes_.end(), line) == notes_.end()) notes_.push_back(line);
}

/// Follows names that refer to other variables.
std::string Shell::meant(const std::string& name) const {
  std::string out = name;
  for (int hops = 0; hops < 8; ++hops) {
    const auto at = variables_.find(out);
    if (at == variables_.end() || at->second.refers.empty()) break;
    out = at->second.refers;
  }
  return out;
}

const ShellVariable* Shell::find(const std::string& name) const {
  const auto at = variables_.find(meant(name));
  return at == variables_.end() ? nullptr : &at->second;
}

Traced Shell::value(const std::string& name, Place place) const {
  const ShellVariable* v = find(name);
  if (v == nullptr) return Traced(unknown_mark(name), place);
  if (!v->array) return v->value;
  return v->items.empty() ? Traced() : v->items.front().second;
}

void Shell::set(const std::string& name, Traced value) {
  ShellVariable& v = variables_[meant(name)];
  // What the user states stands in for what only the machine knows.
  if (v.from_outside && has_unknown(value.text)) return;
  if (v.array)
    set_item(name, "0", std::move(value));
  else
    v.value = std::move(value);
}

void Shell::set_item(const std::string& name, const std::string& key, Traced value) {
  ShellVariable& v = variables_[meant(name)];
  if (!v.array && !v.value.empty()) v.items.emplace_back("0", v.value);
  v.array = true;
  const auto at = std::find_if(v.items.begin(), v.items.end(), [&](const auto& item) { return item.first == key; });
  if (at != v.items.end())
    at->second = std::move(value);
  else
    v.items.emplace_back(key, std::move(value));
}

void Shell::make_local(const std::string& name) {
  if (scopes_.size() < 2 || scopes_.back().hidden.contains(name)) return;
  const ShellVariable* before = find(name);
  scopes_.back().hidden[name] = before != nullptr ? std::optional(*before) : std::nullopt;
}

/// "NAME=", "NAME+=", "NAME[key]=" and a value.
void Shell::assign(const Traced& name_and_sign, Traced value) {
  std::string name = name_and_sign.text.substr(0, name_and_sign.text.size() - 1);
  const bool append = name.ends_with('+');
  if (append) name.pop_back();
  const std::size_t bracket = name.find('[');
  if (bracket != std::string::npos) {
    const std::string key = expand_text(name_and_sign.part(bracket + 1, name.size() - bracket - 2), false).text;
    name.resize(bracket);
    const ShellVariable* v = find(name);
    if (append && v != nullptr) {
      for (const auto& [k, before] : v->items) {
        if (k != key) continue;
        Traced both = before;
        both.add(value);
        value = std::move(both);
      }
    }
    return set_item(name, key, std::move(value));
  }
  if (append) {
    Traced both = find(name) != nullptr ? Shell::value(name) : Traced();
    both.add(value);
    value = std::move(both);
  }
  set(name, std::move(value));
}

void Shell::assign_array(const Word& word) {
  std::string name = word.raw.text.substr(0, word.raw.text.size() - 2);
  const bool append = name.ends_with('+');
  if (append) name.pop_back();
  std::vector<std::pair<std::string, Traced>> items;
  if (append)
    if (const ShellVariable* v = find(name); v != nullptr) {
      items = v->items;
      if (!v->array && !v->value.empty()) items.emplace_back("0", v->value);
    }
  // Items may name the variable itself: it is changed when all are known.
  std::size_t next = items.size();
  for (const Word& item : word.items) {
    const std::string& raw = item.raw.text;
    const std::size_t close = raw.find("]=");
    if (raw.starts_with('[') && close != std::string::npos) {
      const std::string key = expand_text(item.raw.part(1, close - 1), false).text;
      items.emplace_back(key, expand_text(item.raw.part(close + 2), false));
      continue;
    }
    for (Traced& field : expand(item)) items.emplace_back(std::to_string(next++), std::move(field));
  }
  ShellVariable& v = variables_[meant(name)];
  v.array = true;
  v.items = std::move(items);
}

/// Makes the assignment that `word` is; false where it is none.
bool Shell::assign_word(const Word& word) {
  if (word.array) {
    assign_array(word);
    return true;
  }
  const std::string& raw = word.raw.text;
  std::size_t i = 0;
  while (i < raw.size() && (std::isalnum(static_cast<unsigned char>(raw[i])) != 0 || raw[i] == '_')) ++i;
  if (i == 0 || std::isdigit(static_cast<unsigned char>(raw[0])) != 0) return false;
  if (i < raw.size() && raw[i] == '[') {
    const std::size_t close = raw.find(']', i);
    if (close == std::string::npos) return false;
    i = close + 1;
  }
  if (i < raw.size() && raw[i] == '+') ++i;
  if (i >= raw.size() || raw[i] != '=') return false;
  assign(word.raw.part(0, i + 1), expand_text(word.raw.part(i + 1), false));
  return true;
}

/// As arithmetic and tests see a variable: a mark where nothing sets it.
std::string Shell::text_of(const std::string& name) const {
  const std::size_t bracket = name.find('[');
  if (bracket == std::string::npos) return value(name).text;
  std::string key = name.substr(bracket + 1, name.size() - bracket - 2);
  if (const ShellVariable* index = find(key)) key = index->value.text;
  if (const ShellVariable* v = find(name.substr(0, bracket)))
    for (const auto& [k, item] : v->items)
      if (k == key) return item.text;
  return unknown_mark(name);
}

Traced Shell::arithmetic(const Traced& text) {
  const Traced ready = expand_text(text, true);
  const CountedNames names{[this](const std::string& name) { return text_of(name); },
                           [this, &text](const std::string& name, std::int64_t value) {
                             set(name, Traced(std::to_string(value), text.place()));
                           }};
  const Counted v = count(ready.text, names, files_.where(text.place()));
  return Traced(v.unknown.empty() ? std::to_string(v.value) : unknown_mark(v.unknown), text.place());
}

/// Slurm's own comments say what its variables will be.
void Shell::read_batch_options(const Traced& script) {
  static const std::vector<std::pair<std::string, std::vector<std::string>>> kVariables{
      {"--nodes=", {"SLURM_NNODES", "SLURM_JOB_NUM_NODES"}},
      {"--ntasks-per-node=", {"SLURM_NTASKS_PER_NODE", "SLURM_TASKS_PER_NODE"}},
      {"--gpus-per-node=", {"SLURM_GPUS_PER_NODE"}},
      {"--ntasks=", {"SLURM_NTASKS"}}};
  for (std::size_t at = script.text.find("#SBATCH"); at != std::string::npos;
       at = script.text.find("#SBATCH", at + 1)) {
    if (at > 0 && script.text[at - 1] != '\n') continue;
    const std::size_t end = std::min(script.text.find('\n', at), script.text.size());
    const std::size_t begin = script.text.find('-', at);
    if (begin == std::string::npos || begin > end) continue;
    Traced option = script.part(begin, end - begin);
    option = option.part(0, option.text.find('#'));
    for (const auto& [brief, whole] : {std::pair{"-N", "--nodes="}, {"-n", "--ntasks="}, {"--nodes ", "--nodes="}})
      if (option.text.starts_with(brief)) {
        Traced spelled(whole, option.place());
        spelled.add(option.part(option.text.find_first_not_of(" =", std::string_view(brief).size())));
        option = std::move(spelled);
      }
    while (!option.text.empty() && std::isspace(static_cast<unsigned char>(option.text.back())) != 0)
      option = option.part(0, option.text.size() - 1);
    for (const auto& [name, variables] : kVariables) {
      if (!option.text.starts_with(name)) continue;
      const Traced value = option.part(name.size());
      const bool number = !value.empty() && value.text.find_first_not_of("0123456789") == std::string::npos;
      for (const std::string& v : variables)
        if (number && find(v) == nullptr) variables_[v].value = value;
    }
    batch_options_.push_back(std::move(option));
  }
}

}  // namespace rehearse::job
