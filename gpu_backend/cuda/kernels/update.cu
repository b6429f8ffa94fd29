// Updates, gradient norm, clipping, casts and zeros, many tensors per launch: every block has a piece of one of them.

#include <algorithm>
#include <array>
#include <vector>

#include "gpu_backend/cuda/kernels/parts.cuh"

namespace rehearse::cuda {

namespace {

constexpr int kPerLaunch = 40;  // Tensors; their list is passed by value.

/// Tensors, and the first block of each; blocks have kPerPart elements each.
template <class Item>
struct List {
  Item at[kPerLaunch];
  unsigned first_block[kPerLaunch + 1];
  int count = 0;
};

/// Calls f(tensor, first element, element after the last) for the block's piece.
template <class Item, class F>
__device__ void with_piece(const List<Item>& list, F f) {
  int low = 0, high = list.count - 1;  // The last tensor that begins at this block or before.
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (list.first_block[middle] <= blockIdx.x)
      low = middle;
    else
      high = middle - 1;
  }
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x - list.first_block[low]) * kPerPart,
                     n = list.at[low].n;
  f(list.at[low], first, first + kPerPart < n ? first + kPerPart : n);
}
/// Calls f.at<V>(i) for every V-th element: by vectors where the pointers allow it and the piece is made of them.
template <int V, class F>
__device__ void along_piece(std::int64_t first, std::int64_t end, std::uintptr_t addresses, F f) {
  if (addresses % 16 == 0 && end % V == 0) {
    for (std::int64_t i = first + static_cast<std::int64_t>(threadIdx.x) * V; i < end; i += blockDim.x * V)
      f(std::integral_constant<int, V>{}, i);
  } else {
    for (std::int64_t i = first + threadIdx.x; i < end; i += blockDim.x) f(std::integral_constant<int, 1>{}, i);
  }
}
__device__ std::uintptr_t address(const void* p) { return reinterpret_cast<std::uintptr_t>(p); }

template <class A>
struct AdamNumbers {
  A rate, beta1, rest1, beta2, rest2, epsilon;
  PerStep<double> correct1, correct2;
};  // rest = 1 - beta, rounded once.

constexpr int kUpdateVector = 4;

/// What gradients are multiplied by, or 1.
template <class A>
struct Clip {
  const A* sum = nullptr;
  double largest = 0;
  double* observed = nullptr;
  __device__ double factor() const {
    if (sum == nullptr) return 1.0;
    const auto squares = static_cast<double>(*sum);
    if (blockIdx.x == 0 && threadIdx.x == 0) *observed = squares;
    const double scale = largest / (sqrt(squares) + 1e-6);
    return scale < 1.0 ? scale : 1.0;
  }
};

/// `kClears`: leaves zeros for gradients.
template <class G, class W, class S, bool kClears>
__global__ void adam_kernel(List<Updated> tensors, AdamNumbers<Acc<W>> rule, bool decoupled, Clip<Acc<W>> clip) {
  using A = Acc<W>;
  const A correct1 = static_cast<A>(rule.correct1.get()), correct2 = static_cast<A>(rule.correct2.get());
  const Acc<G> scale = static_cast<Acc<G>>(clip.factor());
  with_piece(tensors, [&](const Updated& t, std::int64_t begin, std::int64_t end) {
    G* gradient = static_cast<G*>(t.gradient);
    W* weights = static_cast<W*>(t.weights);
    S *first = static_cast<S*>(t.first), *second = static_cast<S*>(t.second);
    Half* rounded = static_cast<Half*>(t.rounded);
    const A decay = static_cast<A>(t.decay);
    const auto step = [&](auto n, std::int64_t i) {
      constexpr int V = decltype(n)::value;
      auto w = read<V>(weights, i);
      auto m = read<V>(first, i), v = read<V>(second, i);
      const auto gradients = read<V>(gradient, i);
#pragma unroll
      for (int j = 0; j < V; ++j) {
        // Rounded as a clipped gradient is stored.
        const A given = static_cast<A>(widen(narrow<G>(gradients.at[j] * scale))),
                g = decoupled ? given : given + decay * w.at[j];
        m.at[j] = static_cast<Acc<S>>(rule.beta1 * m.at[j] + rule.rest1 * g);
        v.at[j] = static_cast<Acc<S>>(rule.beta2 * v.at[j] + rule.rest2 * g * g);
        if (decoupled) w.at[j] -= rule.rate * decay * w.at[j];
        w.at[j] -= rule.rate * (m.at[j] / correct1) / (sqrt(v.at[j] / correct2) + rule.epsilon);
      }
      write<V>(first, i, m);
      write<V>(second, i, v);
      write<V>(weights, i, w);
      if constexpr (kClears) write<V>(gradient, i, Values<V, Acc<G>>{});
      if (rounded == nullptr) return;
      Values<V, float> narrower;
#pragma unroll
      for (int j = 0; j < V; ++j) narrower.at[j] = static_cast<float>(w.at[j]);
      write<V>(rounded, i, narrower);
    };
    along_piece<kUpdateVector>(
        begin, end, address(gradient) | address(weights) | address(first) | address(second) | address(rounded), step);
  });
}

