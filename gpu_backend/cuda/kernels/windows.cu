// Windows of images: columns of convolutions, pools, upsampling; and the loss of pixels. Backward kernels gather what a
// pixel gets, so that nothing is added to from two sides.

#include <limits>

#include "gpu_backend/cuda/kernels/images.hpp"
#include "gpu_backend/cuda/kernels/numbers.cuh"

namespace rehearse::cuda {

namespace {

struct Place {
  std::int64_t at[3];
};
__device__ Place place_of(std::int64_t pixel, const ImageSides& s) {
  return {{pixel / (s.length[1] * s.length[2]), pixel / s.length[2] % s.length[1], pixel % s.length[2]}};
}
__device__ std::int64_t pixel_at(const Place& p, const ImageSides& s) {
  return (p.at[0] * s.length[1] + p.at[1]) * s.length[2] + p.at[2];
}
__device__ bool stored(std::int64_t x, const ImageSides& s, int side) { return x >= 0 && x < s.length[side]; }
__device__ std::int64_t floor_div(std::int64_t a, std::int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }
__device__ std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return -floor_div(-a, b); }
template <class A>
__device__ A least(A a, A b) {
  return a < b ? a : b;
}
template <class A>
__device__ A most(A a, A b) {
  return a > b ? a : b;
}

/// Stored coordinate in the large image that window element k of stored small element o meets, along one side.
__device__ std::int64_t meets(const Joined& z, int side, std::int64_t o, std::int64_t k) {
  return (o + z.small.first[side]) * z.window.stride[side] - z.window.padding[side] + k * z.window.dilation[side] -
         z.large.first[side];
}
__device__ Place window_element(std::int64_t k, const WindowShape& w) {
  return {{k / (w.kernel[1] * w.kernel[2]), k / w.kernel[2] % w.kernel[1], k % w.kernel[2]}};
}

template <class A>
struct ToColumns {
  Reals large, columns;
  Joined z;
  Columns c;
  template <int>
  __device__ void at(std::int64_t i) const {
    const std::int64_t pixels = z.small.pixels(), window = z.window.elements();
    const std::int64_t pixel = i % pixels, row = i / pixels % (c.channels * window),
                       sample = i / pixels / (c.channels * window);
    const Place o = place_of(pixel, z.small), k = window_element(row % window, z.window);
    Place from;
    bool here = true;
    for (int d = 0; d < 3; ++d) {
      from.at[d] = meets(z, d, o.at[d], k.at[d]);
      here = here && stored(from.at[d], z.large, d);
    }
    const std::int64_t plane = (sample * c.channels_stored + row / window) * z.large.pixels();
    put(columns, sample * c.sample_stride + row * c.row_stride + pixel,
        here ? get<A>(large, plane + pixel_at(from, z.large)) : A(0));
  }
};

/// Along one side: the small element whose window element k meets a large one; -1 where none does.
__device__ std::int64_t met_by(const Joined& z, int side, std::int64_t large, std::int64_t k) {
  const std::int64_t distance = large - meets(z, side, 0, k);
  if (distance % z.window.stride[side] != 0) return -1;
  const std::int64_t o = distance / z.window.stride[side];
  return stored(o, z.small, side) ? o : -1;
}

template <class A>
struct FromColumns {
  Reals columns, large;
  Joined z;
  Columns c;
  template <int>
  __device__ void at(std::int64_t i) const {
    const std::int64_t pixels = z.large.pixels(), window = z.window.elements();
    const std::int64_t channel = i / pixels % c.channels, sample = i / pixels / c.channels;
    const Place to = place_of(i % pixels, z.large);
    A sum{0};
    for (std::int64_t k = 0; k < window; ++k) {
      const Place e = window_element(k, z.window);
      Place o;
      bool here = true;
      for (int d = 0; d < 3; ++d) {
        o.at[d] = met_by(z, d, to.at[d], e.at[d]);
        here = here && o.at[d] >= 0;
      }
      if (here)
        sum += get<A>(columns, sample * c.sample_stride + (channel * window + k) * c.row_stride + pixel_at(o, z.small));
    }
    put(large, (sample * c.channels_stored + channel) * pixels + i % pixels, sum);
  }
};

// ---- pools

/// A small element's window, in global coordinates of the large image, cut at its edges.
struct Window {
  std::int64_t begin[3], end[3];
};
__device__ Window window_of(const Joined& z, const Place& o) {
  Window out;
  for (int d = 0; d < 3; ++d) {
    const std::int64_t step = z.window.dilation[d],
                       first = (o.at[d] + z.small.first[d]) * z.window.stride[d] - z.window.padding[d];
    out.begin[d] = first >= 0 ? first : first + ceil_div(-first, step) * step;
    out.end[d] = least(z.large.global[d], first + (z.window.kernel[d] - 1) * step + 1);
  }
  return out;
}
__device__ std::int64_t elements_of(const Window& w, const WindowShape& shape) {
  std::int64_t n = 1;
  for (int d = 0; d < 3; ++d) n *= w.begin[d] < w.end[d] ? ceil_div(w.end[d] - w.begin[d], shape.dilation[d]) : 0;
  return n;
}
/// Calls f(number in the whole image, place in storage) for the stored elements of a window.
template <class F>
__device__ void each_of(const Joined& z, const Window& w, F f) {
  for (std::int64_t a = w.begin[0]; a < w.end[0]; a += z.window.dilation[0])
    for (std::int64_t b = w.begin[1]; b < w.end[1]; b += z.window.dilation[1])
      for (std::int64_t c = w.begin[2]; c < w.end[2]; c += z.window.dilation[2]) {
        const Place p{{a - z.large.first[0], b - z.large.first[1], c - z.large.first[2]}};
        if (stored(p.at[0], z.large, 0) && stored(p.at[1], z.large, 1) && stored(p.at[2], z.large, 2))
          f((a * z.large.global[1] + b) * z.large.global[2] + c, pixel_at(p, z.large));
      }
}
/// Calls f(place of a stored small element) for those whose windows have a stored large element in them, in order.
template <class F>
__device__ void each_around(const Joined& z, const Place& large, F f) {
  std::int64_t low[3], high[3];
  for (int d = 0; d < 3; ++d) {
    // (o + small first) * stride - padding + k * dilation = large + large first, for a k of the window.
    const std::int64_t x = large.at[d] + z.large.first[d] + z.window.padding[d],
                       reach = (z.window.kernel[d] - 1) * z.window.dilation[d];
    low[d] = most<std::int64_t>(0, ceil_div(x - reach, z.window.stride[d]) - z.small.first[d]);
    high[d] = least(z.small.length[d] - 1, floor_div(x, z.window.stride[d]) - z.small.first[d]);
  }
  const auto in_window = [&](int d, std::int64_t o) {
    return (large.at[d] - meets(z, d, o, 0)) % z.window.dilation[d] == 0;
  };
  for (std::int64_t a = low[0]; a <= high[0]; ++a)
    for (std::int64_t b = low[1]; b <= high[1]; ++b)
      for (std::int64_t c = low[2]; c <= high[2]; ++c)
        if (in_window(0, a) && in_window(1, b) && in_window(2, c)) f(Place{{a, b, c}});
}

template <class A>
struct MaxPool {
  Reals x;
  Elements positions, y;
  Joined z;
  template <int>
  __device__ void at(std::int64_t i) const {
    const std::int64_t to = y.own.place(i), plane = to / z.small.pixels() * z.large.pixels();
    A best = -std::numeric_limits<A>::infinity();
    std::int64_t position = -1;
    each_of(z, window_of(z, place_of(to % z.small.pixels(), z.small)), [&](std::int64_t number, std::int64_t pixel) {
      const A v = get<A>(x, plane + pixel);
      if (position >= 0 && !(v > best)) return;
      best = v;
      position = number;
    });
    put(y.data, to, best);
    static_cast<std::int64_t*>(positions.data.data)[positions.own.place(i)] = position;
  }
};
template <class A>
struct MaxPoolGrad {
  Reals dy;
  const std::int64_t* positions;
  Reals dx;
  Joined z;
  template <int>
  __device__ void at(std::int64_t i) const {
    const std::int64_t plane = i / z.large.pixels() * z.small.pixels();
    const Place p = place_of(i % z.large.pixels(), z.large);
    const std::int64_t number =
        ((p.at[0] + z.large.first[0]) * z.large.global[1] + p.at[1] + z.large.first[1]) * z.large.global[2] + p.at[2] +
        z.large.first[2];
    A sum{0};
    each_around(z, p, [&](const Place& o) {
      const std::int64_t e = plane + pixel_at(o, z.small);
      if (positions[e] == number) sum += get<A>(dy, e);
    });
    put(dx, i, sum);
  }
};
template <class A>
struct AveragePool {
  Reals x;
  Elements y;
  Joined z;
  template <int>
  __device__ void at(std::int64_t i) const {
    const std::int64_t to = y.own.place(i), plane = to / z.small.pixels() * z.large.pixels();
    const Window w = window_of(z, place_of(to % z.small.pixels(), z.small));
    A sum{0};
    each_of(z, w, [&](std::int64_t, std::int64_t pixel) { sum += get<A>(x, plane + pixel); });
    put(y.data, to, sum / static_cast<A>(elements_of(w, z.window)));
  }
};
template <class A>
struct AveragePoolGrad {
  Reals dy, dx;
  Joined z;
  template <int>
  __device__ void at(std::int64_t i) const {
    const std::int64_t plane = i / z.large.pixels() * z.small.pixels();
    A sum{0};
    each_around(z, place_of(i % z.large.pixels(), z.large), [&](const Place& o) {
      sum += get<A>(dy, plane + pixel_at(o, z.small)) / static_cast<A>(elements_of(window_of(z, o), z.window));
    });
    put(dx, i, sum);
  }
};

// ---- upsampling

/// Pixels that one pixel of the longer image is made of, along one side.
struct Source {
  std::int64_t at[2];
  double weight[2];
};
/// Bilinear: between the two whose centres are nearest; at the edge the image goes on as it ends.
__device__ Source source_of(std::int64_t pixel, std::int64_t from, std::int64_t to, bool bilinear) {
  if (!bilinear) return {{pixel * from / to, 0}, {1, 0}};
  const double at =
      most(0.0, (static_cast<double>(pixel) + 0.5) * static_cast<double>(from) / static_cast<double>(to) - 0.5);
  const auto below = static_cast<std::int64_t>(at);
  const double above = at - static_cast<double>(below);
  return {{below, least(from - 1, below + 1)}, {1 - above, above}};
}

template <class A>
struct Upsample {
  Reals x, y;
  ImageSides shorter, longer;
  bool bilinear;
  template <int>
  __device__ void at(std::int64_t i) const {
    const Place p = place_of(i % longer.pixels(), longer);
    const std::int64_t plane = i / longer.pixels() * shorter.pixels();
    Source s[3];
    for (int d = 0; d < 3; ++d)
      s[d] = source_of(p.at[d] + longer.first[d], shorter.global[d], longer.global[d], bilinear);
    A sum{0};
    for (int corner = 0; corner < 8; ++corner) {
      double weight = 1;
      Place q;
      bool here = true;
      for (int d = 0; d < 3; ++d) {
        const int side = corner >> d & 1;
        weight *= s[d].weight[side];
        q.at[d] = s[d].at[side] - shorter.first[d];
        here = here && stored(q.at[d], shorter, d);
      }
      if (here && weight != 0) sum += static_cast<A>(weight) * get<A>(x, plane + pixel_at(q, shorter));
    }
    put(y, i, sum);
  }
};
template <class A>
struct UpsampleGrad {
  Reals dy, dx;
  ImageSides shorter, longer;
  bool bilinear;
  /// What pixel p of the longer image takes of pixel q of the shorter, both stored, along one side.
  __device__ double weight(int d, std::int64_t p, std::int64_t q) const {
    const Source s = source_of(p + longer.first[d], shorter.global[d], longer.global[d], bilinear);
    const std::int64_t global = q + shorter.first[d];
    return (s.at[0] == global ? s.weight[0] : 0) + (s.weight[1] != 0 && s.at[1] == global ? s.weight[1] : 0);
  }
  template <int>
  __device__ void at(std::int64_t i) const {
    const Place q = place_of(i % shorter.pixels(), shorter);
    const std::int64_t plane = i / shorter.pixels() * longer.pixels();
    std::int64_t low[3], high[3];
    for (int d = 0; d < 3; ++d) {
      // Pixels whose centres lie within two of the shorter image's.
      const std::int64_t global = q.at[d] + shorter.first[d];
      low[d] =
          most<std::int64_t>(0, floor_div((global - 1) * longer.global[d], shorter.global[d]) - 1 - longer.first[d]);
      high[d] = least(longer.length[d] - 1,
                      ceil_div((global + 2) * longer.global[d], shorter.global[d]) + 1 - longer.first[d]);
    }
    A sum{0};
    for (std::int64_t a = low[0]; a <= high[0]; ++a) {
      const double wa = weight(0, a, q.at[0]);
      for (std::int64_t b = low[1]; wa != 0 && b <= high[1]; ++b) {
        const double wb = wa * weight(1, b, q.at[1]);
        for (std::int64_t c = low[2]; wb != 0 && c <= high[2]; ++c) {
          const double w = wb * weight(2, c, q.at[2]);
          if (w != 0) sum += static_cast<A>(w) * get<A>(dy, plane + pixel_at(Place{{a, b, c}}, longer));
        }
      }
    }
    put(dx, i, sum);
  }
};

// ---- losses of pixels

/// Own pixel i's logits: `classes` of them, a channel of own pixels apart. One class alone is told from none of it.
template <class A>
struct Pixel {
  const Elements* logits;
  std::int64_t first, stride, classes;
  __device__ Pixel(const Elements& of, std::int64_t i)
      : logits(&of), stride(of.own.from(2)), classes(of.own.length[1]) {
    first = i / stride * classes * stride + i % stride;
  }
  __device__ A at(std::int64_t k) const { return get<A>(logits->data, logits->own.place(first + k * stride)); }
  __device__ A log_sum() const {
    A max = at(0), sum{0};
    for (std::int64_t k = 1; k < classes; ++k) max = most(max, at(k));
    for (std::int64_t k = 0; k < classes; ++k) sum += exp(at(k) - max);
    return max + log(sum);
  }
  __device__ A loss(std::int64_t label) const {
    if (classes > 1) return log_sum() - at(label);
    const A x = at(0), size = x < A(0) ? -x : x;
    return log(A(1) + exp(-size)) + most(x, A(0)) - (label != 0 ? x : A(0));
  }
};

constexpr std::int64_t kLossBlocks = 512;
std::int64_t loss_blocks(std::int64_t pixels) {
  return blocks_for((pixels + kThreads - 1) / kThreads) < kLossBlocks ? blocks_for((pixels + kThreads - 1) / kThreads)
                                                                      : kLossBlocks;
}

template <class A>
__global__ void pixel_sums_kernel(Elements logits, const std::int64_t* labels, Own labels_own, A* partial,
                                  std::int64_t pixels) {
  A sum{0};
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < pixels;
       i += static_cast<std::int64_t>(gridDim.x) * blockDim.x)
    sum += Pixel<A>(logits, i).loss(labels[labels_own.place(i)]);
  sum = over_block<Sum>(sum, A(0));
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}
template <class A>
__global__ void pixel_total_kernel(const A* partial, std::int64_t n, Reals loss, double* total, std::int64_t pixels) {
  A sum{0};
  for (std::int64_t i = threadIdx.x; i < n; i += blockDim.x) sum += partial[i];
  sum = over_block<Sum>(sum, A(0));
  if (threadIdx.x != 0) return;
  put(loss, 0, sum / static_cast<A>(pixels < 1 ? 1 : pixels));
  *total = static_cast<double>(sum);
}
template <class A>
struct PixelGrad {
  Elements logits;
  const std::int64_t* labels;
  Own labels_own;
  Elements dx;
  A pixels;
  template <int>
  __device__ void at(std::int64_t i) const {
    const Pixel<A> p(logits, i);
    const std::int64_t label = labels[labels_own.place(i)];
    const A sum = p.classes > 1 ? p.log_sum() : A(0);
    for (std::int64_t k = 0; k < p.classes; ++k) {
      const A slope = p.classes > 1 ? exp(p.at(k) - sum) - (k == label ? A(1) : A(0))
                                    : A(1) / (A(1) + exp(-p.at(0))) - (label != 0 ? A(1) : A(0));
      put(dx.data, dx.own.place(p.first + k * p.stride), slope / pixels);
    }
  }
};

}  // namespace

