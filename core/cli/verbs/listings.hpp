#pragma once
// Everything that has a name, by kind.

#include <string>
#include <vector>

#include "core/api/data_directory.hpp"
#include "core/report/formats/document.hpp"

namespace rehearse::cli {

/// "models", "clusters", ..., in the order of help.
[[nodiscard]] std::vector<std::string> listing_kinds();
/// Names of everything that `explain` knows besides keys and words, each once and sorted.
[[nodiscard]] std::vector<std::string> explained_names();
/// The first column of every listing is the name. Throws Error (usage) for an unknown kind.
[[nodiscard]] Table listing(const std::string& kind, const DataDirectory& data);

/// The same as people read it: where names have more to say than a line holds, it is wrapped. Of keys those that users
/// set, or all.
[[nodiscard]] std::vector<DocumentBlock> listing_to_read(const std::string& kind, const DataDirectory& data, bool all);

}  // namespace rehearse::cli
