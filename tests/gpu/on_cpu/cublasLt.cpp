// cuBLASLt as strict as its documentation lets it be, in place of the library, under the product's own gemm.cpp. It
// refuses types, layouts and batches that it does not document, and an algorithm on operands, a bias or a workspace
// that are less aligned or smaller than those it was chosen for. Its first proposal is always one that failed. A
// product over nothing leaves what is there.
#include "cublasLt.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "gpu_backend/execute/numerics.hpp"

struct OnCpuMatmul {
  cublasComputeType_t compute;
  cudaDataType_t scale;
  std::int32_t transposes[2] = {CUBLAS_OP_N, CUBLAS_OP_N};
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void* bias = nullptr;  ///< Written where gradients of it are asked for.
  std::int32_t bias_type = -1;
  void* aux = nullptr;
  std::int64_t aux_stride = 0;
  std::int32_t aux_type = -1;
  [[nodiscard]] bool reads_bias() const { return (epilogue & 4u) != 0; }
  [[nodiscard]] bool writes_bias() const { return epilogue == CUBLASLT_EPILOGUE_BGRADB; }
  [[nodiscard]] bool has_aux() const { return (epilogue & 128u) != 0; }
  [[nodiscard]] bool gelu() const { return (epilogue & 32u) != 0; }
};
struct OnCpuLayout {
  cudaDataType_t type;
  std::uint64_t rows, columns;
  std::int64_t stride;
  std::int32_t batch = 1;
  std::int64_t next = 0;
};
struct OnCpuPreference {
  std::uint64_t workspace = 0;
  std::array<std::uint32_t, 4> alignments{256, 256, 256, 256};
};

namespace {

using rehearse::from_bfloat16;
using rehearse::to_bfloat16;

constexpr std::uint64_t kKnown = 0x5ca1ab1e, kFailed = 0xdead;

double get(const void* data, cudaDataType_t type, std::int64_t at) {
  if (type == CUDA_R_32F) return static_cast<double>(static_cast<const float*>(data)[at]);
  if (type == CUDA_R_64F) return static_cast<const double*>(data)[at];
  return static_cast<double>(from_bfloat16(static_cast<const std::uint16_t*>(data)[at]));
}
void set(void* data, cudaDataType_t type, std::int64_t at, double value) {
  if (type == CUDA_R_32F)
    static_cast<float*>(data)[at] = static_cast<float>(value);
  else if (type == CUDA_R_64F)
    static_cast<double*>(data)[at] = value;
  else
    static_cast<std::uint16_t*>(data)[at] = to_bfloat16(static_cast<float>(value));
}

/// Rows of op(matrix) one after the other.
std::vector<double> read(const void* data, const OnCpuLayout& m, bool transposed, std::int64_t batch) {
  const auto rows = static_cast<std::int64_t>(transposed ? m.columns : m.rows),
             columns = static_cast<std::int64_t>(transposed ? m.rows : m.columns);
  std::vector<double> out;
  out.reserve(static_cast<std::size_t>(rows * columns));
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j)
      out.push_back(get(data, m.type, batch * m.next + (transposed ? i * m.stride + j : j * m.stride + i)));
  return out;
}

struct Product {
  OnCpuMatmul how;
  OnCpuLayout a, b, c;
  const void *of_a, *of_b, *of_c;
  void* of_d;
  double alpha, beta;
};

