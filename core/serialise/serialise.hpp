#pragma once
// A Program as text and as a number. The text is JSON with a version of its own: every field by its name, fields at
// their default left out, lists of entries as one array per field. The number is what ranks compare before their first
// step.

#include <cstdint>
#include <string>
#include <string_view>

#include "core/program/program.hpp"

namespace rehearse {

/// Schema of the text.
inline constexpr std::string_view kProgramSchema = "rehearse/program/v1";

/// Canonical: equal Programs give equal text, on one line.
[[nodiscard]] std::string to_json(const Program& program);

/// The inverse: to_json(program_from_json(t)) == t for every text that to_json() wrote. Throws Error (usage) with the
/// JSON path: not JSON, another schema or version, an unknown key or name, a value of the wrong type. What the fields
/// mean is validate()'s business: call it before use.
[[nodiscard]] Program program_from_json(std::string_view text);

/// FNV-1a (64 bits, by words) over every field in declaration order. The same on every machine and in every run;
/// another value when any field differs.
[[nodiscard]] std::uint64_t program_hash(const Program& program);

}  // namespace rehearse
