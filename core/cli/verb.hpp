#pragma once
// Verbs and what they take, as data: parsing, help, did-you-mean and completion all read these tables.

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/cli/console.hpp"

namespace rehearse::cli {

/// "--format FORMAT". An option without `value` is a switch.
struct Option {
  std::string name;        ///< With its dashes: "--format"; with a short form: "-o,--output".
  std::string value;       ///< What stands after it in help: "FORMAT"; empty for a switch.
  std::string help;        ///< One line.
  std::string fallback{};  ///< Shown as the default; parsing leaves absent options absent.
  bool repeatable = false;
  /// Says how or where the command line prints: callers who take answers as objects have no use for it.
  bool prints = false;
};

/// "--output" of "-o,--output".
[[nodiscard]] inline std::string long_name(const Option& o) { return o.name.substr(o.name.find("--")); }

/// An argument by position.
struct Positional {
  std::string name;  ///< "SCENARIO"
  std::string help;
  bool required = true;
  bool repeatable = false;  ///< Takes all that follow; only the last one may.
};

/// What was typed. Options are asked for by their long name.
class Arguments {
 public:
  void add(const std::string& name, std::string value) { values_[name].push_back(std::move(value)); }
  [[nodiscard]] bool has(const std::string& name) const { return values_.contains(name); }
  /// The last value given, or `fallback`.
  [[nodiscard]] std::string text(const std::string& name, const std::string& fallback = {}) const {
    const auto at = values_.find(name);
    return at == values_.end() ? fallback : at->second.back();
  }
  [[nodiscard]] std::vector<std::string> all(const std::string& name) const {
    const auto at = values_.find(name);
    return at == values_.end() ? std::vector<std::string>{} : at->second;
  }
  /// The last value given as a whole number, or `fallback`. Throws Error (usage) at the option for any other text and
  /// for a number below `least` or above `most`.
  [[nodiscard]] std::int64_t whole(const std::string& name, std::int64_t least, std::int64_t fallback,
                                   std::int64_t most = std::numeric_limits<std::int64_t>::max()) const;

 private:
  std::map<std::string, std::vector<std::string>> values_;
};

struct Verb {
  std::string name;
  std::string summary;                ///< One line.
  std::vector<std::string> examples;  ///< Whole commands.
  std::vector<Positional> positionals;
  std::vector<Option> options;
  std::string notes{};  ///< Below the options, in help.
  /// Returns the exit code; throws Error.
  std::function<int(const Arguments&, Console&)> run{};
  bool left_out = false;  ///< Of this build: it runs whatever was typed after it, and says what is missing.
};

/// Every verb, in the order of help. Defined in verbs.cpp: one line each.
[[nodiscard]] const std::vector<Verb>& verbs();

/// Help of one verb: summary, examples first, arguments, options with their defaults. Ends in a newline.
[[nodiscard]] std::string help_text(const Verb& verb, const TextStyle& style);
/// Help of the program: verbs with their summaries.
[[nodiscard]] std::string overview_text(const TextStyle& style);
/// What the program says when nothing was asked: three commands to try.
[[nodiscard]] std::string first_steps_text();

/// Reads a command line (without the program's name) and runs what it asks. Returns the exit code of a verb that ran;
/// throws Error (usage) with did-you-mean for unknown verbs and options, and what verbs throw.
int run_command_line(const std::vector<std::string>& words, Console& console);

}  // namespace rehearse::cli
