#pragma once
// The model that a job trains: a registered one by its name, or one of the sizes that are stated, as a configuration in
// Hugging Face's words.

#include <filesystem>
#include <string>

#include "core/import/job/draft.hpp"

namespace rehearse::job {

struct JobModel {
  Json value;               ///< A name, or an object; null where it has to be asked for.
  std::int64_t layers = 0;  ///< 0: unknown.
};

/// Asks in `draft` for what is missing. `models` is the folder of registered models. Throws Error (usage) for sizes
/// that no network has.
[[nodiscard]] JobModel model_of(Draft& draft, const std::string& framework, const std::filesystem::path& models);

/// The model that the user names: a registered one, or a file, whose path is made absolute. Throws Error (usage) for
/// one that there is not.
[[nodiscard]] JobModel stated_model(const std::string& name, const std::filesystem::path& models);

/// The registered model that a name of the hub or of a framework means ("meta-llama/Meta-Llama-3-8B"); empty: none.
/// `exact` is false where it is a relative of that model.
[[nodiscard]] std::string registered_model(const std::string& name, const std::vector<std::string>& registered,
                                           bool& exact);

/// The sizes as a configuration in Hugging Face's words; null with questions where some are missing.
[[nodiscard]] Json configuration_of(Draft& draft, const std::string& framework);

}  // namespace rehearse::job
