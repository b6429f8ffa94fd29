#include "gpu_backend/train/initial.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <thread>

#include "core/base/index.hpp"
#include "gpu_backend/execute/random.hpp"

namespace rehearse {

namespace {

using Value = std::function<double(std::uint64_t element)>;

/// The number in "name(number)"; false where `text` is not that.
bool argument_of(const std::string& text, const std::string& name, double& out) {
  if (text.rfind(name + "(", 0) != 0 || text.back() != ')') return false;
  out = std::stod(text.substr(name.size() + 1));
  return true;
}

Value initialiser(const std::string& text, const RandomKey& key) {
  double x = 0;
  if (text.empty() || text == "zeros") return [](std::uint64_t) { return 0.0; };
  if (text == "ones") return [](std::uint64_t) { return 1.0; };
  if (argument_of(text, "normal", x)) return [key, x](std::uint64_t element) { return x * key.normal(element); };
  throw std::logic_error("unknown initialiser '" + text + "'");
}

/// Billions of values are a function of their number each: the machine's cores share them.
template <class F>
void in_parallel(std::size_t n, const F& each) {
  constexpr std::size_t kWorthAThread = std::size_t{1} << 18;
  const std::size_t threads =
      std::clamp<std::size_t>(n / kWorthAThread, 1, std::max(1u, std::thread::hardware_concurrency()));
  const auto share = [&](std::size_t t) {
    for (std::size_t i = n * t / threads; i < n * (t + 1) / threads; ++i) each(i);
  };
  std::vector<std::thread> others;
  for (std::size_t t = 1; t < threads; ++t) others.emplace_back(share, t);
  share(0);
  for (std::thread& t : others) t.join();
}

/// Calls f(i, global element) for every stored element; -1 for padding.
template <class F>
void each_element(const Held& held, const F& f) {
  std::vector<std::vector<std::int64_t>> index(held.shape.size());
  for (std::size_t d = 0; d < index.size(); ++d)
    for (std::int64_t x = 0; x < held.extents[d]; ++x) index[d].push_back(held.global_index(d, x));
  in_parallel(static_cast<std::size_t>(held.elements()), [&](std::size_t i) {
    std::int64_t rest = held.flat.first + static_cast<std::int64_t>(i), element = 0, stride = 1;
    bool padding = false;
    for (std::size_t d = index.size(); d-- > 0;) {
      const std::int64_t g = nth(index[d], rest % held.extents[d]);
      padding |= g < 0;
      element += g * stride;
      stride *= held.shape[d];
      rest /= held.extents[d];
    }
    f(i, padding ? -1 : element);
  });
}

}  // namespace

bool begins_as_zeros(const Tensor& tensor) { return tensor.initial.empty() || tensor.initial == "zeros"; }

std::string instance_name(const std::string& name, int layer) {
  const auto at = name.find("{layer}");
  return at == std::string::npos ? name : name.substr(0, at) + std::to_string(layer) + name.substr(at + 7);
}

std::vector<double> initial_values(const Tensor& tensor, const Held& held, int layer, std::uint64_t seed) {
  const std::string& named = tensor.initial_key.empty() ? tensor.name : tensor.initial_key;
  const Value value = initialiser(tensor.initial, RandomKey(seed).with("initial").with(instance_name(named, layer)));
  std::vector<double> out(static_cast<std::size_t>(held.elements()));
  each_element(held, [&](std::size_t i, std::int64_t element) {
    out[i] = element < 0 ? 0.0 : value(static_cast<std::uint64_t>(element));
  });
  return out;
}

std::vector<std::byte> encoded(const std::vector<double>& values, ElementType type) {
  std::vector<std::byte> out(values.size() * size_of(type));
  const auto store = [&](auto convert) {
    using T = decltype(convert(0.0));
    in_parallel(values.size(), [&](std::size_t i) {
      const T x = convert(values[i]);
      std::memcpy(out.data() + i * sizeof(T), &x, sizeof(T));
    });
  };
  switch (type) {
    case ElementType::real64: store([](double x) { return x; }); break;
    case ElementType::real32: store([](double x) { return static_cast<float>(x); }); break;
    case ElementType::real16: store([](double x) { return to_bfloat16(static_cast<float>(x)); }); break;
    case ElementType::int64: store([](double x) { return static_cast<std::int64_t>(x); }); break;
    case ElementType::byte: store([](double x) { return static_cast<std::uint8_t>(x); }); break;
  }
  return out;
}

}  // namespace rehearse
