#pragma once
// JSON text and files, read strictly: what the JSON standard leaves open (duplicate keys) or what a hand-written file
// gets wrong (truncation, NaN, a comma too many) is an error that says where. Used for every JSON file the product
// reads.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace rehearse {

struct JsonLimits {
  std::size_t bytes = 64'000'000;  ///< A larger file is refused before it is read.
  int depth = 64;                  ///< Objects and arrays inside each other.
};

/// Whole contents of a file. `path` may be a pipe; a regular file's size is checked before anything is read.
/// Throws Error, `where` the path: usage when it is missing, a directory, unreadable or larger than `limit` bytes,
/// check_failed where the system has no file descriptors or memory left for it.
[[nodiscard]] std::string read_text(const std::string& path, std::size_t limit = JsonLimits{}.bytes);

/// Paths of what lies in a folder, sorted; none where there is no such folder. Throws Error (check_failed) where it
/// cannot be read.
[[nodiscard]] std::vector<std::string> entries_of(const std::string& folder);
/// Those that end with ".json".
[[nodiscard]] std::vector<std::string> json_files_of(const std::string& folder);

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
