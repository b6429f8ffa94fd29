#include "core/scoreboard/fitted_classes.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "core/config/json_file.hpp"
#include "core/price/calibration/calibration.hpp"
#include "core/scoreboard/rows/row_defaults.hpp"

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
    for (const auto& [name, calibration] : groups) {
      Group group{generation, class_of(name), {}, calibration.held_out.rows};
      for (const auto& [constant, c] : calibration.constants)
        if (c.rows > 0) group.constants.insert({group.cls, constant, c.value, c.rows});
      for (const Constant& c : group.constants) {
        ++uses_[c];
        owners_[c].insert(generation);
      }
      if (!group.constants.empty()) groups_.push_back(std::move(group));
    }
  }

  [[nodiscard]] std::vector<FittedClass> classes() const {
    const std::map<Key, Rows> rows = rows_of_classes();
    std::map<Key, FittedClass> out;
    for (const auto& [constant, generations] : owners_) {
      std::string label;
      for (const std::string& g : generations) label += (label.empty() ? "" : ", ") + g;
      FittedClass& c = out.try_emplace({label, constant.cls}, FittedClass{label, constant.cls}).first->second;
      if (c.constants++ > 0) continue;
      for (const std::string& g : generations) {
        const Rows& of = rows.at({g, constant.cls});
        c.fitted += of.fitted;
        c.rows += of.fitted + of.held_out;
      }
    }
    std::vector<FittedClass> list;
    for (const auto& [key, c] : out) list.push_back(c);
    return list;
  }

 private:
  using Key = std::pair<std::string, std::string>;  ///< Generation and class.
  struct Constant {
    std::string cls, name;
    double value = 0;
    int rows = 0;
    bool operator<(const Constant& o) const {
      return std::tie(cls, name, value, rows) < std::tie(o.cls, o.name, o.value, o.rows);
    }
  };
  struct Group {
    std::string generation, cls;
    std::set<Constant> constants;
    int held_out = 0;
  };
  struct Rows {
    int fitted = 0, held_out = 0;
  };

  /// What constants of the group's own were fitted on; where it shares all, what the most particular one was.
  [[nodiscard]] int own_rows(const Group& group) const {
    int own = 0, fewest = group.constants.begin()->rows;
    for (const Constant& c : group.constants) {
      if (uses_.at(c) == 1) own = std::max(own, c.rows);
      fewest = std::min(fewest, c.rows);
    }
    return own > 0 ? own : fewest;
  }

  [[nodiscard]] std::map<Key, Rows> rows_of_classes() const {
    std::map<Key, Rows> out;
    std::set<std::set<Constant>> seen;  // GPUs that hold another's constants have no rows of their own.
    for (const Group& group : groups_) {
      Rows& rows = out[{group.generation, group.cls}];
      if (seen.insert(group.constants).second) rows.fitted += own_rows(group);
      rows.held_out += group.held_out;
    }
    return out;
  }

  std::vector<Group> groups_;
  std::map<Constant, int> uses_;                      ///< Groups that hold it.
  std::map<Constant, std::set<std::string>> owners_;  ///< Their generations.
};

}  // namespace

std::vector<FittedClass> fitted_classes(const fs::path& calibration) {
  FittedCount count;
  for (const std::string& file : json_files_of(calibration.string())) {
    if (fs::path(file).stem() == "steps") continue;
    const CalibrationProfile p = parse_calibration(read_text(file), file);
    count.add(p.generation, p.groups);
    for (const auto& [gpu, groups] : p.gpus) count.add(p.generation, groups);
  }
  std::vector<FittedClass> out = count.classes();
  for (const StepConstant& c : load_step_constants(calibration))
    out.push_back({gpus_of(c), c.group + "." + c.constant, 1, c.rows * c.every, c.rows});
  return out;
}

}  // namespace rehearse
