#include "gpu_backend/train/initial.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "core/base/index.hpp"
#include "gpu_backend/execute/random.hpp"

namespace rehearse {

namespace {

/// A number of an element.
struct Initialiser {
  enum class Kind : std::uint8_t { constant, normal, uniform } kind = Kind::constant;
  double scale = 0;  ///< The constant, the standard deviation, or the largest number.
  RandomKey key;
  double operator()(std::uint64_t element) const {
    switch (kind) {
      case Kind::constant: return scale;
      case Kind::normal: return scale * key.normal(element);
      case Kind::uniform: return scale * (2 * key.uniform(element) - 1);
    }
    return 0;
  }
};

/// The number in "name(number)"; false where `text` is not that.
bool argument_of(const std::string& text, const std::string& name, double& out) {
  if (text.rfind(name + "(", 0) != 0 || text.back() != ')') return false;
  out = std::stod(text.substr(name.size() + 1));
  return true;
}

Initialiser initialiser(const std::string& text, const RandomKey& key) {
  double x = 0;
  if (text.empty() || text == "zeros") return {};
  if (text == "ones") return {Initialiser::Kind::constant, 1, key};
  if (argument_of(text, "normal", x)) return {Initialiser::Kind::normal, x, key};
  if (argument_of(text, "uniform", x)) return {Initialiser::Kind::uniform, x, key};
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
  for (std::size_t t = 1; t < threads; ++t) {
    try {
      others.emplace_back(share, t);
    } catch (const std::system_error&) {  // No more threads: this one does it.
      share(t);
    }
  }
  share(0);
  for (std::thread& t : others) t.join();
}

/// The global number of each element that `held` stores; -1 for padding.
class GlobalElements {
 public:
  explicit GlobalElements(const Held& held) : held_(held), index_(held.shape.size()) {
    for (std::size_t d = 0; d < index_.size(); ++d)
      for (std::int64_t x = 0; x < held.extents[d]; ++x) index_[d].push_back(held.global_index(d, x));
  }
  [[nodiscard]] std::int64_t operator()(std::size_t i) const {
    std::int64_t rest = held_.flat.first + static_cast<std::int64_t>(i), element = 0, stride = 1;
    bool padding = false;
    for (std::size_t d = index_.size(); d-- > 0;) {
      const std::int64_t g = nth(index_[d], rest % held_.extents[d]);
      padding |= g < 0;
      element += g * stride;
      stride *= held_.shape[d];
      rest /= held_.extents[d];
    }
    return padding ? -1 : element;
  }

 private:
  const Held& held_;
  std::vector<std::vector<std::int64_t>> index_;
};

/// Calls f(convert), convert from a double to what a device stores.
template <class F>
void converted(ElementType type, const F& f) {
  switch (type) {
    case ElementType::real64: return f([](double x) { return x; });
    case ElementType::real32: return f([](double x) { return static_cast<float>(x); });
    case ElementType::real16: return f([](double x) { return to_bfloat16(static_cast<float>(x)); });
    case ElementType::int64: return f([](double x) { return static_cast<std::int64_t>(x); });
    case ElementType::byte: return f([](double x) { return static_cast<std::uint8_t>(x); });
  }
}

/// Fills `out` with convert(value(i)), i from `first`.
template <class C, class V>
void store(std::vector<std::byte>& out, std::size_t first, const C& convert, const V& value) {
  using T = decltype(convert(0.0));
  in_parallel(out.size() / sizeof(T), [&](std::size_t i) {
    const T x = convert(value(first + i));
    std::memcpy(out.data() + i * sizeof(T), &x, sizeof(T));
  });
}

double real_at(const std::byte* from, ElementType type) {
  const auto as = [from]<class T>(T x) {
    std::memcpy(&x, from, sizeof x);
    return x;
  };
  switch (type) {
    case ElementType::real64: return as(double{});
    case ElementType::real32: return as(float{});
    case ElementType::real16: return from_bfloat16(as(std::uint16_t{}));
    default: throw std::logic_error("state that is no real number in another type");
  }
}

constexpr std::size_t kPart = std::size_t{1} << 23;  // Elements.

}  // namespace

bool begins_as_zeros(const Tensor& tensor) { return tensor.initial.empty() || tensor.initial == "zeros"; }

std::string instance_name(const std::string& name, int layer) {
  const auto at = name.find("{layer}");
  return at == std::string::npos ? name : name.substr(0, at) + std::to_string(layer) + name.substr(at + 7);
}

void write_initial_values(const Tensor& tensor, const Held& held, int layer, std::uint64_t seed, ElementType type,
                          const WriteBytes& write) {
  const std::string& named = tensor.initial_key.empty() ? tensor.name : tensor.initial_key;
  const Initialiser value =
      initialiser(tensor.initial, RandomKey(seed).with("initial").with(instance_name(named, layer)));
  const GlobalElements element_of(held);
  const auto n = static_cast<std::size_t>(held.elements());
  std::vector<std::byte> part;
  for (std::size_t first = 0; first < n; first += kPart) {
    part.resize(std::min(kPart, n - first) * size_of(type));
    converted(type, [&](const auto& convert) {
      store(part, first, convert, [&](std::size_t i) {
        const std::int64_t element = element_of(i);
        return element < 0 ? 0.0 : value(static_cast<std::uint64_t>(element));
      });
    });
    write(first * size_of(type), part);
  }
}

std::vector<std::byte> encoded(const std::vector<double>& values, ElementType type) {
  std::vector<std::byte> out(values.size() * size_of(type));
  converted(type, [&](const auto& convert) { store(out, 0, convert, [&](std::size_t i) { return values[i]; }); });
  return out;
}

std::vector<double> decoded(std::span<const std::byte> values, ElementType type) {
  std::vector<double> out;
  out.reserve(values.size() / size_of(type));
  for (std::size_t at = 0; at < values.size(); at += size_of(type)) out.push_back(real_at(&values[at], type));
  return out;
}

}  // namespace rehearse
