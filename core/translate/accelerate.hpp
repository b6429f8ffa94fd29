#pragma once
// What accelerate's own file (accelerate.yaml) says, which the language "huggingface" takes up. Private to
// core/translate.

#include <string>
#include <vector>

#include "core/translate/language.hpp"

namespace rehearse::translate {

/// FSDP's settings, in a block or with a prefix of their own: "fsdp_config.fsdp_", "fsdp_".
void add_fsdp(std::vector<Term>& terms, const std::string& group);
/// The rest of the file; its distributed_type decides which of the blocks hold.
void add_accelerate(std::vector<Term>& terms);

}  // namespace rehearse::translate
