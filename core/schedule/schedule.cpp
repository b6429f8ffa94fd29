#include "core/schedule/schedule.hpp"

#include <fmt/format.h>

#include "core/schedule/one_chunk.hpp"

namespace rehearse {

Registry<std::shared_ptr<const Schedule>>& schedules() {
  static Registry<std::shared_ptr<const Schedule>> registry("schedule");
  return registry;
}

void check_one_chunk(const std::string& name, const PipelineShape& shape) {
  if (shape.virtual_stages == 1) return;
  throw Error(ErrorKind::usage, fmt::format("schedule {} runs one chunk per stage, not {}", name, shape.virtual_stages),
              "strategy.virtual_stages", "set strategy.virtual_stages to 1 or strategy.schedule to interleaved_1f1b");
}

}  // namespace rehearse
