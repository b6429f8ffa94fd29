#include "gpu_backend/cuda/gemm.hpp"

#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <map>
#include <stdexcept>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "gpu_backend/cuda/check.hpp"
#include "gpu_backend/cuda/load_library.hpp"

namespace rehearse::cuda {

namespace {

constexpr int kMostCandidates = 32;
constexpr std::size_t kMostPlans = 4096;  // Rows of experts differ from step to step.

#define CUBLASLT(name) REHEARSE_CALL_OF(cublaslt_library, name)

void check(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw Error(ErrorKind::check_failed, fmt::format("{}: {}", call, CUBLASLT(cublasLtGetStatusString)(status)),
                "cuda");
}
#define REHEARSE_CUBLAS(call) check((call), #call)

cudaDataType_t type_of(ElementType type) {
  switch (type) {
    case ElementType::real32: return CUDA_R_32F;
    case ElementType::real64: return CUDA_R_64F;
    case ElementType::real16: return CUDA_R_16BF;
    default: throw std::logic_error("a product of integers");
  }
}

void destroy(cublasLtMatmulDesc_t x) { CUBLASLT(cublasLtMatmulDescDestroy)(x); }
void destroy(cublasLtMatrixLayout_t x) { CUBLASLT(cublasLtMatrixLayoutDestroy)(x); }
void destroy(cublasLtMatmulPreference_t x) { CUBLASLT(cublasLtMatmulPreferenceDestroy)(x); }

/// Owns a cuBLASLt descriptor.
template <class Handle>
class Owned {
 public:
  Owned() = default;
  ~Owned() {
    if (handle_ != nullptr) destroy(handle_);
  }
  Owned(Owned&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  Handle* put() { return &handle_; }
  [[nodiscard]] Handle get() const { return handle_; }

 private:
  Handle handle_ = nullptr;
};
using Description = Owned<cublasLtMatmulDesc_t>;
using Matrix = Owned<cublasLtMatrixLayout_t>;
using Preference = Owned<cublasLtMatmulPreference_t>;

/// What the choice of an algorithm depends on.
using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::array<std::int64_t, 3>,
                       std::array<std::int64_t, 3>, std::array<int, 3>, int, int, int>;

/// The alignment in bytes that an address has, up to 16.
int alignment(const void* p) {
  const auto x = reinterpret_cast<std::uintptr_t>(p);
  return x % 16 == 0 ? 16 : x % 8 == 0 ? 8 : x % 4 == 0 ? 4 : 2;
}
const void* added_to(const GemmCall& g) { return g.added != nullptr ? g.added : g.c.data; }
Key key_of(const GemmCall& g) {
  const int flags = (g.a.transposed ? 1 : 0) + (g.b.transposed ? 2 : 0) + (g.bias != nullptr ? 4 : 0) +
                    (g.tf32 ? 8 : 0) + (g.beta != 0 ? 16 : 0) + (g.aux != nullptr ? 32 : 0);
  const int aligned = std::min({alignment(g.a.data), alignment(g.b.data), alignment(g.c.data), alignment(added_to(g))});
  return {g.m,
          g.n,
          g.k,
          g.batch,
          {g.a.stride, g.b.stride, g.c.stride},
          {g.a.next, g.b.next, g.c.next},
          {static_cast<int>(g.a.type), static_cast<int>(g.b.type), static_cast<int>(g.c.type)},
          flags,
          aligned,
          static_cast<int>(g.epilogue)};
}

cublasLtEpilogue_t epilogue_of(const GemmCall& g) {
  const bool biased = g.bias != nullptr;
  switch (g.epilogue) {
    case Epilogue::none: return biased ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    case Epilogue::gelu:
      if (g.aux != nullptr) return biased ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
      return biased ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
    case Epilogue::gelu_grad: return CUBLASLT_EPILOGUE_DGELU;
    // Of what is the second factor to cuBLASLt.
    case Epilogue::row_sums: return CUBLASLT_EPILOGUE_BGRADB;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

}  // namespace

struct Gemm::Impl {
  cublasLtHandle_t handle = nullptr;
  std::size_t workspace_bytes;
  std::map<cudaStream_t, void*> workspaces;  ///< Products of different streams may run at once.

  /// A shape, described and decided. cuBLASLt is column-major: it computes C^T = op(B)^T op(A)^T, for which row-major
  /// storage needs no copy.
  struct Plan {
    Description product;
    Matrix first, second, out;
    std::vector<cublasLtMatmulHeuristicResult_t> candidates;
  };
  std::map<Key, Plan> plans;

  explicit Impl(std::size_t bytes) : workspace_bytes(bytes) { REHEARSE_CUBLAS(CUBLASLT(cublasLtCreate)(&handle)); }
  ~Impl() {
    plans.clear();
    for (const auto& [stream, memory] : workspaces) cudaFree(memory);
    CUBLASLT(cublasLtDestroy)(handle);
  }

  static void describe(Matrix& to, const GemmOperand& x, std::int64_t rows, std::int64_t columns, std::int64_t batch) {
    // Stored rows are columns to cuBLASLt.
    REHEARSE_CUBLAS(CUBLASLT(cublasLtMatrixLayoutCreate)(to.put(), type_of(x.type), static_cast<std::uint64_t>(columns),
                                                         static_cast<std::uint64_t>(rows), x.stride));
    if (batch <= 1) return;
    const auto count = static_cast<std::int32_t>(batch);
    REHEARSE_CUBLAS(
        CUBLASLT(cublasLtMatrixLayoutSetAttribute)(to.get(), CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count));
    REHEARSE_CUBLAS(CUBLASLT(cublasLtMatrixLayoutSetAttribute)(to.get(), CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                                               &x.next, sizeof x.next));
  }

  static void set(Description& d, cublasLtMatmulDescAttributes_t what, const void* value, std::size_t bytes) {
    REHEARSE_CUBLAS(CUBLASLT(cublasLtMatmulDescSetAttribute)(d.get(), what, value, bytes));
  }

  [[nodiscard]] Plan make(const GemmCall& g) const {
    Plan plan;
    const bool wide = g.c.type == ElementType::real64;
    const cublasComputeType_t arithmetic = wide     ? CUBLAS_COMPUTE_64F
                                           : g.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                    : CUBLAS_COMPUTE_32F;
    REHEARSE_CUBLAS(CUBLASLT(cublasLtMatmulDescCreate)(plan.product.put(), arithmetic, wide ? CUDA_R_64F : CUDA_R_32F));
    const cublasOperation_t first = g.b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
                            second = g.a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    set(plan.product, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first);
    set(plan.product, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second);
    if (const cublasLtEpilogue_t epilogue = epilogue_of(g); epilogue != CUBLASLT_EPILOGUE_DEFAULT) {
      const cudaDataType_t stored = type_of(g.c.type);
      set(plan.product, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
      set(plan.product, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &stored, sizeof stored);
      if (g.aux != nullptr) {
        set(plan.product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &g.c.stride, sizeof g.c.stride);
        set(plan.product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, &stored, sizeof stored);
      }
      set_places(plan.product, g);
    }
    describe(plan.first, g.b, g.b.transposed ? g.n : g.k, g.b.transposed ? g.k : g.n, g.batch);
    describe(plan.second, g.a, g.a.transposed ? g.k : g.m, g.a.transposed ? g.m : g.k, g.batch);
    describe(plan.out, g.c, g.m, g.n, g.batch);
    Preference preference;
    REHEARSE_CUBLAS(CUBLASLT(cublasLtMatmulPreferenceCreate)(preference.put()));
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t what, const auto& value) {
      REHEARSE_CUBLAS(CUBLASLT(cublasLtMatmulPreferenceSetAttribute)(preference.get(), what, &value, sizeof value));
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, static_cast<std::uint32_t>(alignment(g.b.data)));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, static_cast<std::uint32_t>(alignment(g.a.data)));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, static_cast<std::uint32_t>(alignment(added_to(g))));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, static_cast<std::uint32_t>(alignment(g.c.data)));
    plan.candidates.resize(kMostCandidates);
    int found = 0;
    const cublasStatus_t status = CUBLASLT(cublasLtMatmulAlgoGetHeuristic)(
        handle, plan.product.get(), plan.first.get(), plan.second.get(), plan.out.get(), plan.out.get(),
        preference.get(), kMostCandidates, plan.candidates.data(), &found);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED)
      found = 0;
    else
      check(status, "cublasLtMatmulAlgoGetHeuristic");
    plan.candidates.resize(static_cast<std::size_t>(found));
    std::erase_if(plan.candidates, [](const auto& c) { return c.state != CUBLAS_STATUS_SUCCESS; });
    return plan;
  }

