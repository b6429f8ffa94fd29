#pragma once
// Functions of one number that several families of operators are made of.

#include <cmath>

namespace rehearse {

/// 1 / (1 + e^-x)
template <class T>
[[nodiscard]] T sigmoid(T x) {
  return T{1} / (T{1} + std::exp(-x));
}

}  // namespace rehearse
