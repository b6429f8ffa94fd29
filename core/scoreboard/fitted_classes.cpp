#include "core/scoreboard/fitted_classes.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "core/config/json_file.hpp"
#include "core/cost/calibration.hpp"
#include "core/scoreboard/software.hpp"

namespace rehearse {

namespace {

namespace fs = std::filesystem;

/// Whose constant it is, as the table of fitted classes names GPUs.
std::string gpus_of(const StepConstant& c) {
  if (!c.gpu.empty()) return c.gpu;
  return c.generation.empty() ? "all" : c.generation;
}

/// All implementations of fused attention are one class, in any type.
std::string class_of(const std::string& group) { return holds(group, "attention_") ? "attention" : group; }

/// Constants and rows of all groups, counted once.
class FittedCount {
 public:
  void add(const std::string& generation, const KernelGroups& groups) {
    for (const auto& [name, group] : groups) add(generation, class_of(name), group);
  }

  [[nodiscard]] std::vector<FittedClass> classes() const {
    std::map<std::pair<std::string, std::string>, FittedClass> out;
    for (const auto& [constant, generations] : owners_) {
      std::string label;
      for (const std::string& g : generations) label += (label.empty() ? "" : ", ") + g;
      FittedClass& c = out.try_emplace({label, constant.cls}, FittedClass{label, constant.cls}).first->second;
      if (c.constants++ > 0) continue;
      for (const std::string& g : generations) {
        const Rows& rows = rows_.at({g, constant.cls});
        c.fitted += rows.fitted;
        c.rows += rows.fitted + rows.held_out;
      }
    }
    std::vector<FittedClass> list;
    for (const auto& [key, c] : out) list.push_back(c);
    return list;
  }

 private:
  struct Constant {
    std::string cls, name;
    double value = 0;
    int rows = 0;
    auto operator<=>(const Constant&) const = default;
  };
  struct Rows { int fitted = 0, held_out = 0; };

  void add(const std::string& generation, const std::string& cls, const KernelCalibration& group) {
    int fewest = 0;
    for (const auto& [name, c] : group.constants)
      if (c.rows > 0) fewest = fewest == 0 ? c.rows : std::min(fewest, c.rows);
    if (fewest == 0) return;
    std::set<Constant> own;  // What others do not share has the fewest rows.
    for (const auto& [name, c] : group.constants) {
      if (c.rows == 0) continue;
      const Constant constant{cls, name, c.value, c.rows};
      owners_[constant].insert(generation);
      if (c.rows == fewest) own.insert(constant);
    }
    Rows& rows = rows_[{generation, cls}];
    if (seen_.insert(own).second) rows.fitted += fewest;
    rows.held_out += group.held_out.rows;
  }

  std::map<Constant, std::set<std::string>> owners_;  ///< By generation.
  std::map<std::pair<std::string, std::string>, Rows> rows_;
  std::set<std::set<Constant>> seen_;  ///< GPUs that hold another's constants have no rows of their own.
};

}  // namespace

std::vector<FittedClass> fitted_classes(const fs::path& calibration) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(calibration))
    if (entry.path().extension() == ".json" && entry.path().stem() != "steps") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  FittedCount count;
  for (const fs::path& file : files) {
    const CalibrationProfile p = parse_calibration(read_text(file.string()), file.string());
    count.add(p.generation, p.groups);
    for (const auto& [gpu, groups] : p.gpus) count.add(p.generation, groups);
  }
  std::vector<FittedClass> out = count.classes();
  for (const StepConstant& c : load_step_constants(calibration)) out.push_back({gpus_of(c), c.group + "." + c.constant, 1, c.rows * c.every, c.rows});
  return out;
}

}  // namespace rehearse
