#include "core/schedule/schedule.hpp"

namespace rehearse {

Registry<std::shared_ptr<const Schedule>>& schedules() {
  static Registry<std::shared_ptr<const Schedule>> registry("schedule");
  return registry;
}

}  // namespace rehearse
