#include "gpu_backend/execute/missing_operators.hpp"

#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/program/body.hpp"

namespace rehearse {

std::vector<std::string> missing_operators(const Program& program, const ComputeDevice& device) {
  return missing_operators(program, [&](std::string_view name) { return device.find(name) != nullptr; });
}

std::vector<std::string> missing_operators(const Program& program, const std::function<bool(std::string_view)>& has) {
  std::set<std::string> out;
  for (const Body& body : program.bodies)
    for (const auto v : body.graph.vertices())
      if (const auto* c = std::get_if<ComputeTask>(&body.graph[v].kind); c != nullptr) {
        if (!has(operator_name(*c))) out.insert(operator_name(*c));
        if (c->accumulates && c->accumulate_if != ExprPool::kOne && !has(kZeros)) out.insert(std::string(kZeros));
      }
  return {out.begin(), out.end()};
}

Error lacks(const std::string& device, const std::vector<std::string>& operators) {
  return {ErrorKind::unavailable, fmt::format("device '{}' has no operator {}", device, fmt::join(operators, ", ")),
          "--device", "'rehearse simulate' plays this plan; 'rehearse list strategies' says what runs for real"};
}

}  // namespace rehearse
