#pragma once
// Small fleets for tests.

#include <sstream>
#include <string>
#include <vector>

#include <zlib.h>

#include "core/base/error.hpp"
#include "core/fleet/result.hpp"
#include "tests/support/source_path.hpp"

namespace rehearse::testing {

using namespace rehearse::fleet;

/// `count` nodes of `gpus` GPUs: n0, n1, ...
inline std::vector<Node> nodes(int count, int gpus) {
  std::vector<Node> out;
  for (int i = 0; i < count; ++i) out.push_back({.name = "n" + std::to_string(i), .gpus = gpus});
  return out;
}

/// "PLACE: what is wrong" of a fleet that is refused; "accepted" of another.
inline std::string refusal_of(const Fleet& fleet) {
  try {
    (void)run_fleet(fleet);
  } catch (const Error& e) {
    return e.where + ": " + e.what();
  }
  return "accepted";
}

/// A job of whole GPUs; its name is its number.
inline Job job(int number, double arrival, double duration, int gpus, const std::string& queue = "", int priority = 0) {
  Job j;
  j.name = std::to_string(number);
  j.queue = queue;
  j.priority = priority;
  j.request.gpus = gpus;
  j.arrival = Seconds{arrival};
  j.duration = Seconds{duration};
  return j;
}

/// Jobs in order: {arrival, duration, GPUs}.
struct Row {
  double arrival, duration;
  int gpus;
};
inline Fleet small_fleet(int node_count, int gpus, const std::vector<Row>& rows, const std::string& rule = "skip",
                         const std::string& order = "arrival") {
  Fleet f;
  f.name = "test";
  f.nodes = nodes(node_count, gpus);
  for (const Row& r : rows) f.jobs.push_back(job(static_cast<int>(f.jobs.size()), r.arrival, r.duration, r.gpus));
  f.policy.rule = rule;
  f.policy.order = order;
  return f;
}

/// Starts of all jobs, seconds.
inline std::vector<double> starts(const FleetResult& r) {
  std::vector<double> out;
  for (const JobResult& j : r.jobs) out.push_back(j.started.value());
  return out;
}
inline std::vector<double> ends(const FleetResult& r) {
  std::vector<double> out;
  for (const JobResult& j : r.jobs) out.push_back(j.finished.value());
  return out;
}

/// Rows of a CSV file beside the tests, compressed or not, without quotes: each a vector of cells, the header first.
inline std::vector<std::vector<std::string>> csv(const std::string& name) {
  gzFile in = gzopen(source_path("tests/unit/fleet/data/" + name).c_str(), "rb");
  std::string part(1 << 16, '\0'), all;
  for (int n = 0; (n = gzread(in, part.data(), static_cast<unsigned>(part.size()))) > 0;)
    all.append(part, 0, static_cast<std::size_t>(n));
  gzclose(in);
  std::istringstream lines(all);
  std::vector<std::vector<std::string>> out;
  for (std::string line; std::getline(lines, line);) {
    out.emplace_back();
    std::istringstream cells(line);
    for (std::string cell; std::getline(cells, cell, ',');) out.back().push_back(cell);
  }
  return out;
}

}  // namespace rehearse::testing
