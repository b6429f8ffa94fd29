#include "core/weights/weight_names.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <numeric>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/config/json_file.hpp"
#include "core/config/object_reader.hpp"

namespace rehearse {
namespace {

constexpr const char* kNamesSchema = "rehearse/weight_names/v1";

/// "layer.3.mlp.fc1.weight" is number 3 of the block "layer", and the rest; a name without a number is all pattern.
struct SplitName {
  std::string pattern;  ///< "layer.{n}.mlp.fc1.weight"
  std::string block;    ///< Empty where there is no number.
  std::int64_t number = 0;
};

SplitName split(const std::string& name) {
  const auto first = name.find('.');
  const auto second = first == std::string::npos ? first : name.find('.', first + 1);
  if (second == std::string::npos) return {name, {}, 0};
  const std::string number = name.substr(first + 1, second - first - 1);
  if (number.empty() || number.size() > 9 ||
      !std::all_of(number.begin(), number.end(), [](unsigned char c) { return std::isdigit(c) != 0; }))
    return {name, {}, 0};
  return {name.substr(0, first) + ".{n}" + name.substr(second), name.substr(0, first), std::stoll(number)};
}

void replace_all(std::string& text, const std::string& what, const std::string& with) {
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + with.size()))
    text.replace(at, what.size(), with);
}

std::string filled(std::string text, std::int64_t number, std::int64_t expert) {
  replace_all(text, "{n}", std::to_string(number));
  replace_all(text, "{n+1}", std::to_string(number + 1));
  replace_all(text, "{e}", std::to_string(expert));
  return text;
}

bool per_expert(const WeightNames::Entry& entry) {
  return std::all_of(entry.pieces.begin(), entry.pieces.end(),
                     [](const std::string& p) { return p.find("{e}") != std::string::npos; });
}

/// Shapes of the pieces that make up one copy of `shape`; empty where they do not.
std::vector<std::vector<std::int64_t>> divided(std::vector<std::int64_t> shape,
                                               const std::vector<std::int64_t>& segments, std::size_t pieces) {
  if (pieces == 1) return {shape};
  if (segments.size() != pieces || shape.empty()) return {};
  std::vector<std::vector<std::int64_t>> out;
  for (const std::int64_t n : segments) {
    shape[0] = n;
    out.push_back(shape);
  }
  return out;
}

std::vector<WeightPiece> pieces_of_one(const WeightNames::Entry& entry, const NamedParameter& p, std::int64_t number) {
  const bool experts = per_expert(entry);
  if (experts && p.shape.size() < 2) return {};
  const std::vector<std::int64_t> each(p.shape.begin() + (experts ? 1 : 0), p.shape.end());
  const auto shapes = divided(each, p.segments, entry.pieces.size());
  std::vector<WeightPiece> out;
  for (std::int64_t e = 0; e < (experts ? p.shape[0] : 1); ++e)
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      WeightPiece piece{filled(entry.pieces[i], number, e), shapes[i], entry.transposed};
      if (piece.transposed && piece.shape.size() == 2) std::swap(piece.shape[0], piece.shape[1]);
      out.push_back(std::move(piece));
    }
  return out;
}

WeightNames read_scheme(const std::string& path) {
  const nlohmann::json document = load_json(path);
  ObjectReader in(document, path);
  WeightNames out;
  out.name = std::filesystem::path(path).stem().string();
  const std::vector<std::string> schemas{kNamesSchema};
  (void)in.choice("schema", schemas);
  out.summary = in.string("summary");
  (void)in.string("source");
  out.prefix = in.string("prefix", "");
  ObjectReader names = in.object("names");
  for (const std::string& key : names.keys()) {
    const nlohmann::json* value = names.raw(key);
    WeightNames::Entry& entry = out.entries[key];
    entry.pieces = value->is_array() ? names.strings(key) : std::vector<std::string>{names.string(key)};
    if (entry.pieces.empty()) names.fail(key, "a parameter has at least one piece");
  }
  in.expect("transposed");
  if (in.has("transposed"))
    for (const std::string& key : in.strings("transposed")) {
      const auto at = out.entries.find(key);
      if (at == out.entries.end()) in.fail("transposed", fmt::format("'{}' is not among the names", key));
      at->second.transposed = true;
    }
  if (auto also = in.optional_object("also"))
    for (const std::string& key : also->keys()) out.also[key] = also->string(key);
  in.expect("passed_over");
  if (in.has("passed_over")) out.passed_over = in.strings("passed_over");
  in.finish();
  return out;
}

}  // namespace

std::int64_t WeightPiece::elements() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

std::optional<WeightPieces> WeightNames::pieces_of(const std::vector<NamedParameter>& parameters) const {
  std::map<std::string, std::int64_t> first;  // Number of each block's first copy.
  for (const NamedParameter& p : parameters) {
    const SplitName s = split(p.name);
    const auto [at, is_new] = first.try_emplace(s.block, s.number);
    at->second = std::min(at->second, s.number);
  }
  WeightPieces out;
  for (const NamedParameter& p : parameters) {
    const SplitName s = split(p.name);
    const auto entry = entries.find(s.pattern);
    if (entry == entries.end()) return std::nullopt;
    std::vector<WeightPiece> pieces = pieces_of_one(entry->second, p, s.number - first.at(s.block));
    if (pieces.empty()) return std::nullopt;
    out[p.name] = std::move(pieces);
  }
  return out;
}

std::vector<std::string> WeightNames::spellings(const std::string& tensor) const {
  std::vector<std::string> out{tensor};
  for (const auto& [end, other] : also)
    if (tensor.ends_with(end)) out.push_back(tensor.substr(0, tensor.size() - end.size()) + other);
  if (!prefix.empty())
    for (std::size_t i = 0, n = out.size(); i < n; ++i)
      if (out[i].starts_with(prefix)) out.push_back(out[i].substr(prefix.size()));
  return out;
}

bool WeightNames::passes_over(const std::string& tensor) const {
  return std::any_of(passed_over.begin(), passed_over.end(),
                     [&](const std::string& end) { return tensor.ends_with(end); });
}

WeightPieces own_pieces(const std::vector<NamedParameter>& parameters) {
  WeightPieces out;
  for (const NamedParameter& p : parameters) out[p.name] = {{p.name, p.shape, false}};
  return out;
}

std::vector<WeightNames> read_weight_names(const std::string& folder) {
  std::vector<WeightNames> out;
  for (const std::string& file : json_files_of(folder)) out.push_back(read_scheme(file));
  return out;
}

}  // namespace rehearse
