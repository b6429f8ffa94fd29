// Completion scripts for shells, written from the table of verbs: a verb, an option or a key that is added completes
// without an edit here.

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.hpp"
#include "core/base/registry.hpp"
#include "core/cli/verbs.hpp"
#include "core/cli/verbs/listings.hpp"
#include "core/config/scenario.hpp"
#include "core/play/backend.hpp"
#include "core/report/formats/format.hpp"
#include "core/search/search.hpp"

namespace rehearse::cli {

namespace {

/// What may stand after an option or as an argument.
struct Values {
  enum class Kind { nothing, files, words } kind = Kind::nothing;
  std::vector<std::string> words{};
  bool continues = false;  ///< No space after a word: "KEY=".
  bool or_files = false;   ///< Words are names for which a path may stand.
};

std::vector<std::string> key_words(const std::string& group) {
  std::vector<std::string> out;
  for (const KeyHelp& k : scenario_keys())
    if (k.key.starts_with(group) && k.key.find('.') != std::string::npos)
      out.push_back((group.empty() ? k.key : k.key.substr(group.size())) + "=");
  return out;
}

/// What `rehearse list KIND` lists; nothing where this installation has no data.
std::vector<std::string> names_of(const std::string& kind) {
  std::vector<std::string> out;
  try {
    for (const auto& row : listing(kind, find_data()).rows) out.push_back(row.front());
  } catch (const Error&) {
    out.clear();
  }
  return out;
}

Values clusters() {
  Values out{Values::Kind::words, names_of("clusters"), false, true};
  for (std::string& machine : names_of("machines")) out.words.push_back(std::move(machine));
  return out;
}

Values values_of(const Verb& verb, const Option& o) {
  const std::string name = long_name(o);
  if (o.value.empty()) return {};
  if (name == "--format") return {Values::Kind::words, formats().names()};
  if (name == "--backend") return {Values::Kind::words, backends().names()};
  if (name == "--objective") return {Values::Kind::words, objective_names()};
  if (name == "--device") return {Values::Kind::words, {"cpu", "cuda"}};
  if (name == "--set" || name == "--vary") return {Values::Kind::words, key_words(""), true};
  if (name == "--cluster") return clusters();
  if (name == "--algo") return {Values::Kind::words, names_of("algorithms")};
  if (name == "--op") return {Values::Kind::words, names_of("collectives")};
  if (name == "--to") {
    std::vector<std::string> words = names_of("targets");
    for (std::string& fleet : names_of("fleet_targets")) words.push_back(std::move(fleet));
    return {Values::Kind::words, std::move(words)};
  }
  if (name == "--network") return {Values::Kind::words, names_of("networks"), false, true};
  if (name == "--gpu") return {Values::Kind::words, names_of("gpus"), false, true};
  if (name == "--numerics") return {Values::Kind::words, {"fp32", "fp64", "plan"}};
  if (name == "--fix") return {Values::Kind::words, key_words("strategy."), true};
  if (o.value == "FILE" || o.value == "FOLDER" || o.value == "DIR" || verb.name == "import")
    return {Values::Kind::files};
  return {};
}

Values values_of(const Verb& verb, const Positional& p) {
  if (verb.name == "list") return {Values::Kind::words, listing_kinds()};
  if (verb.name == "completion") return {Values::Kind::words, {"bash", "zsh", "fish"}};
  if (verb.name == "explain") {
    std::vector<std::string> keys;
    for (const KeyHelp& k : scenario_keys()) keys.push_back(k.key);
    for (std::string& name : explained_names())
      if (name.find_first_of(" =") == std::string::npos) keys.push_back(std::move(name));
    for (std::string& term : names_of("glossary"))
      if (term.find(' ') == std::string::npos) keys.push_back(std::move(term));
    return {Values::Kind::words, std::move(keys)};
  }
  if (verb.name == "import" && p.name == "WHAT") return {Values::Kind::words, {"topology", "trace", "collectives"}};
  if (verb.name == "topology") return p.name == "ACTION" ? Values{Values::Kind::words, {"show"}} : clusters();
  if (verb.name == "lesson" || verb.name == "task" || verb.name == "replay")
    return {Values::Kind::words, names_of(verb.name + "s"), false, true};
  return {Values::Kind::files};
}

std::vector<std::string> option_words(const Verb& verb) {
  std::vector<std::string> out{"--help"};
  for (const Option& o : verb.options) {
    out.push_back(long_name(o));
    if (o.name.find(',') != std::string::npos) out.push_back(o.name.substr(0, o.name.find(',')));
  }
  std::sort(out.begin(), out.end());
  return out;
}

/// The names under which an option is typed, as a shell pattern.
std::string pattern(const Option& o) {
  std::string out = o.name;
  std::replace(out.begin(), out.end(), ',', '|');
  return out;
}

std::string verb_words() {
  std::vector<std::string> names;
  for (const Verb& v : verbs()) names.push_back(v.name);
  return fmt::format("{}", fmt::join(names, " "));
}

std::string bash_reply(const Values& v) {
  if (v.kind == Values::Kind::files) return "COMPREPLY=($(compgen -f -- \"$word\")); compopt -o filenames";
  if (v.kind == Values::Kind::nothing) return "COMPREPLY=()";
  const char* files = v.or_files ? " $(compgen -f -- \"$word\")" : "";
  return fmt::format("COMPREPLY=($(compgen -W '{}' -- \"$word\"){}){}", fmt::join(v.words, " "), files,
                     v.continues  ? "; compopt -o nospace"
                     : v.or_files ? "; compopt -o filenames"
                                  : "");
}

/// Of several arguments the first has words of its own, the others take the values of the second.
std::string bash_arguments(const Verb& verb) {
  if (verb.positionals.empty()) return "COMPREPLY=()";
  const std::string first = bash_reply(values_of(verb, verb.positionals.front()));
  if (verb.positionals.size() == 1) return first;
  return fmt::format("if [ \"$COMP_CWORD\" -eq 2 ]; then {}; else {}; fi", first,
                     bash_reply(values_of(verb, verb.positionals[1])));
}

std::string bash() {
  std::string out =
      "# Completion of rehearse for bash: source it, or put it where bash-completion looks.\n_rehearse() {\n  local "
      "word=\"${COMP_WORDS[COMP_CWORD]}\" before=\"${COMP_WORDS[COMP_CWORD-1]}\" verb=\"${COMP_WORDS[1]}\"\n";
  out += fmt::format(
      "  if [ \"$COMP_CWORD\" -eq 1 ]; then COMPREPLY=($(compgen -W '{} --help --version' -- \"$word\")); return; fi\n "
      " case \"$verb\" in\n",
      verb_words());
  for (const Verb& verb : verbs()) {
    out += fmt::format("  {})\n    case \"$before\" in\n", verb.name);
    for (const Option& o : verb.options)
      if (!o.value.empty()) out += fmt::format("    {}) {}; return ;;\n", pattern(o), bash_reply(values_of(verb, o)));
    out += fmt::format(
        "    esac\n    case \"$word\" in\n    -*) COMPREPLY=($(compgen -W '{}' -- \"$word\")) ;;\n    *) {} ;;\n    "
        "esac ;;\n",
        fmt::join(option_words(verb), " "), bash_arguments(verb));
  }
  return out + "  esac\n}\ncomplete -F _rehearse rehearse\n";
}

/// Text inside single quotes, where zsh and fish end it at a quote; zsh's own colons and brackets are escaped too.
std::string quoted(const std::string& text, bool zsh) {
  std::string out;
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
      continue;
    }
    if (zsh && (c == ':' || c == '[' || c == ']' || c == '\\')) out += '\\';
    out += c;
  }
  return out;
}

