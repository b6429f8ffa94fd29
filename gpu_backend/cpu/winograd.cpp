#include "gpu_backend/cpu/winograd.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "gpu_backend/cpu/blas.hpp"
#include "gpu_backend/cpu/team.hpp"

namespace rehearse {

namespace {

constexpr std::int64_t kNumbers = 16;       // Of a tile.
constexpr std::int64_t kTilesAtOnce = 512;  // Their numbers of some hundred channels stay in a cache.

/// A thread's own, kept from one convolution to the next: fresh pages would be cleared for each.
template <int kWhich>
float* scratch(std::int64_t elements) {
  static thread_local std::vector<float> kept;
  if (kept.size() < static_cast<std::size_t>(elements)) kept.resize(static_cast<std::size_t>(elements));
  return kept.data();
}

/// Rows of tiles of all samples, one after the other: tile (i, j) makes pixels (2 i, 2 j) to (2 i + 1, 2 j + 1).
struct TileRows {
  std::int64_t down, across, all, at_once;
  explicit TileRows(const TileImages& images)
      : down((images.made.height + 1) / 2),
        across((images.made.width + 1) / 2),
        all(images.samples * down),
        at_once(std::max<std::int64_t>(1, std::min(all, kTilesAtOnce / std::max<std::int64_t>(1, across)))) {}
};

/// Numbers of tiles, or of weights: 16 matrices [rows, columns]. Between them lies a line of the cache, so that those
/// of one tile don't take each other's places there.
struct Numbers {
  float* data;
  std::int64_t rows, columns;
  [[nodiscard]] std::int64_t step() const { return step(rows * columns); }
  [[nodiscard]] float* of(std::int64_t number) const { return data + number * step(); }

