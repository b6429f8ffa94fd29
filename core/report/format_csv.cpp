// "csv": the document's records as RFC 4180 says, with a header line and plain newlines.

#include "core/report/format.hpp"

namespace rehearse {

namespace {

std::string quoted(const std::string& cell) {
  if (cell.find_first_of(",\"\n\r") == std::string::npos) return cell;
  std::string out = "\"";
  for (const char c : cell) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + "\"";
}

std::string print(const Document& document, const TextStyle&) {
  std::string out;
  const Table& records = document.records;
  for (std::size_t c = 0; c < records.columns.size(); ++c) out += (c ? "," : "") + quoted(records.columns[c].title);
  out += "\n";
  for (const auto& row : records.rows) {
    for (std::size_t c = 0; c < row.size(); ++c) out += (c ? "," : "") + quoted(row[c]);
    out += "\n";
  }
  return out;
}

[[maybe_unused]] const bool registered = formats().add({"csv", "one line per record, for spreadsheets", {}, print});

}  // namespace

}  // namespace rehearse
