#pragma once
// One row of the table of a plan's keys. Private to this folder.

#include <functional>
#include <string>
#include <vector>

#include "core/config/object_reader.hpp"
#include "core/plan/plan.hpp"

namespace rehearse::plan_schema {

/// Where a row's value goes: a row of `candidates` into `candidate`, any other into `plan`.
struct Target {
  Plan& plan;
  PlanCandidate& candidate;
};

struct Key {
  std::string key;  ///< "reliability.restart", without "plan.".
  std::string help;
  std::string type{};
  std::string range{};
  std::string fallback{};  ///< Default as JSON; "required" where there is none.
  std::string example{};
  std::string detail{};
  bool required = false;
  double min = 0, max = 0;
  std::function<void(const Key&, Target, ObjectReader&)> read{};

  [[nodiscard]] std::string name() const { return key.substr(key.rfind('.') + 1); }
  [[nodiscard]] std::string group() const {
    return key.find('.') == std::string::npos ? std::string() : key.substr(0, key.rfind('.'));
  }
  Key&& like(std::string text) && {
    example = std::move(text);
    return std::move(*this);
  }
  Key&& more(std::string text) && {
    detail = std::move(text);
    return std::move(*this);
  }
  Key&& must() && {
    required = true;
    fallback = "required";
    return std::move(*this);
  }
};

[[nodiscard]] const std::vector<Key>& keys();
/// Group and what it is; the first is the file itself, "".
[[nodiscard]] const std::vector<std::pair<std::string, std::string>>& groups();
/// Keys at the top that are a scenario's.
[[nodiscard]] const std::vector<std::string>& scenario_keys();

}  // namespace rehearse::plan_schema
