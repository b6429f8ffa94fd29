#pragma once
// What the page's pickers offer.

#include <string>

#include "core/api/data_directory.hpp"

namespace rehearse::playground {

/// {version, scenarios[{file, scenario}], models[{name, parameters, layers}], machines[{name, title, gpus}],
/// networks[{name, title}], frameworks[{name, title}], schedules[{name, title}], lessons[{name, title,
/// question}], tasks[{name, track, title}], keys[{key, type,
/// fallback, help}], page{words, definitions}}. Scenarios are those of the folder `scenarios` that describe a job;
/// frameworks the newest release of each, and all releases after them.
[[nodiscard]] std::string choices_json(const DataDirectory& data);

}  // namespace rehearse::playground
