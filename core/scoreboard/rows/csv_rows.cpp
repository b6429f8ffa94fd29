#include "core/scoreboard/rows/csv_rows.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/portable.hpp"

namespace rehearse {

namespace {

constexpr std::size_t kMaxRows = 1'000'000;

const std::map<std::string, std::string, std::less<>>& columns() {
  static const std::map<std::string, std::string, std::less<>> known{{"# gpus", "gpus"},
                                                                     {"global batch", "global_batch"},
                                                                     {"micro batch", "micro_batch"},
                                                                     {"hidden size", "hidden"},
                                                                     {"attention heads", "heads"},
                                                                     {"# layers", "layers"},
                                                                     {"sequence length", "seq_len"},
                                                                     {"tensor parallelism", "tp"},
                                                                     {"data parallelism", "dp"},
                                                                     {"pipeline parallelism", "pp"},
                                                                     {"iteration time (ms)", "iteration_time_ms"}};
  return known;
}

std::string trimmed(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())) != 0) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) text.remove_suffix(1);
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"') text = text.substr(1, text.size() - 2);
  return std::string(text);
}

std::vector<std::string> cells(std::string_view line) {
  std::vector<std::string> out;
  bool quoted = false;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= line.size(); ++i) {
    if (i < line.size() && line[i] == '"') quoted = !quoted;
    if (i < line.size() && (quoted || line[i] != ',')) continue;
    out.push_back(trimmed(line.substr(begin, i - begin)));
    begin = i + 1;
  }
  return out;
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

FieldValue value_of(const std::string& cell) {
  if (cell.empty()) return std::monostate{};
  double number = 0;
  const auto [end, failed] = number_from_chars(cell.data(), cell.data() + cell.size(), number);
  if (failed == std::errc{} && end == cell.data() + cell.size() && std::isfinite(number)) return number;
  return cell;
}

Measurement row_of(const std::vector<std::string>& names, const std::vector<std::string>& values) {
  Measurement row;
  if (values.size() != names.size())
    row.malformed = fmt::format("{} cells for {} columns", values.size(), names.size());
  for (std::size_t i = 0; i < std::min(names.size(), values.size()); ++i)
    (names[i] == "iteration_time_ms" ? row.measured : row.config)[names[i]] = value_of(values[i]);
  const auto gpus = row.config.find("gpus");
  const double* const count = gpus == row.config.end() ? nullptr : std::get_if<double>(&gpus->second);
  row.source = count != nullptr && *count > kCsvNodeGpus ? kCsvNodesSource : kCsvSource;
  return row;
}

}  // namespace

std::vector<Measurement> parse_csv_measurements(std::string_view text, const std::string& name) {
  const std::string stem = std::filesystem::path(name).stem().string();
  std::vector<Measurement> out;
  std::vector<std::string> names;
  bool any_known = false;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    if (trimmed(line).empty()) continue;
    if (names.empty()) {
      for (const std::string& cell : cells(line)) {
        const auto at = columns().find(lower(cell));
        any_known = any_known || at != columns().end();
        names.push_back(at == columns().end() ? cell : at->second);
      }
      continue;
    }
    if (out.size() == kMaxRows) throw Error(ErrorKind::usage, fmt::format("more than {} rows", kMaxRows), name);
    out.push_back(row_of(names, cells(line)));
    out.back().file = stem;
    out.back().number = static_cast<int>(out.size());
    out.back().id = fmt::format("{}:{}", stem, out.size());
  }
  if (!any_known)
    throw Error(ErrorKind::usage, "no column of a measurement file", name,
                "wanted a header such as '# GPUs,global batch,micro batch,hidden size,...,iteration time (ms)'");
  return out;
}

}  // namespace rehearse
