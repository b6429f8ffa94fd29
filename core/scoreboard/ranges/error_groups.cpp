#include "core/scoreboard/ranges/error_groups.hpp"

#include <cctype>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/config/json_file.hpp"
#include "core/scoreboard/scoreboard.hpp"

namespace rehearse {

namespace {

using nlohmann::json;

constexpr const char* kFirstErrorsSchema = "rehearse/first_errors/v1";

class GroupReader {
 public:
  GroupReader(const json& group, std::string where) : group_(group), where_(std::move(where)) {
    if (!group_.is_object()) refuse_at(where_, "wanted an object");
  }

  /// Empty for null, and where the key is absent and `needed` is false.
  [[nodiscard]] std::string text(const char* key, bool needed = true) const {
    const auto at = group_.find(key);
    if (at == group_.end() ? !needed : at->is_null()) return {};
    if (at == group_.end() || !at->is_string()) refuse_at(where_ + "/" + key, "wanted a text");
    return at->get<std::string>();
  }

  [[nodiscard]] double number(const char* key, double least) const {
    const auto at = group_.find(key);
    if (at == group_.end() || !at->is_number() || !(at->get<double>() >= least))
      refuse_at(where_ + "/" + key, fmt::format("wanted a number from {} on", least));
    return at->get<double>();
  }

 private:
  const json& group_;
  std::string where_;
};

ErrorGroup first_errors_of(const GroupReader& from) {
  ErrorGroup out;
  out.source = from.text("source");
  out.kind = {from.text("kind"), from.text("generation"), from.text("framework", false)};
  out.rows = static_cast<int>(from.number("rows", 1));
  out.mean = -from.number("mean_log_error", -10);  // The file has predicted / measured.
  out.deviation = from.number("sd_log_error", 0);
  out.first = true;
  out.doubtful = !from.text("doubtful", false).empty();
  return out;
}

/// The citation's first words without commit, line or table: parts of one source are one source.
std::string source_of(const MappedRow& row) {
  std::string out = short_source(row);
  for (const char* part : {" @", " line ", " Table "}) out = out.substr(0, out.find(part));
  return out;
}

bool begins_a_release(const std::string& word) {
  const auto digit = [&word](std::size_t i) {
    return word.size() > i && std::isdigit(static_cast<unsigned char>(word[i])) != 0;
  };
  return digit(0) || (word[0] == 'v' && digit(1));
}

}  // namespace

ErrorGroup group_of(std::string source, PredictionKind kind, std::vector<double> errors) {
  ErrorGroup out{std::move(source), std::move(kind), static_cast<int>(errors.size())};
  out.mean = std::accumulate(errors.begin(), errors.end(), 0.0) / out.rows;
  double squares = 0;
  for (const double e : errors) squares += (e - out.mean) * (e - out.mean);
  if (out.rows > 1) out.deviation = std::sqrt(squares / (out.rows - 1));
  out.errors = std::move(errors);
  return out;
}

std::vector<ErrorGroup> load_first_errors(const std::filesystem::path& path, ErrorQuantity quantity) {
  const char* wanted = quantity == ErrorQuantity::step_time ? "step_time" : "peak_memory";
  const std::string file = path.string();
  const json document = load_json(file);
  if (!document.is_object() || document.value("schema", json()) != kFirstErrorsSchema)
    refuse_at(file + ": /schema", fmt::format("wanted {}", kFirstErrorsSchema));
  if (!document.contains("groups") || !document.at("groups").is_array()) refuse_at(file + ": /groups", "wanted a list");
  std::vector<ErrorGroup> out;
  int i = 0;
  for (const json& group : document.at("groups")) {
    const GroupReader from(group, fmt::format("{}: /groups/{}", file, i++));
    if (from.text("quantity") == wanted) out.push_back(first_errors_of(from));
  }
  return out;
}

std::vector<ErrorGroup> groups_of(const Scoreboard& board, ErrorQuantity quantity) {
  using Key = std::tuple<std::string, std::string, std::string, std::string>;
  std::map<Key, std::vector<double>> rows;
  for (const ScoredRow& row : board.rows) {
    if (!row.counts()) continue;
    const RowJob& job = *row.row.job;
    const std::optional<double> error = quantity == ErrorQuantity::step_time ? row.error : row.memory_error;
    if (error) rows[{source_of(row.row), job.model_kind, job.generation, job.framework}].push_back(-std::log1p(*error));
  }
  std::vector<ErrorGroup> out;
  for (auto& [key, errors] : rows) {
    const auto& [source, model, generation, framework] = key;
    out.push_back(group_of(source, {model, generation, framework}, std::move(errors)));
  }
  return out;
}

std::string framework_name(const std::string& text) {
  std::string out, word;
  const auto end_word = [&] {
    if (word.empty()) return true;
    if (begins_a_release(word)) return false;
    out += (out.empty() ? "" : "-") + word;
    word.clear();
    return true;
  };
  for (const char c : text) {
    if (c == ',' || c == '(' || c == '+' || c == ';' || c == '@') break;
    if (std::isspace(static_cast<unsigned char>(c)) == 0)
      word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    else if (!end_word())
      return out;
  }
  (void)end_word();
  return out;
}

}  // namespace rehearse
