// Updates, gradient norm and clipping, many tensors per launch: a tensor per row of blocks.

#include <algorithm>
#include <vector>

#include "gpu_backend/cuda/kernels/parts.cuh"

namespace rehearse::cuda {

namespace {

constexpr int kPerLaunch = 40;  // Tensors; their list is passed by value.

template <class Item>
struct List {
  Item at[kPerLaunch];
  int count = 0;
};

template <class A>
struct AdamNumbers {
  A rate, beta1, rest1, beta2, rest2, epsilon;
  PerStep<double> correct1, correct2;
};  // rest = 1 - beta, rounded once.

template <class G, class W>
__global__ void adam_kernel(List<Updated> tensors, AdamNumbers<Acc<W>> rule, bool decoupled) {
  using A = Acc<W>;
  const Updated t = tensors.at[blockIdx.y];
  const G* gradient = static_cast<const G*>(t.gradient);
  W* weights = static_cast<W*>(t.weights);
  A *first = static_cast<A*>(t.first), *second = static_cast<A*>(t.second);
  const A decay = static_cast<A>(t.decay), correct1 = static_cast<A>(rule.correct1.get()),
          correct2 = static_cast<A>(rule.correct2.get());
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < t.n;
       i += static_cast<std::int64_t>(gridDim.x) * blockDim.x) {
    A w = widen(weights[i]);
    const A given = static_cast<A>(widen(gradient[i])), g = decoupled ? given : given + decay * w;
    const A m = rule.beta1 * first[i] + rule.rest1 * g, v = rule.beta2 * second[i] + rule.rest2 * g * g;
    if (decoupled) w -= rule.rate * decay * w;
    w -= rule.rate * (m / correct1) / (sqrt(v / correct2) + rule.epsilon);
    first[i] = m;
    second[i] = v;
    weights[i] = narrow<W>(w);
  }
}

template <class G, class W>
__global__ void sgd_kernel(List<Updated> tensors, Acc<W> rate, Acc<W> momentum) {
  using A = Acc<W>;
  const Updated t = tensors.at[blockIdx.y];
  const G* gradient = static_cast<const G*>(t.gradient);
  W* weights = static_cast<W*>(t.weights);
  A* first = static_cast<A*>(t.first);
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < t.n;
       i += static_cast<std::int64_t>(gridDim.x) * blockDim.x) {
    const A w = widen(weights[i]),
            m = momentum * first[i] + static_cast<A>(widen(gradient[i])) + static_cast<A>(t.decay) * w;
    first[i] = m;
    weights[i] = narrow<W>(w - rate * m);
  }
}

template <class T>
struct SquareOf {
  const T* x;
  __device__ double operator()(std::int64_t i) const {
    const auto v = static_cast<double>(widen(x[i]));
    return v * v;
  }
};

template <class T, class S>
__global__ void clip_kernel(List<Counted> tensors, const S* sum, double largest, double* observed) {
  const Counted t = tensors.at[blockIdx.y];
  const auto squares = static_cast<double>(*sum);
  if (blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0) *observed = squares;
  const double factor = largest / (sqrt(squares) + 1e-6);
  if (!(factor < 1.0)) return;
  T* x = static_cast<T*>(t.values.data);
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < t.n;
       i += static_cast<std::int64_t>(gridDim.x) * blockDim.x)
    x[i] = narrow<T>(widen(x[i]) * static_cast<Acc<T>>(factor));
}

/// Calls f(list, grid) for every kPerLaunch tensors.
template <class Item, class F>
void in_lists(const Item* tensors, int count, F f) {
  for (int first = 0; first < count; first += kPerLaunch) {
    List<Item> list;
    std::int64_t longest = 1;
    for (; list.count < kPerLaunch && first + list.count < count; ++list.count) {
      list.at[list.count] = tensors[first + list.count];
      longest = std::max(longest, list.at[list.count].n);
    }
    f(list, dim3(blocks_for(std::min<std::int64_t>(parts_of(longest), 4096)), static_cast<unsigned>(list.count)));
  }
}

/// Gradients and weights of an update: equal types, or one of the two in 16 bits.
template <class F>
void with_update(const UpdateTypes& types, F f) {
  with_real(types.weights, [&](auto w) {
    using W = decltype(w);
    if (size_of(types.state) != sizeof(Acc<W>)) throw std::logic_error("moments are stored in the type of sums");
    if (types.gradient == types.weights) return f(w, w);
    if (types.weights == ElementType::real32 && types.gradient == ElementType::real16) return f(Half{}, w);
    if (types.weights == ElementType::real16 && types.gradient == ElementType::real32) return f(float{}, w);
    throw std::logic_error("an update of types that do not go together");
  });
}

}  // namespace

void adam(cudaStream_t stream, const Updated* tensors, int count, const UpdateTypes& types, const AdamRule& r) {
  with_update(types, [&](auto g, auto w) {
    using G = decltype(g);
    using W = decltype(w);
    using A = Acc<W>;
    const AdamNumbers<A> rule{static_cast<A>(r.rate),
                              static_cast<A>(r.beta1),
                              static_cast<A>(1 - r.beta1),
                              static_cast<A>(r.beta2),
                              static_cast<A>(1 - r.beta2),
                              static_cast<A>(r.epsilon),
                              r.correct1,
                              r.correct2};
    in_lists(tensors, count, [&](const List<Updated>& list, dim3 grid) {
      launch(&adam_kernel<G, W>, grid, dim3(kThreads), 0, stream, list, rule, r.decoupled);
    });
  });
}

void sgd(cudaStream_t stream, const Updated* tensors, int count, const UpdateTypes& types, const SgdRule& r) {
  with_update(types, [&](auto g, auto w) {
    using G = decltype(g);
    using W = decltype(w);
    in_lists(tensors, count, [&](const List<Updated>& list, dim3 grid) {
      launch(&sgd_kernel<G, W>, grid, dim3(kThreads), 0, stream, list, static_cast<Acc<W>>(r.rate),
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
  auto* parts = static_cast<double*>(scratch);
  std::int64_t used = 0;
  for (int i = 0; i < count; ++i) {
    if (tensors[i].n == 0) continue;
    with_real(tensors[i].values.type, [&](auto t) {
      using T = decltype(t);
      in_parts<Sum>(stream, SquareOf<T>{in<T>(tensors[i].values)}, tensors[i].n, parts + used);
    });
    used += parts_of(tensors[i].n);
  }
  if (sum.type == ElementType::real16) throw std::logic_error("a norm in 16 bits");
  put_together<Sum>(stream, parts, used, sum, 0, false);
}

void clip(cudaStream_t stream, const Counted* tensors, int count, Reals sum, double largest, double* observed) {
  const auto of_type = [&](ElementType type) {
    std::vector<Counted> chosen;
    for (int i = 0; i < count; ++i)
      if (tensors[i].values.type == type) chosen.push_back(tensors[i]);
    return chosen;
  };
  for (const ElementType type : {ElementType::real32, ElementType::real64, ElementType::real16}) {
    const std::vector<Counted> chosen = of_type(type);
    with_real(type, [&](auto t) {
      using T = decltype(t);
      in_lists(chosen.data(), static_cast<int>(chosen.size()), [&](const List<Counted>& list, dim3 grid) {
        if (sum.type == ElementType::real64)
          launch(&clip_kernel<T, double>, grid, dim3(kThreads), 0, stream, list, in<double>(sum), largest, observed);
        else
          launch(&clip_kernel<T, float>, grid, dim3(kThreads), 0, stream, list, in<float>(sum), largest, observed);
      });
    });
  }
}

}  // namespace rehearse::cuda