template <class G, class W, class S>
__global__ void sgd_kernel(List<Updated> tensors, Acc<W> rate, Acc<W> momentum) {
  using A = Acc<W>;
  with_piece(tensors, [&](const Updated& t, std::int64_t begin, std::int64_t end) {
    const G* gradient = static_cast<const G*>(t.gradient);
    W* weights = static_cast<W*>(t.weights);
    S* first = static_cast<S*>(t.first);
    for (std::int64_t i = begin + threadIdx.x; i < end; i += blockDim.x) {
      const A w = widen(weights[i]),
              m = momentum * widen(first[i]) + static_cast<A>(widen(gradient[i])) + static_cast<A>(t.decay) * w;
      first[i] = narrow<S>(static_cast<Acc<S>>(m));
      weights[i] = narrow<W>(w - rate * m);
    }
  });
}

/// The sum of squares of each block's piece.
template <class T>
__global__ void squares_kernel(List<Counted> tensors, double* parts) {
  double mine = 0;
  with_piece(tensors, [&](const Counted& t, std::int64_t begin, std::int64_t end) {
    const T* x = static_cast<const T*>(t.values.data);
    along_piece<kVector<T>>(begin, end, address(x), [&](auto n, std::int64_t i) {
      constexpr int V = decltype(n)::value;
      const auto v = read<V>(x, i);
#pragma unroll
      for (int j = 0; j < V; ++j) mine += static_cast<double>(v.at[j]) * static_cast<double>(v.at[j]);
    });
  });
  mine = over_block<Sum>(mine, 0.0);
  if (threadIdx.x == 0) parts[blockIdx.x] = mine;
}

template <class T, class S>
__global__ void clip_kernel(List<Counted> tensors, const S* sum, double largest, double* observed) {
  const auto squares = static_cast<double>(*sum);
  if (blockIdx.x == 0 && threadIdx.x == 0) *observed = squares;
  const double factor = largest / (sqrt(squares) + 1e-6);
  if (!(factor < 1.0)) return;
  with_piece(tensors, [&](const Counted& t, std::int64_t begin, std::int64_t end) {
    T* x = static_cast<T*>(t.values.data);
    along_piece<kVector<T>>(begin, end, address(x), [&](auto n, std::int64_t i) {
      constexpr int V = decltype(n)::value;
      auto v = read<V>(x, i);
#pragma unroll
      for (int j = 0; j < V; ++j) v.at[j] *= static_cast<Acc<T>>(factor);
      write<V>(x, i, v);
    });
  });
}

/// Where a rank has no gradients.
__global__ void tell_kernel(Reals sum, double* observed) { *observed = get<double>(sum, 0); }

