#pragma once
// What `list` and `explain` say of frameworks.

#include <string>
#include <vector>

#include "core/api/data_directory.hpp"
#include "core/report/formats/document.hpp"

namespace rehearse::cli {

/// Every release of every framework.
[[nodiscard]] Table framework_listing(const DataDirectory& data);
/// "torchtitan@0.2", and the bare name of each framework.
[[nodiscard]] std::vector<std::string> framework_names(const DataDirectory& data);
/// What a release sets, on which conditions, by whose word, and what it can do. Throws Error (usage) for an unknown
/// name.
[[nodiscard]] std::vector<DocumentBlock> framework_page(const DataDirectory& data, const std::string& name);

}  // namespace rehearse::cli