std::string zsh_action(const Values& v) {
  if (v.kind == Values::Kind::files) return "_files";
  if (v.kind == Values::Kind::nothing) return " ";
  if (v.or_files) return fmt::format("_alternative \"names:name:({})\" files:file:_files", fmt::join(v.words, " "));
  return v.continues ? fmt::format("compadd -S \"\" -- {}", fmt::join(v.words, " "))
                     : fmt::format("({})", fmt::join(v.words, " "));
}

std::string zsh() {
  std::string out =
      "#compdef rehearse\n# Completion of rehearse for zsh: put it as _rehearse into a folder of $fpath.\n_rehearse() "
      "{\n  local -a verbs=(\n";
  for (const Verb& v : verbs()) out += fmt::format("    '{}:{}'\n", v.name, quoted(v.summary, true));
  out +=
      "  )\n  if (( CURRENT == 2 )); then _describe verb verbs; return; fi\n  local verb=$words[2]\n  shift words; (( "
      "CURRENT-- ))\n  case $verb in\n";
  for (const Verb& verb : verbs()) {
    out += fmt::format("  {})\n    _arguments -s '(-h --help){{-h,--help}}[show help]'", verb.name);
    for (const Option& o : verb.options) {
      const std::string names = o.name.find(',') == std::string::npos ? o.name : fmt::format("'{{{}}}'", o.name);
      out += fmt::format(" \\\n      '{}{}[{}]{}'", o.repeatable ? "*" : "", names, quoted(o.help, true),
                         o.value.empty() ? "" : fmt::format(":{}:{}", o.value, zsh_action(values_of(verb, o))));
    }
    for (const Positional& p : verb.positionals)
      out += fmt::format(" \\\n      '{}:{}:{}'", p.repeatable ? "*" : "", p.name, zsh_action(values_of(verb, p)));
    out += " ;;\n";
  }
  return out +
         "  esac\n}\nif [ \"$funcstack[1]\" = _rehearse ]; then _rehearse \"$@\"; else compdef _rehearse rehearse; "
         "fi\n";
}

