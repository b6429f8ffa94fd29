#include "tests/published/fit/fit_attention.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "core/base/error.hpp"
#include "tests/published/fit/fit.hpp"

namespace rehearse {
namespace {

constexpr double kBytesPerElement = 2;
// Where the optimiser starts; it moves logarithms.
constexpr double kKeys = 150, kSlowdown = 0.2;
constexpr Seconds kReaction{0.1};

double flash_seconds(const MeasuredAttention& row, const FlashConstants& c) {
  double total = flash_time(row.shape, kBytesPerElement, false, c, row.rates).total.value();
  if (row.with_backward) total += flash_time(row.shape, kBytesPerElement, true, c, row.rates).total.value();
  return total;
}

double median_of(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  const std::size_t half = v.size() / 2;
  return v.size() % 2 ? v[half] : (v[half - 1] + v[half]) / 2;
}

// The ratio by which a backward pass is slower, from rows that hold both passes.
void level_backward(const std::vector<const MeasuredAttention*>& rows, FlashConstants& constants, int head_dim) {
  const auto has_both = [](const auto* row) { return row->with_backward; };
  if (std::none_of(rows.begin(), rows.end(), has_both)) return;
  double& ratio = constants.backward_ratios[head_dim];
  ratio = 0.75;
  for (int pass = 0; pass < 3; ++pass) {
    std::vector<double> ratios;
    for (const auto* row : rows) {
      if (!row->with_backward) continue;
      const double forward = flash_time(row->shape, kBytesPerElement, false, constants, row->rates).total.value();
      ratios.push_back((flash_seconds(*row, constants) - forward) / (row->time.value() - forward));
    }
    ratio *= median_of(std::move(ratios));
  }
}

using Cells = std::map<std::pair<std::string, int>, std::vector<const MeasuredAttention*>>;

// With S0 and B set, time is close to inversely proportional to the efficiency: the median ratio, taken a few times,
// gives it.
void level(const Cells& cells, FlashFit& fit) {
  for (const auto& [cell, members] : cells) {
    auto& constants = fit.groups.at(cell.first);
    const bool both = constants.backward_ratio > 0;
    double& efficiency = constants.efficiency[cell.second];
    efficiency = 0.5;
    for (int pass = 0; pass < 3; ++pass) {
      std::vector<double> ratios;
      for (const auto* row : members)
        if (both || !row->with_backward) ratios.push_back(flash_seconds(*row, constants) / row->time.value());
      efficiency *= median_of(std::move(ratios));
    }
    if (!both) level_backward(members, constants, cell.second);
  }
}

/// Where the optimiser's numbers go.
struct Layout {
  struct At {
    std::size_t start, start_backward, diagonal;
  };
  std::map<std::string, At> of_group;
  std::optional<std::size_t> slowdown;  ///< The reaction time follows; none where neither is fitted.
  std::size_t count = 0;
};

Layout layout_of(std::span<const MeasuredAttention> rows, const FlashFitOptions& options) {
  struct Passes {
    bool alone = false, both = false;
  };
  std::map<std::string, Passes> passes;
  for (const MeasuredAttention& row : rows)
    (row.with_backward ? passes[row.start].both : passes[row.start].alone) = true;
  Layout out;
  std::map<std::string, std::pair<std::size_t, std::size_t>> starts;
  for (const auto& [start, p] : passes) {
    const std::size_t forward = out.count++;
    starts[start] = {forward, p.alone && p.both ? out.count++ : forward};
  }
  std::map<std::string, std::size_t> diagonals;
  for (const MeasuredAttention& row : rows) {
    const auto [diagonal, fresh] = diagonals.try_emplace(row.diagonal, out.count);
    if (fresh) ++out.count;
    out.of_group[row.group] = {starts.at(row.start).first, starts.at(row.start).second, diagonal->second};
  }
  if (options.slowdown) {
    out.slowdown = out.count;
    out.count += 2;
  }
  return out;
}

void put(std::span<const double> x, const Layout& layout, FlashFit& fit) {
  for (auto& [name, c] : fit.groups) {
    const Layout::At at = layout.of_group.at(name);
    c.start_keys = kKeys * std::exp(x[at.start]);
    c.start_keys_backward = kKeys * std::exp(x[at.start_backward]);
    c.diagonal_keys = kKeys * std::exp(x[at.diagonal]);
    if (!layout.slowdown) continue;
    c.long_slowdown = kSlowdown * std::exp(x[*layout.slowdown]);
    c.long_after = kReaction * std::exp(x[*layout.slowdown + 1]);
  }
}

void store_sensitivity(std::span<const MeasuredAttention> rows, FlashFit& fit) {
  constexpr double kStep = 0.01;
  for (const MeasuredAttention& row : rows) {
    const FlashConstants& c = fit.groups.at(row.group);
    FlashConstants start = c, diagonal = c;
    start.start_keys *= 1 + kStep;
    start.start_keys_backward *= 1 + kStep;
    diagonal.diagonal_keys *= 1 + kStep;
    const double scale = std::log1p(kStep) * fit.rows.at(row.group), base = flash_seconds(row, c);
    fit.start_sensitivity[row.group] += std::log(flash_seconds(row, start) / base) / scale;
    fit.diagonal_sensitivity[row.group] += std::log(flash_seconds(row, diagonal) / base) / scale;
  }
}

}  // namespace

FlashFit fit_flash(std::span<const MeasuredAttention> rows, const std::map<std::string, FlashConstants>& given,
                   const FlashFitOptions& options) {
  if (rows.empty()) throw Error(ErrorKind::usage, "no rows to fit", "flash attention fit");
  FlashFit fit;
  Cells cells;
  for (const auto& row : rows) {
    const auto at = given.find(row.group);
    if (at == given.end())
      throw Error(ErrorKind::usage, "no constants given for '" + row.group + "'", "flash attention fit");
    fit.groups.insert(*at);
    ++fit.rows[row.group];
    ++fit.rows_of_start[row.start];
    ++fit.rows_of_diagonal[row.diagonal];
    cells[{row.group, static_cast<int>(row.shape.head_dim)}].push_back(&row);
  }
  const Layout layout = layout_of(rows, options);
  const auto loss = [&](std::span<const double> x) {
    put(x, layout, fit);
    level(cells, fit);
    double sum = 0;
    for (const auto& row : rows)
      sum += soft_l1(std::log(flash_seconds(row, fit.groups.at(row.group)) / row.time.value()), options.loss_scale);
    return sum;
  };
  loss(minimise(loss, std::vector<double>(layout.count, 0), {.step = 0.3}).x);
  store_sensitivity(rows, fit);
  return fit;
}

ErrorSummary flash_errors(std::span<const MeasuredAttention> rows, const FlashConstants& constants) {
  std::vector<double> predicted, measured;
  for (const auto& row : rows) {
    predicted.push_back(flash_seconds(row, constants));
    measured.push_back(row.time.value());
  }
  return summarise_errors(predicted, measured);
}

}  // namespace rehearse