  static constexpr std::int64_t step(std::int64_t elements) { return elements + 16; }
  /// Room for matrices of so many elements.
  static constexpr std::int64_t room(std::int64_t elements) { return kNumbers * step(elements); }
};

/// Calls `f(channel, tile row, where its first tile lies among `numbers`)` for rows [first, first + rows), shared by
/// threads.
template <class F>
void each_row(const TileRows& tiles, std::int64_t first, std::int64_t rows, std::int64_t channels, const F& f) {
  constexpr std::int64_t kLeastTiles = 1 << 10;
  const std::int64_t wide = rows * tiles.across;
  share(channels, 1 + kLeastTiles / wide, [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t ch = from; ch < to; ++ch)
      for (std::int64_t r = 0; r < rows; ++r) f(ch, first + r, ch * wide + r * tiles.across);
  });
}

/// One row of an image from column `left` on, of 2 n pixels, as n even and n odd ones; outside the image it is zero.
void halves(const float* image, const TileImages::Image& size, std::int64_t row, std::int64_t left, std::int64_t n,
            float* __restrict even, float* __restrict odd) {
  if (row < 0 || row >= size.height) {
    std::fill_n(even, n, 0.0F);
    std::fill_n(odd, n, 0.0F);
    return;
  }
  const float* pixels = image + row * size.width + left;
  const auto pixel = [&](std::int64_t i) { return left + i >= 0 && left + i < size.width ? pixels[i] : 0.0F; };
  const std::int64_t begin = std::clamp<std::int64_t>((1 - left) / 2, 0, n),
                     end = std::clamp<std::int64_t>((size.width - left) / 2, begin, n);
  for (std::int64_t i = 0; i < begin; ++i) even[i] = pixel(2 * i), odd[i] = pixel(2 * i + 1);
  for (std::int64_t i = begin; i < end; ++i) {
    even[i] = pixels[2 * i];
    odd[i] = pixels[2 * i + 1];
  }
  for (std::int64_t i = end; i < n; ++i) even[i] = pixel(2 * i), odd[i] = pixel(2 * i + 1);
}

/// B^T d B for every 4 x 4 tile d of a row of tiles; tiles overlap by two pixels.
void read_tiles(const TileImages& images, const TileRows& tiles, const float* read, std::int64_t first,
                std::int64_t rows, const Numbers& to) {
  each_row(tiles, first, rows, images.read.channels, [&](std::int64_t ch, std::int64_t row, std::int64_t at) {
    const std::int64_t n = tiles.across, wide = n + 1, sample = row / tiles.down, top = row % tiles.down * 2;
    const float* image = read + (sample * images.read.channels + ch) * images.read.height * images.read.width;
    float* const pixels = scratch<0>(8 * wide);
    for (std::int64_t i = 0; i < 4; ++i)
      halves(image, images.read, top + i + images.down, images.right, wide, pixels + 2 * i * wide,
             pixels + (2 * i + 1) * wide);
    const std::int64_t step = to.step();
    float* __restrict const out = to.data + at;
    const auto make_row = [&](std::int64_t i, std::int64_t one, float sign, std::int64_t other) {
      float* __restrict const numbers = out + 4 * i * step;
      const float *a = pixels + 2 * one * wide, *b = pixels + 2 * other * wide;
      for (std::int64_t t = 0; t < n; ++t) {
        const float p0 = a[t] + sign * b[t], p1 = a[wide + t] + sign * b[wide + t], p2 = a[t + 1] + sign * b[t + 1],
                    p3 = a[wide + t + 1] + sign * b[wide + t + 1];
        numbers[t] = p0 - p2;
        numbers[step + t] = p1 + p2;
        numbers[2 * step + t] = p2 - p1;
        numbers[3 * step + t] = p1 - p3;
      }
    };
    make_row(0, 0, -1.0F, 2);
    make_row(1, 1, 1.0F, 2);
    make_row(2, 2, -1.0F, 1);
    make_row(3, 1, -1.0F, 3);
  });
}

/// A^T m A: the 2 x 2 pixels of every tile, brought to their places.
void make_pixels(const TileImages& images, const TileRows& tiles, const Numbers& from, std::int64_t first,
                 std::int64_t rows, float* made) {
  each_row(tiles, first, rows, images.made.channels, [&](std::int64_t ch, std::int64_t row, std::int64_t at) {
    const std::int64_t n = tiles.across, sample = row / tiles.down, top = row % tiles.down * 2;
    const std::int64_t width = images.made.width, step = from.step();
    float* image = made + (sample * images.made.channels + ch) * images.made.height * width;
    float* __restrict const pixels = scratch<1>(4 * n);
    const float* const m = from.data + at;
    for (std::int64_t t = 0; t < n; ++t) {
      float upper[4], lower[4];
      for (std::int64_t j = 0; j < 4; ++j) {
        const float m1 = m[(4 + j) * step + t], m2 = m[(8 + j) * step + t];
        upper[j] = m[j * step + t] + m1 + m2;
        lower[j] = m1 - m2 - m[(12 + j) * step + t];
      }
      pixels[t] = upper[0] + upper[1] + upper[2];
      pixels[n + t] = upper[1] - upper[2] - upper[3];
      pixels[2 * n + t] = lower[0] + lower[1] + lower[2];
      pixels[3 * n + t] = lower[1] - lower[2] - lower[3];
    }
    for (std::int64_t i = 0; i < std::min<std::int64_t>(2, images.made.height - top); ++i) {
      float* __restrict const to = image + (top + i) * width;
      const float *even = pixels + 2 * i * n, *odd = even + n;
      for (std::int64_t t = 0; t < width / 2; ++t) {
        to[2 * t] = even[t];
        to[2 * t + 1] = odd[t];
      }
      if (width % 2 != 0) to[width - 1] = even[width / 2];
    }
  });
}

/// A d A^T for the 2 x 2 pixels d of every tile: what its 16 numbers get of the gradient.
void gradient_tiles(const TileImages& images, const TileRows& tiles, const float* made, std::int64_t first,
                    std::int64_t rows, const Numbers& to) {
  each_row(tiles, first, rows, images.made.channels, [&](std::int64_t ch, std::int64_t row, std::int64_t at) {
    const std::int64_t n = tiles.across, sample = row / tiles.down, top = row % tiles.down * 2;
    const std::int64_t step = to.step();
    const float* image = made + (sample * images.made.channels + ch) * images.made.height * images.made.width;
    float* const pixels = scratch<0>(4 * n);
    for (std::int64_t i = 0; i < 2; ++i)
      halves(image, images.made, top + i, 0, n, pixels + 2 * i * n, pixels + (2 * i + 1) * n);
    float* __restrict const out = to.data + at;
    for (std::int64_t t = 0; t < n; ++t) {
      const float even[4] = {pixels[t], pixels[t] + pixels[2 * n + t], pixels[t] - pixels[2 * n + t],
                             -pixels[2 * n + t]},
                  odd[4] = {pixels[n + t], pixels[n + t] + pixels[3 * n + t], pixels[n + t] - pixels[3 * n + t],
                            -pixels[3 * n + t]};
      for (std::int64_t i = 0; i < 4; ++i) {
        out[4 * i * step + t] = even[i];
        out[(4 * i + 1) * step + t] = even[i] + odd[i];
        out[(4 * i + 2) * step + t] = even[i] - odd[i];
        out[(4 * i + 3) * step + t] = -odd[i];
      }
    }
  });
}

/// G g G^T for the window g of every pair of channels; turned by half a turn, if asked for.
void weight_numbers(const float* weights, bool turned, const Numbers& to) {
  const std::int64_t step = to.step();
  share(to.rows, 1 + (1 << 10) / to.columns, [&](std::int64_t from, std::int64_t end) {
    for (std::int64_t pair = from * to.columns; pair < end * to.columns; ++pair) {
      const float* w = weights + 9 * pair;
      float down[4][3];
      for (std::int64_t j = 0; j < 3; ++j) {
        const auto weight = [&](std::int64_t i) { return w[turned ? 8 - 3 * i - j : 3 * i + j]; };
        const float ends = 0.5F * (weight(0) + weight(2)), middle = 0.5F * weight(1);
        down[0][j] = weight(0);
        down[1][j] = ends + middle;
        down[2][j] = ends - middle;
        down[3][j] = weight(2);
      }
      float* out = to.data + pair;
      for (const auto& d : down) {
        const float ends = 0.5F * (d[0] + d[2]), middle = 0.5F * d[1];
        for (const float number : {d[0], ends + middle, ends - middle, d[2]}) {
          *out = number;
          out += step;
        }
      }
    }
  });
}

/// Adds G^T u G to the gradient of the window of every pair of channels.
void add_weight_gradient(const Numbers& numbers, float* gradient) {
  const std::int64_t step = numbers.step();
  share(numbers.rows, 1 + (1 << 10) / numbers.columns, [&](std::int64_t from, std::int64_t end) {
    for (std::int64_t pair = from * numbers.columns; pair < end * numbers.columns; ++pair) {
      const float* u = numbers.data + pair;
      float up[3][4];
      for (std::int64_t j = 0; j < 4; ++j) {
        const float u1 = u[(4 + j) * step], u2 = u[(8 + j) * step];
        up[0][j] = u[j * step] + 0.5F * (u1 + u2);
        up[1][j] = 0.5F * (u1 - u2);
        up[2][j] = 0.5F * (u1 + u2) + u[(12 + j) * step];
      }
      float* g = gradient + 9 * pair;
      for (const auto& r : up) {
        *g++ += r[0] + 0.5F * (r[1] + r[2]);
        *g++ += 0.5F * (r[1] - r[2]);
        *g++ += 0.5F * (r[1] + r[2]) + r[3];
      }
    }
  });
}

/// Calls `product(number)` for all 16, which threads share.
template <class F>
void each_number(const F& product) {
  share(kNumbers, 1, [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t i = from; i < to; ++i) product(i);
  });
}

