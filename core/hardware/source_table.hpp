#pragma once
// The "sources" of a topology file, and the check that every group of figures cites one.

#include <set>
#include <vector>

#include "core/config/object_reader.hpp"
#include "core/hardware/specs.hpp"

namespace rehearse {

class SourceTable {
 public:
  /// Reads the file's "sources": {key: {"text": ..., "evidence": ...}}.
  explicit SourceTable(ObjectReader& file);

  /// Reads the "source" of a group of figures: a key or a list of keys. Throws Error (usage) when it is absent or
  /// unknown.
  void cite(ObjectReader& group);
  /// The sources in the order of their keys. Throws Error (usage) when one is cited by nothing.
  [[nodiscard]] std::vector<Source> finish() const;

 private:
  std::string where_;
  std::vector<Source> sources_;
  std::set<std::string> cited_;
};

/// Reads and checks the "schema" of a topology file: `kind` is "gpu" for "rehearse/gpu/v1". Also lets "notes" pass,
/// which is for human readers.
void read_header(ObjectReader& file, const std::string& kind);

}  // namespace rehearse
