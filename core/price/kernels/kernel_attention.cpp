#include "core/price/kernels/kernel_attention.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

namespace rehearse {
namespace {

constexpr double kBackwardProducts = 2.5;  // five matrix products for the forward's two
constexpr double kKeysPerBlock = 128;      // of a backward pass, whose blocks are of keys

/// Whether the window hides keys that a causal query would see.
bool is_window(const AttentionShape& s) { return s.causal && s.window > 0 && s.window < s.seq_k; }

// What a pass takes over the mean of its blocks' work spread over all SMs. `keys` is that mean, `longest` the block
// that has most of them.
double shape_factor(const AttentionShape& s, const FlashConstants& c, bool backward, double keys, double longest,
                    int sms) {
  const double blocks =
      s.batch * s.heads * (backward ? std::ceil(s.seq_k / kKeysPerBlock) : std::ceil(s.seq_q / c.block_queries));
  const double share = sms / blocks;
  const double tail = s.causal && !is_window(s) ? c.causal_tail * std::min(1.0, share) : 0;
  return std::max(1 + tail, share * longest / keys);
}

// Kernels are compiled for these head dimensions; others are padded up.
double padded_head_dim(double d) {
  constexpr std::array<double, 8> sizes{32, 64, 96, 128, 160, 192, 224, 256};
  const auto at = std::lower_bound(sizes.begin(), sizes.end(), d);
  return at == sizes.end() ? d : *at;
}

// Linear between the dimensions of `values`, the nearest one's outside.
double between(const std::map<int, double>& values, double head_dim) {
  const auto above = values.lower_bound(static_cast<int>(std::ceil(head_dim)));
  if (above == values.end()) return std::prev(above)->second;
  if (above == values.begin()) return above->second;
  const auto below = std::prev(above);
  const double t = (head_dim - below->first) / (above->first - below->first);
  return below->second + t * (above->second - below->second);
}

}  // namespace

double FlashConstants::efficiency_at(double head_dim) const { return between(efficiency, head_dim); }

double FlashConstants::backward_ratio_at(double head_dim) const {
  return backward_ratios.empty() ? backward_ratio : between(backward_ratios, head_dim);
}

AttentionShape as_computed(AttentionShape s, DType type) {
  s.window_skips_backward = size_of(type) > 1;
  return s;
}

double attended_keys(const AttentionShape& s) {
  if (!s.causal) return s.seq_k;
  if (is_window(s)) {
    const double lacking = std::max(0.0, s.window - std::max(0.0, s.seq_k - s.seq_q));
    return s.window - lacking * lacking / (2 * s.seq_q);
  }
  if (s.seq_k >= s.seq_q) return s.seq_k - s.seq_q / 2;
  return s.seq_k * s.seq_k / (2 * s.seq_q);
}

Flops attention_flops(const AttentionShape& s, bool backward) {
  const double forward = 4.0 * s.batch * s.heads * s.seq_q * s.head_dim * attended_keys(s);
  return Flops{backward ? kBackwardProducts * forward : forward};
}

Bytes attention_bytes(const AttentionShape& s, double bytes_per_element, bool backward) {
  const double queries = s.batch * s.heads * s.seq_q * s.head_dim;
  const double keys = s.batch * s.kv_heads * s.seq_k * s.head_dim;
  const double forward = 2 * queries + 2 * keys;
  const double both = forward + queries + (queries + 2 * keys);  // + dO read, dQ, dK, dV written
  return Bytes{(backward ? both : forward) * bytes_per_element};
}

FlashTime flash_time(const AttentionShape& shape, double bytes_per_element, bool backward, const FlashConstants& c,
                     const GemmRates& rates) {
  AttentionShape s = shape, whole = shape;
  whole.window = 0;
  if (backward && !s.window_skips_backward) s = whole;
  const double d = padded_head_dim(s.head_dim);
  const double start = backward ? c.start_keys_backward : c.start_keys, masked = s.seq_k - attended_keys(whole),
               edge = std::min(c.diagonal_keys / 2, masked);
  const double causal = attended_keys(whole) + start + edge;
  const double keys = is_window(s) ? std::min(causal, attended_keys(s) + start + 2 * edge) : causal;
  const double longest = s.causal && !is_window(s) ? s.seq_k + start : keys;
  const double work = 4.0 * s.batch * s.heads * s.seq_q * d * keys * (backward ? kBackwardProducts : 1.0);
  const double rate = c.efficiency_at(d) * (backward ? c.backward_ratio_at(d) : 1.0);
  FlashTime t;
  t.compute = Flops{work * shape_factor(s, c, backward, keys, longest, rates.sms) / rate} / rates.peak;
  t.memory = attention_bytes(s, bytes_per_element, backward) / (c.bandwidth_fraction * rates.hbm);
  t.fixed = c.fixed;
  const Seconds alone = max(t.compute, t.memory);
  t.total = t.fixed + alone * (1 + c.long_slowdown * (1 - std::exp(-(alone / c.long_after))));
  if (c.sustained > 0) t.total = max(t.total, t.fixed + attention_flops(s, backward) / (c.sustained * rates.peak));
  return t;
}

}  // namespace rehearse
