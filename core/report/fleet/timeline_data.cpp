#include "core/report/fleet/timeline_data.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/index.hpp"

namespace rehearse {

namespace {

using nlohmann::ordered_json;

constexpr int kRows = 40;
constexpr int kBins = 240;

/// Equal parts of the time that was played.
struct Bins {
  explicit Bins(const fleet::FleetResult& r)
      : begin(r.begin.value()), width(std::max((r.end - r.begin).value(), 1e-9) / kBins) {}
  /// Calls `add(bin, seconds)` for the part of [from, to) in each.
  template <class Add>
  void spread(double from, double to, Add add) const {
    const auto first = std::clamp(static_cast<int>((from - begin) / width), 0, kBins - 1);
    for (int b = first; b < kBins && begin + b * width < to; ++b) {
      const double low = std::max(from, begin + b * width), high = std::min(to, begin + (b + 1) * width);
      if (high > low) add(b, high - low);
    }
  }
  double begin, width;
};

/// Four figures are more than a picture shows.
double rounded(double v) { return std::round(v * 1e4) / 1e4; }

ordered_json rows_json(const PlayedFleet& p, const Bins& bins) {
  const auto& nodes = p.fleet->nodes;
  const auto count = static_cast<int>(nodes.size());
  const int a_row = (count - 1) / kRows + 1, rows = (count - 1) / a_row + 1,
            queues = std::max<int>(1, static_cast<int>(p.fleet->queues.size()));
  std::map<std::string, int> queue_of;
  for (std::size_t q = 0; q < p.fleet->queues.size(); ++q) queue_of[p.fleet->queues[q].name] = static_cast<int>(q);
  // GPU-seconds by row, bin and queue.
  std::vector<double> held(static_cast<std::size_t>(rows) * kBins * static_cast<std::size_t>(queues));
  for (const fleet::Stay& s : p.result->stays) {
    const fleet::Job& job = nth(p.fleet->jobs, s.job);
    const int queue = queue_of.contains(job.queue) ? queue_of[job.queue] : 0;
    for (const fleet::Held& h : s.held)
      bins.spread(s.begin.value(), s.end.value(), [&](int bin, double seconds) {
        nth(held, (h.node / a_row * kBins + bin) * queues + queue) +=
            seconds * h.gpus * job.request.milli / fleet::kWholeGpu;
      });
  }
  ordered_json out = ordered_json::array();
  for (int r = 0; r < rows; ++r) {
    const int first = r * a_row, last = std::min(count, first + a_row) - 1;
    int gpus = 0;
    for (int n = first; n <= last; ++n) gpus += nth(nodes, n).gpus;
    ordered_json cells = ordered_json::array();
    for (int b = 0; b < kBins; ++b)
      for (int q = 0; q < queues; ++q)
        if (const double v = rounded(nth(held, (r * kBins + b) * queues + q) / bins.width); v > 0)
          cells.insert(cells.end(), {ordered_json(b), ordered_json(q), ordered_json(v)});
    out.push_back({{"name", first == last ? nth(nodes, first).name
                                          : fmt::format("{} to {}", nth(nodes, first).name, nth(nodes, last).name)},
                   {"gpus", gpus},
                   {"cells", std::move(cells)}});
  }
  return out;
}

ordered_json course_json(const PlayedFleet& p, std::size_t queue, const Bins& bins) {
  std::vector<double> held(kBins), asked(kBins);
  const auto& samples = p.result->queues[queue].samples;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const double to = (i + 1 < samples.size() ? samples[i + 1].begin : p.result->end).value();
    bins.spread(samples[i].begin.value(), to, [&](int bin, double seconds) {
      nth(held, bin) += seconds * samples[i].held;
      nth(asked, bin) += seconds * samples[i].asked;
    });
  }
  ordered_json points = ordered_json::array();
  for (int b = 0; b < kBins; ++b)
    points.insert(points.end(), {ordered_json(rounded(nth(held, b) / bins.width)),
                                 ordered_json(rounded(nth(asked, b) / bins.width))});
  return {{"queue", p.fleet->queues[queue].name}, {"points", std::move(points)}};
}

}  // namespace

std::string timelines_json(const std::vector<PlayedFleet>& fleets) {
  ordered_json out = ordered_json::array();
  for (const PlayedFleet& p : fleets) {
    const Bins bins(*p.result);
    ordered_json queues = ordered_json::array(), courses = ordered_json::array();
    for (const fleet::Queue& q : p.fleet->queues) queues.push_back(q.name);
    if (queues.empty()) queues.push_back("jobs");
    for (std::size_t q = 0; q < p.fleet->queues.size(); ++q) courses.push_back(course_json(p, q, bins));
    out.push_back({{"begin_s", bins.begin},
                   {"bin_s", bins.width},
                   {"queues", std::move(queues)},
                   {"rows", rows_json(p, bins)},
                   {"courses", std::move(courses)}});
  }
  return out.dump();
}

}  // namespace rehearse
