// YAML, and JSON, which is YAML in braces.

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/import/job/files/config_files.hpp"
#include "core/import/yaml_documents.hpp"

namespace rehearse::job {

namespace {

constexpr int kDeepestSetting = 40;
constexpr std::size_t kMostSettings = 50'000;

class Flattener {
 public:
  Flattener(const JobFiles& files, int file) : files_(files), file_(file) {}

  std::vector<JobSetting> out;

  void add(const std::string& name, const YAML::Node& node, int depth = 0) {
    if (depth > kDeepestSetting || out.size() > kMostSettings)
      throw Error(ErrorKind::usage, "more settings inside one another than a job has", files_.at(file_).path);
    if (node.IsMap()) return add_map(name, node, depth);
    if (node.IsSequence()) return add_sequence(name, node, depth);
    if (name.empty())
      throw Error(ErrorKind::usage, "holds no settings: wanted names with values", files_.at(file_).path);
    JobSetting s{name, {}, where(node)};
    s.values.push_back(node.IsNull() ? "null" : node.Scalar());
    out.push_back(std::move(s));
  }

 private:
  void add_map(const std::string& name, const YAML::Node& node, int depth) {
    if (node.size() == 0) out.push_back({name, {"{}"}, where(node)});
    for (const auto& entry : node) {
      const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "?";
      const std::size_t before = out.size();
      add(name.empty() ? key : name + "." + key, entry.second, depth + 1);
      // A value on the next line is stated where its name is.
      if (out.size() == before + 1 && entry.first.IsScalar()) out.back().where = where(entry.first);
    }
  }

  void add_sequence(const std::string& name, const YAML::Node& node, int depth) {
    const bool plain =
        std::all_of(node.begin(), node.end(), [](const YAML::Node& n) { return n.IsScalar() || n.IsNull(); });
    if (plain) {
      JobSetting s{name.empty() ? "?" : name, {}, where(node)};
      for (const YAML::Node& n : node) s.values.push_back(n.IsNull() ? "null" : n.Scalar());
      if (s.values.empty()) s.values.emplace_back("null");
      out.push_back(std::move(s));
      return;
    }
    std::size_t k = 0;
    for (const YAML::Node& n : node) add(fmt::format("{}[{}]", name, k++), n, depth + 1);
  }

  [[nodiscard]] std::string where(const YAML::Node& node) const {
    return files_.where(place_of_line(files_.at(file_), file_, node.Mark().line));
  }

  const JobFiles& files_;
  int file_;
};

}  // namespace

Place place_of_line(const JobFiles::File& file, int index, int line) {
  std::size_t at = 0;
  for (int k = 0; k < line && at < file.text.text.size(); ++k)
    at = std::min(file.text.text.find('\n', at), file.text.text.size() - 1) + 1;
  // What a script wrote was written in the script.
  return !file.given && at < file.text.places.size() && file.text.places[at].file >= 0 ? file.text.places[at]
                                                                                       : Place{index, line + 1};
}

std::vector<JobSetting> read_yaml(const JobFiles& files, int file) {
  const JobFiles::File& f = files.at(file);
  // YAML takes no tabs before a name, and JSON does.
  std::string text = f.text.text;
  for (char& c : text) {
    if (c == '\t') c = ' ';
  }
  Flattener flat(files, file);
  try {
    for (const YAML::Node& document : yaml_documents(text))
      if (!document.IsNull()) flat.add("", document);
  } catch (const YAML::Exception& e) {
    const int line = std::max(0, e.mark.line);
    throw Error(ErrorKind::usage, fmt::format("no YAML or JSON: {}", e.msg), files.where(place_of_line(f, file, line)),
                "is it a template that a script fills in? Give the script first, and this file after it");
  }
  return std::move(flat.out);
}

bool is_config_file(const JobFiles::File& file) {
  const std::string ending = std::filesystem::path(file.path).extension().string();
  if (ending == ".yaml" || ending == ".yml" || ending == ".json" || ending == ".toml") return true;
  const std::size_t first = file.text.text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) return false;
  if (ending != ".sh" && ending != ".slurm" && ending != ".sbatch" && ending != ".py" && ending != ".md" &&
      ending != ".csv" && ending != ".sub") {
    if (file.text.text.starts_with("#!")) return false;
    if (file.text.text[first] == '{') return true;
    // "name: value" on the first line that is neither a comment nor empty.
    std::size_t at = first;
    while (at < file.text.text.size() && file.text.text[at] == '#')
      at = file.text.text.find_first_not_of(" \t\r\n", std::min(file.text.text.find('\n', at), file.text.text.size()));
    if (at >= file.text.text.size()) return false;
    const std::string line = file.text.text.substr(at, file.text.text.find('\n', at) - at);
    const std::size_t colon = std::min(line.find(": "), line.ends_with(':') ? line.size() - 1 : std::string::npos);
    return colon != std::string::npos && line.find_first_of(" =(\"$/") > colon;
  }
  return false;
}

std::vector<JobSetting> read_config(const JobFiles& files, int file, const Environment& environment) {
  std::vector<JobSetting> out =
      files.at(file).path.ends_with(".toml") ? read_toml(files, file) : read_yaml(files, file);
  interpolate(out, environment);
  return out;
}

}  // namespace rehearse::job