void image_to_columns(cudaStream_t stream, Reals large, Reals columns, const Joined& z, const Columns& c) {
  with_sums_of(columns.type, [&](auto a) {
    each_one(stream, ToColumns<decltype(a)>{large, columns, z, c},
             c.samples * c.channels * z.window.elements() * z.small.pixels());
  });
}
void columns_to_image(cudaStream_t stream, Reals columns, Reals large, const Joined& z, const Columns& c) {
  with_sums_of(columns.type, [&](auto a) {
    each_one(stream, FromColumns<decltype(a)>{columns, large, z, c}, c.samples * c.channels * z.large.pixels());
  });
}
void max_pool(cudaStream_t stream, Reals x, const Elements& positions, const Elements& y, const Joined& z) {
  with_sums_of(x.type, [&](auto a) { each_one(stream, MaxPool<decltype(a)>{x, positions, y, z}, y.own.from(0)); });
}
void max_pool_grad(cudaStream_t stream, Reals dy, const std::int64_t* positions, Reals dx, const Joined& z,
                   std::int64_t planes) {
  with_sums_of(dx.type, [&](auto a) {
    each_one(stream, MaxPoolGrad<decltype(a)>{dy, positions, dx, z}, planes * z.large.pixels());
  });
}
void average_pool(cudaStream_t stream, Reals x, const Elements& y, const Joined& z) {
  with_sums_of(x.type, [&](auto a) { each_one(stream, AveragePool<decltype(a)>{x, y, z}, y.own.from(0)); });
}
void average_pool_grad(cudaStream_t stream, Reals dy, Reals dx, const Joined& z, std::int64_t planes) {
  with_sums_of(dx.type, [&](auto a) {
    each_one(stream, AveragePoolGrad<decltype(a)>{dy, dx, z}, planes * z.large.pixels());
  });
}
void upsample(cudaStream_t stream, Reals x, Reals y, const ImageSides& shorter, const ImageSides& longer,
              std::int64_t planes, bool bilinear) {
  with_sums_of(y.type, [&](auto a) {
    each_one(stream, Upsample<decltype(a)>{x, y, shorter, longer, bilinear}, planes * longer.pixels());
  });
}
void upsample_grad(cudaStream_t stream, Reals dy, Reals dx, const ImageSides& shorter, const ImageSides& longer,
                   std::int64_t planes, bool bilinear) {
  with_sums_of(dx.type, [&](auto a) {
    each_one(stream, UpsampleGrad<decltype(a)>{dy, dx, shorter, longer, bilinear}, planes * shorter.pixels());
  });
}

