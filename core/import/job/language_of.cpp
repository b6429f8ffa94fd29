#include <algorithm>
#include <array>

#include "core/import/job/collect.hpp"
#include "core/translate/language.hpp"

namespace rehearse::job {

namespace {

using translate::Language;
using translate::Sense;
using translate::Term;

const Term* term_of(const std::string& language, const std::string& name) {
  const Language* l = translate::languages().find(language);
  return l == nullptr ? nullptr : l->find(name);
}

/// "language_model.num_layers" and "model.num_layers" are "--num-layers" of Megatron.
std::string as_option(const std::string& name) {
  std::string last = name.substr(name.find_last_of('.') == std::string::npos ? 0 : name.find_last_of('.') + 1);
  if (last.starts_with("--")) return last;
  std::replace(last.begin(), last.end(), '_', '-');
  return "--" + last;
}

bool exact(const Term* t) { return t != nullptr && t->theirs.find('*') == std::string::npos; }

Known megatron(const std::string& name) {
  const std::string option = as_option(name);
  if (exact(term_of("megatron", option))) return {"megatron", option};
  const std::string bare = option.substr(2);
  if (name.find("--") == std::string::npos)
    for (const char* no : {"--no-", "--disable-"})
      if (exact(term_of("megatron", no + bare))) return {"megatron", no + bare, true};
  if (name.find("--") == std::string::npos && bare.starts_with("add-bias"))
    return {"megatron", "--disable-bias-linear", true};
  if (term_of("megatron", option) != nullptr) return {"megatron", option};
  return {};
}

/// The name, or what is left of it without groups in front, in a language.
Known by_ending(const std::string& language, const std::string& name) {
  const Term* pattern = nullptr;
  std::string pattern_name;
  for (std::string rest = name;;) {
    const Term* t = term_of(language, rest);
    // What the whole name fits goes before what its end is called elsewhere:
    // "model.data.validation_ds.global_batch_size".
    if (exact(t) || (t != nullptr && rest == name)) return {language, rest};
    if (t != nullptr && pattern == nullptr) pattern = t, pattern_name = rest;
    const std::size_t dot = rest.find('.');
    if (dot == std::string::npos || rest.starts_with("--")) break;
    rest = rest.substr(dot + 1);
  }
  return pattern != nullptr ? Known{language, pattern_name} : Known{};
}

}  // namespace

Known known_as(const std::string& language, const std::string& stated) {
  // Which item of a list it is says nothing: "datasets[0].path".
  std::string name;
  for (std::size_t i = 0, depth = 0; i < stated.size(); ++i) {
    if (stated[i] == '[') ++depth;
    if (depth == 0) name += stated[i];
    if (stated[i] == ']' && depth > 0) --depth;
  }
  const bool megatron_words =
      language == "megatron" || language == "megatron_deepspeed" || language == "nemo" || language == "megatron_bridge";
  if (language == "megatron_deepspeed" && term_of(language, name) != nullptr) return {language, name};
  // Variables that a file of settings lists.
  const std::size_t last = name.find_last_of('.');
  if ((name.starts_with("ENV_VARS.") || name.starts_with("env_vars.")) &&
      term_of("environment", name.substr(last + 1)) != nullptr)
    return {"environment", name.substr(last + 1)};
  if (language == "megatron") {
    Known own = megatron(name);
    if (!own.name.empty()) return own;
    if (term_of("megatron", name) != nullptr) return {"megatron", name};
    return term_of("megatron_deepspeed", name) != nullptr ? Known{"megatron_deepspeed", name} : Known{};
  }
  Known own = by_ending(language, name);
  if (!own.name.empty() && own.name.find("--") != 0 && exact(term_of(language, own.name))) return own;
  if (megatron_words) {
    const Known theirs = megatron(name);
    if (!theirs.name.empty() && (own.name.empty() || exact(term_of("megatron", theirs.name)))) return theirs;
  }
  return own;
}

std::string language_of(const std::vector<JobSetting>& settings) {
  static constexpr std::array<const char*, 10> kCandidates{
      "torchtitan",      "deepspeed", "huggingface", "megatron", "nemo",
      "megatron_bridge", "gpt_neox",  "llm_foundry", "nanotron", "pytorch_fsdp"};
  std::string best;
  double most = 2.5;
  for (const char* language : kCandidates) {
    double score = 0;
    for (const JobSetting& s : settings) {
      // Names without their group count in their own language only, and half as much.
      const Term* whole = term_of(language, s.name);
      const bool says = exact(whole) && whole->sense != Sense::ignored;
      // Names that have lost their group could be of any framework that is built on Megatron.
      const bool bare = s.name.find('.') == std::string::npos &&
                        (std::string_view(language) == "nemo" || std::string_view(language) == "megatron_bridge");
      if (says) {
        score += bare ? 0.45 : 1;
        continue;
      }
      const Known known = known_as(language, s.name);
      const Term* t = known.name.empty() ? nullptr : term_of(known.language, known.name);
      if (exact(t) && t->sense != Sense::ignored) score += known.language == language ? 0.5 : 0.45;
      if (whole != nullptr && !exact(whole)) score += 0.05;
    }
    if (score > most) best = language, most = score;
  }
  return best;
}

}  // namespace rehearse::job
