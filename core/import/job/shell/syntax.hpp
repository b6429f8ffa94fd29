#pragma once
// What a shell script says, before anything is expanded: commands, lists of them, conditions and loops.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/import/job/shell/traced.hpp"

namespace rehearse::job {

/// A word as it is written, quotes and all. `items` holds what stands in "NAME=( ... )", whose text is "NAME=(".
struct Word {
  Traced raw;
  std::vector<Word> items = {};
  bool array = false;
};

struct Redirection {
  std::string sign;       ///< ">", ">>", "<", "<<", "<<<", "&>", "2>", ...
  Word target;            ///< A file; of "<<" the text itself.
  bool verbatim = false;  ///< Of "<<": the delimiter was quoted, nothing is expanded.
};

struct Node;
/// Commands and what joins each to the one before: ";", "&&" or "||".
using List = std::vector<std::pair<std::string, std::shared_ptr<Node>>>;

struct Node {
  enum class Kind {
    simple,
    pipeline,
    negation,
    group,
    condition,
    loop,
    counted,
    each,
    choice,
    function,
    arithmetic,
    test
  };
  Kind kind = Kind::simple;
  Place place;
  std::vector<Word> words;  ///< simple, test: all; each: what is gone through; choice: what is looked at.
  std::vector<std::shared_ptr<Redirection>> redirections;  ///< Of any kind.
  std::vector<std::shared_ptr<Node>> parts;                ///< pipeline, negation.
  List body;                                 ///< group, loop, each, function; condition: what is done without one met.
  std::vector<std::pair<List, List>> cases;  ///< condition: each with what is done; loop: one, its condition.
  std::vector<std::pair<std::vector<Word>, List>> choices;  ///< choice: patterns and what is done.
  std::string name;                                         ///< each: its variable; function; loop: "while" or "until".
  Traced text;                                              ///< arithmetic; counted: "i=0; i<8; i++".
};

/// Reads a script. `name` is its file's, for errors. Throws Error (usage), `where` "file:line", for quotes, brackets
/// and conditions that never end.
[[nodiscard]] List parse_shell(const Traced& script, const std::string& name);

}  // namespace rehearse::job
