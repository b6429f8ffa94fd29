#pragma once
// One layer of the 22B model of Korthikanti et al. 2022 (Table 3) as Megatron-LM of that time ran it, written kernel by
// kernel. Bytes are counted per kernel: what each fused kernel must read and write, and nothing else.

#include <vector>

#include "core/price/kernels/kernel.hpp"

namespace published {

struct Layer22b {
  static constexpr double batch = 4, seq = 2048, hidden = 6144, heads = 64, tp = 8;
  static constexpr double tokens = batch * seq;
  static constexpr double head_dim = hidden / heads;
  static constexpr double inner = hidden / tp;    // attention width of one rank
  static constexpr double ffn = 4 * hidden / tp;  // MLP width of one rank
  static constexpr double products = batch * heads / tp;
  static constexpr double scores = products * seq * seq;

  bool sequence_parallel = false;

  using Kernels = std::vector<rehearse::Kernel>;

  [[nodiscard]] double shard() const { return (sequence_parallel ? tokens / tp : tokens) * hidden; }

  static rehearse::Kernel product(double b, double m, double n, double k, bool backward = false) {
    return rehearse::make_gemm({b, m, n, k}, rehearse::DType::fp16, rehearse::DType::fp16, false, backward);
  }
  // Weight gradients are added to fp32 main gradients inside the product.
  static rehearse::Kernel weight_gradient(double out, double in) {
    return rehearse::make_gemm({1, out, in, tokens}, rehearse::DType::fp16, rehearse::DType::fp32, true, true);
  }
  static rehearse::Kernel bytes(rehearse::KernelClass cls, double elements, double read, double written) {
    return rehearse::make_memory_bound(cls, rehearse::Bytes{elements * read}, rehearse::Bytes{elements * written},
                                       rehearse::DType::fp16);
  }

  // The part that selective recomputation runs again.
  [[nodiscard]] static Kernels attention_core_forward() {
    using enum rehearse::KernelClass;
    return {product(products, seq, seq, head_dim), bytes(softmax, scores, 2, 2),
            bytes(elementwise, scores, 2, 3),  // dropout writes a byte mask
            product(products, seq, head_dim, seq)};
  }

  [[nodiscard]] Kernels forward() const {
    using enum rehearse::KernelClass;
    Kernels k{bytes(norm, shard(), 2, 2), product(1, tokens, 3 * inner, hidden),
              bytes(elementwise, tokens * 3 * inner, 2, 2)};
    for (const auto& core : attention_core_forward()) k.push_back(core);
    const Kernels rest{bytes(copy, tokens * inner, 2, 2),  // context brought to token order
                       product(1, tokens, hidden, inner),
                       bytes(elementwise, shard(), 4, 3),  // bias-dropout-add: input, residual; sum, mask
                       bytes(norm, shard(), 2, 2),
                       product(1, tokens, ffn, hidden),
                       bytes(elementwise, tokens * ffn, 2, 2),  // bias-gelu
                       product(1, tokens, hidden, ffn),
                       bytes(elementwise, shard(), 4, 3)};
    k.insert(k.end(), rest.begin(), rest.end());
    return k;
  }

  [[nodiscard]] Kernels backward() const {
    using enum rehearse::KernelClass;
    Kernels k;
    const auto add = [&](const Kernels& more) { k.insert(k.end(), more.begin(), more.end()); };
    const Kernels bias_dropout_add{bytes(elementwise, shard(), 3, 2), bytes(reduction, shard(), 2, 0)};
    // dX, then dGamma and dBeta: each pass reads dY and X
    const Kernels norm_and_residual{bytes(norm, shard(), 8, 2), bytes(elementwise, shard(), 4, 2)};
    add(bias_dropout_add);
    add({product(1, tokens, ffn, hidden, true), bytes(elementwise, tokens * ffn, 4, 2),
         bytes(reduction, tokens * ffn, 2, 0), product(1, tokens, hidden, ffn, true)});
    add(norm_and_residual);
    add(bias_dropout_add);
    add({product(1, tokens, inner, hidden, true), bytes(copy, tokens * inner, 2, 2),
         product(products, seq, seq, head_dim, true), product(products, seq, head_dim, seq, true),  // dP, dV
         bytes(elementwise, scores, 3, 2), bytes(softmax, scores, 4, 2), product(products, seq, head_dim, seq, true),
         product(products, seq, head_dim, seq, true),  // dQ, dK
         bytes(copy, tokens * 3 * inner, 2, 2),        // dQ, dK, dV into one tensor
         bytes(reduction, tokens * 3 * inner, 2, 0), product(1, tokens, hidden, 3 * inner, true)});
    add(norm_and_residual);
    return k;
  }

  /// Weight gradients of the row-parallel products, then of the column-parallel ones, under which a collective runs.
  [[nodiscard]] static Kernels plain_weight_gradients() {
    return {weight_gradient(hidden, ffn), weight_gradient(hidden, inner)};
  }
  [[nodiscard]] static Kernels covering_weight_gradients() {
    return {weight_gradient(ffn, hidden), weight_gradient(3 * inner, hidden)};
  }
};

}  // namespace published
