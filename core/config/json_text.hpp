#pragma once
// JSON where the path of a file is wanted: whoever takes the path of a scenario, a plan, a fleet or a lesson takes its
// text as well, on the command line and from other languages.
//
//   const Scenario s = load_scenario(R"({"schema": "rehearse/scenario/v1", "model": "llama3_8b", ...})");

#include <string>
#include <string_view>

namespace rehearse {

/// Whether `given` is an object of JSON itself and not the path of a file: its first character but spaces is '{'.
/// read_text(), load_json() and begins_with_schema() (json_file.hpp) then take it as what a file holds.
[[nodiscard]] bool is_json_text(std::string_view given);

/// What messages call `given`, and what its relative references are relative to: the path, or kGivenText for a text,
/// whose references are relative to the working directory.
[[nodiscard]] std::string origin_of(const std::string& given);
inline constexpr const char* kGivenText = "the text given";

/// Whether `text` can stand in a JSON text.
[[nodiscard]] bool is_utf8(std::string_view text);

}  // namespace rehearse
