#include <map>
#include <stdexcept>

#include "core/model/op_table.hpp"
#include "core/strategy/operators/ops.hpp"

namespace rehearse {

namespace {

std::map<std::string, OpLowering, std::less<>>& lowerings() {
  static std::map<std::string, OpLowering, std::less<>> table;
  return table;
}

}  // namespace

bool lower_operators(const std::vector<std::string>& names, const OpLowering& lowering) {
  for (const std::string& name : names)
    if (!lowerings().emplace(name, lowering).second) throw std::logic_error("operator lowered twice: " + name);
  return true;
}

const OpLowering* find_lowering(OpKind kind) {
  const auto at = lowerings().find(name_of(kind));
  return at == lowerings().end() ? nullptr : &at->second;
}

const OpLowering& lowering_of(OpKind kind) {
  static const std::vector<const OpLowering*> by_kind = [] {
    std::vector<const OpLowering*> out;
    for (const OpInfo& op : op_table()) out.push_back(find_lowering(op.kind));
    return out;
  }();
  const OpLowering* found = by_kind.at(static_cast<std::size_t>(kind));
  if (found == nullptr) throw std::logic_error("op kind without lowering: " + std::string(name_of(kind)));
  return *found;
}

}  // namespace rehearse
