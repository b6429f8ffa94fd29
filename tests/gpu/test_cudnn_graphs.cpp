// The graphs of operations that cuDNN's attention is asked for by: cuDNN checks types and shapes of every operation,
// and that they hang together, without a device.
#include "gpu_backend/cuda/cudnn/attention_graphs.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/skip.hpp"

using namespace rehearse;
using namespace rehearse::cuda;

namespace {

std::string no_cudnn() {
  try {
    // Versions before take no graph without a handle.
    return REHEARSE_CUDNN_CALL(cudnnGetVersion)() >= 90800 ? "" : "cuDNN is older than 9.8";
  } catch (const Error& e) {
    return e.what();
  }
}

std::int64_t engines(const CudnnDescriptor& graph) {
  return graph.integer(CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT);
}

}  // namespace

TEST_CASE("attention and its gradients are graphs that cuDNN has engines for") {
  if (const std::string why = no_cudnn(); !why.empty()) REHEARSE_SKIP(why);
  const FusedAttentionShape shapes[] = {{16, 1024, 1024, 12, 12, 64, 64, true},  // GPT-2
                                        {4, 2048, 2048, 32, 8, 64, 64, true},    // Llama: heads that share keys
                                        {2, 37, 37, 4, 2, 24, 24, false},
                                        {2, 512, 512, 4, 2, 64, 64, true, 128},  // Keys in a window.
                                        {1, 128, 256, 2, 1, 192, 128, true}};  // Latent attention: values are shorter.
  for (const FusedAttentionShape& z : shapes) {
    INFO("queries " << z.queries << ", head width " << z.d);
    CHECK(engines(fused_attention_graph(z)->finalise(nullptr)) > 0);
    for (const bool deterministic : {true, false})
      CHECK(engines(fused_attention_grad_graph(z, deterministic)->finalise(nullptr)) > 0);
  }
}

TEST_CASE("a product of matrices that do not fit is refused when it is described") {
  if (const std::string why = no_cudnn(); !why.empty()) REHEARSE_SKIP(why);
  CudnnGraph graph;
  const auto* a = graph.stored(1, CUDNN_DATA_BFLOAT16, packed(1, 1, 8, 16));
  const auto* b = graph.stored(2, CUDNN_DATA_BFLOAT16, packed(1, 1, 24, 8));
  const auto* c = graph.stored(3, CUDNN_DATA_BFLOAT16, packed(1, 1, 8, 8));
  CHECK_THROWS_AS(graph.matmul(a, b, c), CudnnFailure);
}