template <class From, class To>
__global__ void cast_kernel(List<CastOf> tensors) {
  constexpr int kLongest = kVector < From >> kVector<To> ? kVector<From> : kVector<To>;
  with_piece(tensors, [&](const CastOf& t, std::int64_t begin, std::int64_t end) {
    const From* from = static_cast<const From*>(t.from.data);
    To* to = static_cast<To*>(t.to.data);
    along_piece<kLongest>(begin, end, address(from) | address(to), [&](auto n, std::int64_t i) {
      constexpr int V = decltype(n)::value;
      const auto x = read<V>(from, i);
      Values<V, Acc<To>> y;
#pragma unroll
      for (int j = 0; j < V; ++j) y.at[j] = static_cast<Acc<To>>(x.at[j]);
      write<V>(to, i, y);
    });
  });
}

template <class T>
__global__ void zeros_kernel(List<Counted> tensors) {
  with_piece(tensors, [&](const Counted& t, std::int64_t begin, std::int64_t end) {
    T* x = static_cast<T*>(t.values.data);
    along_piece<kVector<T>>(begin, end, address(x), [&](auto n, std::int64_t i) {
      write<decltype(n)::value>(x, i, Values<decltype(n)::value, Acc<T>>{});
    });
  });
}

/// Calls f(list, blocks) for every kPerLaunch of the tensors that have elements.
template <class Item, class F>
void in_lists(const Item* tensors, int count, F f) {
  List<Item> list;
  unsigned blocks = 0;
  const auto flush = [&] {
    if (list.count > 0) f(list, blocks);
    list.count = 0, blocks = 0;
  };
  for (int i = 0; i < count; ++i) {
    if (tensors[i].n == 0) continue;
    list.at[list.count] = tensors[i];
    list.first_block[list.count++] = blocks;
    blocks += static_cast<unsigned>(parts_of(tensors[i].n));
    if (list.count == kPerLaunch) flush();
  }
  flush();
}
/// Calls f(value of the type, tensors of it) for each type that there is.
template <class F>
void by_type(const Counted* tensors, int count, F f) {
  for (const ElementType type : {ElementType::real32, ElementType::real64, ElementType::real16}) {
    std::vector<Counted> chosen;
    for (int i = 0; i < count; ++i)
      if (tensors[i].values.type == type) chosen.push_back(tensors[i]);
    if (!chosen.empty()) with_real(type, [&](auto t) { f(t, chosen); });
  }
}

/// Gradients and weights of an update: equal types, or one of the two in 16 bits. Moments are in the type of sums, or
/// in 16 bits, too.
template <class F>
void with_update(const UpdateTypes& types, F f) {
  with_real(types.weights, [&](auto w) {
    using W = decltype(w);
    const auto with_state = [&](auto g) {
      if (size_of(types.state) == sizeof(Acc<W>)) return f(g, w, Acc<W>{});
      if (types.state != ElementType::real16) throw std::logic_error("moments are neither sums nor in 16 bits");
      f(g, w, Half{});
    };
    if (types.gradient == types.weights) return with_state(w);
    if (types.weights == ElementType::real32 && types.gradient == ElementType::real16) return with_state(Half{});
    if (types.weights == ElementType::real16 && types.gradient == ElementType::real32) return with_state(float{});
    throw std::logic_error("an update of types that do not go together");
  });
}

}  // namespace

void adam(cudaStream_t stream, const Updated* tensors, int count, const UpdateTypes& types, const AdamRule& r) {
  with_update(types, [&](auto g, auto w, auto s) {
    using G = decltype(g);
    using W = decltype(w);
    using S = decltype(s);
    using A = Acc<W>;
    const AdamNumbers<A> rule{static_cast<A>(r.rate),
                              static_cast<A>(r.beta1),
                              static_cast<A>(1 - r.beta1),
                              static_cast<A>(r.beta2),
                              static_cast<A>(1 - r.beta2),
                              static_cast<A>(r.epsilon),
                              r.correct1,
                              r.correct2};
    const bool clips = r.clip.sum.data != nullptr;
    if (clips && size_of(r.clip.sum.type) != sizeof(A))
      throw std::logic_error("a norm of another type than the moments");
    const Clip<A> clip{clips ? in<A>(r.clip.sum) : nullptr, r.clip.largest, r.clip.observed};
    in_lists(tensors, count, [&](const List<Updated>& list, unsigned blocks) {
      if (r.clears)
        launch(&adam_kernel<G, W, S, true>, dim3(blocks), dim3(kThreads), 0, stream, list, rule, r.decoupled, clip);
      else
        launch(&adam_kernel<G, W, S, false>, dim3(blocks), dim3(kThreads), 0, stream, list, rule, r.decoupled, clip);
    });
  });
}

