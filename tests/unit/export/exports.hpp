#pragma once
// A scenario of the source tree, changed, in the hands of a target.

#include <string>
#include <vector>

#include "core/api/session/session.hpp"
#include "core/export/export.hpp"
#include "tests/support/source_path.hpp"

namespace rehearse::testing {

struct Plan {
  Session session;
  Program program;
  CostModel cost;

  explicit Plan(const std::string& scenario, const std::vector<std::string>& changes = {})
      : session(open_session(source_path("scenarios/" + scenario), changes)),
        program(session.lowered()),
        cost(session.cost_model()) {}
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  [[nodiscard]] Exported to(const std::string& target) const {
    return exporters().at(target).value({"plan", session.scenario, session.workload, session.cluster, program, cost,
                                         decoder_stack(session.scenario, session.data.models()), Bytes{0}, "test",
                                         session.data.models()});
  }
};

}  // namespace rehearse::testing
