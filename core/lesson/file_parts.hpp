#pragma once
// What files of lessons and of tasks have in common. Private to this folder.

#include <string>
#include <vector>

#include "core/config/object_reader.hpp"
#include "core/lesson/lesson.hpp"

namespace rehearse {

/// Empty where the key is absent.
[[nodiscard]] std::vector<std::string> optional_strings(ObjectReader& in, const std::string& key);
[[nodiscard]] std::vector<ObjectReader> optional_objects(ObjectReader& in, const std::string& key);

/// A list of sentences, of {say, rests_on} or of {if, then, else}; of {claim, holds}. Both may be absent.
[[nodiscard]] std::vector<Saying> read_sayings(ObjectReader& in, const std::string& key);
[[nodiscard]] std::vector<Showing> read_showings(ObjectReader& in, const std::string& key);

/// The figures that a sentence asks for.
[[nodiscard]] std::vector<std::string> names_in(const Saying& saying);
/// Throws Error (usage) at `where`, unless every figure's first word is one of the plans' keys.
void check_plans_named(const std::vector<std::string>& keys, const std::vector<std::string>& names,
                       const std::string& where);
/// Throws Error (usage) at `where`, unless each is one of `claims`.
void check_claims(const std::vector<Showing>& claims, const std::vector<std::string>& named, const std::string& where);

}  // namespace rehearse
