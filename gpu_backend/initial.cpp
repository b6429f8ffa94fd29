#include "gpu_backend/initial.hpp"

#include <functional>
#include <stdexcept>

#include "gpu_backend/random.hpp"

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

}  // namespace

std::string instance_name(const std::string& name, int layer) {
  const auto at = name.find("{layer}");
  return at == std::string::npos ? name : name.substr(0, at) + std::to_string(layer) + name.substr(at + 7);
}

std::vector<double> initial_values(const Tensor& tensor, const Held& held, int layer, std::uint64_t seed) {
  const std::string& named = tensor.initial_key.empty() ? tensor.name : tensor.initial_key;
  const Value value = initialiser(tensor.initial, RandomKey(seed).with("initial").with(instance_name(named, layer)));
  std::vector<double> out;
  for (const std::int64_t e : held.global_elements()) out.push_back(e < 0 ? 0.0 : value(static_cast<std::uint64_t>(e)));
  return out;
}

}  // namespace rehearse
