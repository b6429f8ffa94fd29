#pragma once
// Jobs that train at the same time on one fabric: what each one's step takes alone and beside the others, and the links
// that they share.

#include <string>
#include <vector>

#include "core/report/formats/document.hpp"
#include "core/report/results/step_report.hpp"

namespace rehearse {

inline constexpr const char* kTogetherSchema = "rehearse/together/v1";

/// One job of several that were played at once. Step times are as modelled.
struct TogetherJob {
  std::string name;  ///< As it was asked for.
  PlanSummary plan;
  std::vector<NodeId> nodes;           ///< In the order of its ranks.
  Seconds begin;                       ///< When its first step begins.
  std::vector<Seconds> alone, beside;  ///< Of its steps, in order: on the same nodes without and with the others.
  double accompanied = 0;              ///< Share of its time during which another job trained.
};

/// A link that several jobs cross.
struct SharedLink {
  std::string name;
  BytesPerSecond rate;
  /// By job: what it carries for that job over what it could carry, while that job trains alone. Together above 1: the
  /// link alone makes their steps longer.
  std::vector<double> asked;
  [[nodiscard]] double all_asked() const;
};

struct TogetherReport {
  std::string version;  ///< Of the program.
  std::string cluster, placement, backend;
  int steps = 0;
  std::vector<TogetherJob> jobs;
  std::vector<SharedLink> links;  ///< All that are shared, the most wanted first.
};

/// The middle one, or the mean of the two in the middle; of none 0.
[[nodiscard]] Seconds median_of(std::vector<Seconds> times);

/// A line for each job and for the links most wanted, and what they say. JSON (rehearse/together/v1): `cluster`,
/// `placement`, `backend`, `steps`, `jobs[{name, model, gpus, nodes[], begin_s, alone{step_time_s, worst_s, steps_s[]},
/// beside{likewise}, times, accompanied}]`, `links[{name, rate_Bps, asked[]}]`.
[[nodiscard]] Document together_document(const TogetherReport& report);

}  // namespace rehearse
