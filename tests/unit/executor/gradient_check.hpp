#pragma once
// Backward operators against central differences, in fp64.

#include <cmath>
#include <functional>

#include "tests/support/catch.hpp"
#include "tests/unit/executor/operator_bench.hpp"

namespace rehearse::test {

using Arrays = std::vector<Array>;

struct Case {
  std::string name;
  Arrays inputs;                                             ///< What is differentiated.
  std::function<Array(Arrays&)> forward;                     ///< The output.
  std::function<Arrays(Arrays&, const Array& dy)> backward;  ///< A gradient per input.
};

inline double weighted(const Array& y, const Array& weights) {
  return std::inner_product(y.real.begin(), y.real.end(), weights.real.begin(), 0.0);
}

inline void check(Case c) {
  INFO(c.name);
  Array y = c.forward(c.inputs);
  const Array dy = random_reals(y.shape, 99);
  const Arrays gradients = c.backward(c.inputs, dy);
  REQUIRE(gradients.size() == c.inputs.size());
  constexpr double kStep = 1e-5;
  for (std::size_t i = 0; i < c.inputs.size(); ++i)
    for (std::size_t j = 0; j < c.inputs[i].real.size(); ++j) {
      const double x = c.inputs[i].real[j];
      c.inputs[i].real[j] = x + kStep;
      const double above = weighted(c.forward(c.inputs), dy);
      c.inputs[i].real[j] = x - kStep;
      const double below = weighted(c.forward(c.inputs), dy);
      c.inputs[i].real[j] = x;
      INFO("input " << i << ", element " << j);
      CHECK(gradients[i].real[j] == Approx((above - below) / (2 * kStep)).epsilon(1e-6).margin(1e-7));
    }
}

}  // namespace rehearse::test