std::size_t pixel_loss_scratch_bytes(const Own& labels, ElementType type) {
  return static_cast<std::size_t>(loss_blocks(labels.from(0))) * sum_bytes(type);
}
void pixel_loss(cudaStream_t stream, const Elements& logits, const std::int64_t* labels, const Own& labels_own,
                Reals loss, double* total, void* scratch) {
  with_sums_of(logits.data.type, [&](auto a) {
    using A = decltype(a);
    const std::int64_t pixels = labels_own.from(0), blocks = loss_blocks(pixels);
    auto* partial = static_cast<A*>(scratch);
    launch(&pixel_sums_kernel<A>, dim3(static_cast<unsigned>(blocks)), dim3(kThreads), 0, stream, logits, labels,
           labels_own, partial, pixels);
    launch(&pixel_total_kernel<A>, dim3(1), dim3(kThreads), 0, stream, partial, blocks, loss, total, pixels);
  });
}
void pixel_loss_grad(cudaStream_t stream, const Elements& logits, const std::int64_t* labels, const Own& labels_own,
                     const Elements& dx, double pixels) {
  with_sums_of(dx.data.type, [&](auto a) {
    using A = decltype(a);
    each_one(stream, PixelGrad<A>{logits, labels, labels_own, dx, static_cast<A>(pixels)}, labels_own.from(0));
  });
}

}  // namespace rehearse::cuda
