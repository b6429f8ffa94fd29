// Edges where CUDA and its libraries do less than one expects: copies that arrive late, proposals that failed, products
// over nothing.
#include <algorithm>
#include <array>

#include "gpu_backend/cuda/gemm.hpp"
#include "gpu_backend/cuda/memory.hpp"
#include "gpu_backend/cuda/piece_lists.hpp"
#include "tests/support/catch.hpp"

using namespace rehearse;
using namespace rehearse::cuda;

namespace {

constexpr std::size_t kWorkspace = 4096;

/// C = op(A) op(B), 2 x 3, over `k`.
std::array<float, 6> product(std::int64_t k, double beta) {
  std::array<float, 6> c{1, 2, 3, 4, 5, 6};
  const std::array<float, 6> a{1, 2, 3, 4, 5, 6}, b{1, 0, 0, 0, 1, 0};
  GemmCall call;
  call.m = 2, call.n = 3, call.k = k;
  call.a = {a.data(), ElementType::real32, 2}, call.b = {b.data(), ElementType::real32, 3};
  call.c = {c.data(), ElementType::real32, 3};
  call.beta = beta;
  Gemm(kWorkspace).run(nullptr, call);
  return c;
}

}  // namespace

TEST_CASE("a list of pieces is on the device before a stream reads it", "[edges]") {
  const on_cpu::LateStreams late(on_cpu::GpuSettings{});
  PieceLists lists;
  const std::vector<Piece> pieces{{0, 8, 4}, {16, 0, 8}};
  const Piece* there = lists.on_device(pieces);
  for (std::size_t i = 0; i < pieces.size(); ++i) CHECK(there[i].bytes == pieces[i].bytes);
}

TEST_CASE("an algorithm that cuBLASLt proposes and says has failed is not used", "[edges]") {
  CHECK(product(2, 0) == std::array<float, 6>{1, 2, 0, 3, 4, 0});
  CHECK(product(2, 1) == std::array<float, 6>{2, 4, 3, 7, 9, 6});
}

TEST_CASE("a product over nothing is zero, or leaves what it is added to", "[edges]") {
  CHECK(product(0, 0) == std::array<float, 6>{});
  CHECK(product(0, 1) == std::array<float, 6>{1, 2, 3, 4, 5, 6});
}

TEST_CASE("matrices that begin at any element are multiplied by an algorithm that takes them", "[edges]") {
  alignas(16) const std::array<float, 5> a{0, 1, 2, 3, 4}, b{0, 1, 0, 0, 1};
  alignas(16) std::array<float, 5> c{};
  for (const std::size_t first : {std::size_t{1}, std::size_t{0}}) {
    GemmCall call;
    call.m = call.n = call.k = 2;
    call.a = {a.data() + first, ElementType::real32, 2}, call.b = {b.data() + first, ElementType::real32, 2};
    call.c = {c.data() + first, ElementType::real32, 2};
    Gemm(kWorkspace).run(nullptr, call);
    const std::array<float, 4> expected =
        first == 1 ? std::array<float, 4>{1, 2, 3, 4} : std::array<float, 4>{0, 0, 0, 2};
    CHECK(std::equal(expected.begin(), expected.end(), c.begin() + static_cast<std::ptrdiff_t>(first)));
  }
}

TEST_CASE("a pool of memory does not make streams wait for each other", "[edges]") {
  DeviceMemory memory(0, Bytes{0});
  void* block = nullptr;
  REQUIRE_NOTHROW(block = memory.take(8, nullptr));
  memory.give_back(block, 8, nullptr);
}
