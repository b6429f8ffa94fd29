// "toy": the document's records as lines "TITLE=CELL", a blank line between records.

#include "core/report/formats/format.hpp"

namespace rehearse {

namespace {

std::string print_format_toy(const Document& document, const TextStyle&) {
  std::string out;
  const Table& records = document.records;
  for (const auto& row : records.rows) {
    for (std::size_t c = 0; c < row.size(); ++c) out += records.columns[c].title + "=" + row[c] + "\n";
    out += "\n";
  }
  return out.empty() ? "\n" : out;
}

[[maybe_unused]] const bool registered_format_toy =
    formats().add({"toy", "one line per cell of a record", {}, print_format_toy});

}  // namespace

}  // namespace rehearse
