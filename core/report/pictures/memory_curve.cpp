#include "core/report/pictures/memory_curve.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/index.hpp"
#include "core/base/units.hpp"
#include "core/program/body.hpp"
#include "core/program/liveness.hpp"

namespace rehearse {

namespace {

constexpr int kHeight = 8;

Bytes during(const MemoryPoint& point) {
  Bytes sum;
  for (const Bytes b : point.by_category) sum += b;
  return sum;
}

/// Rows of '#', the axis in GiB at the left. It starts at what is held between steps, which would dwarf the rest.
std::string draw(const std::vector<double>& most, double floor, int width) {
  const int columns = std::max(10, std::min(width - 10, static_cast<int>(most.size())));
  std::vector<double> column(static_cast<std::size_t>(columns), 0);
  for (std::size_t i = 0; i < most.size(); ++i) {
    double& c = column[i * static_cast<std::size_t>(columns) / most.size()];
    c = std::max(c, most[i]);
  }
  const double top = *std::max_element(column.begin(), column.end());
  const double step = std::max(top - floor, 1.0) / kHeight;
  std::string out;
  for (int row = kHeight; row > 0; --row) {
    std::string line;
    for (const double c : column) line += c - floor > step * (row - 0.5) || (row == kHeight && c >= top) ? '#' : ' ';
    line.erase(line.find_last_not_of(' ') + 1);
    out += fmt::format("{:>8.2f} |{}\n", (floor + step * row) / kGib, line);
  }
  return out + fmt::format("{:>8.2f} +{}\n", floor / kGib, std::string(static_cast<std::size_t>(columns), '-'));
}

}  // namespace

Document memory_curve_document(const Program& program, const MemoryRule& rule, const std::string& title) {
  Document out;
  out.blocks.emplace_back(Heading{title});
  out.records = {"",
                 {{"role"},
                  {"rank", true},
                  {"call", true},
                  {"body"},
                  {"block", true},
                  {"microbatch", true},
                  {"during_bytes", true}},
                 {}};
  for (int c = 0; c < kMemoryCategories; ++c)
    out.records.columns.push_back({fmt::format("{}_bytes", name_of(static_cast<MemoryCategory>(c))), true});
  nlohmann::ordered_json json{{"schema", "rehearse/memory_curve/v1"}, {"curves", nlohmann::ordered_json::array()}};
  for (const MemoryCurve& curve : memory_over_time(program, rule.workspace, rule.outside(program, 0))) {
    const std::string& role = nth(program.roles, curve.role).name;
    nlohmann::ordered_json points = nlohmann::ordered_json::array();
    std::vector<double> most;
    std::size_t peak = 0;
    double floor = during(curve.points.front()).value();
    for (const MemoryPoint& p : curve.points) {
      const std::string& body = nth(program.bodies, p.body).name;
      std::vector<std::string> row{role,
                                   std::to_string(curve.rank),
                                   std::to_string(p.entry),
                                   body,
                                   std::to_string(p.layer),
                                   std::to_string(p.microbatch),
                                   fmt::format("{:.0f}", during(p).value())};
      nlohmann::ordered_json after;
      for (int c = 0; c < kMemoryCategories; ++c) {
        const Bytes held = nth(p.after, c);
        row.push_back(fmt::format("{:.0f}", held.value()));
        if (held > Bytes{0}) after[std::string(name_of(static_cast<MemoryCategory>(c)))] = std::llround(held.value());
      }
      out.records.rows.push_back(std::move(row));
      points.push_back({{"call", p.entry},
                        {"body", body},
                        {"block", p.layer},
                        {"microbatch", p.microbatch},
                        {"during_bytes", std::llround(during(p).value())},
                        {"after", std::move(after)}});
      if (during(p) > during(curve.points[peak])) peak = most.size();
      most.push_back(during(p).value());
      floor = std::min(floor, during(p).value());
    }
    const MemoryPoint& worst = curve.points[peak];
    out.blocks.emplace_back(
        Picture{fmt::format("{} (rank {}), GiB: most in {}, block {}, microbatch {}, call {} of {}", role, curve.rank,
                            nth(program.bodies, worst.body).name, worst.layer, worst.microbatch, peak, most.size() - 1),
                [most, floor](const TextStyle& style) { return draw(most, floor, style.width); }});
    json["curves"].push_back({{"role", role},
                              {"rank", curve.rank},
                              {"peak_bytes", std::llround(during(curve.points[peak]).value())},
                              {"points", std::move(points)}});
  }
  out.blocks.emplace_back(
      Paragraph{"From left to right: the calls of a step in the order in which the host issues them. The axis starts "
                "at the least of the step; --format csv or json has every call by category."});
  out.json = json.dump(1) + "\n";
  return out;
}

}  // namespace rehearse