/// Calls `f(first row of tiles, rows)` for as many at once as stay in a cache.
template <class F>
void each_part(const TileRows& tiles, const F& f) {
  for (std::int64_t first = 0; first < tiles.all; first += tiles.at_once)
    f(first, std::min(tiles.at_once, tiles.all - first));
}

void convolve(const TileImages& images, const float* read, const Numbers& weights, bool transposed, float* made) {
  const TileRows tiles(images);
  const std::int64_t most = tiles.at_once * tiles.across;
  float *of_read = scratch<2>(Numbers::room(most * images.read.channels)),
        *of_made = scratch<3>(Numbers::room(most * images.made.channels));
  each_part(tiles, [&](std::int64_t first, std::int64_t rows) {
    const std::int64_t wide = rows * tiles.across;
    const Numbers from{of_read, images.read.channels, wide}, to{of_made, images.made.channels, wide};
    read_tiles(images, tiles, read, first, rows, from);
    each_number([&](std::int64_t i) {
      gemm<float>(to.rows, wide, from.rows, 1, {weights.of(i), weights.columns, transposed}, {from.of(i), wide}, 0,
                  to.of(i), wide);
    });
    make_pixels(images, tiles, to, first, rows, made);
  });
}

}  // namespace

bool tiles_pay(const TileImages& images) {
  constexpr std::int64_t kChannels = 32, kTiles = 128;
  const TileRows tiles(images);
  return std::min(images.read.channels, images.made.channels) >= kChannels && tiles.all * tiles.across >= kTiles;
}

void convolve_tiles(const TileImages& images, const float* read, const float* weights, float* made) {
  const Numbers numbers{scratch<4>(Numbers::room(images.made.channels * images.read.channels)), images.made.channels,
                        images.read.channels};
  weight_numbers(weights, false, numbers);
  convolve(images, read, numbers, false, made);
}

void convolve_tiles_back(const TileImages& images, const float* read, const float* weights, float* made) {
  const Numbers numbers{scratch<4>(Numbers::room(images.made.channels * images.read.channels)), images.read.channels,
                        images.made.channels};
  weight_numbers(weights, true, numbers);
  convolve(images, read, numbers, true, made);
}

void tiles_weight_gradient(const TileImages& images, const float* read, const float* made, float* gradient) {
  const TileRows tiles(images);
  const std::int64_t most = tiles.at_once * tiles.across;
  float *of_read = scratch<2>(Numbers::room(most * images.read.channels)),
        *of_made = scratch<3>(Numbers::room(most * images.made.channels));
  const Numbers sums{scratch<4>(Numbers::room(images.made.channels * images.read.channels)), images.made.channels,
                     images.read.channels};
  each_part(tiles, [&](std::int64_t first, std::int64_t rows) {
    const std::int64_t wide = rows * tiles.across;
    const Numbers from{of_read, images.read.channels, wide}, to{of_made, images.made.channels, wide};
    read_tiles(images, tiles, read, first, rows, from);
    gradient_tiles(images, tiles, made, first, rows, to);
    each_number([&](std::int64_t i) {
      gemm<float>(to.rows, from.rows, wide, 1, {to.of(i), wide}, {from.of(i), wide, true}, first == 0 ? 0.0F : 1.0F,
                  sums.of(i), sums.columns);
    });
  });
  add_weight_gradient(sums, gradient);
}

}  // namespace rehearse
