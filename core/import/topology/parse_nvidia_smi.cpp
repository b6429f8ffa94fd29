#include <algorithm>
#include <cctype>
#include <charconv>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.hpp"
#include "core/import/topology/nvidia_smi.hpp"

namespace rehearse {
namespace {

constexpr std::size_t kParseNvidiaSmiMostDevices = 512;

/// Without ANSI escapes ("\033[4m") and carriage returns.
std::string plain_parse_nvidia_smi(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\033' && i + 1 < text.size() && text[i + 1] == '[') {
      for (i += 2; i < text.size() && !std::isalpha(static_cast<unsigned char>(text[i])); ++i) {}
      continue;
    }
    if (text[i] != '\r') out += text[i];
  }
  return out;
}

struct Line {
  int number;
  std::vector<std::string> words;
};

/// How many letters of a device's name or of a class stand at the beginning of `text`.
std::size_t one_word(std::string_view text) {
  for (const std::string_view numbered : {"GPU", "NIC", "NV"}) {
    if (!text.starts_with(numbered)) continue;
    const std::size_t end = std::min(text.find_first_not_of("0123456789", numbered.size()), text.size());
    return end > numbered.size() ? end : 0;
  }
  for (const std::string_view type : {"NODE", "SYS", "PIX", "PXB", "PHB", "SOC"})
    if (text.starts_with(type)) return type.size();
  return 0;
}

/// "NODENODE" and "NIC8NIC9" taken apart: narrow terminals and scripts drop the space between two.
std::vector<std::string> apart(const std::string& word) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at < word.size(); at += out.back().size()) {
    const std::size_t length = one_word(std::string_view(word).substr(at));
    if (length == 0) return {word};
    out.push_back(word.substr(at, length));
  }
  return out;
}

std::vector<Line> lines_of(const std::string& text) {
  std::vector<Line> lines;
  int number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = std::min(text.find('\n', begin), text.size());
    Line line{++number, {}};
    std::string word;
    for (std::size_t i = begin; i <= end; ++i) {
      const char c = i < end ? text[i] : ' ';
      if (!std::isspace(static_cast<unsigned char>(c))) {
        word += c;
      } else if (!word.empty()) {
        for (std::string& one : apart(word)) line.words.push_back(std::move(one));
        word.clear();
      }
    }
    if (!line.words.empty()) lines.push_back(std::move(line));
    begin = end + 1;
  }
  return lines;
}

bool is_gpu(std::string_view word) {
  return word.size() > 3 && word.starts_with("GPU") &&
         std::all_of(word.begin() + 3, word.end(), [](unsigned char c) { return std::isdigit(c); });
}

/// False where the word is no class of path.
bool read_cell(std::string_view word, TopologyMatrix::Cell& cell) {
  static const std::map<std::string_view, PathType> kTypes{
      {"X", PathType::self},    {"PIX", PathType::pix}, {"PXB", PathType::pxb}, {"PHB", PathType::phb},
      {"NODE", PathType::node}, {"SYS", PathType::sys}, {"SOC", PathType::sys}};
  if (const auto it = kTypes.find(word); it != kTypes.end()) {
    cell = {it->second, 0};
    return true;
  }
  if (!word.starts_with("NV")) return false;
  int links = 0;
  const auto [end, failed] = std::from_chars(word.data() + 2, word.data() + word.size(), links);
  cell = {PathType::nvlink, links};
  return failed == std::errc{} && end == word.data() + word.size() && links >= 1 && links <= 1024;
}

/// A list of cores: "0-23,96-119".
bool is_core_list(const std::string& word) {
  return std::isdigit(static_cast<unsigned char>(word.front())) != 0 &&
         word.find_first_not_of("0123456789,-") == std::string::npos;
}

struct LinkMatrix {
  std::vector<std::string> names;                         ///< As the header orders them.
  int line = 0;                                           ///< Of the header.
  bool affinity = false, numa = false, gpu_numa = false;  ///< Which columns follow the devices.
};

/// A device and the class of its first path: a row, not the header.
bool begins_row(const Line& line, const std::vector<std::string>& names) {
  if (line.words.size() < 2 || std::find(names.begin(), names.end(), line.words[0]) == names.end()) return false;
  TopologyMatrix::Cell cell;
  return read_cell(line.words[1], cell) || line.words[1] == "OK" || line.words[1].ends_with("NS");
}

