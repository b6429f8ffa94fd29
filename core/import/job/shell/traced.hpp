#pragma once
// Text whose characters remember where they were written, so that an option that a script puts together from variables
// of several files can be traced to its line; and the mark of what a script does not say.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace rehearse::job {

/// A line of one of the files at hand.
struct Place {
  int file = -1;  ///< Index into the list of files; -1: no file.
  int line = 0;   ///< From 1.
  bool operator==(const Place&) const = default;
};

struct Traced {
  std::string text;
  std::vector<Place> places;  ///< One for each byte of `text`.

  Traced() = default;
  Traced(std::string_view t, Place place) : text(t), places(t.size(), place) {}

  void add(char c, Place place) { text += c, places.push_back(place); }
  void add(const Traced& more);
  [[nodiscard]] Traced part(std::size_t begin, std::size_t count = std::string::npos) const;
  /// Of the first byte; nowhere where there is none.
  [[nodiscard]] Place place() const { return places.empty() ? Place{} : places.front(); }
  [[nodiscard]] bool empty() const { return text.empty(); }
};

// What a script takes from elsewhere (a variable that nothing sets, what a program prints) stands in texts between two
// control characters, under the name that a user may give it by.
inline constexpr char kUnknownBegin = '\x01', kUnknownEnd = '\x02';

/// The mark of something that is not known, `name` being "NNODES" or "$(nvidia-smi -L)".
[[nodiscard]] std::string unknown_mark(std::string_view name);
[[nodiscard]] bool has_unknown(std::string_view text);
/// The text without its marks: what a shell would have, where nothing sets them.
[[nodiscard]] std::string without_unknown(std::string_view text);
/// What the first mark of the text names; empty where it has none.
[[nodiscard]] std::string first_unknown(std::string_view text);
/// For messages: "${NNODES}/8".
[[nodiscard]] std::string readable(std::string_view text);

}  // namespace rehearse::job
