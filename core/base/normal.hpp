#pragma once
// The normal distribution, and the order of its draws.

namespace rehearse {

/// x with P(X < x) = p of a standard normal X, 0 < p < 1.
[[nodiscard]] double normal_quantile(double p);

/// What the `place`-th largest of `n` standard normal draws is expected to be, place in 1 to n; 0 for a single draw.
/// The largest of 2, 8 and 1024 is 0.59, 1.43 and 3.23 (exactly 0.56, 1.42 and 3.24). F^-1((n - place + 1 - 0.375) / (n
/// + 0.25)), Blom 1958.
[[nodiscard]] double expected_order_statistic(int place, int n);

}  // namespace rehearse
