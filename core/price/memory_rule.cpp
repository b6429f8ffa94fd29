#include "core/price/memory_rule.hpp"

namespace rehearse {

Bytes MemoryRule::needed(const RoleMemory& memory) const {
  const Bytes outside = memory.by_category[static_cast<std::size_t>(MemoryCategory::framework)];
  return (memory.peak - outside) * allocator_factor + outside;
}

std::vector<RoleMemory> MemoryRule::peaks(const Program& program) const {
  return peak_memory(program, workspace, framework);
}

}  // namespace rehearse
