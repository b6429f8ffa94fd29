#include <algorithm>
#include <cctype>
#include <string>

#include "core/import/traces/job_trace.hpp"

namespace rehearse {

namespace {

struct Rule {
  std::string_view part;
  OperationClass cls;
};

// In order: what stands further up decides. Parts are lower case.
constexpr Rule kRules[] = {
    {"nccl", OperationClass::communication},
    {"embedding", OperationClass::embedding},
    {"index_select", OperationClass::embedding},
    {"indexselect", OperationClass::embedding},
    {"flash", OperationClass::attention},
    {"fmha", OperationClass::attention},
    {"attention", OperationClass::attention},
    {"mha_", OperationClass::attention},
    {"cross_entropy", OperationClass::loss},
    {"nll_loss", OperationClass::loss},
    {"logsoftmax", OperationClass::loss},
    {"log_softmax", OperationClass::loss},
    {"softmax", OperationClass::softmax},
    {"layer_norm", OperationClass::norm},
    {"layernorm", OperationClass::norm},
    {"rms_norm", OperationClass::norm},
    {"rmsnorm", OperationClass::norm},
    {"batch_norm", OperationClass::norm},
    {"bn_fw", OperationClass::norm},
    {"bn_bw", OperationClass::norm},
    {"group_norm", OperationClass::norm},
    {"welford", OperationClass::norm},
    {"ln_fwd", OperationClass::norm},
    {"ln_bwd", OperationClass::norm},
    {"multi_tensor_apply", OperationClass::optimizer},
    {"adam", OperationClass::optimizer},
    {"adagrad", OperationClass::optimizer},
    {"sgd_", OperationClass::optimizer},
    // Convolutions by products, by Fourier transform and by minimal filtering, and the change of layout before them.
    {"convolution", OperationClass::convolution},
    {"implicit_gemm", OperationClass::convolution},
    {"implicitgemm", OperationClass::convolution},
    {"fprop", OperationClass::convolution},
    {"dgrad", OperationClass::convolution},
    {"wgrad", OperationClass::convolution},
    {"winograd", OperationClass::convolution},
    {"scudnn", OperationClass::convolution},
    {"conv2d", OperationClass::convolution},
    {"conv_depthwise", OperationClass::convolution},
    {"nchwtonhwc", OperationClass::convolution},
    {"nhwctonchw", OperationClass::convolution},
    {"fft2d", OperationClass::convolution},
    {"gcgemm", OperationClass::convolution},
    {"im2col", OperationClass::convolution},
    {"computeoffsets", OperationClass::convolution},
    {"gemm", OperationClass::matmul},
    {"gemv", OperationClass::matmul},
    {"cublas", OperationClass::matmul},
    {"cutlass", OperationClass::matmul},
    {"nvjet", OperationClass::matmul},
    {"xmma", OperationClass::matmul},
    {"splitk", OperationClass::matmul},
    {"matmul", OperationClass::matmul},
    {"aten::mm", OperationClass::matmul},  // Operators of PyTorch on a CPU.
    {"aten::bmm", OperationClass::matmul},
    {"aten::addmm", OperationClass::matmul},
    {"aten::baddbmm", OperationClass::matmul},
    {"optimizer.step", OperationClass::optimizer},
    {"pool", OperationClass::pool},
    {"elementwise", OperationClass::elementwise},
    {"dropout", OperationClass::elementwise},
    {"catarray", OperationClass::elementwise},
    {"copy", OperationClass::elementwise},
    {"fill", OperationClass::elementwise},
    {"gelu", OperationClass::elementwise},
    {"silu", OperationClass::elementwise},
    {"swiglu", OperationClass::elementwise},
    {"rope", OperationClass::elementwise},
    {"rotary", OperationClass::elementwise},
    {"transpose", OperationClass::elementwise},
    {"quantize", OperationClass::elementwise},
    {"triton_poi", OperationClass::elementwise},
    {"reduce", OperationClass::reduction},
    {"triton_red", OperationClass::reduction},
    {"triton_per", OperationClass::reduction},
    {"lpnorm", OperationClass::reduction},
};

}  // namespace

OperationClass class_of_kernel(std::string_view name) {
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const Rule& rule : kRules)
    if (lower.find(rule.part) != std::string::npos) return rule.cls;
  return OperationClass::other;
}

}  // namespace rehearse
