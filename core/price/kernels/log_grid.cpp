#include "core/price/kernels/log_grid.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include <fmt/format.h>

#include "core/base/error.hpp"

namespace rehearse {

namespace {

using Place = std::vector<double>;

double checked_log(double x, const char* what) {
  if (!(x > 0) || !std::isfinite(x))
    throw Error(ErrorKind::usage, fmt::format("a {} of {}", what, x), {}, "sizes and times are finite and above zero");
  return std::log(x);
}

std::map<Place, double> by_place(std::size_t axes, const std::vector<LogGrid::Point>& points) {
  std::map<Place, std::pair<double, int>> sums;
  for (const LogGrid::Point& p : points) {
    if (p.at.size() != axes)
      throw Error(ErrorKind::usage, fmt::format("a point of {} sizes among points of {}", p.at.size(), axes));
    Place at;
    for (const double x : p.at) at.push_back(checked_log(x, "size"));
    auto& [sum, count] = sums[at];
    (void)checked_log(p.value, "time");
    sum += p.value;
    ++count;
  }
  std::map<Place, double> out;
  for (const auto& [at, s] : sums) out[at] = std::log(s.first / s.second);
  return out;
}

/// Nearest point, scaled by work.
double stand_in(const std::map<Place, double>& points, const Place& at) {
  double nearest = std::numeric_limits<double>::infinity(), value = 0;
  for (const auto& [place, v] : points) {
    double distance = 0, work = 0;
    for (std::size_t d = 0; d < at.size(); ++d) {
      distance += std::abs(at[d] - place[d]);
      work += at[d] - place[d];
    }
    if (distance < nearest) nearest = distance, value = v + work;
  }
  return value;
}

/// Where a coordinate lies: between lines `first` and `first + 1` at `share`, and what is added beyond the ends.
struct Located {
  std::size_t first = 0;
  double share = 0;
  bool below = false;
  double beyond = 0;
};

Located locate(const std::vector<double>& lines, double x) {
  if (x >= lines.back()) return {lines.size() - 1, 0, false, x - lines.back()};
  if (x < lines.front()) return {0, 0, true, x - lines.front()};
  const auto next = std::upper_bound(lines.begin(), lines.end(), x);
  const auto first = static_cast<std::size_t>(next - lines.begin()) - 1;
  return {first, (x - lines[first]) / (lines[first + 1] - lines[first]), false, 0};
}

}  // namespace

LogGrid::LogGrid(std::size_t axes, const std::vector<Point>& points) : lines_(axes) {
  if (points.empty() || axes == 0) throw Error(ErrorKind::usage, "a table without a measurement");
  const std::map<Place, double> known = by_place(axes, points);
  for (const auto& [at, v] : known)
    for (std::size_t d = 0; d < axes; ++d) lines_[d].push_back(at[d]);
  std::size_t cells = 1;
  for (auto& line : lines_) {
    std::sort(line.begin(), line.end());
    line.erase(std::unique(line.begin(), line.end()), line.end());
    cells *= line.size();
    if (cells > 1'000'000) throw Error(ErrorKind::usage, "measurements on a grid of more than a million crossings");
  }
  for (std::size_t i = 0; i < cells; ++i) {
    Place at(axes);
    for (std::size_t d = axes, rest = i; d-- > 0; rest /= lines_[d].size()) at[d] = lines_[d][rest % lines_[d].size()];
    const auto found = known.find(at);
    values_.push_back(found != known.end() ? found->second : stand_in(known, at));
  }
}

double LogGrid::corner(std::span<const std::size_t> index) const {
  std::size_t at = 0;
  for (std::size_t d = 0; d < lines_.size(); ++d) at = at * lines_[d].size() + index[d];
  return values_[at];
}

double LogGrid::operator()(std::span<const double> at) const {
  const std::size_t axes = lines_.size();
  std::vector<Located> where;
  for (std::size_t d = 0; d < axes; ++d) where.push_back(locate(lines_[d], std::log(at[d])));
  std::vector<std::size_t> index(axes);
  const auto interpolated = [&] {
    double out = 0;
    for (std::size_t corner_bits = 0; corner_bits < (std::size_t{1} << axes); ++corner_bits) {
      double weight = 1;
      for (std::size_t d = 0; d < axes; ++d) {
        const bool upper = (corner_bits >> d & 1u) != 0;
        weight *= upper ? where[d].share : 1 - where[d].share;
        index[d] = std::min(where[d].first + (upper ? 1 : 0), lines_[d].size() - 1);
      }
      if (weight > 0) out += weight * corner(index);
    }
    return out;
  };
  double out = interpolated();
  const double inside = out;
  for (std::size_t d = 0; d < axes; ++d) {
    double slope = 1;
    if (where[d].below && lines_[d].size() > 1) {
      const Located here = where[d];
      where[d] = {1, 0, false, 0};
      slope = std::clamp((interpolated() - inside) / (lines_[d][1] - lines_[d][0]), 0.0, 1.0);
      where[d] = here;
    }
    out += slope * where[d].beyond;
  }
  return std::exp(out);
}

}  // namespace rehearse
