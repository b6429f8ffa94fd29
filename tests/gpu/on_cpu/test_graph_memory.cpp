// A graph whose launch finds no memory is launched again after unused memory went back to the driver; a second time is
// an error that says so.
#include "core/base/error.hpp"
#include "gpu_backend/execute/device.hpp"
#include "tests/gpu/device_under_test.hpp"
#include "tests/gpu/on_cpu/machine.hpp"
#include "tests/support/catch.hpp"

using namespace rehearse;
using namespace rehearse::test;

TEST_CASE("a replay that finds no memory is tried once more", "[graphs]") {
  const auto device = device_under_test(Numerics::fp32);
  const auto storage = device->allocate(sizeof(float));
  const float before = 8;
  device->write(*storage, 0, std::as_bytes(std::span(&before, 1)));
  const auto recording = device->record([&] {
    (void)device->submit(
        0, {},
        {.run = [&] { device->divide(storage->data(), 1, ElementType::real32, 2); }, .start = {}, .name = "half"});
  });
  on_cpu::graph_launches_without_memory = 1;
  device->wait(device->replay(*recording, 0));
  float after = 0;
  device->read(*storage, 0, std::as_writable_bytes(std::span(&after, 1)));
  CHECK(after == 4);
  on_cpu::graph_launches_without_memory = 2;
  CHECK_THROWS_AS(device->replay(*recording, 1), OutOfMemory);
  CHECK(on_cpu::graph_launches_without_memory == 0);
}
