// Names of models, as hubs and frameworks spell them.

#include <algorithm>
#include <cctype>
#include <set>

#include "core/import/job/model_of_job.hpp"

namespace rehearse::job {

namespace {

std::string letters(const std::string& text) {
  std::string out;
  for (const unsigned char c : text)
    if (std::isalnum(c) != 0) out += static_cast<char>(std::tolower(c));
  return out;
}

/// Without the words that say how a model was trained and not what it is.
std::string essential(const std::string& name) {
  static const std::set<std::string> kIdle{
      "meta",        "hf",   "instruct", "base",     "chat",   "it",       "sft",         "dpo",
      "fp8",         "bf16", "weights",  "model",    "config", "pretrain", "pretrained",  "finetune",
      "lora",        "peft", "recipe",   "bnb",      "4bit",   "nf4",      "dequantized", "quantized",
      "checkpoints", "awq",  "int8",     "thinking", "2507",   "preview",  "full",        "hub"};
  const std::size_t slash = name.find_last_of('/');
  std::string word, out;
  for (const char c : (slash == std::string::npos || slash + 1 == name.size() ? name : name.substr(slash + 1)) + "-") {
    if (c != '-' && c != '_' && c != ' ') {
      word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      continue;
    }
    const bool version = word.size() >= 4 && word[0] == 'v' && std::isdigit(static_cast<unsigned char>(word[1])) != 0 &&
                         word.find('.') != std::string::npos;
    if (!version && !kIdle.contains(word)) out += letters(word);
    word.clear();
  }
  return out;
}

}  // namespace

std::string registered_model(const std::string& name, const std::vector<std::string>& registered, bool& exact) {
  const std::string wanted = essential(name);
  exact = true;
  if (wanted.size() < 4) return {};
  std::string longest;
  std::vector<std::string> begun;
  for (const std::string& r : registered) {
    const std::string known = letters(r);
    if (known == wanted) return r;
    if (known.size() >= 7 && wanted.ends_with(known) && known.size() > letters(longest).size()) longest = r;
    if (wanted.size() >= 8 && known.starts_with(wanted)) begun.push_back(r);
  }
  exact = false;
  // Releases that differ in their training and the length of their context.
  for (const auto& [from, to] :
       {std::pair{"llama31", "llama3"}, {"llama33", "llama3"}, {"llama3", "llama31"}, {"codellama", "llama2"}})
    if (wanted.starts_with(from)) {
      const std::string other = to + wanted.substr(std::string_view(from).size());
      for (const std::string& r : registered)
        if (letters(r) == other) return r;
    }
  if (begun.size() == 1) return begun.front();
  return longest;
}

}  // namespace rehearse::job