std::string fish() {
  std::string out = "# Completion of rehearse for fish: put it as rehearse.fish into ~/.config/fish/completions.\n";
  for (const Verb& v : verbs())
    out += fmt::format("complete -c rehearse -f -n __fish_use_subcommand -a {} -d '{}'\n", v.name,
                       quoted(v.summary, false));
  for (const Verb& verb : verbs()) {
    const std::string when = fmt::format("complete -c rehearse -n '__fish_seen_subcommand_from {}'", verb.name);
    for (const Option& o : verb.options) {
      std::string names = fmt::format(" -l {}", long_name(o).substr(2));
      if (o.name.find(',') != std::string::npos)
        names = fmt::format(" -s {}", o.name.substr(1, o.name.find(',') - 1)) + names;
      const Values v = values_of(verb, o);
      const std::string argument =
          o.value.empty()                 ? ""
          : v.kind == Values::Kind::files ? " -r -F"
          : v.words.empty()               ? " -x"
                            : fmt::format(" {} -a '{}'", v.or_files ? "-r -F" : "-x", fmt::join(v.words, " "));
      out += fmt::format("{}{}{} -d '{}'\n", when, names, argument, quoted(o.help, false));
    }
    if (!verb.positionals.empty())
      if (const Values v = values_of(verb, verb.positionals.front()); v.kind == Values::Kind::words)
        out += fmt::format("{} {} -a '{}'\n", when, v.or_files ? "-F" : "-f", fmt::join(v.words, " "));
  }
  return out;
}

int completion(const Arguments& arguments, Console& console) {
  const std::vector<std::string> shells{"bash", "zsh", "fish"};
  const std::string shell = arguments.text("SHELL");
  if (std::find(shells.begin(), shells.end(), shell) == shells.end()) throw unknown_name("shell", shell, shells);
  console.out << (shell == "bash" ? bash() : shell == "zsh" ? zsh() : fish());
  return 0;
}

}  // namespace

Verb completion_verb() {
  return {"completion",
          "A script with which a shell completes verbs, options, keys and values.",
          {"rehearse completion bash > ~/.local/share/bash-completion/completions/rehearse",
           "source <(rehearse completion bash)"},
          {{"SHELL", "bash, zsh or fish"}},
          {},
          "'cmake --install' puts all three where shells look for them.",
          completion};
}

}  // namespace rehearse::cli
