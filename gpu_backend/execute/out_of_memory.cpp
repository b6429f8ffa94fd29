#include "gpu_backend/execute/out_of_memory.hpp"

#include <fmt/format.h>

#include "core/base/index.hpp"

namespace rehearse {

Error explained(const OutOfMemory& e, const Program& program, int rank, const CategoryBytes& in_use,
                const std::string& where) {
  const int role = nth(program.role_of_rank, rank);
  CategoryBytes predicted{};
  Bytes all_predicted, all_used;
  for (const RoleMemory& m : peak_memory(program, Bytes{0}, Bytes{0}))
    if (m.role == role) predicted = m.by_category, all_predicted = m.peak;
  std::string table = fmt::format("  {:<14}{:>16}{:>16}\n", "", "predicted peak", "in use");
  const auto row = [&](std::string_view name, Bytes expected, Bytes used) {
    table += fmt::format("  {:<14}{:>16}{:>16}\n", name, to_string_iec(expected), to_string_iec(used));
  };
  for (int c = 0; c < kMemoryCategories; ++c) {
    const auto i = static_cast<std::size_t>(c);
    all_used += in_use[i];
    if (predicted[i] > Bytes{0} || in_use[i] > Bytes{0})
      row(name_of(static_cast<MemoryCategory>(c)), predicted[i], in_use[i]);
  }
  row("together", all_predicted, all_used);
  return {
      ErrorKind::infeasible,
      fmt::format(
          "out of device memory on rank {}: {} wanted at '{}'\n{}  the device: {} taken by this process, of {} in all",
          rank, to_string_iec(e.asked), where, table, to_string_iec(e.in_use), to_string_iec(e.capacity)),
      "run", "'rehearse memory' says what a smaller microbatch, recomputation or sharding would need"};
}

}  // namespace rehearse
