#include "core/price/calibration/group_words.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace rehearse {

namespace {

using Words = std::pair<std::string_view, std::string_view>;

constexpr auto kWhole = std::to_array<Words>({{"alignment", "products of misaligned rows"},
                                              {"batch_norm", "batch norms"},
                                              {"convolution", "convolutions on CUDA cores"},
                                              {"convolution_depthwise", "convolutions of single channels"},
                                              {"convolution_tensor", "convolutions on tensor cores"},
                                              {"copy", "casts and copies"},
                                              {"cross_entropy", "loss"},
                                              {"elementwise", "passes over elements"},
                                              {"embedding", "embeddings"},
                                              {"gemm", "matrix products"},
                                              {"gemm_fp4", "matrix products in fp4"},
                                              {"gemm_fp8", "matrix products in fp8"},
                                              {"grouped_gemm", "products of experts"},
                                              {"launch", "launches of kernels"},
                                              {"norm", "norms"},
                                              {"optimizer", "updates of weights"},
                                              {"optimizer_on_cpu", "updates of weights on CPU cores"},
                                              {"pool", "pooling"},
                                              {"power", "power limit"},
                                              {"quantise_mxfp8", "casts to MXFP8"},
                                              {"quantise_nvfp4", "casts to NVFP4"},
                                              {"reduction", "sums"},
                                              {"softmax", "softmax"},
                                              {"state_space", "recurrences"}});
constexpr auto kBegins = std::to_array<Words>({{"attention_", "fused attention, "},
                                               {"fp8_attention_", "fused attention in fp8, "},
                                               {"mxfp8_attention_", "fused attention in MXFP8, "},
                                               {"launch_", "host code of "}});

std::string with_spaces(std::string_view name) {
  std::string out(name);
  std::replace(out.begin(), out.end(), '_', ' ');
  return out;
}

}  // namespace

std::string words_of_group(std::string_view group) {
  const std::size_t end = std::min(group.find(' '), group.size());
  const std::string_view name = group.substr(0, end), behind = group.substr(end);
  for (const auto& [known, words] : kWhole)
    if (known == name) return std::string(words) + std::string(behind);
  for (const auto& [begin, words] : kBegins)
    if (name.starts_with(begin))
      return std::string(words) + with_spaces(name.substr(begin.size())) + std::string(behind);
  return with_spaces(name) + std::string(behind);
}

}  // namespace rehearse
