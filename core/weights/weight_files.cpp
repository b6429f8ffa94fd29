#include "core/weights/weight_files.hpp"

#include <filesystem>
#include <map>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/config/json_file.hpp"
#include "core/config/object_reader.hpp"

namespace rehearse {
namespace {

namespace fs = std::filesystem;

constexpr const char* kOneFile = "model.safetensors";
constexpr const char* kIndexFile = "model.safetensors.index.json";

fs::path chosen_in(const fs::path& path) {
  std::error_code unknown;
  if (!fs::is_directory(path, unknown)) return path;
  for (const char* name : {kIndexFile, kOneFile})
    if (fs::is_regular_file(path / name, unknown)) return path / name;
  throw Error(ErrorKind::usage, fmt::format("this folder holds neither {} nor {}", kOneFile, kIndexFile), path.string(),
              "give the file itself");
}

/// Tensors by the file that an index says they are in.
std::map<std::string, std::set<std::string>> indexed(const fs::path& index) {
  const nlohmann::json document = load_json(index.string());
  ObjectReader top(document, index.string());
  ObjectReader map = top.object("weight_map");
  std::map<std::string, std::set<std::string>> out;
  for (const std::string& tensor : map.keys()) {
    const std::string file = map.string(tensor);
    if (file.empty() || fs::path(file).filename() != file) map.fail(tensor, "a file stands beside its index");
    out[file].insert(tensor);
  }
  if (out.empty()) map.fail("", "the index names no tensor");
  return out;
}

}  // namespace

WeightFiles::WeightFiles(const std::string& path) : path_(chosen_in(path).string()) {
  if (fs::path(path_).extension() != ".json") {
    files_.push_back(std::make_unique<SafetensorsFile>(path_));
    return;
  }
  for (const auto& [file, tensors] : indexed(path_)) {
    files_.push_back(std::make_unique<SafetensorsFile>((fs::path(path_).parent_path() / file).string()));
    for (const std::string& name : tensors)
      if (files_.back()->find(name) == nullptr)
        throw Error(ErrorKind::usage, fmt::format("the index says that '{}' is in {}, which lacks it", name, file),
                    path_, "get the files again: index and files are of one version");
  }
}

std::optional<WeightFiles::Found> WeightFiles::find(std::string_view name) {
  for (const auto& file : files_)
    if (const StoredWeights* t = file->find(name)) return Found{file.get(), t};
  return std::nullopt;
}

std::vector<std::string> WeightFiles::names() const {
  std::vector<std::string> out;
  for (const auto& file : files_)
    for (const StoredWeights& t : file->tensors()) out.push_back(t.name);
  return out;
}

}  // namespace rehearse