void sgd(cudaStream_t stream, const Updated* tensors, int count, const UpdateTypes& types, const SgdRule& r) {
  with_update(types, [&](auto g, auto w, auto s) {
    using G = decltype(g);
    using W = decltype(w);
    using S = decltype(s);
    in_lists(tensors, count, [&](const List<Updated>& list, unsigned blocks) {
      launch(&sgd_kernel<G, W, S>, dim3(blocks), dim3(kThreads), 0, stream, list, static_cast<Acc<W>>(r.rate),
             static_cast<Acc<W>>(r.momentum));
    });
  });
}

std::size_t square_scratch_bytes(const Counted* tensors, int count) {
  std::int64_t parts = 1;
  for (int i = 0; i < count; ++i) parts += parts_of(tensors[i].n);
  return static_cast<std::size_t>(parts) * sizeof(double);
}

void square_sum(cudaStream_t stream, const Counted* tensors, int count, Reals sum, void* scratch) {
  if (sum.type == ElementType::real16) throw std::logic_error("a norm in 16 bits");
  auto* parts = static_cast<double*>(scratch);
  std::int64_t used = 0;
  by_type(tensors, count, [&](auto t, const std::vector<Counted>& chosen) {
    using T = decltype(t);
    in_lists(chosen.data(), static_cast<int>(chosen.size()), [&](const List<Counted>& list, unsigned blocks) {
      launch(&squares_kernel<T>, dim3(blocks), dim3(kThreads), 0, stream, list, parts + used);
      used += blocks;
    });
  });
  put_together<Sum>(stream, parts, used, sum, 0, false);
}

void clip(cudaStream_t stream, const Counted* tensors, int count, Reals sum, double largest, double* observed) {
  bool told = false;
  by_type(tensors, count, [&](auto t, const std::vector<Counted>& chosen) {
    using T = decltype(t);
    in_lists(chosen.data(), static_cast<int>(chosen.size()), [&](const List<Counted>& list, unsigned blocks) {
      told = true;
      if (sum.type == ElementType::real64)
        launch(&clip_kernel<T, double>, dim3(blocks), dim3(kThreads), 0, stream, list, in<double>(sum), largest,
               observed);
      else
        launch(&clip_kernel<T, float>, dim3(blocks), dim3(kThreads), 0, stream, list, in<float>(sum), largest,
               observed);
    });
  });
  if (!told) launch(&tell_kernel, dim3(1), dim3(1), 0, stream, sum, observed);
}

void cast_all(cudaStream_t stream, const CastOf* tensors, int count) {
  std::vector<CastOf> chosen;
  const auto flush = [&] {
    if (chosen.empty()) return;
    with_real(chosen.front().from.type, [&](auto a) {
      with_real(chosen.front().to.type, [&](auto b) {
        in_lists(chosen.data(), static_cast<int>(chosen.size()), [&](const List<CastOf>& list, unsigned blocks) {
          launch(&cast_kernel<decltype(a), decltype(b)>, dim3(blocks), dim3(kThreads), 0, stream, list);
        });
      });
    });
    chosen.clear();
  };
  for (int i = 0; i < count; ++i) {
    const auto same = [&](const CastOf& x) {
      return x.from.type == tensors[i].from.type && x.to.type == tensors[i].to.type;
    };
    if (!chosen.empty() && !same(chosen.front())) flush();
    chosen.push_back(tensors[i]);
  }
  flush();
}

void zero_all(cudaStream_t stream, const Counted* tensors, int count) {
  by_type(tensors, count, [&](auto t, const std::vector<Counted>& chosen) {
    in_lists(chosen.data(), static_cast<int>(chosen.size()), [&](const List<Counted>& list, unsigned blocks) {
      launch(&zeros_kernel<decltype(t)>, dim3(blocks), dim3(kThreads), 0, stream, list);
    });
  });
}

}  // namespace rehearse::cuda