/// Titles of the matrices of rocm-smi --showtopo and of amd-smi topology.
void refuse_amd_matrix(const std::string& text, const std::string& origin) {
  for (const std::string_view title : {"Weight between two GPUs", "Hops between two GPUs", "Link Type between two GPUs",
                                       "WEIGHT TABLE", "HOPS TABLE", "LINK TYPE TABLE", "(Topology) Numa Node"})
    if (text.find(title) != std::string::npos)
      refuse_at(origin, fmt::format("AMD's matrix ('{}'): no AMD GPU is known here", title),
                "it says neither how many links two GPUs share nor where NICs are; describe the GPU and its machine in "
                "files of their own (topologies/README.md)");
}

/// The header, which may be wrapped: device names up to "CPU Affinity". Leaves `at` at the first row.
LinkMatrix read_header(const std::vector<Line>& lines, std::size_t& at, const std::string& origin) {
  while (at < lines.size() && !is_gpu(lines[at].words.front())) ++at;
  if (at == lines.size() || begins_row(lines[at], {lines[at].words.front()}))
    refuse_at(origin, "no matrix of `nvidia-smi topo -m`: no header that begins with a GPU",
              "give what `nvidia-smi topo -m` prints, from its first line on");
  LinkMatrix table;
  table.line = lines[at].number;
  for (; at < lines.size() && !begins_row(lines[at], table.names); ++at) {
    for (const std::string& word : lines[at].words) {
      const auto where = fmt::format("{}:{}", origin, lines[at].number);
      table.affinity = table.affinity || word == "CPU";
      table.numa = table.numa || word == "NUMA";
      table.gpu_numa = table.gpu_numa || word == "ID";
      if (table.affinity) continue;
      if (std::find(table.names.begin(), table.names.end(), word) != table.names.end())
        refuse_at(where, fmt::format("the header names {} twice", word));
      table.names.push_back(word);
      if (table.names.size() > kParseNvidiaSmiMostDevices)
        refuse_at(where, fmt::format("more than {} devices in one matrix", kParseNvidiaSmiMostDevices));
    }
  }
  return table;
}

class ParseNvidiaSmiRows {
 public:
  ParseNvidiaSmiRows(const LinkMatrix& table, std::string origin) : table_(table), origin_(std::move(origin)) {}

  /// Takes the words of one line: those of a new row, or the end of a wrapped one.
  void take(const Line& line) {
    const auto& first = line.words.front();
    if (std::find(table_.names.begin(), table_.names.end(), first) != table_.names.end()) {
      if (rows_.contains(first)) refuse_at(at(line.number), fmt::format("{} has two rows", first));
      open_ = first;
      rows_[first].line = line.number;
      append({line.words.begin() + 1, line.words.end()});
    } else if (!open_.empty()) {
      append(line.words);
    }
  }

  [[nodiscard]] SmiTopology finish() {
    std::vector<std::string> missing, ordered;
    for (const auto& name : table_.names)
      if (!rows_.contains(name)) missing.push_back(name);
    if (!missing.empty())
      refuse_at(at(table_.line),
                fmt::format("a part of a matrix: the header names {} devices, but {} {} no row", table_.names.size(),
                            fmt::join(missing, ", "), missing.size() == 1 ? "has" : "have"),
                "give the whole output of `nvidia-smi topo -m`");
    for (const bool gpus : {true, false})
      for (const auto& name : table_.names)
        if (is_gpu(name) == gpus) ordered.push_back(name);
    SmiTopology out;
    out.has_numa = table_.numa;
    for (const auto& name : ordered) {
      out.matrix.devices.push_back(device(name));
      auto& cells = out.matrix.cells.emplace_back();
      for (const auto& other : ordered) cells.push_back(cell(name, other));
    }
    check_symmetry(out.matrix);
    return out;
  }

 private:
  struct Row {
    int line = 0;
    std::vector<std::string> words;
  };

  [[nodiscard]] std::string at(int line) const { return fmt::format("{}:{}", origin_, line); }
  void append(const std::vector<std::string>& words) {
    auto& row = rows_[open_].words;
    if (row.size() + words.size() > table_.names.size() + 16)
      refuse_at(at(rows_[open_].line), fmt::format("the row of {} has more cells than the header has devices", open_));
    row.insert(row.end(), words.begin(), words.end());
  }

