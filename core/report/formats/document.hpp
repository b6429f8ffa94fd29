#pragma once
// What a verb has to say, apart from how it is printed: blocks for people, records for spreadsheets, JSON for programs.
// Verbs build a Document; every format prints any Document.

#include <functional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace rehearse {

/// How text is laid out. `width` is in columns, at least 40; `colour` allows ANSI escapes.
struct TextStyle {
  int width = 100;
  bool colour = false;
};

/// A paragraph. Formats wrap it.
struct Paragraph {
  std::string text;
};

/// The one line that says what the document is about.
struct Heading {
  std::string text;
};

/// Labels and values, one pair a line.
struct Facts {
  std::string title;  ///< May be empty.
  std::vector<std::pair<std::string, std::string>> rows;
};

struct Column {
  std::string title;
  bool number = false;  ///< Aligned right.
};

/// Rows have one cell per column. `bars`, where not empty, holds one share 0..1 per row, drawn after the row where
/// there is room.
struct Table {
  std::string title;  ///< May be empty.
  std::vector<Column> columns;
  std::vector<std::vector<std::string>> rows;
  std::vector<double> bars{};
};

/// Text whose layout depends on the width: each call draws it again. Ends in a newline.
struct Picture {
  std::string title;
  std::function<std::string(const TextStyle&)> draw;
};

using DocumentBlock = std::variant<Heading, Paragraph, Facts, Table, Picture>;

struct Document {
  std::vector<DocumentBlock> blocks;
  Table records;     ///< One table of plain values, for csv: no units in cells, no rounding for the eye.
  std::string json;  ///< A complete JSON text that ends in a newline.

  /// The text of its first Heading; empty where it has none.
  [[nodiscard]] std::string heading() const {
    for (const DocumentBlock& block : blocks)
      if (const auto* found = std::get_if<Heading>(&block)) return found->text;
    return {};
  }
};

}  // namespace rehearse
