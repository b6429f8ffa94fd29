#pragma once
// Reads the words of a shell script, quotes and brackets and all, and the here-documents that begin on the next line.

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/import/job/shell/syntax.hpp"

namespace rehearse::job {

/// Whether a word ends before this character.
[[nodiscard]] bool ends_word(char c);

/// NAME=, NAME+= or NAME[i]= at the beginning: the position behind the '=', or 0.
[[nodiscard]] std::size_t assignment_end(const std::string& text);

class WordReader {
 public:
  /// Both are kept by reference. `name` is the file's, for errors.
  WordReader(const Traced& script, const std::string& name) : in_(script), name_(name) {}

 protected:
  static constexpr int kDeepest = 200;  ///< Constructs inside one another: no script that people write has as many.

  [[nodiscard]] bool at_end() const { return i_ >= in_.text.size(); }
  [[nodiscard]] char peek(std::size_t ahead = 0) const {
    return i_ + ahead < in_.text.size() ? in_.text[i_ + ahead] : '\0';
  }
  [[nodiscard]] bool looking_at(std::string_view what) const { return in_.text.compare(i_, what.size(), what) == 0; }
  [[nodiscard]] Place here() const {
    if (in_.places.empty()) return {};
    return in_.places[std::min(i_, in_.places.size() - 1)];
  }
  [[nodiscard]] std::string_view text(std::size_t size) const { return std::string_view(in_.text).substr(i_, size); }
  /// The next `size` characters, which are then behind.
  [[nodiscard]] Traced take(std::size_t size);
  [[noreturn]] void fail(const std::string& what, Place at = {}) const;

  void skip_blanks();
  void newline();
  /// Bytes of "<path to data>", which whoever copied the script was to fill in; 0 for anything else.
  [[nodiscard]] std::size_t place_holder() const;
  Word read_word(bool may_assign = false);

  int depth_ = 0;
  std::size_t i_ = 0;
  std::vector<std::shared_ptr<Redirection>> pending_;  ///< Here-documents whose text begins on the next line.

 private:
  void read_here_document(Redirection& r);
  /// NAME=( ... ): items up to the bracket that closes it.
  Word array(Word out);
  /// One character, or what quotes or brackets hold together.
  void piece(Traced& out);
  void quoted(Traced& out);
  void double_quoted(Traced& out);
  void back_quoted(Traced& out);
  /// From '(' or '{' to the one that closes it.
  void balanced(Traced& out);

  const Traced& in_;
  const std::string& name_;
};

}  // namespace rehearse::job
