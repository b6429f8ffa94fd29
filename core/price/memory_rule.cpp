#include "core/price/memory_rule.hpp"

#include "core/base/index.hpp"

namespace rehearse {

Bytes MemoryRule::needed(const RoleMemory& memory) const {
  const Bytes outside = nth(memory.by_category, MemoryCategory::framework);
  return (memory.peak - outside) * allocator_factor + outside;
}

std::vector<RoleMemory> MemoryRule::peaks(const Program& program) const {
  return peak_memory(program, workspace, framework);
}

}  // namespace rehearse
