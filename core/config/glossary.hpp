#pragma once
// The words of the field and of this project, with what they mean: topologies/glossary.json, schema
// "rehearse/glossary/v1". `rehearse explain bubble` shows one of them.
//
//   const Glossary words = load_glossary("topologies/glossary.json");
//   const Term* bubble = words.find("pipeline bubble");  // by any of its names; nullptr for a word that is not there

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rehearse {

/// One word. `see` names other terms by their first name.
struct Term {
  std::string term;               ///< "bubble".
  std::vector<std::string> also;  ///< Its other names: "pipeline bubble".
  std::string summary;            ///< One sentence.
  std::string text;               ///< What a newcomer needs beside it, with the formula where there is one.
  std::vector<std::string> see;
  std::string source;  ///< Paper, datasheet, documentation, or the page of this project that says more.
};

class Glossary {
 public:
  explicit Glossary(std::vector<Term> terms) : terms_(std::move(terms)) {}

  /// In the order of the file, which is that of the alphabet.
  [[nodiscard]] const std::vector<Term>& terms() const { return terms_; }
  /// Every name that find() knows, a term's own before its others.
  [[nodiscard]] std::vector<std::string> names() const;
  /// By any name, whatever its case and its hyphens, underscores and spaces: "all_reduce" finds "all-reduce".
  [[nodiscard]] const Term* find(std::string_view word) const;
  /// As find(). Throws Error (usage) for a word that is no name, with the nearest ones and where all are listed.
  [[nodiscard]] const Term& at(std::string_view word) const;

 private:
  std::vector<Term> terms_;
};

/// Reads the file. Throws Error (usage) with the file and the JSON path: for anything missing, unknown or mistyped, for
/// a name that two terms have, and for a `see` that is no term.
[[nodiscard]] Glossary load_glossary(const std::string& path);
/// The same of a text; `origin` names it in errors.
[[nodiscard]] Glossary parse_glossary(std::string_view json_text, const std::string& origin);

}  // namespace rehearse
