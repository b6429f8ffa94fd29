#include "core/hardware/source_table.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/registry.hpp"

namespace rehearse {

SourceTable::SourceTable(ObjectReader& file) {
  static const std::array<std::string, 4> kEvidence{"measured_here", "published", "datasheet", "estimate"};
  ObjectReader table = file.object("sources");
  where_ = table.where();
  for (const auto& key : table.keys()) {
    ObjectReader entry = table.object(key);
    sources_.push_back({key, entry.string("text"), parse_evidence(entry.choice("evidence", kEvidence))});
    entry.finish();
  }
}

void SourceTable::cite(ObjectReader& group) {
  const nlohmann::json* value = group.raw("source");
  if (!value)
    group.fail("source", "these figures name no source", "add \"source\": a key of \"sources\", or a list of keys");
  std::vector<std::string> wanted;
  if (value->is_array())
    wanted = group.strings("source");
  else
    wanted.push_back(group.string("source"));
  if (wanted.empty()) group.fail("source", "these figures name no source");
  std::vector<std::string> known;
  for (const auto& s : sources_) known.push_back(s.key);
  for (const auto& key : wanted) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      Error unknown = unknown_name("source", key, known);
      group.fail("source", unknown.what(), unknown.hint);
    }
    cited_.insert(key);
  }
}

std::vector<Source> SourceTable::finish() const {
  for (const auto& s : sources_)
    if (!cited_.contains(s.key))
      throw Error(ErrorKind::usage, fmt::format("source '{}' is cited by no figure", s.key), where_,
                  "remove it or cite it");
  return sources_;
}

void read_header(ObjectReader& file, const std::string& kind) {
  const std::array<std::string, 1> known{fmt::format("rehearse/{}/v1", kind)};
  file.choice("schema", known);
  file.expect("notes");
}

}  // namespace rehearse
