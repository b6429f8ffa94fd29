#pragma once
// Small XML files as a tree, read with hard limits: what describes a machine is small, flat and has no document type.

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rehearse {

/// Everything beyond them is refused at once, before it costs memory or time.
struct XmlLimits {
  int depth = 32;  ///< Elements inside each other.
  int elements = 100'000;
  int attributes = 64;       ///< Of one element.
  std::size_t text = 4'096;  ///< Bytes of one attribute's value.
};

struct XmlElement {
  std::string name;
  int line = 0;
  std::vector<std::pair<std::string, std::string>> attributes;
  std::vector<XmlElement> children;

  [[nodiscard]] bool has(std::string_view attribute) const;
  /// The value, or `fallback`.
  [[nodiscard]] std::string text(std::string_view attribute, const std::string& fallback = {}) const;
};

/// The root element. Text between elements, comments and processing instructions are passed over.
/// Throws Error (usage), `where` "origin:line", for text that is not well-formed XML, a document type declaration
/// (where entities would be declared), and whatever is beyond `limits`.
[[nodiscard]] XmlElement parse_xml(std::string_view text, const std::string& origin, const XmlLimits& limits = {});

}  // namespace rehearse
