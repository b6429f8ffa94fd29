#include "core/model/library.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/registry.hpp"
#include "core/config/json_file.hpp"
#include "core/config/scenario.hpp"
#include "core/model/architecture.hpp"
#include "core/model/model_file.hpp"

namespace rehearse {
namespace fs = std::filesystem;
namespace {

constexpr const char* kFile = "config.json";

bool is_inline(std::string_view model) {
  const auto first = model.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && model[first] == '{';
}

bool is_file(const fs::path& path) {
  std::error_code unreadable;
  return fs::is_regular_file(path, unreadable);
}

/// A config.json is named after its directory, as Hugging Face repositories are; any other file after itself.
std::string name_of_file(const fs::path& file) {
  if (file.filename() != kFile) return file.stem().string();
  return fs::absolute(file).parent_path().filename().string();
}

nlohmann::json read_as(nlohmann::json config, const ModelReading& reading) {
  if (reading.image_height > 0) config["image_height"] = reading.image_height;
  if (reading.image_width > 0) config["image_width"] = reading.image_width;
  // Of stacks of decoder layers; networks over images know no such key.
  if (!reading.merged_projections && config.contains("num_attention_heads"))
    config.emplace("merged_projections", false);
  return config;
}

Network with_sides_checked(Network network, const ModelReading& reading) {
  if ((reading.image_height > 0 || reading.image_width > 0) && network.sequences)
    throw Error(ErrorKind::usage, network.name + " takes sequences, not images", "training.image_height",
                "leave image_height and image_width out");
  return network;
}

}  // namespace

ModelLibrary::ModelLibrary(fs::path directory) : directory_(std::move(directory)) {}

std::vector<std::string> ModelLibrary::names() const {
  std::vector<std::string> out;
  for (const std::string& entry : entries_of(directory_.string()))
    if (is_file(fs::path(entry) / kFile)) out.push_back(fs::path(entry).filename().string());
  return out;
}

fs::path ModelLibrary::find(std::string_view model, const fs::path& base) const {
  if (!is_file_reference(model)) {
    const auto valid = names();
    if (std::find(valid.begin(), valid.end(), model) == valid.end()) throw unknown_name("model", model, valid);
    return directory_ / model / kFile;
  }
  const fs::path path = base / fs::path(model);
  if (is_file(path)) return path;
  if (is_file(path / kFile)) return path / kFile;
  throw Error(ErrorKind::usage, "no model file here", path.string(),
              "give a config.json, or a name that `list models` shows");
}

Network ModelLibrary::load(std::string_view model, const fs::path& base, const ModelReading& reading) const {
  if (is_inline(model))
    return with_sides_checked(build_network(read_as(parse_json(model, "inline model"), reading), "inline model"),
                              reading);
  const fs::path file = find(model, base);
  return with_sides_checked(
      build_network(read_as(read_model_file(file.string()), reading), file.string(), name_of_file(file)), reading);
}

}  // namespace rehearse
