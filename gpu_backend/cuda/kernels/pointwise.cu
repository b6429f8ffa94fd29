// Element by element: activations, additions, casts, dropout.

#include "gpu_backend/cuda/kernels/common.cuh"

namespace rehearse::cuda {

namespace {

/// sqrt(2 / pi) (x + 0.044715 x^3), and its slope.
template <class A>
__device__ A inner(A x) {
  return A(0.7978845608028653558798921198687637) * (x + A(0.044715) * x * x * x);
}
template <class A>
__device__ A inner_slope(A x) {
  return A(0.7978845608028653558798921198687637) * (A(1) + A(3 * 0.044715) * x * x);
}
/// Of the standard normal distribution: cumulative, density.
template <class A>
__device__ A cumulative(A x) {
  return A(0.5) * (A(1) + erf(x * A(0.7071067811865475244008443621048490)));
}
template <class A>
__device__ A density(A x) {
  return exp(-x * x / A(2)) * A(0.3989422804014326779399460599343819);
}

struct Gelu {
  template <class A>
  __device__ static A value(A x) {
    return x * cumulative(x);
  }
  template <class A>
  __device__ static A slope(A x) {
    return cumulative(x) + x * density(x);
  }
};
struct GeluByTanh {
  template <class A>
  __device__ static A value(A x) {
    return A(0.5) * x * (A(1) + tanh(inner(x)));
  }
  template <class A>
  __device__ static A slope(A x) {
    const A t = tanh(inner(x));
    return A(0.5) * (A(1) + t) + A(0.5) * x * (A(1) - t * t) * inner_slope(x);
  }
};
struct SquaredRelu {
  template <class A>
  __device__ static A value(A x) {
    return x > A(0) ? x * x : A(0);
  }
  template <class A>
  __device__ static A slope(A x) {
    return x > A(0) ? A(2) * x : A(0);
  }
};

template <class T, class F>
struct Along {
  const T* x;
  T* y;
  template <int V>
  __device__ void at(std::int64_t i) const {
    auto v = read<V>(x, i);
#pragma unroll
    for (int j = 0; j < V; ++j) v.at[j] = F::value(v.at[j]);
    write<V>(y, i, v);
  }
};
template <class T, class F>
struct AlongGrad {
  const T *dy, *x;
  T* dx;
  template <int V>
  __device__ void at(std::int64_t i) const {
    auto v = read<V>(x, i);
    const auto g = read<V>(dy, i);
#pragma unroll
    for (int j = 0; j < V; ++j) v.at[j] = g.at[j] * F::slope(v.at[j]);
    write<V>(dx, i, v);
  }
};

template <class T>
struct SiluMul {
  const T *gate, *up;
  T* y;
  GatedRows z;
  template <int V>
  __device__ void at(std::int64_t row, std::int64_t column) const {
    const std::int64_t i = row * z.apart + column;
    auto g = read<V>(gate, i);
    const auto u = read<V>(up, i);
#pragma unroll
    for (int j = 0; j < V; ++j) g.at[j] = g.at[j] * sigmoid(g.at[j]) * u.at[j];
    write<V>(y, row * z.width + column, g);
  }
};
template <class T>
struct SiluMulGrad {
  const T *dy, *gate, *up;
  T *dgate, *dup;
  GatedRows z;
  template <int V>
  __device__ void at(std::int64_t row, std::int64_t column) const {
    const std::int64_t i = row * z.apart + column, to = row * z.grad_apart + column;
    auto g = read<V>(gate, i), u = read<V>(up, i);
    const auto d = read<V>(dy, row * z.width + column);
#pragma unroll
    for (int j = 0; j < V; ++j) {
      const auto s = sigmoid(g.at[j]), x = g.at[j];
      g.at[j] = d.at[j] * u.at[j] * s * (decltype(s)(1) + x * (decltype(s)(1) - s));
      u.at[j] = d.at[j] * x * s;
    }
    write<V>(dgate, to, g);
    write<V>(dup, to, u);
  }
};

template <class T>
struct Add {
  const T *a, *b;
  T* sum;
  template <int V>
  __device__ void at(std::int64_t i) const {
    auto x = read<V>(a, i);
    const auto y = read<V>(b, i);
#pragma unroll
    for (int j = 0; j < V; ++j) x.at[j] += y.at[j];
    write<V>(sum, i, x);
  }
};
template <class From, class To>
struct Cast {
  const From* from;
  To* to;
  template <int V>
  __device__ void at(std::int64_t i) const {
    const auto x = read<V>(from, i);
    Values<V, Acc<To>> y;
#pragma unroll
    for (int j = 0; j < V; ++j) y.at[j] = static_cast<Acc<To>>(x.at[j]);
    write<V>(to, i, y);
  }
};
template <class T, bool kDivide>
struct Scale {
  T* x;
  Acc<T> by;
  template <int V>
  __device__ void at(std::int64_t i) const {
    auto v = read<V>(x, i);
#pragma unroll
    for (int j = 0; j < V; ++j) v.at[j] = kDivide ? v.at[j] / by : v.at[j] * by;
    write<V>(x, i, v);
  }
};

template <class T>
struct Drop {
  const T *x, *residual;
  std::uint8_t* mask;
  T* y;
  GlobalElements elements;
  Dropout random;
  template <int V>
  __device__ void at(std::int64_t i) const {
    auto v = read<V>(x, i);
    Stored<V, std::uint8_t> kept;
#pragma unroll
    for (int j = 0; j < V; ++j) {
      const bool keep = random.keeps(elements.at(i + j));
      kept.at[j] = keep ? 1 : 0;
      v.at[j] = keep ? v.at[j] * static_cast<Acc<T>>(random.scale) : Acc<T>(0);
    }
    if (residual != nullptr) {
      const auto r = read<V>(residual, i);
#pragma unroll
      for (int j = 0; j < V; ++j) v.at[j] += r.at[j];
    }
    *reinterpret_cast<Stored<V, std::uint8_t>*>(mask + i) = kept;
    write<V>(y, i, v);
  }
};
template <class T>
struct DropGrad {
  const T* dy;
  const std::uint8_t* mask;
  T* dx;
  Acc<T> scale;
  template <int V>
  __device__ void at(std::int64_t i) const {
    auto v = read<V>(dy, i);
    const Stored<V, std::uint8_t> kept = *reinterpret_cast<const Stored<V, std::uint8_t>*>(mask + i);
#pragma unroll
    for (int j = 0; j < V; ++j) v.at[j] = kept.at[j] != 0 ? v.at[j] * scale : Acc<T>(0);
    write<V>(dx, i, v);
  }
};

/// One row of blocks per piece, by 16 bytes where all of it is aligned to them.
__global__ void copy_pieces_kernel(const std::byte* from, std::byte* to, const Piece* pieces, int count) {
  for (int p = static_cast<int>(blockIdx.y); p < count; p += static_cast<int>(gridDim.y)) {
    const Piece piece = pieces[p];
    const std::byte* source = from + piece.from;
    std::byte* target = to + piece.to;
    const auto low = reinterpret_cast<std::uintptr_t>(source) | reinterpret_cast<std::uintptr_t>(target) |
                     static_cast<std::uintptr_t>(piece.bytes);
    const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x,
                       step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
    if (low % sizeof(uint4) == 0) {
      for (std::int64_t i = first; i < piece.bytes / static_cast<std::int64_t>(sizeof(uint4)); i += step)
        reinterpret_cast<uint4*>(target)[i] = reinterpret_cast<const uint4*>(source)[i];
    } else {
      for (std::int64_t i = first; i < piece.bytes; i += step) target[i] = source[i];
    }
  }
}

template <class Run>
void with_curve(Curve which, const Run& run) {
  switch (which) {
    case Curve::gelu: return run(Gelu{});
    case Curve::gelu_by_tanh: return run(GeluByTanh{});
    case Curve::squared_relu: return run(SquaredRelu{});
  }
}

}  // namespace

void curve(cudaStream_t stream, Curve which, Reals x, Reals y, std::int64_t n) {
  with_real(x.type, [&](auto t) {
    using T = decltype(t);
    with_curve(which, [&](auto f) {
      each<kVector<T>>(stream, Along<T, decltype(f)>{in<T>(x), out<T>(y)}, n, {x.data, y.data});
    });
  });
}

void curve_grad(cudaStream_t stream, Curve which, Reals dy, Reals x, Reals dx, std::int64_t n) {
  with_real(x.type, [&](auto t) {
    using T = decltype(t);
    with_curve(which, [&](auto f) {
      each<kVector<T>>(stream, AlongGrad<T, decltype(f)>{in<T>(dy), in<T>(x), out<T>(dx)}, n,
                       {dy.data, x.data, dx.data});
    });
  });
}

void silu_mul(cudaStream_t stream, Reals gate, Reals up, Reals y, const GatedRows& z) {
  with_real(y.type, [&](auto t) {
    using T = decltype(t);
    each_of_rows<kVector<T>>(stream, SiluMul<T>{in<T>(gate), in<T>(up), out<T>(y), z}, z.rows, z.width,
                             {gate.data, up.data, y.data}, {z.apart});
  });
}

void silu_mul_grad(cudaStream_t stream, Reals dy, Reals gate, Reals up, Reals dgate, Reals dup, const GatedRows& z) {
  with_real(dy.type, [&](auto t) {
    using T = decltype(t);
    each_of_rows<kVector<T>>(stream, SiluMulGrad<T>{in<T>(dy), in<T>(gate), in<T>(up), out<T>(dgate), out<T>(dup), z},
                             z.rows, z.width, {dy.data, gate.data, up.data, dgate.data, dup.data},
                             {z.apart, z.grad_apart});
  });
}

void add(cudaStream_t stream, Reals a, Reals b, Reals sum, std::int64_t n) {
  with_real(sum.type, [&](auto t) {
    using T = decltype(t);
    each<kVector<T>>(stream, Add<T>{in<T>(a), in<T>(b), out<T>(sum)}, n, {a.data, b.data, sum.data});
  });
}

void cast(cudaStream_t stream, Reals from, Reals to, std::int64_t n) {
  with_real(from.type, [&](auto a) {
    using From = decltype(a);
    with_real(to.type, [&](auto b) {
      using To = decltype(b);
      each<kVector<From> >= kVector<To> ? kVector<From> : kVector<To>>(
          stream, Cast<From, To>{in<From>(from), out<To>(to)}, n, {from.data, to.data});
    });
  });
}

void scale(cudaStream_t stream, Reals x, std::int64_t n, double factor) {
  with_real(x.type, [&](auto t) {
    using T = decltype(t);
    each<kVector<T>>(stream, Scale<T, false>{out<T>(x), static_cast<Acc<T>>(factor)}, n, {x.data});
  });
}

void divide(cudaStream_t stream, Reals x, std::int64_t n, double by) {
  with_real(x.type, [&](auto t) {
    using T = decltype(t);
    each<kVector<T>>(stream, Scale<T, true>{out<T>(x), static_cast<Acc<T>>(by)}, n, {x.data});
  });
}

void dropout(cudaStream_t stream, Reals x, const void* residual, std::uint8_t* mask, Reals y, std::int64_t n,
             const GlobalElements& elements, const Dropout& random) {
  with_real(y.type, [&](auto t) {
    using T = decltype(t);
    each<kVector<T>>(stream, Drop<T>{in<T>(x), static_cast<const T*>(residual), mask, out<T>(y), elements, random}, n,
                     {x.data, residual, mask, y.data});
  });
}

void dropout_grad(cudaStream_t stream, Reals dy, const std::uint8_t* mask, Reals dx, std::int64_t n, double scale) {
  with_real(dx.type, [&](auto t) {
    using T = decltype(t);
    each<kVector<T>>(stream, DropGrad<T>{in<T>(dy), mask, out<T>(dx), static_cast<Acc<T>>(scale)}, n,
                     {dy.data, mask, dx.data});
  });
}

void copy_pieces(cudaStream_t stream, const std::byte* from, std::byte* to, const Piece* pieces, int count,
                 std::int64_t largest) {
  if (count == 0) return;
  constexpr std::int64_t kBytesPerBlock = 16 * kThreads;
  const std::int64_t across = (largest + kBytesPerBlock - 1) / kBytesPerBlock;
  launch(&copy_pieces_kernel,
         dim3(blocks_for(across < 1024 ? across : 1024), static_cast<unsigned>(count < 65535 ? count : 65535)),
         dim3(kThreads), 0, stream, from, to, pieces, count);
}

}  // namespace rehearse::cuda
