#pragma once
// The distributions that ranges are cut from, and the score that judges them.

namespace rehearse {

/// Share of the normal distribution below `z`.
[[nodiscard]] double normal_share(double z);
/// The p-quantile of Student's t, 0 < p < 1, degrees above 0.
[[nodiscard]] double student_quantile(double p, double degrees);
/// First and second derivative of the logarithm of the gamma function at `x` above 0: mean and variance of the
/// logarithm of a gamma-distributed value of that shape.
[[nodiscard]] double digamma(double x);
[[nodiscard]] double trigamma(double x);

/// The share that a likely range should hold, and what is left below it and above.
inline constexpr double kLikelyShare = 0.8;
inline constexpr double kLikelyTail = (1 - kLikelyShare) / 2;

/// The interval score of Gneiting and Raftery (2007, eq. 43): the range's width, and 2 / (1 - kLikelyShare) times how
/// far `value` lies outside. Less is better, and the true quantiles have the least on average.
[[nodiscard]] double interval_score(double low, double high, double value);
/// Its mean over values that are normal with this mean and deviation.
[[nodiscard]] double expected_interval_score(double low, double high, double mean, double deviation);

}  // namespace rehearse
