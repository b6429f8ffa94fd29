#pragma once
// Where this source tree lies. One file knows, so that the objects of tests are the same in every copy of the tree (and
// ccache finds them).

#include <string>

namespace rehearse::testing {

/// `below` in the source tree: "topologies", "" for the tree itself.
[[nodiscard]] std::string source_path(const std::string& below);

}  // namespace rehearse::testing
