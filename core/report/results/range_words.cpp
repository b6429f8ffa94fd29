#include "core/report/results/range_words.hpp"

#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/play/words.hpp"

namespace rehearse {

namespace {

constexpr double kSaid = 0.005;  // A smaller bias is applied, and not worth a line.

std::string counted(int number, const char* what) {
  return fmt::format("{} {}{}", with_commas(number), what, number == 1 ? "" : "s");
}

}  // namespace

std::string rests_on(const PredictionRange& r) {
  return fmt::format("{} of {}, {}{}{}", counted(r.rows, "row"), counted(r.sources, "source"), r.rows_of,
                     r.caution.empty() ? "" : "; ", r.caution);
}

std::string range_text(Seconds modelled, const PredictionRange& r) {
  return fmt::format("{} to {}, for 8 of 10 such steps: by {}{}", to_string(modelled * r.p10),
                     to_string(modelled * r.p90), rests_on(r),
                     r.own_rows > 0 ? fmt::format("; and {} of your own", counted(r.own_rows, "step")) : "");
}

std::string bias_text(Seconds modelled, const PredictionRange& r) {
  if (std::abs(r.middle - 1) < kSaid) return {};
  return fmt::format("{} as modelled; such steps took {:.0f} % {}, which is applied", to_string(modelled),
                     100 * std::abs(r.middle - 1), r.middle > 1 ? "longer" : "less");
}

std::string modelled_words(const PredictionRange& r) {
  return std::abs(r.middle - 1) < kSaid ? "" : " as modelled, before the bias";
}

std::string before_text(Seconds modelled, const PredictionRange& r) {
  return fmt::format("{}, {} to {}, without the {} of your own", to_string(modelled * r.middle_before),
                     to_string(modelled * r.p10_before), to_string(modelled * r.p90_before),
                     counted(r.own_rows, "step"));
}

void add_range_json(Seconds modelled, const PredictionRange& r, nlohmann::ordered_json& out) {
  const double step = modelled.value();
  out["step_time_s_p10"] = step * r.p10;
  out["step_time_s_p90"] = step * r.p90;
  out["modelled_step_time_s"] = step;
  out["bias"] = r.middle - 1;
  out["range_rows"] = r.rows;
  out["range_sources"] = r.sources;
  out["range_rows_of"] = r.rows_of;
  out["range_caution"] = r.caution;
  if (r.own_rows == 0) return;
  out["range_own_rows"] = r.own_rows;
  out["range_before"] = {{"step_time_s", step * r.middle_before},
                         {"step_time_s_p10", step * r.p10_before},
                         {"step_time_s_p90", step * r.p90_before}};
}

}  // namespace rehearse