constexpr double kInner = 0.7978845608028654, kCubic = 0.044715;  // Of GELU by tanh.
double gelu(double x) { return 0.5 * x * (1 + std::tanh(kInner * (x + kCubic * x * x * x))); }
double gelu_slope(double x) {
  const double t = std::tanh(kInner * (x + kCubic * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * kInner * (1 + 3 * kCubic * x * x);
}

/// What an epilogue makes of a sum, at row i and column j of the result.
double finished(const OnCpuMatmul& how, cudaDataType_t type, std::int64_t i, std::int64_t j, double x) {
  if (how.reads_bias()) x += get(how.bias, type, i);
  if (how.epilogue == CUBLASLT_EPILOGUE_DGELU) return x * gelu_slope(get(how.aux, type, j * how.aux_stride + i));
  if (how.has_aux()) set(how.aux, type, j * how.aux_stride + i, x);
  return how.gelu() ? gelu(x) : x;
}

void multiply(const Product& p) {
  if (!on_cpu::settings().computes) return;
  const auto m = static_cast<std::int64_t>(p.c.rows), n = static_cast<std::int64_t>(p.c.columns);
  for (std::int64_t batch = 0; batch < p.c.batch; ++batch) {
    const std::vector<double> a = read(p.of_a, p.a, p.how.transposes[0] == CUBLAS_OP_T, batch),
                              b = read(p.of_b, p.b, p.how.transposes[1] == CUBLAS_OP_N, batch);
    const auto k = static_cast<std::int64_t>(a.size()) / m;
    for (std::int64_t j = 0; j < n; ++j)
      for (std::int64_t i = 0; i < m; ++i) {
        double sum = 0;
        for (std::int64_t x = 0; x < k; ++x)
          sum += a[static_cast<std::size_t>(i * k + x)] * b[static_cast<std::size_t>(j * k + x)];
        const std::int64_t at = batch * p.c.next + j * p.c.stride + i;
        const double before = p.beta != 0 ? p.beta * get(p.of_c, p.c.type, at) : 0;
        set(p.of_d, p.c.type, at, finished(p.how, p.c.type, i, j, p.alpha * sum + before));
      }
    if (!p.how.writes_bias()) continue;
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (std::int64_t x = 0; x < k; ++x) sum += b[static_cast<std::size_t>(j * k + x)];
      set(p.how.bias, p.c.type, j, sum);
    }
  }
}

bool same(const OnCpuLayout& a, const OnCpuLayout& b) {
  return a.type == b.type && a.rows == b.rows && a.columns == b.columns && a.stride == b.stride && a.batch == b.batch &&
         a.next == b.next;
}

/// What a product may be: sums are in fp64 for fp64 alone; factors are of one type, and the result of theirs, or fp32
/// of bfloat16.
bool supported(const OnCpuMatmul& p, const OnCpuLayout& a, const OnCpuLayout& b, const OnCpuLayout& c,
               const OnCpuLayout& d) {
  const bool wide = p.compute == CUBLAS_COMPUTE_64F;
  const auto rows = [](const OnCpuLayout& m, int op) { return op == CUBLAS_OP_T ? m.columns : m.rows; };
  const auto columns = [](const OnCpuLayout& m, int op) { return op == CUBLAS_OP_T ? m.rows : m.columns; };
  const auto holds = [](const OnCpuLayout& m) { return m.stride >= static_cast<std::int64_t>(m.rows) && m.batch > 0; };
  if (!holds(a) || !holds(b) || !holds(c) || !same(c, d)) return false;
  if (rows(a, p.transposes[0]) != c.rows || columns(b, p.transposes[1]) != c.columns) return false;
  if (columns(a, p.transposes[0]) != rows(b, p.transposes[1])) return false;
  if (a.batch != c.batch || b.batch != c.batch) return false;
  if (c.batch > 1 && c.next < static_cast<std::int64_t>(c.columns - 1) * c.stride + static_cast<std::int64_t>(c.rows))
    return false;
  if (a.type != b.type || (a.type == CUDA_R_64F) != wide || (p.scale == CUDA_R_64F) != wide) return false;
  if (p.compute == CUBLAS_COMPUTE_32F_FAST_TF32 && a.type != CUDA_R_32F) return false;
  if (c.type != a.type && !(a.type == CUDA_R_16BF && c.type == CUDA_R_32F)) return false;
  // Of a batch all add the same bias (CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE is 0 unless it is set).
  if ((p.reads_bias() || p.writes_bias()) && (p.bias == nullptr || p.bias_type != c.type)) return false;
  if (p.writes_bias() && c.batch != 1) return false;
  if (p.epilogue == CUBLASLT_EPILOGUE_BGRADB && (p.transposes[0] != CUBLAS_OP_N || p.transposes[1] != CUBLAS_OP_T))
    return false;
  if ((p.gelu() || p.has_aux()) && (wide || c.batch != 1)) return false;
  return !p.has_aux() || (p.aux != nullptr && p.aux_type == c.type && p.aux_stride % 8 == 0 &&
                          p.aux_stride >= static_cast<std::int64_t>(c.rows));
}

double bytes_of(const OnCpuLayout& m) {
  const double each = m.type == CUDA_R_64F ? 8 : m.type == CUDA_R_32F ? 4 : 2;
  return each * static_cast<double>(m.rows) * static_cast<double>(m.columns) * m.batch;
}
/// What a product reads and writes where it touches each operand once.
double bytes_moved(const OnCpuMatmul& p, const OnCpuLayout& a, const OnCpuLayout& b, const OnCpuLayout& c, bool adds) {
  return bytes_of(a) + bytes_of(b) + (1 + (adds ? 1 : 0) + (p.has_aux() ? 1 : 0)) * bytes_of(c);
}

std::uint64_t alignment(const void* p) {
  const auto x = reinterpret_cast<std::uintptr_t>(p);
  return x == 0 ? 256 : std::min<std::uint64_t>(256, x & (~x + 1));
}

template <class T>
cublasStatus_t take(T& into, const void* value, std::size_t bytes) {
  if (bytes != sizeof into) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&into, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}
template <class T>
cublasStatus_t drop(T* what) {
  delete what;
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

const char* cublasLtGetStatusString(cublasStatus_t status) {
  if (status == CUBLAS_STATUS_SUCCESS) return "CUBLAS_STATUS_SUCCESS";
  return status == CUBLAS_STATUS_NOT_SUPPORTED ? "CUBLAS_STATUS_NOT_SUPPORTED" : "CUBLAS_STATUS_INVALID_VALUE";
}
cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = nullptr;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t) { return CUBLAS_STATUS_SUCCESS; }

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* out, cublasComputeType_t compute, cudaDataType_t scale) {
  *out = new OnCpuMatmul{compute, scale};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t what) { return drop(what); }
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t what, cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA: return take(what->transposes[0], value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB: return take(what->transposes[1], value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE: return take(what->epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return take(what->bias, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE: return take(what->bias_type, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER: return take(what->aux, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD: return take(what->aux_stride, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE: return take(what->aux_type, value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* out, cudaDataType_t type, std::uint64_t rows,
                                          std::uint64_t columns, std::int64_t stride) {
  *out = new OnCpuLayout{type, rows, columns, stride};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t what) { return drop(what); }
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t what, cublasLtMatrixLayoutAttribute_t attribute,
                                                const void* value, std::size_t bytes) {
  return attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT ? take(what->batch, value, bytes)
                                                         : take(what->next, value, bytes);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* out) {
  *out = new OnCpuPreference;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t what) { return drop(what); }
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t what,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
                                                    std::size_t bytes) {
  if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) return take(what->workspace, value, bytes);
  return take(what->alignments.at(static_cast<std::size_t>(attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES)),
              value, bytes);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t product, cublasLtMatrixLayout_t a,
                                              cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                                              cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t preference,
                                              int wanted, cublasLtMatmulHeuristicResult_t results[], int* found) {
  *found = 0;
  if (!supported(*product, *a, *b, *c, *d)) return CUBLAS_STATUS_NOT_SUPPORTED;
  cublasLtMatmulAlgo_t algo{};
  algo.data[0] = kKnown, algo.data[1] = preference->workspace;
  for (std::size_t i = 0; i < 4; ++i) algo.data[2 + i] = preference->alignments[i];
  // It sees the addresses of an epilogue, and takes its kernel by those.
  algo.data[6] = product->bias != nullptr ? std::min<std::uint64_t>(16, alignment(product->bias)) : 1;
  algo.data[7] = product->has_aux() ? std::min<std::uint64_t>(16, alignment(product->aux)) : 1;
  if (wanted > 0) results[(*found)++] = {{{kFailed}}, 0, CUBLAS_STATUS_NOT_SUPPORTED};
  if (wanted > 1) results[(*found)++] = {algo, static_cast<std::size_t>(preference->workspace), CUBLAS_STATUS_SUCCESS};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t product, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t of_a, const void* b, cublasLtMatrixLayout_t of_b, const void* beta,
                              const void* c, cublasLtMatrixLayout_t of_c, void* d, cublasLtMatrixLayout_t of_d,
                              const cublasLtMatmulAlgo_t* algo, void* workspace, std::size_t workspace_bytes,
                              cudaStream_t stream) {
  if (algo->data[0] != kKnown) return CUBLAS_STATUS_INVALID_VALUE;
  if (!supported(*product, *of_a, *of_b, *of_c, *of_d)) return CUBLAS_STATUS_NOT_SUPPORTED;
  const std::array<const void*, 4> operands{a, b, c, d};
  for (std::size_t i = 0; i < operands.size(); ++i)
    if (alignment(operands[i]) < algo->data[2 + i]) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (alignment(product->bias) < algo->data[6] || alignment(product->aux) < algo->data[7])
    return CUBLAS_STATUS_NOT_SUPPORTED;
  if (workspace_bytes < algo->data[1] || (algo->data[1] > 0 && (workspace == nullptr || alignment(workspace) < 256)))
    return CUBLAS_STATUS_INVALID_VALUE;
  if ((product->transposes[0] == CUBLAS_OP_T ? of_a->rows : of_a->columns) == 0) return CUBLAS_STATUS_SUCCESS;
  const auto factor = [&](const void* x) {
    return product->scale == CUDA_R_64F ? *static_cast<const double*>(x)
                                        : static_cast<double>(*static_cast<const float*>(x));
  };
  ++on_cpu::issued.products;
  on_cpu::issued.product_bytes += bytes_moved(*product, *of_a, *of_b, *of_c, factor(beta) != 0);
  return on_cpu_do(stream, [p = Product{*product, *of_a, *of_b, *of_c, a, b, c, d, factor(alpha),
                                        factor(beta)}] { multiply(p); }) == cudaSuccess
             ? CUBLAS_STATUS_SUCCESS
             : CUBLAS_STATUS_INVALID_VALUE;
}
