// Images: what works element by element, and sums per channel. Sums are made in chunks whose number the sizes give,
// then added in order.

#include "gpu_backend/cuda/kernels/images.hpp"
#include "gpu_backend/cuda/kernels/numbers.cuh"

namespace rehearse::cuda {

namespace {

constexpr double kLeak = 0.2;  // Yu et al. 2019, the authors' implementation.
template <class A>
__device__ A leaky(A x) {
  return x > A(0) ? x : static_cast<A>(kLeak) * x;
}

template <class A>
struct Relu {
  Elements x, mask, y;
  A slope;
  template <int>
  __device__ void at(std::int64_t i) const {
    const A v = get<A>(x.data, x.own.place(i));
    put(y.data, y.own.place(i), v > A(0) ? v : slope * v);
    if (mask.data.data != nullptr) put(mask.data, mask.own.place(i), v > A(0) ? A(1) : A(0));
  }
};
template <class A>
struct ReluGrad {
  Elements dy, kept, dx;
  A slope;
  template <int>
  __device__ void at(std::int64_t i) const {
    const A g = get<A>(dy.data, dy.own.place(i));
    put(dx.data, dx.own.place(i), get<A>(kept.data, kept.own.place(i)) > A(0) ? g : slope * g);
  }
};
template <class A>
struct Tanh {
  Elements x, y;
  template <int>
  __device__ void at(std::int64_t i) const {
    put(y.data, y.own.place(i), tanh(get<A>(x.data, x.own.place(i))));
  }
};
template <class A>
struct TanhGrad {
  Elements dy, x, dx;
  template <int>
  __device__ void at(std::int64_t i) const {
    const A t = tanh(get<A>(x.data, x.own.place(i)));
    put(dx.data, dx.own.place(i), get<A>(dy.data, dy.own.place(i)) * (A(1) - t * t));
  }
};
/// Elements have the numbers of the whole image; a halo's are its owner's to draw.
template <class A>
struct DropOwn {
  Elements x, residual, mask, y;
  GlobalElements numbers;
  Dropout random;
  template <int>
  __device__ void at(std::int64_t i) const {
    const std::int64_t from = x.own.place(i);
    const bool keep = random.keeps(numbers.at(from));
    const A v = keep ? get<A>(x.data, from) * static_cast<A>(random.scale) : A(0);
    put(mask.data, mask.own.place(i), keep ? A(1) : A(0));
    put(y.data, y.own.place(i), residual.data.data != nullptr ? v + get<A>(residual.data, residual.own.place(i)) : v);
  }
};
template <class A>
struct DropOwnGrad {
  Elements dy, mask, dx;
  A scale;
  template <int>
  __device__ void at(std::int64_t i) const {
    put(dx.data, dx.own.place(i),
        get<A>(mask.data, mask.own.place(i)) > A(0) ? get<A>(dy.data, dy.own.place(i)) * scale : A(0));
  }
};
template <class A>
struct Gate {
  Elements features, gates, y;
  template <int>
  __device__ void at(std::int64_t i) const {
    put(y.data, y.own.place(i),
        leaky(get<A>(features.data, features.own.place(i))) * sigmoid(get<A>(gates.data, gates.own.place(i))));
  }
};
template <class A>
struct GateGrad {
  Elements dy, features, gates, dfeatures, dgates;
  template <int>
  __device__ void at(std::int64_t i) const {
    const A g = get<A>(dy.data, dy.own.place(i)), x = get<A>(features.data, features.own.place(i)),
            s = sigmoid(get<A>(gates.data, gates.own.place(i)));
    put(dfeatures.data, dfeatures.own.place(i), g * s * (x > A(0) ? A(1) : static_cast<A>(kLeak)));
    put(dgates.data, dgates.own.place(i), g * leaky(x) * s * (A(1) - s));
  }
};

/// Pixels and channels of own elements.
struct Channels {
  std::int64_t pixels, channels;
  explicit Channels(const Own& own) : pixels(own.from(2)), channels(own.length[1]) {}
  [[nodiscard]] __device__ std::int64_t of(std::int64_t i) const { return i / pixels % channels; }
};

template <class A>
struct AddBias {
  Reals bias;
  Elements image;
  Channels channels;
  template <int>
  __device__ void at(std::int64_t i) const {
    const std::int64_t to = image.own.place(i);
    put(image.data, to, get<A>(image.data, to) + get<A>(bias, channels.of(i)));
  }
};
template <class A>
struct AddOwn {
  Elements a, b, sum;
  template <int>
  __device__ void at(std::int64_t i) const {
    put(sum.data, sum.own.place(i), get<A>(a.data, a.own.place(i)) + get<A>(b.data, b.own.place(i)));
  }
};
template <class A>
struct CopyOwn {
  Elements from, to;
  template <int>
  __device__ void at(std::int64_t i) const {
    put(to.data, to.own.place(i), get<A>(from.data, from.own.place(i)));
  }
};
template <class A>
struct CopyChannels {
  Elements part, whole;
  std::int64_t first, of_part, of_whole;  ///< First channel, in elements; elements of a sample of both.
  bool join;
  template <int>
  __device__ void at(std::int64_t i) const {
    const std::int64_t in_part = part.own.place(i),
                       in_whole = whole.own.place(i / of_part * of_whole + first + i % of_part);
    if (join)
      put(whole.data, in_whole, get<A>(part.data, in_part));
    else
      put(part.data, in_part, get<A>(whole.data, in_whole));
  }
};

void copy_channels(cudaStream_t stream, const Elements& part, const Elements& whole, std::int64_t first, bool join) {
  with_sums_of(whole.data.type, [&](auto a) {
    each_one(
        stream,
        CopyChannels<decltype(a)>{part, whole, first * part.own.from(2), part.own.from(1), whole.own.from(1), join},
        part.own.from(0));
  });
}

// ---- sums per channel

template <class A>
struct Two {
  A first{0}, second{0};
};

/// How the elements of a channel are dealt: `chunks` of `length` each.
struct Chunks {
  std::int64_t channels, count, pixels, chunks, length;
};
Chunks chunks_of(std::int64_t batch, std::int64_t channels, std::int64_t pixels) {
  constexpr std::int64_t kShortest = 4096, kMost = 64;
  Chunks out{channels, batch * pixels, pixels, 1, 0};
  out.chunks = out.count / kShortest < 1 ? 1 : out.count / kShortest > kMost ? kMost : out.count / kShortest;
  out.length = (out.count + out.chunks - 1) / out.chunks;
  return out;
}
Chunks chunks_of(const Own& own) { return chunks_of(own.length[0], own.length[1], own.from(2)); }

/// f(number of an own element, its channel) gives two terms.
template <class A, class F>
__global__ void chunk_sums_kernel(F f, Two<A>* partial, Chunks z) {
  for (std::int64_t job = blockIdx.x; job < z.channels * z.chunks; job += gridDim.x) {
    const std::int64_t channel = job / z.chunks, begin = job % z.chunks * z.length,
                       end = begin + z.length < z.count ? begin + z.length : z.count;
    Two<A> sum;
    for (std::int64_t i = begin + threadIdx.x; i < end; i += blockDim.x) {
      const Two<A> terms = f((i / z.pixels * z.channels + channel) * z.pixels + i % z.pixels, channel);
      sum.first += terms.first, sum.second += terms.second;
    }
    sum.first = over_block<Sum>(sum.first, A(0));
    sum.second = over_block<Sum>(sum.second, A(0));
    if (threadIdx.x == 0) partial[job] = sum;
  }
}
/// g(channel, both sums)
template <class A, class G>
struct Finish {
  const Two<A>* partial;
  std::int64_t chunks;
  G g;
  template <int>
  __device__ void at(std::int64_t channel) const {
    Two<A> sum;
    for (std::int64_t i = 0; i < chunks; ++i)
      sum.first += partial[channel * chunks + i].first, sum.second += partial[channel * chunks + i].second;
    g(channel, sum);
  }
};
template <class A, class F, class G>
void per_channel(cudaStream_t stream, const Chunks& z, F f, G g, void* scratch) {
  auto* partial = static_cast<Two<A>*>(scratch);
  launch(&chunk_sums_kernel<A, F>, dim3(blocks_for(z.channels * z.chunks)), dim3(kThreads), 0, stream, f, partial, z);
  each_one(stream, Finish<A, G>{partial, z.chunks, g}, z.channels);
}

template <class A>
struct OneTerm {
  Elements x;
  __device__ Two<A> operator()(std::int64_t i, std::int64_t) const { return {get<A>(x.data, x.own.place(i)), A(0)}; }
};
template <class A>
struct Squares {
  Elements x;
  __device__ Two<A> operator()(std::int64_t i, std::int64_t) const {
    const A v = get<A>(x.data, x.own.place(i));
    return {v, v * v};
  }
};
template <class A>
struct AddTo {
  Reals sum;
  __device__ void operator()(std::int64_t channel, const Two<A>& s) const {
    put(sum, channel, get<A>(sum, channel) + s.first);
  }
};
template <class A>
struct Mean {
  Reals mean;
  A count;
  __device__ void operator()(std::int64_t channel, const Two<A>& s) const { put(mean, channel, s.first / count); }
};
template <class A>
struct Both {
  Reals sums;
  std::int64_t channels;
  __device__ void operator()(std::int64_t channel, const Two<A>& s) const {
    put(sums, channel, s.first);
    put(sums, channels + channel, s.second);
  }
};
template <class A>
struct FillMean {
  Reals dy;
  Elements dx;
  std::int64_t own_pixels;
  A pixels;
  template <int>
  __device__ void at(std::int64_t i) const {
    put(dx.data, dx.own.place(i), get<A>(dy, i / own_pixels) / pixels);
  }
};

// ---- batch norm

/// Of a channel, from its sums.
template <class A>
struct Moments {
  Reals sums;
  std::int64_t channels;
  A count, epsilon;
  __device__ A mean(std::int64_t ch) const { return get<A>(sums, ch) / count; }
  __device__ A inverse(std::int64_t ch) const {
    const A m = mean(ch), variance = get<A>(sums, channels + ch) / count - m * m;
    return A(1) / sqrt((variance > A(0) ? variance : A(0)) + epsilon);
  }
};
template <class A>
Moments<A> moments(Reals sums, const Own& own, const BatchNorm& z) {
  return {sums, own.length[1], static_cast<A>(z.count), static_cast<A>(z.epsilon)};
}

/// Four numbers per channel, worked out once.
template <class A>
struct Affine {
  Moments<A> m;
  Reals weight, bias, gradient_sums;
  A* out;
  template <int>
  __device__ void at(std::int64_t ch) const {
    A* to = out + 4 * ch;
    const A inverse = m.inverse(ch), mean = m.mean(ch);
    to[0] = inverse * get<A>(weight, ch);
    to[1] = mean;
    if (bias.data != nullptr) to[2] = get<A>(bias, ch);
    if (gradient_sums.data == nullptr) return;
    to[2] = get<A>(gradient_sums, ch) / m.count;
    to[3] = inverse * (get<A>(gradient_sums, m.channels + ch) / m.count);
  }
};
template <class A>
struct Normalise {
  Elements x, y;
  const A* of;
  Channels channels;
  template <int>
  __device__ void at(std::int64_t i) const {
    const A* k = of + 4 * channels.of(i);
    put(y.data, y.own.place(i), (get<A>(x.data, x.own.place(i)) - k[1]) * k[0] + k[2]);
  }
};
template <class A>
struct NormaliseGrad {
  Elements x, dy, dx;
  const A* of;
  Channels channels;
  template <int>
  __device__ void at(std::int64_t i) const {
    const A* k = of + 4 * channels.of(i);
    put(dx.data, dx.own.place(i),
        k[0] * (get<A>(dy.data, dy.own.place(i)) - k[2] - (get<A>(x.data, x.own.place(i)) - k[1]) * k[3]));
  }
};
template <class A>
struct GradTerms {
  Elements x, dy;
  Moments<A> m;
  __device__ Two<A> operator()(std::int64_t i, std::int64_t ch) const {
    const A g = get<A>(dy.data, dy.own.place(i));
    return {g, g * (get<A>(x.data, x.own.place(i)) - m.mean(ch)) * m.inverse(ch)};
  }
};
template <class A>
struct GradSums {
  Both<A> sums;
  Reals dweight, dbias;
  __device__ void operator()(std::int64_t ch, const Two<A>& s) const {
    sums(ch, s);
    if (dweight.data == nullptr) return;
    put(dweight, ch, get<A>(dweight, ch) + s.second);
    put(dbias, ch, get<A>(dbias, ch) + s.first);
  }
};

}  // namespace

void relu(cudaStream_t stream, const Elements& x, const Elements& mask, const Elements& y, double slope) {
  with_sums_of(y.data.type, [&](auto a) {
    each_one(stream, Relu<decltype(a)>{x, mask, y, static_cast<decltype(a)>(slope)}, y.own.from(0));
  });
}
void relu_grad(cudaStream_t stream, const Elements& dy, const Elements& kept, const Elements& dx, double slope) {
  with_sums_of(dx.data.type, [&](auto a) {
    each_one(stream, ReluGrad<decltype(a)>{dy, kept, dx, static_cast<decltype(a)>(slope)}, dx.own.from(0));
  });
}
void tanh_of(cudaStream_t stream, const Elements& x, const Elements& y) {
  with_sums_of(y.data.type, [&](auto a) { each_one(stream, Tanh<decltype(a)>{x, y}, y.own.from(0)); });
}
void tanh_grad(cudaStream_t stream, const Elements& dy, const Elements& x, const Elements& dx) {
  with_sums_of(dx.data.type, [&](auto a) { each_one(stream, TanhGrad<decltype(a)>{dy, x, dx}, dx.own.from(0)); });
}
void dropout_own(cudaStream_t stream, const Elements& x, const Elements& residual, const Elements& mask,
                 const Elements& y, const GlobalElements& elements, const Dropout& random) {
  with_sums_of(y.data.type, [&](auto a) {
    each_one(stream, DropOwn<decltype(a)>{x, residual, mask, y, elements, random}, y.own.from(0));
  });
}
void dropout_own_grad(cudaStream_t stream, const Elements& dy, const Elements& mask, const Elements& dx, double scale) {
  with_sums_of(dx.data.type, [&](auto a) {
    each_one(stream, DropOwnGrad<decltype(a)>{dy, mask, dx, static_cast<decltype(a)>(scale)}, dx.own.from(0));
  });
}
void gate(cudaStream_t stream, const Elements& features, const Elements& gates, const Elements& y) {
  with_sums_of(y.data.type, [&](auto a) { each_one(stream, Gate<decltype(a)>{features, gates, y}, y.own.from(0)); });
}
void gate_grad(cudaStream_t stream, const Elements& dy, const Elements& features, const Elements& gates,
               const Elements& dfeatures, const Elements& dgates) {
  with_sums_of(dy.data.type, [&](auto a) {
    each_one(stream, GateGrad<decltype(a)>{dy, features, gates, dfeatures, dgates}, dy.own.from(0));
  });
}
void add_bias(cudaStream_t stream, Reals bias, const Elements& image) {
  with_sums_of(image.data.type, [&](auto a) {
    each_one(stream, AddBias<decltype(a)>{bias, image, Channels(image.own)}, image.own.from(0));
  });
}
void add_own(cudaStream_t stream, const Elements& a, const Elements& b, const Elements& sum) {
  with_sums_of(sum.data.type, [&](auto t) { each_one(stream, AddOwn<decltype(t)>{a, b, sum}, sum.own.from(0)); });
}
void copy_own(cudaStream_t stream, const Elements& from, const Elements& to) {
  with_sums_of(to.data.type, [&](auto a) { each_one(stream, CopyOwn<decltype(a)>{from, to}, to.own.from(0)); });
}
void join_channels(cudaStream_t stream, const Elements& part, const Elements& whole, std::int64_t first) {
  copy_channels(stream, part, whole, first, true);
}
void split_channels(cudaStream_t stream, const Elements& whole, const Elements& part, std::int64_t first) {
  copy_channels(stream, part, whole, first, false);
}

std::size_t channel_scratch_bytes(const Own& image, ElementType type) {
  const Chunks sums = chunks_of(image), means = chunks_of(1, image.length[0] * image.length[1], image.from(2));
  const std::int64_t partial = 2 * (sums.channels * sums.chunks > means.channels * means.chunks
                                        ? sums.channels * sums.chunks
                                        : means.channels * means.chunks),
                     four = 4 * image.length[1];
  return static_cast<std::size_t>(partial > four ? partial : four) * sum_bytes(type);
}

void channel_sum(cudaStream_t stream, const Elements& dy, Reals sum, void* scratch) {
  with_sums_of(dy.data.type, [&](auto a) {
    using A = decltype(a);
    per_channel<A>(stream, chunks_of(dy.own), OneTerm<A>{dy}, AddTo<A>{sum}, scratch);
  });
}
void global_pool(cudaStream_t stream, const Elements& x, Reals y, std::int64_t pixels, void* scratch) {
  with_sums_of(x.data.type, [&](auto a) {
    using A = decltype(a);
    per_channel<A>(stream, chunks_of(1, x.own.length[0] * x.own.length[1], x.own.from(2)), OneTerm<A>{x},
                   Mean<A>{y, static_cast<A>(pixels)}, scratch);
  });
}
void global_pool_grad(cudaStream_t stream, Reals dy, const Elements& dx, std::int64_t pixels) {
  with_sums_of(dx.data.type, [&](auto a) {
    using A = decltype(a);
    each_one(stream, FillMean<A>{dy, dx, dx.own.from(2), static_cast<A>(pixels)}, dx.own.from(0));
  });
}

void batch_norm_sums(cudaStream_t stream, const Elements& x, Reals sums, void* scratch) {
  with_sums_of(x.data.type, [&](auto a) {
    using A = decltype(a);
    per_channel<A>(stream, chunks_of(x.own), Squares<A>{x}, Both<A>{sums, x.own.length[1]}, scratch);
  });
}
void batch_norm(cudaStream_t stream, const Elements& x, Reals sums, Reals weight, Reals bias, const Elements& y,
                const BatchNorm& z, void* scratch) {
  with_sums_of(x.data.type, [&](auto a) {
    using A = decltype(a);
    auto* four = static_cast<A*>(scratch);
    each_one(stream, Affine<A>{moments<A>(sums, x.own, z), weight, bias, {}, four}, x.own.length[1]);
    each_one(stream, Normalise<A>{x, y, four, Channels(x.own)}, x.own.from(0));
  });
}
void batch_norm_grad_sums(cudaStream_t stream, const Elements& x, const Elements& dy, Reals sums, Reals gradient_sums,
                          Reals dweight, Reals dbias, const BatchNorm& z, void* scratch) {
  with_sums_of(x.data.type, [&](auto a) {
    using A = decltype(a);
    per_channel<A>(stream, chunks_of(x.own), GradTerms<A>{x, dy, moments<A>(sums, x.own, z)},
                   GradSums<A>{{gradient_sums, x.own.length[1]}, dweight, dbias}, scratch);
  });
}
void batch_norm_grad(cudaStream_t stream, const Elements& x, const Elements& dy, Reals sums, Reals gradient_sums,
                     Reals weight, const Elements& dx, const BatchNorm& z, void* scratch) {
  with_sums_of(x.data.type, [&](auto a) {
    using A = decltype(a);
    auto* four = static_cast<A*>(scratch);
    each_one(stream, Affine<A>{moments<A>(sums, x.own, z), weight, {}, gradient_sums, four}, x.own.length[1]);
    each_one(stream, NormaliseGrad<A>{x, dy, dx, four, Channels(x.own)}, x.own.from(0));
  });
}

}  // namespace rehearse::cuda
