// What moves when a layout changes, and how ranks that talk agree on it.

#include <cstring>

#include "core/program/program.hpp"
#include "gpu_backend/communicate/transfer.hpp"
#include "tests/support/catch.hpp"

using namespace rehearse;

namespace {

Held held_on(const Layout& layout, int rank, int ranks, std::vector<std::int64_t> shape) {
  Program p;
  Island island;
  island.order = {{Axis::tp, ranks}};
  p.mesh = Mesh({island}, Join::none);
  Tensor t;
  for (const std::int64_t n : shape) t.shape.push_back(p.exprs.constant(n));
  t.layout = layout;
  return held(p, t, p.mesh.context(rank));
}

/// Global elements at blocks of a local storage.
std::vector<std::int64_t> elements(const Held& h, const Blocks& blocks) {
  const auto all = h.global_elements();
  std::vector<std::int64_t> out;
  for (const Block& b : blocks) out.insert(out.end(), all.begin() + b.first, all.begin() + b.first + b.length);
  return out;
}

}  // namespace

TEST_CASE("both sides of a transfer list the same elements in the same order") {
  Shard zigzag = shard_on(1), padded = shard_on(2);
  zigzag.zigzag = true;
  padded.padded = true;
  const std::vector<Layout> layouts{{},
                                    {{Axis::tp, shard_on(0)}},
                                    {{Axis::tp, shard_on(1)}},
                                    {{Axis::tp, shard_on(2)}},
                                    {{Axis::tp, zigzag}},
                                    {{Axis::tp, padded}}};
  const std::vector<std::int64_t> shape{4, 6, 5};
  for (const Layout& from : layouts)
    for (const Layout& to : layouts)
      for (int i = 0; i < 3; ++i)
        for (int j = 0; j < 3; ++j) {
          const Held here = held_on(from, i, 3, shape), there = held_on(to, j, 3, shape);
          INFO(to_string(from) << " on " << i << " to " << to_string(to) << " on " << j);
          CHECK(elements(here, common(here, there)) == elements(there, common(there, here)));
        }
}

TEST_CASE("slices of a whole cover it once") {
  const Held whole = held_on({}, 0, 3, {4, 6});
  std::int64_t n = 0;
  for (int j = 0; j < 3; ++j) n += total(common(whole, held_on({{Axis::tp, shard_flat()}}, j, 3, {4, 6})));
  CHECK(n == 24);
  CHECK(common(whole, whole).size() == 1);
}

TEST_CASE("unpacking undoes packing") {
  const Held whole = held_on({}, 0, 2, {3, 4}), slice = held_on({{Axis::tp, shard_on(1)}}, 1, 2, {3, 4});
  std::vector<float> from(12), back(12, -1), packed(6);
  for (std::size_t i = 0; i < 12; ++i) from[i] = static_cast<float>(i);
  const Blocks blocks = common(whole, slice);
  pack(reinterpret_cast<std::byte*>(from.data()), blocks, 4, reinterpret_cast<std::byte*>(packed.data()));
  CHECK(packed == std::vector<float>{2, 3, 6, 7, 10, 11});
  unpack(reinterpret_cast<std::byte*>(packed.data()), blocks, 4, reinterpret_cast<std::byte*>(back.data()));
  CHECK(back == std::vector<float>{-1, -1, 2, 3, -1, -1, 6, 7, -1, -1, 10, 11});
}