  /// Throws where there is none.
  const Plan& plan_for(const GemmCall& g) {
    const Plan& plan = plan_of(g);
    if (plan.candidates.empty())
      throw Error(ErrorKind::unavailable,
                  fmt::format("cuBLASLt has no algorithm for a product of {} x {} x {}", g.m, g.n, g.k), "cuda");
    return plan;
  }

  /// Where an epilogue reads and writes, which changes from call to call.
  static void set_places(Description& to, const GemmCall& g) {
    const void* vector = g.epilogue == Epilogue::row_sums ? g.row_sums : g.bias;
    if (vector != nullptr) set(to, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &vector, sizeof vector);
    if (g.aux != nullptr) set(to, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &g.aux, sizeof g.aux);
  }

  Plan& plan_of(const GemmCall& g) {
    const Key key = key_of(g);
    auto at = plans.find(key);
    if (at == plans.end()) {
      if (plans.size() >= kMostPlans) plans.clear();
      at = plans.emplace(key, make(g)).first;
    }
    set_places(at->second.product, g);
    return at->second;
  }

  void* workspace_of(cudaStream_t stream) {
    void*& out = workspaces[stream];
    if (out == nullptr && workspace_bytes > 0) REHEARSE_CUDA(cudaMalloc(&out, workspace_bytes));
    return out;
  }

