#include "core/report/results/error_figures.hpp"

#include <nlohmann/json.hpp>

namespace rehearse {

nlohmann::ordered_json error_figures_json(const ErrorStatistics& e) {
  return {{"median_abs_error", e.median},
          {"mean_abs_error", e.mean},
          {"p90_abs_error", e.p90},
          {"worst_abs_error", e.worst},
          {"bias", e.bias}};
}

}  // namespace rehearse
