#pragma once
// JSON text and files, read strictly: what the JSON standard leaves open (duplicate keys) or what a hand-written file
// gets wrong (truncation, NaN, a comma too many) is an error that says where. Used for every JSON file the product
// reads.

#include <cstddef>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace rehearse {

struct JsonLimits {
  std::size_t bytes = 64'000'000;  ///< A larger file is refused before it is read.
  int depth = 64;                  ///< Objects and arrays inside each other.
};

/// Whole contents of a file. `path` may be a pipe; a regular file's size is checked before anything is read.
/// Throws Error (usage), `where` the path, when it is missing, a directory, unreadable or larger than `limit` bytes.
[[nodiscard]] std::string read_text(const std::string& path, std::size_t limit = JsonLimits{}.bytes);

/// Parses RFC 8259 JSON in UTF-8; a byte-order mark is skipped. `origin` names the text in errors (a path, "--set").
/// Throws Error (usage): syntax errors, NaN and Infinity, numbers beyond a double, text that ends early, bad UTF-8,
/// with `where` "origin:line:column"; a key that occurs twice in one object and nesting beyond `limits.depth`, with
/// `where` "origin: /json/path".
[[nodiscard]] nlohmann::json parse_json(std::string_view text, const std::string& origin, JsonLimits limits = {});

/// Whether `schema` stands in the first 256 bytes of a file, where this program writes it. False for a file that cannot
/// be read.
[[nodiscard]] bool begins_with_schema(const std::string& path, std::string_view schema);

/// read_text, then parse_json with the path as origin.
[[nodiscard]] nlohmann::json load_json(const std::string& path, JsonLimits limits = {});

}  // namespace rehearse
