#include "core/report/html/course_data.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <optional>
#include <tuple>

#include <nlohmann/json.hpp>

#include "core/base/index.hpp"
#include "core/program/body.hpp"

namespace rehearse {

namespace {

using nlohmann::ordered_json;

constexpr double kCourseDataUnits = 1e6;

/// Times at which calls of one kind began, in order.
using CallKey = std::tuple<int, int, int, int>;  // Body, layer, chunk, microbatch.
using CallTimes = std::map<CallKey, std::deque<double>>;

CallTimes call_times(const Trace& trace, int rank) {
  std::vector<const Span*> spans;
  for (const Span& s : trace.spans)
    if (s.rank == rank && s.kind == SpanKind::compute && s.body >= 0) spans.push_back(&s);
  std::stable_sort(spans.begin(), spans.end(), [](const Span* a, const Span* b) { return a->begin < b->begin; });
  CallTimes out;
  for (const Span* s : spans) out[{s->body, s->layer, s->chunk, s->microbatch}].push_back(s->begin.value());
  return out;
}

struct Point {
  double at;
  CategoryBytes bytes;
};

double total(const CategoryBytes& bytes) {
  double sum = 0;
  for (const Bytes b : bytes) sum += b.value();
  return sum;
}

/// The memory of `counted`, a rank of the same kind, at the times of `traced`.
std::vector<Point> course_of(const Program& program, int counted, int traced, const MemoryRule& rule,
                             const Trace& trace) {
  CallTimes times = call_times(trace, traced);
  std::vector<Point> out;
  std::optional<double> now;
  for (const MemoryPoint& p : memory_course(program, counted, rule.workspace, rule.outside(program, counted))) {
    const Body& body = nth(program.bodies, p.body);
    const auto found = times.find({p.body, p.layer, p.chunk, body.phase == Phase::optimizer ? -1 : p.microbatch});
    if (found != times.end() && !found->second.empty()) {
      now = std::max(now.value_or(found->second.front()), found->second.front());
      found->second.pop_front();
    }
    out.push_back({now.value_or(-1e300), p.by_category});
  }
  return out;
}

/// The fullest of each slice, in time order.
std::vector<Point> fullest(const std::vector<Point>& points, double begin, double period, std::size_t most) {
  std::map<std::int64_t, Point> slices;
  for (const Point& p : points) {
    const double share = std::clamp((p.at - begin) / period, 0.0, 1.0);
    const auto slice =
        std::min(static_cast<std::int64_t>(share * static_cast<double>(most)), static_cast<std::int64_t>(most) - 1);
    const auto [at, fresh] = slices.try_emplace(slice, Point{share, p.bytes});
    if (!fresh && total(p.bytes) > total(at->second.bytes)) at->second = {share, p.bytes};
  }
  std::vector<Point> out;
  for (const auto& [slice, point] : slices) out.push_back(point);
  return out;
}

std::optional<int> traced_rank(const Program& program, const Trace& trace, int role) {
  for (std::size_t r = 0; r < program.role_of_rank.size(); ++r)
    if (program.role_of_rank[r] == role && trace.wants(static_cast<int>(r))) return static_cast<int>(r);
  return std::nullopt;
}

ordered_json row_json(const StageMemory& stage, int rank, const std::vector<Point>& points) {
  ordered_json times = ordered_json::array(), bytes = ordered_json::array();
  for (const Point& p : points) {
    times.push_back(std::llround(p.at * kCourseDataUnits));
    ordered_json amounts = ordered_json::array();
    for (const Bytes b : p.bytes) amounts.push_back(std::llround(b.value()));
    bytes.push_back(std::move(amounts));
  }
  return {{"stage", stage.stage},
          {"rank", rank},
          {"capacity_bytes", std::llround(stage.capacity.value())},
          {"t", std::move(times)},
          {"bytes", std::move(bytes)}};
}

}  // namespace

std::string course_json(const Program& program, const MemoryReport& memory, const Trace& trace, Seconds begin,
                        Seconds period, std::size_t most_points) {
  ordered_json rows = ordered_json::array(), categories = ordered_json::array();
  int tightest = 0;
  for (const StageMemory& stage : memory.stages) {
    const std::optional<int> rank = traced_rank(program, trace, stage.memory.role);
    if (!rank) continue;
    if (&stage == &memory.tightest()) tightest = static_cast<int>(rows.size());
    rows.push_back(row_json(stage, *rank,
                            fullest(course_of(program, stage.memory.rank, *rank, memory.rule, trace), begin.value(),
                                    period.value(), most_points)));
  }
  for (int c = 0; c < kMemoryCategories; ++c) categories.push_back(name_of(static_cast<MemoryCategory>(c)));
  return ordered_json{{"unit_s", period.value() / kCourseDataUnits},
                      {"end", static_cast<std::int64_t>(kCourseDataUnits)},
                      {"tightest", tightest},
                      {"categories", std::move(categories)},
                      {"rows", std::move(rows)}}
      .dump();
}

}  // namespace rehearse
