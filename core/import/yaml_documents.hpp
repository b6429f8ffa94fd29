#pragma once
// Documents of a YAML text. Private to core/import.

#include <string>
#include <vector>

#include <yaml-cpp/yaml.h>

namespace rehearse {

/// All documents of the text. Throws YAML::Exception for what is no YAML; also for a bracket or comma that belongs to
/// no document, of which yaml-cpp's own reader makes empty documents without end.
[[nodiscard]] std::vector<YAML::Node> yaml_documents(const std::string& text);

}  // namespace rehearse