  void launch(cudaStream_t stream, const GemmCall& g, const Plan& plan, const cublasLtMatmulAlgo_t& algorithm) {
    const float alpha = static_cast<float>(g.alpha), beta = static_cast<float>(g.beta);
    const bool wide = g.c.type == ElementType::real64;
    const void *times = wide ? static_cast<const void*>(&g.alpha) : &alpha,
               *plus = wide ? static_cast<const void*>(&g.beta) : &beta;
    auto* c = const_cast<void*>(g.c.data);
    REHEARSE_CUBLAS(CUBLASLT(cublasLtMatmul)(handle, plan.product.get(), times, g.b.data, plan.first.get(), g.a.data,
                                             plan.second.get(), plus, added_to(g), plan.out.get(), c, plan.out.get(),
                                             &algorithm, workspace_of(stream), workspace_bytes, stream));
  }

  double median_of(cudaStream_t stream, const GemmCall& g, const Plan& plan, const cublasLtMatmulAlgo_t& algorithm,
                   int repeats) {
    cudaEvent_t begin = nullptr, end = nullptr;
    REHEARSE_CUDA(cudaEventCreate(&begin));
    REHEARSE_CUDA(cudaEventCreate(&end));
    std::vector<double> seconds;
    for (int i = 0; i < repeats + 2; ++i) {
      REHEARSE_CUDA(cudaEventRecord(begin, stream));
      launch(stream, g, plan, algorithm);
      REHEARSE_CUDA(cudaEventRecord(end, stream));
      REHEARSE_CUDA(cudaEventSynchronize(end));
      float ms = 0;
      REHEARSE_CUDA(cudaEventElapsedTime(&ms, begin, end));
      if (i >= 2) seconds.push_back(static_cast<double>(ms) * 1e-3);
    }
    cudaEventDestroy(begin);
    cudaEventDestroy(end);
    std::nth_element(seconds.begin(), seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2), seconds.end());
    return seconds[seconds.size() / 2];
  }
};

namespace {

/// A sum of no products: C stays where it is added to, and is 0 where it is not.
void nothing_plus(cudaStream_t stream, const GemmCall& g) {
  if (g.bias != nullptr || (g.beta != 0 && g.beta != 1) || g.epilogue != Epilogue::none || g.added != nullptr)
    throw std::logic_error("a product of nothing that is more than zeros or what C holds");
  if (g.beta == 1) return;
  const std::size_t each = size_of(g.c.type);
  auto* c = static_cast<std::byte*>(const_cast<void*>(g.c.data));
  for (std::int64_t b = 0; b < std::max<std::int64_t>(1, g.batch); ++b)
    REHEARSE_CUDA(cudaMemset2DAsync(c + static_cast<std::size_t>(b * g.c.next) * each,
                                    static_cast<std::size_t>(g.c.stride) * each, 0,
                                    static_cast<std::size_t>(g.n) * each, static_cast<std::size_t>(g.m), stream));
}

}  // namespace

Gemm::Gemm(std::size_t workspace) : impl_(std::make_unique<Impl>(workspace)) {}
Gemm::~Gemm() = default;

void Gemm::run(cudaStream_t stream, const GemmCall& g) {
  if (g.m == 0 || g.n == 0) return;
  if (g.k == 0) return nothing_plus(stream, g);
  const Impl::Plan& plan = impl_->plan_for(g);
  impl_->launch(stream, g, plan, plan.candidates.front().algo);
}

bool Gemm::offers(const GemmCall& g) { return !impl_->plan_of(g).candidates.empty(); }

Gemm::Choice Gemm::compare(cudaStream_t stream, const GemmCall& g, int repeats) {
  const Impl::Plan& plan = impl_->plan_for(g);
  Choice out;
  out.candidates = static_cast<int>(plan.candidates.size());
  for (std::size_t i = 0; i < plan.candidates.size(); ++i) {
    const double seconds = impl_->median_of(stream, g, plan, plan.candidates[i].algo, repeats);
    if (i == 0) out.used_s = seconds;
    if (i == 0 || seconds < out.best_s) out.best_s = seconds;
  }
  return out;
}

}  // namespace rehearse::cuda
