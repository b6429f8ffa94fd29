#pragma once
// Images [batch, channels, sides...] as kernels walk them: by rows of what a rank holds itself, halos left out, and by
// windows.

#include <algorithm>
#include <array>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "gpu_backend/cpu/team.hpp"
#include "gpu_backend/execute/operator.hpp"

namespace rehearse {

inline constexpr std::size_t kMaxRank = 5;
using Index = std::array<std::int64_t, kMaxRank>;

/// Calls `f(index, starts, length)` for rows [from, to): each is all of dimension `row` and of those behind it.
template <std::size_t N, class F>
void rows_between(const std::array<const TensorView*, N>& views, std::size_t row, std::int64_t from, std::int64_t to,
                  const F& f) {
  const Held& first = *views[0]->held;
  const std::size_t rank = first.extents.size();
  Index index{};
  for (std::size_t d = row, rest = static_cast<std::size_t>(from); d-- > 0;) {
    const auto n = static_cast<std::size_t>(first.inner[d].length);
    index[d] = static_cast<std::int64_t>(rest % n);
    rest /= n;
  }
  std::int64_t length = 1;
  for (std::size_t d = row; d < rank; ++d) length *= first.inner[d].length;
  for (std::int64_t r = from; r < to; ++r) {
    std::array<std::int64_t, N> starts;
    for (std::size_t i = 0; i < N; ++i) {
      const Held& h = *views[i]->held;
      std::int64_t at = 0;
      for (std::size_t d = 0; d < rank; ++d) at = at * h.extents[d] + h.inner[d].first + (d < row ? index[d] : 0);
      starts[i] = at;
    }
    f(index, starts, length);
    for (std::size_t d = row; d-- > 0;) {
      if (++index[d] < first.inner[d].length) break;
      index[d] = 0;
    }
  }
}

/// Rows before dimension `row`.
[[nodiscard]] inline std::int64_t count_rows(const Held& held, std::size_t row) {
  if (held.extents.size() > kMaxRank) throw std::logic_error("a tensor of more than five dimensions");
  std::int64_t rows = 1;
  for (std::size_t d = 0; d < row; ++d) rows *= held.inner[d].length;
  return rows;
}

/// Calls `f(index, starts, length)` for every row (last dimension) of the elements that are this rank's own: `index`
/// counts in own coordinates, `starts[i]` is the row's first element in the storage of operand i. All operands have the
/// same own elements.
template <std::size_t N, class F>
void own_rows(const std::array<const TensorView*, N>& views, F f) {
  const Held& first = *views[0]->held;
  if (first.extents.empty()) return;
  const std::size_t row = first.extents.size() - 1;
  rows_between(views, row, 0, count_rows(first, row), f);
}

/// The first dimension of a row: 2 where images lie whole in all operands, else the last that there is.
template <std::size_t N>
[[nodiscard]] std::size_t whole_images(const std::array<const TensorView*, N>& views) {
  std::size_t row = views[0]->held->extents.size() - 1;
  const auto whole = [&](std::size_t d) {
    return std::all_of(views.begin(), views.end(), [&](const TensorView* v) {
      return v->held->inner[d].first == 0 && v->held->inner[d].length == v->held->extents[d];
    });
  };
  while (row > 2 && whole(row)) --row;
  return row;
}

/// The same where rows are nobody else's business: several threads share them. Each is all of dimension `row` and of
/// those behind it, which lie whole.
template <std::size_t N, class F>
void shared_rows(const std::array<const TensorView*, N>& views, std::size_t row, const F& f) {
  constexpr std::int64_t kLeastElements = 1 << 13;
  const Held& first = *views[0]->held;
  std::int64_t length = 1;
  for (std::size_t d = row; d < first.extents.size(); ++d) length *= first.inner[d].length;
  share(count_rows(first, row), 1 + kLeastElements / std::max<std::int64_t>(1, length),
        [&](std::int64_t from, std::int64_t to) { rows_between(views, row, from, to, f); });
}

/// An image that lies whole in all operands is one row: `index` tells its sample and channel alone.
template <std::size_t N, class F>
void shared_rows(const std::array<const TensorView*, N>& views, const F& f) {
  if (!views[0]->held->extents.empty()) shared_rows(views, whole_images(views), f);
}

/// The same for sums over samples and pixels: threads share the channels, and each channel's rows come in their order.
template <std::size_t N, class F>
void shared_channels(const std::array<const TensorView*, N>& views, const F& f) {
  constexpr std::int64_t kLeastElements = 1 << 13;
  const Held& first = *views[0]->held;
  const std::size_t row = whole_images(views);
  const std::int64_t samples = first.inner[0].length, channels = first.inner[1].length;
  if (samples * channels == 0) return;
  const std::int64_t of_image = count_rows(first, row) / (samples * channels);
  std::int64_t of_channel = samples;
  for (std::size_t d = 2; d < first.extents.size(); ++d) of_channel *= first.inner[d].length;
  share(channels, 1 + kLeastElements / std::max<std::int64_t>(1, of_channel), [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t ch = from; ch < to; ++ch)
      for (std::int64_t b = 0; b < samples; ++b) {
        const std::int64_t begin = (b * channels + ch) * of_image;
        rows_between(views, row, begin, begin + of_image, f);
      }
  });
}

