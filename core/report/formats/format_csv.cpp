// "csv": the document's records as RFC 4180 says, with a header line and plain newlines.

#include "core/report/formats/format.hpp"

namespace rehearse {

namespace {

std::string quoted(const std::string& cell) {
  if (cell.find_first_of(",\"\n\r") == std::string::npos) return cell;
  std::string out = "\"";
  for (const char c : cell) {
    if (c == '"') out += c;
    out += c;
  }
  out += '"';
  return out;
}

void append(std::string& line, std::size_t column, const std::string& cell) {
  if (column > 0) line += ',';
  line += quoted(cell);
}

std::string print_format_csv(const Document& document, const TextStyle&) {
  std::string out;
  const Table& records = document.records;
  for (std::size_t c = 0; c < records.columns.size(); ++c) append(out, c, records.columns[c].title);
  out += "\n";
  for (const auto& row : records.rows) {
    for (std::size_t c = 0; c < row.size(); ++c) append(out, c, row[c]);
    out += "\n";
  }
  return out;
}

[[maybe_unused]] const bool registered_format_csv =
    formats().add({"csv", "one line per record, for spreadsheets", {}, print_format_csv});

}  // namespace

}  // namespace rehearse
