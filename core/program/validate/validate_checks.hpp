#pragma once
// The parts of validate(), one file each. All throw std::logic_error.

#include <cstdint>
#include <stdexcept>
#include <string>

#include <fmt/format.h>

#include "core/program/body.hpp"
#include "core/program/program.hpp"

namespace rehearse::validation {

/// Tensors, ranks, bodies: every index in range, views after what they view, dependencies along issue order.
void check_tables(const Program& program);
/// One role's entries: bindings, events and storage. Needs check_tables() first.
void check_role(const Program& program, const Role& role);
/// Collectives and messages between ranks. Needs check_role() of every role first.
void check_traffic(const Program& program);

template <class Container>
[[nodiscard]] bool has(const Container& c, std::int64_t index) {
  return index >= 0 && index < static_cast<std::int64_t>(c.size());
}
[[nodiscard]] inline bool has_expr(const Program& p, ExprId id) { return has(p.exprs.nodes(), id.index); }

[[noreturn]] inline void refuse(const Body& body, const Task& task, const std::string& rule) {
  throw std::logic_error(fmt::format("program: body '{}', task '{}': {}", body.name, task.name, rule));
}

}  // namespace rehearse::validation