/// The same element by element: `f(starts)` with the element's place in every operand.
template <std::size_t N, class F>
void own_elements(const std::array<const TensorView*, N>& views, F f) {
  own_rows(views, [&](const Index&, std::array<std::int64_t, N> at, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) {
      f(at);
      for (std::int64_t& a : at) ++a;
    }
  });
}

/// Sides of an image, always three: those it lacks are of length 1.
struct Sides {
  std::array<std::int64_t, 3> length{1, 1, 1};  ///< Stored.
  std::array<std::int64_t, 3> first{0, 0, 0};   ///< Global index of stored element 0.
  std::array<std::int64_t, 3> global{1, 1, 1};  ///< Of the whole image.

  explicit Sides(const TensorView& image) {
    const std::size_t sides = image.rank() - 2;
    for (std::size_t i = 0; i < sides; ++i) {
      const std::size_t d = 2 + i, to = 3 - sides + i;
      length[to] = image.extent(d);
      first[to] = image.held->global[d].empty() ? 0 : image.held->global[d].front().first;
      global[to] = image.held->shape[d];
    }
  }
  [[nodiscard]] std::int64_t pixels() const { return length[0] * length[1] * length[2]; }
};

/// Windows that join a small image to a large one: element o of the small reads element o * stride - padding + k *
/// dilation of the large.
struct Windows {
  std::array<std::int64_t, 3> kernel{1, 1, 1}, stride{1, 1, 1}, padding{0, 0, 0}, dilation{1, 1, 1};

  /// From ComputeTask::scalars: four numbers per side.
  Windows(const std::vector<double>& scalars, std::size_t sides) {
    for (std::size_t i = 0; i < sides; ++i) {
      const std::size_t to = 3 - sides + i;
      const auto number = [&](std::size_t n) { return static_cast<std::int64_t>(scalars.at(4 * i + n)); };
      kernel[to] = number(0), stride[to] = number(1), padding[to] = number(2), dilation[to] = number(3);
    }
  }
  [[nodiscard]] std::int64_t elements() const { return kernel[0] * kernel[1] * kernel[2]; }
};

/// Where one window element's row of small elements meets the large image, along one side.
struct Meeting {
  std::int64_t begin = 0, end = 0;  ///< Stored small elements that meet a stored large one.
  std::int64_t offset = 0;          ///< Stored large element that stored small element 0 would meet.
};
[[nodiscard]] inline Meeting meeting(const Sides& small, const Sides& large, const Windows& w, std::size_t side,
                                     std::int64_t k) {
  Meeting out;
  out.offset = small.first[side] * w.stride[side] - w.padding[side] + k * w.dilation[side] - large.first[side];
  const auto ceil_div = [](std::int64_t a, std::int64_t b) { return a <= 0 ? 0 : (a + b - 1) / b; };
  out.begin = ceil_div(-out.offset, w.stride[side]);
  out.end = std::min(small.length[side], ceil_div(large.length[side] - out.offset, w.stride[side]));
  out.end = std::max(out.begin, out.end);
  return out;
}

/// Calls `f(k, small, large, n, stride)` for runs of `n` small elements from `small` on that meet large ones `stride`
/// apart from `large` on; k counts window elements, in row-major order.
template <class F>
void meet(const Sides& small, const Sides& large, const Windows& w, F f) {
  std::int64_t k = 0;
  for (std::int64_t k0 = 0; k0 < w.kernel[0]; ++k0) {
    for (std::int64_t k1 = 0; k1 < w.kernel[1]; ++k1) {
      for (std::int64_t k2 = 0; k2 < w.kernel[2]; ++k2, ++k) {
        const Meeting a = meeting(small, large, w, 0, k0), b = meeting(small, large, w, 1, k1),
                      c = meeting(small, large, w, 2, k2);
        if (c.begin == c.end) continue;
        for (std::int64_t x = a.begin; x < a.end; ++x) {
          for (std::int64_t y = b.begin; y < b.end; ++y) {
            const std::int64_t from = (x * small.length[1] + y) * small.length[2] + c.begin;
            const std::int64_t row = (x * w.stride[0] + a.offset) * large.length[1] + y * w.stride[1] + b.offset;
            f(k, from, row * large.length[2] + c.begin * w.stride[2] + c.offset, c.end - c.begin, w.stride[2]);
          }
        }
      }
    }
  }
}

}  // namespace rehearse
