#pragma once
// Runs a shell script on paper: variables, conditions, loops, functions and sourced files as a shell has them, and no
// program. What it would start is listed, word by word. Nothing is executed and nothing is written.
//
//   JobFiles files;
//   Shell shell(files, {{"NNODES", "4"}});
//   shell.run(files.give("train.sh"), {});
//   for (const ShellCommand& c : shell.commands()) ...   // torchrun --nnodes 4 ... pretrain_gpt.py --num-layers 32 ...
//
// A variable that nothing sets, and what a program would print, become marks (traced.hpp), so that whoever reads the
// words knows what to ask for. A condition that hangs on such a thing is not met, and noted.

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/import/job/files/job_files.hpp"
#include "core/import/job/shell/syntax.hpp"

namespace rehearse::job {

struct ShellVariable {
  Traced value;
  std::vector<std::pair<std::string, Traced>> items;  ///< Of an array: by key, in order.
  bool array = false;
  bool exported = false;
  bool from_outside = false;  ///< The user gave it.
  std::string refers = {};    ///< Another name for this variable (declare -n).
};

/// Something that would be started.
struct ShellCommand {
  std::vector<Traced> words;
  Place place;
  std::map<std::string, Traced> environment = {};  ///< Every plain variable as it stands then.
};

class Shell {
 public:
  Shell(JobFiles& files, const std::map<std::string, std::string>& environment);

  /// Runs a file with these arguments. Throws Error (usage) where it cannot be read as a script.
  void run(int file, const std::vector<Traced>& arguments);

  [[nodiscard]] const std::vector<ShellCommand>& commands() const { return commands_; }
  [[nodiscard]] const std::map<std::string, ShellVariable>& variables() const { return variables_; }
  /// Options in lines "#SBATCH --nodes=16", in the order in which scripts were run.
  [[nodiscard]] const std::vector<Traced>& batch_options() const { return batch_options_; }
  /// What was not found or not decided: one line each, with its place.
  [[nodiscard]] const std::vector<std::string>& notes() const { return notes_; }
  /// The value of a variable as text; a mark where nothing sets it.
  [[nodiscard]] Traced value(const std::string& name, Place place = {}) const;

 private:
  struct Result {
    int status = 0;
    Traced output = {};
    bool unknown = false;  ///< The output is that of a program.
  };
  enum class Flow { on, broken, continued, returned, stopped };
  struct Scope {
    std::vector<Traced> arguments;
    std::map<std::string, std::optional<ShellVariable>> hidden;  ///< What local variables stand in place of.
    int file = -1;
  };

  // run.cpp
  Result run(const List& list);
  Result run(const Node& node);
  Result run_simple(const Node& node);
  Result run_pipeline(const Node& node);
  Result run_loop(const Node& node);
  Result run_counted(const Node& node);
  Result run_each(const Node& node);
  Result run_choice(const Node& node);
  Result call(const std::vector<Traced>& words, Place place);
  Result call_function(const Node& function, const std::vector<Traced>& words);
  bool met(const List& condition);
  void write_output(const Node& node, Result& result);
  std::optional<Traced> input_of(const Node& node);
  bool leave_loop();

  // expand.cpp
  std::vector<Traced> expand(const Word& word);
  std::vector<Traced> expand(const std::vector<Word>& words);
  Traced expand_text(const Traced& raw, bool in_quotes);
  Traced expand_pattern(const Traced& raw);
  Traced expand_document(const Traced& raw);
  friend class Expander;

  // variables.cpp
  void assign(const Traced& name_and_sign, Traced value);
  void assign_array(const Word& word);
  bool assign_word(const Word& word);
  void set(const std::string& name, Traced value);
  void set_item(const std::string& name, const std::string& key, Traced value);
  [[nodiscard]] const ShellVariable* find(const std::string& name) const;
  [[nodiscard]] std::string text_of(const std::string& name) const;
  [[nodiscard]] Traced arithmetic(const Traced& text);
  void make_local(const std::string& name);
  [[nodiscard]] std::string meant(const std::string& name) const;

  // test.cpp
  int test(const std::vector<Traced>& words, bool brackets, const std::vector<Word>* raw, Place place);
  friend class Tester;

  // builtins.cpp, text_commands.cpp
  std::optional<Result> builtin(const std::vector<Traced>& words, Place place);
  std::optional<Result> text_command(const std::vector<Traced>& words, Place place);
  Result declare(const Node& node, const std::vector<Traced>& words);
  Result source(const std::vector<Traced>& words, Place place);
  Result evaluate(const Traced& text, Place place);
  Result read_line(const std::vector<Traced>& words);
  Result external(const std::vector<Traced>& words, Place place);
  void note(const std::string& text, Place place);
  void read_batch_options(const Traced& script);

  JobFiles& files_;
  std::map<std::string, ShellVariable> variables_;
  std::map<std::string, std::shared_ptr<Node>> functions_;
  std::vector<std::shared_ptr<List>> parsed_;  ///< What functions are part of.
  std::vector<ShellCommand> commands_;
  std::vector<std::string> notes_;
  std::vector<Traced> batch_options_;
  std::vector<Scope> scopes_;
  std::vector<Traced> wrapper_;  ///< Words before "bash -c": those of srun, for one.
  std::optional<Traced> input_;  ///< What the command at hand would read.
  Flow flow_ = Flow::on;
  int captures_ = 0;    ///< Command substitutions that are being made.
  int conditions_ = 0;  ///< Conditions that are being asked for.
  int depth_ = 0;
  long steps_ = 0;
};

}  // namespace rehearse::job
