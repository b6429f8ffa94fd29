// The graphs of operations that cuDNN is asked for by. Without a device, cuDNN checks types and shapes of every
// operation, and that they hang together; and it makes plans for a device that is only described: which engines take a
// shape, whether their results repeat, how much memory they want. Of some it compiles kernels, and loads them by a
// driver, whose place on_cpu/driver.cpp takes.
#include <dlfcn.h>

#include "gpu_backend/cuda/cudnn/attention_graphs.hpp"
#include "gpu_backend/cuda/cudnn/convolution_graphs.hpp"
#include "gpu_backend/cuda/cudnn/plan.hpp"
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

std::string no_driver() {
  if (std::string why = no_cudnn(); !why.empty()) return why;
  void* driver = ::dlopen("libcuda.so.1", RTLD_NOW);
  return driver != nullptr ? "" : "no libcuda.so.1";
}

/// An H200, as cudaDeviceGetAttribute tells; compute capability 9.0 is 900 to cuDNN, CUDA 13.0 13000.
constexpr const char* kH200 =
    R"({"maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64], "regsPerBlock": 65536,
        "multiProcessorCount": 132, "warpSize": 32, "maxSharedMemoryPerBlock": 49152,
        "maxSharedMemoryPerBlockOptin": 232448, "reservedSharedMemoryPerBlock": 1024, "maxRegistersPerSM": 65536,
        "maxCtasPerSM": 32, "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "pciDeviceId": 0, "isTccDriver": 0,
        "supportCoopLaunch": 1, "smClockRateKHz": 1980000, "memClockRateKHz": 3201000, "l2CacheSize": 62914560,
        "deviceName": "NVIDIA H200", "totalGlobalMem": 150754820096, "deviceVer": 900, "driverVer": 13000,
        "cudaDeviceId": 0})";

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
                                        // Rows of queries, keys and values side by side, and of their gradients.
                                        {16, 1024, 1024, 12, 12, 64, 64, true, 0, {2304, 2304, 2304, 2304, 2304, 2304}},
                                        {4, 2048, 2048, 32, 8, 64, 64, true, 0, {3072, 3072, 3072, 3072, 3072, 3072}},
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

TEST_CASE("attention has plans on an H200 whose gradients repeat") {
  if (const std::string why = no_driver(); !why.empty()) REHEARSE_SKIP(why);
  const CudnnTarget h200{std::string_view(kH200)};
  const FusedAttentionShape shapes[] = {{16, 1024, 1024, 12, 12, 64, 64, true},  // GPT-2
                                        {4, 2048, 2048, 32, 8, 64, 64, true},    // Llama
                                        // Rows of queries, keys and values side by side, and of their gradients.
                                        {16, 1024, 1024, 12, 12, 64, 64, true, 0, {2304, 2304, 2304, 2304, 2304, 2304}},
                                        {4, 2048, 2048, 32, 8, 64, 64, true, 0, {3072, 3072, 3072, 3072, 3072, 3072}},
                                        {2, 512, 512, 4, 2, 64, 64, true, 128},    // Keys in a window.
                                        {1, 1024, 1024, 16, 16, 192, 128, true}};  // Latent attention.
  for (const FusedAttentionShape& z : shapes) {
    INFO("queries " << z.queries << ", head width " << z.d << ", window " << z.window);
    const CudnnPlan forward(h200, fused_attention_graph(z), {});
    const CudnnPlan backward(h200, fused_attention_grad_graph(z, true), {});
    CHECK(forward.workspace_bytes() < 1024);
    // Gradients of all scores in bfloat16, and of heads that share keys.
    const double scores = 2.0 * static_cast<double>(z.batch * z.heads * z.queries * z.keys);
    CHECK(static_cast<double>(backward.workspace_bytes()) >= scores);
    CHECK(static_cast<double>(backward.workspace_bytes()) <= 1.3 * scores);
  }
}

