#include "tests/gpu/device_under_test.hpp"

namespace rehearse {

std::string cuda_missing() { return {}; }

namespace test {

std::optional<std::string> no_device() { return std::nullopt; }
std::unique_ptr<ComputeDevice> device_under_test(Numerics numerics) { return open_cuda_device({.numerics = numerics}); }

}  // namespace test

}  // namespace rehearse