  [[nodiscard]] TopologyMatrix::Cell cell(const std::string& row, const std::string& column) const {
    const Row& from = rows_.at(row);
    const auto index =
        static_cast<std::size_t>(std::find(table_.names.begin(), table_.names.end(), column) - table_.names.begin());
    if (from.words.size() < table_.names.size())
      refuse_at(at(from.line),
                fmt::format("a part of a matrix: the row of {} has {} cells for {} devices", row, from.words.size(),
                            table_.names.size()),
                "give the whole output of `nvidia-smi topo -m`");
    TopologyMatrix::Cell cell;
    if (!read_cell(from.words[index], cell))
      refuse_at(
          at(from.line), fmt::format("'{}' between {} and {} is no class of path", from.words[index], row, column),
          from.words[index] == "OK" || from.words[index].ends_with("NS")
              ? "this is `nvidia-smi topo -p2p`: it says who may, not how they are wired; import `nvidia-smi topo -m`"
              : "valid: X, NV#, PIX, PXB, PHB, NODE, SYS");
    if ((cell.type == PathType::self) != (row == column))
      refuse_at(at(from.line), fmt::format("'{}' between {} and {}", from.words[index], row, column),
                "X stands between a device and itself, and nowhere else");
    return cell;
  }

  [[nodiscard]] TopologyMatrix::Device device(const std::string& name) const {
    TopologyMatrix::Device out{name, {}, !is_gpu(name), {}, -1};
    const auto& words = rows_.at(name).words;
    std::size_t next = table_.names.size();
    if (out.is_nic || next >= words.size()) return out;
    // A cell of the CPU affinity is blank where the shell may run on none of those cores: fewer words than columns.
    const std::size_t columns = 1 + (table_.numa ? 1 : 0) + (table_.gpu_numa ? 1 : 0);
    const bool blank =
        table_.numa && words.size() - next < columns && words[next].find_first_of("-,") == std::string::npos;
    if (!blank && is_core_list(words[next])) out.cores = words[next++];
    // One node: "0-3" and "N/A" name none.
    if (table_.numa && next < words.size() && words[next].size() <= 4 &&
        words[next].find_first_not_of("0123456789") == std::string::npos)
      out.numa = std::stoi(words[next]);
    return out;
  }

  void check_symmetry(const TopologyMatrix& m) const {
    for (std::size_t a = 0; a < m.devices.size(); ++a) {
      for (std::size_t b = 0; b < a; ++b)
        if (m.text(a, b) != m.text(b, a))
          refuse_at(origin_,
                    fmt::format("{} to {} is {}, but {} to {} is {}", m.devices[a].name, m.devices[b].name,
                                m.text(a, b), m.devices[b].name, m.devices[a].name, m.text(b, a)),
                    "a connection has one class: check the text");
    }
  }

  const LinkMatrix& table_;
  std::string origin_, open_;
  std::map<std::string, Row> rows_;
};

}  // namespace

SmiTopology parse_smi_topology(std::string_view text, const std::string& origin) {
  const std::string plain = plain_parse_nvidia_smi(text);
  refuse_amd_matrix(plain, origin);
  const std::vector<Line> lines = lines_of(plain);
  std::size_t at = 0;
  const LinkMatrix table = read_header(lines, at, origin);
  ParseNvidiaSmiRows rows(table, origin);
  std::map<std::string, std::string> devices;  // "NIC Legend:": "NIC0: mlx5_0".
  bool legend = false;
  for (; at < lines.size(); ++at) {
    const auto& words = lines[at].words;
    legend = legend || words.front() == "Legend:" || (words.size() > 1 && words[1] == "Legend:");
    if (!legend) rows.take(lines[at]);
    if (legend && words.size() == 2 && words[0].ends_with(':'))
      devices[words[0].substr(0, words[0].size() - 1)] = words[1];
  }
  SmiTopology out = rows.finish();
  for (auto& device : out.matrix.devices)
    if (const auto it = devices.find(device.name); it != devices.end()) device.device = it->second;
  return out;
}

}  // namespace rehearse
