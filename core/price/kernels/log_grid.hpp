#pragma once
// Times measured at some sizes, for all sizes: a rectangular grid, straight lines between its points where sizes and
// times are drawn as logarithms.

#include <span>
#include <vector>

namespace rehearse {

class LogGrid {
 public:
  /// One measurement: a size along each axis, and what was measured there, all above zero.
  struct Point {
    std::vector<double> at;
    double value = 0;
    bool operator==(const Point&) const = default;
  };

  /// The grid has a line at every size that occurs along an axis. Of several points at one place the mean counts; a
  /// crossing without a point takes the value of the nearest point (in logarithms), times the ratio of the products of
  /// their sizes. Throws Error (usage) without a point, for points of unlike length, and for sizes or values that are
  /// not finite and above zero.
  LogGrid(std::size_t axes, const std::vector<Point>& points);

  /// Exact at the points. Where values rise along every axis, so do those between them. Beyond the last line of an axis
  /// the value grows in proportion to the size, as work does that fills the machine; before the first it goes on as
  /// between the first two lines, but neither falls with the size nor rises faster than in proportion to it. `at` has a
  /// size above zero per axis.
  [[nodiscard]] double operator()(std::span<const double> at) const;
  [[nodiscard]] std::size_t axes() const { return lines_.size(); }

 private:
  [[nodiscard]] double corner(std::span<const std::size_t> index) const;

  std::vector<std::vector<double>> lines_;  ///< Logarithms of the sizes along each axis, ascending.
  std::vector<double> values_;              ///< Logarithms, the last axis fastest.
};

}  // namespace rehearse