TEST_CASE("convolutions have plans on an H200 whose results repeat, in bfloat16 and in tf32") {
  if (const std::string why = no_cudnn(); !why.empty()) REHEARSE_SKIP(why);
  const CudnnTarget h200{std::string_view(kH200)};
  // Of ResNet-50's first layer, of an inner one and of ResNeXt's groups, at 64 images; of a volume; and of a tile with
  // a neighbour above, which has padding below alone.
  ConvolutionShape first{64, 1, 64, 3}, inner{64, 1, 128, 128}, groups{64, 32, 128, 128}, volume{2, 1, 32, 16};
  first.small = {1, 112, 112}, first.large = {1, 224, 224}, first.window = {1, 7, 7}, first.stride = {1, 2, 2};
  first.before = first.after = {0, 3, 3};
  inner.small = inner.large = {1, 28, 28}, inner.window = {1, 3, 3}, inner.before = inner.after = {0, 1, 1};
  groups.small = groups.large = inner.small, groups.window = inner.window, groups.before = groups.after = inner.before;
  volume.small = volume.large = {32, 32, 32}, volume.window = {3, 3, 3}, volume.before = volume.after = {1, 1, 1};
  ConvolutionShape tile = inner;
  tile.large[1] = 29, tile.before[1] = 0;
  for (ConvolutionShape z : {first, inner, groups, volume, tile}) {
    for (const ElementType type : {ElementType::real16, ElementType::real32}) {
      z.type = type;
      for (const ConvolutionResult result :
           {ConvolutionResult::small_image, ConvolutionResult::large_image, ConvolutionResult::weights}) {
        INFO("window " << z.window[2] << ", " << z.groups << " groups, " << 8 * size_of(type) << " bits, result "
                       << static_cast<int>(result));
        CHECK_NOTHROW(CudnnPlan(h200, convolution_graph(result, z), {true, std::size_t{1} << 30}));
      }
    }
  }
}

TEST_CASE("a convolution whose sides do not fit each other is refused") {
  if (const std::string why = no_cudnn(); !why.empty()) REHEARSE_SKIP(why);
  ConvolutionShape z{1, 1, 4, 4};
  z.small = z.large = {1, 8, 8}, z.window = {1, 3, 3};  // Without padding it is 6 x 6.
  CHECK_THROWS_AS(convolution_graph(ConvolutionResult::small_image, z)->finalise(nullptr), CudnnFailure);
}

TEST_CASE("engines that want more memory than is lent are passed over") {
  if (const std::string why = no_cudnn(); !why.empty()) REHEARSE_SKIP(why);
  const CudnnTarget h200{std::string_view(kH200)};
  ConvolutionShape z{64, 1, 128, 128};
  z.small = z.large = {1, 28, 28}, z.window = {1, 3, 3}, z.before = z.after = {0, 1, 1};
  const auto bytes = [&](std::size_t most) {
    return CudnnPlan(h200, convolution_graph(ConvolutionResult::small_image, z), {true, most}).workspace_bytes();
  };
  const std::size_t wanted = bytes(std::size_t{1} << 30);
  REQUIRE(wanted > 0);  // Copies in the layout that tensor cores want.
  try {
    CHECK(bytes(wanted - 1) < wanted);
  } catch (const CudnnFailure&) {
    SUCCEED("no engine does with less");
  }
}

TEST_CASE("batch norm by cuDNN copies images to another layout and back") {
  // Which is why own kernels do it: they read an image twice and write one, wherever channels lie.
  if (const std::string why = no_driver(); !why.empty()) REHEARSE_SKIP(why);
  const CudnnTarget h200{std::string_view(kH200)};
  constexpr std::int64_t kBatch = 64, kChannels = 256, kPixels = 56;
  auto graph = std::make_unique<CudnnGraph>();
  const CudnnShape image = packed(kBatch, kChannels, kPixels, kPixels), channels = packed(1, kChannels, 1, 1);
  const cudnnBackendNormMode_t mode = CUDNN_BATCH_NORM;
  const cudnnBackendNormFwdPhase_t phase = CUDNN_NORM_FWD_TRAINING;
  CudnnDescriptor& norm = graph->operation(CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR);
  norm.set(CUDNN_ATTR_OPERATION_NORM_FWD_MODE, CUDNN_TYPE_NORM_MODE, 1, &mode);
  norm.set(CUDNN_ATTR_OPERATION_NORM_FWD_PHASE, CUDNN_TYPE_NORM_FWD_PHASE, 1, &phase);
  norm.set(CUDNN_ATTR_OPERATION_NORM_FWD_XDESC, graph->stored(1, CUDNN_DATA_BFLOAT16, image)->descriptor());
  norm.set(CUDNN_ATTR_OPERATION_NORM_FWD_YDESC, graph->stored(2, CUDNN_DATA_BFLOAT16, image)->descriptor());
  std::int64_t id = 3;
  for (const auto what : {CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC, CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC,
                          CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC, CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC})
    norm.set(what, graph->stored(id++, CUDNN_DATA_FLOAT, channels)->descriptor());
  norm.set(CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC, graph->number(id)->descriptor());
  norm.finalise();
  CHECK(CudnnPlan(h200, std::move(graph), {}).workspace_bytes() >=
        2 * 2 * static_cast<std::size_t>(kBatch * kChannels * kPixels * kPixels));
}
