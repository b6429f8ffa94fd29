#include "gpu_backend/cuda/grouped_gemm.hpp"

#include <cublas_v2.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "gpu_backend/cuda/check.hpp"
#include "gpu_backend/cuda/load_library.hpp"

namespace rehearse::cuda {

namespace {

#define CUBLAS(name) REHEARSE_CALL_OF(cublas_library, name)

void check_cublas(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw Error(ErrorKind::check_failed, fmt::format("{}: {}", call, CUBLAS(cublasGetStatusString)(status)), "cuda");
}

/// Types of factors, result and sums that the library documents.
struct GroupedTypes {
  cudaDataType_t stored;
  cublasComputeType_t arithmetic;
};
std::optional<GroupedTypes> grouped_types_of(const GemmCall& g) {
  if (g.a.type != g.b.type || g.a.type != g.c.type) return std::nullopt;
  switch (g.c.type) {
    case ElementType::real16: return GroupedTypes{CUDA_R_16BF, CUBLAS_COMPUTE_32F};
    case ElementType::real32:
      return GroupedTypes{CUDA_R_32F, g.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F};
    case ElementType::real64: return GroupedTypes{CUDA_R_64F, CUBLAS_COMPUTE_64F};
    default: return std::nullopt;
  }
}

constexpr std::int64_t kGroupedAlignment = 16;  // Bytes.
bool begins_at_16_bytes(const GemmOperand& x) {
  const auto bytes = static_cast<std::int64_t>(size_of(x.type));
  return reinterpret_cast<std::uintptr_t>(x.data) % kGroupedAlignment == 0 &&
         x.stride * bytes % kGroupedAlignment == 0 && x.next * bytes % kGroupedAlignment == 0;
}
bool takes_grouped(const GemmCall& g, const GemmCall& first) {
  const auto fits = [](std::int64_t x) { return x > 0 && x <= std::numeric_limits<int>::max(); };
  return g.bias == nullptr && g.added == nullptr && g.epilogue == Epilogue::none && g.a.type == first.a.type &&
         g.b.type == first.b.type && g.c.type == first.c.type && g.tf32 == first.tf32 && fits(g.m) && fits(g.n) &&
         fits(g.k) && fits(g.a.stride) && fits(g.b.stride) && fits(g.c.stride) && begins_at_16_bytes(g.a) &&
         begins_at_16_bytes(g.b) && begins_at_16_bytes(g.c);
}
const std::byte* matrix_of_batch(const GemmOperand& x, std::int64_t number) {
  return static_cast<const std::byte*>(x.data) + static_cast<std::size_t>(number * x.next) * size_of(x.type);
}
cublasOperation_t operation_of(const GemmOperand& x) { return x.transposed ? CUBLAS_OP_T : CUBLAS_OP_N; }

/// As the library wants them: a group for each product, of as many matrices as its batch has. It is column-major, so
/// rows and columns change places (gemm.cpp).
struct Groups {
  std::vector<cublasOperation_t> first_op, second_op;
  std::vector<int> m, n, k, first_stride, second_stride, out_stride, sizes;
  std::vector<float> alpha, beta;
  std::vector<double> wide_alpha, wide_beta;
  std::vector<const void*> first, second, out;

  explicit Groups(std::span<const GemmCall> products) {
    for (const GemmCall& g : products) {
      first_op.push_back(operation_of(g.b)), second_op.push_back(operation_of(g.a));
      m.push_back(static_cast<int>(g.n)), n.push_back(static_cast<int>(g.m)), k.push_back(static_cast<int>(g.k));
      first_stride.push_back(static_cast<int>(g.b.stride)), second_stride.push_back(static_cast<int>(g.a.stride));
      out_stride.push_back(static_cast<int>(g.c.stride)), sizes.push_back(static_cast<int>(g.batch));
      alpha.push_back(static_cast<float>(g.alpha)), beta.push_back(static_cast<float>(g.beta));
      wide_alpha.push_back(g.alpha), wide_beta.push_back(g.beta);
      for (std::int64_t i = 0; i < g.batch; ++i)
        first.push_back(matrix_of_batch(g.b, i)), second.push_back(matrix_of_batch(g.a, i)),
            out.push_back(matrix_of_batch(g.c, i));
    }
  }
};

}  // namespace

struct GroupedGemm::Impl {
  cublasHandle_t handle = nullptr;
  bool missing = false;

  ~Impl() {
    if (handle != nullptr) CUBLAS(cublasDestroy_v2)(handle);
  }
  /// Whether there is a library that has it.
  bool open() {
    if (handle != nullptr || missing) return handle != nullptr;
    try {
      (void)CUBLAS(cublasGemmGroupedBatchedEx);
      check_cublas(CUBLAS(cublasCreate_v2)(&handle), "cublasCreate");
    } catch (const Error&) {
      missing = true;
    }
    return !missing;
  }
};

GroupedGemm::GroupedGemm() : impl_(std::make_unique<Impl>()) {}
GroupedGemm::~GroupedGemm() = default;

bool GroupedGemm::run(cudaStream_t stream, std::span<const GemmCall> products, const Scratch& scratch) {
  if (products.empty()) return true;
  const auto types = grouped_types_of(products.front());
  if (!types || !std::all_of(products.begin(), products.end(),
                             [&](const GemmCall& g) { return takes_grouped(g, products.front()); }))
    return false;
  if (!impl_->open()) return false;
  const Groups z(products);
  // The three lists of addresses, one after the other. The driver keeps what it copies before it returns.
  std::vector<const void*> addresses = z.first;
  addresses.insert(addresses.end(), z.second.begin(), z.second.end());
  addresses.insert(addresses.end(), z.out.begin(), z.out.end());
  const std::size_t bytes = addresses.size() * sizeof(void*);
  auto* there = static_cast<void**>(scratch(bytes));
  REHEARSE_CUDA(cudaMemcpyAsync(there, addresses.data(), bytes, cudaMemcpyHostToDevice, stream));
  check_cublas(CUBLAS(cublasSetStream_v2)(impl_->handle, stream), "cublasSetStream");
  const bool wide = types->stored == CUDA_R_64F;
  const std::size_t count = z.first.size();
  const void *alpha = wide ? static_cast<const void*>(z.wide_alpha.data()) : z.alpha.data(),
             *beta = wide ? static_cast<const void*>(z.wide_beta.data()) : z.beta.data();
  const cublasStatus_t status = CUBLAS(cublasGemmGroupedBatchedEx)(
      impl_->handle, z.first_op.data(), z.second_op.data(), z.m.data(), z.n.data(), z.k.data(), alpha, there,
      types->stored, z.first_stride.data(), there + count, types->stored, z.second_stride.data(), beta,
      there + 2 * count, types->stored, z.out_stride.data(), static_cast<int>(products.size()), z.sizes.data(),
      types->arithmetic);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return false;
  check_cublas(status, "cublasGemmGroupedBatchedEx");
  return true;
}

}  // namespace rehearse::cuda
