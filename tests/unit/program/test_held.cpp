// Which global elements a rank holds, for every layout.

#include "core/base/index.hpp"
#include "core/program/held.hpp"
#include "tests/support/catch.hpp"

using namespace rehearse;

namespace {

/// A tensor on `tp` x `dp_shard` ranks.
struct Scene {
  Program program;
  Tensor tensor;
  Scene(std::vector<std::int64_t> shape, Layout layout, int tp, int dp = 1) {
    Island island;
    island.order = {{Axis::tp, tp}, {Axis::dp_shard, dp}};
    program.mesh = Mesh({island}, Join::none);
    for (const std::int64_t n : shape) tensor.shape.push_back(program.exprs.constant(n));
    tensor.layout = std::move(layout);
  }
  [[nodiscard]] std::vector<std::int64_t> on(int rank) const {
    const Held h = held(program, tensor, program.mesh.context(rank));
    const std::vector<std::int64_t> out = h.global_elements();
    // The same as stretches: each as long as can be, and all but the padding.
    std::vector<std::int64_t> again(out.size(), -1);
    Stretch before{-1, -1, 0};
    for (const Stretch& stretch : stretches_of(h)) {
      for (std::int64_t i = 0; i < stretch.length; ++i) nth(again, stretch.local + i) = stretch.global + i;
      const bool goes_on =
          before.local + before.length == stretch.local && before.global + before.length == stretch.global;
      CHECK_FALSE(goes_on);
      before = stretch;
    }
    CHECK(again == out);
    return out;
  }
  /// Every element is somewhere exactly once.
  [[nodiscard]] bool partitions(std::int64_t n) const {
    std::vector<int> count(static_cast<std::size_t>(n), 0);
    for (int r = 0; r < program.mesh.ranks(); ++r)
      for (const std::int64_t e : on(r))
        if (e >= 0) ++nth(count, e);
    return std::all_of(count.begin(), count.end(), [](int c) { return c == 1; });
  }
};

}  // namespace

TEST_CASE("a shard of columns holds a strided part") {
  const Scene s({2, 4}, {{Axis::tp, shard_on(1)}}, 2);
  CHECK(s.on(0) == std::vector<std::int64_t>{0, 1, 4, 5});
  CHECK(s.on(1) == std::vector<std::int64_t>{2, 3, 6, 7});
}

TEST_CASE("an uneven shard gives the last rank less, a padded one padding") {
  const Scene uneven({5}, {{Axis::tp, shard_on(0)}}, 2);
  CHECK(uneven.on(0) == std::vector<std::int64_t>{0, 1, 2});
  CHECK(uneven.on(1) == std::vector<std::int64_t>{3, 4});
  Shard padded = shard_on(0);
  padded.padded = true;
  const Scene filled({5}, {{Axis::tp, padded}}, 2);
  CHECK(filled.on(1) == std::vector<std::int64_t>{3, 4, -1});
  CHECK(Scene({3}, {{Axis::tp, padded}}, 4).on(3) == std::vector<std::int64_t>{-1});
}

TEST_CASE("zigzag gives rank i blocks i and 2k-1-i") {
  Shard z = shard_on(0);
  z.zigzag = true;
  const Scene s({8}, {{Axis::tp, z}}, 2);
  CHECK(s.on(0) == std::vector<std::int64_t>{0, 1, 6, 7});
  CHECK(s.on(1) == std::vector<std::int64_t>{2, 3, 4, 5});
}

TEST_CASE("slices that have moved on around a ring are those of the rank so many places before") {
  Shard s = shard_on(0);
  s.turned = 1;
  CHECK(Scene({6}, {{Axis::tp, s}}, 3).on(0) == std::vector<std::int64_t>{4, 5});
  CHECK(Scene({6}, {{Axis::tp, s}}, 3).on(2) == std::vector<std::int64_t>{2, 3});
  s.turned = 3;  // Once around.
  CHECK(Scene({6}, {{Axis::tp, s}}, 3).on(1) == std::vector<std::int64_t>{2, 3});
  s.zigzag = true;
  s.turned = -1;
  CHECK(Scene({8}, {{Axis::tp, s}}, 2).on(0) == std::vector<std::int64_t>{2, 3, 4, 5});
}

TEST_CASE("a shard of concatenated pieces takes its slice of each") {
  Scene s({6, 1}, {{Axis::tp, shard_on(0)}}, 2);
  s.tensor.segments = {4, 2};
  CHECK(s.on(0) == std::vector<std::int64_t>{0, 1, 4});
  CHECK(s.on(1) == std::vector<std::int64_t>{2, 3, 5});
}

TEST_CASE("flat slices divide what other axes leave") {
  const Scene s({2, 3}, {{Axis::tp, shard_on(0)}, {Axis::dp_shard, shard_flat()}}, 2, 2);
  CHECK(s.on(0) == std::vector<std::int64_t>{0, 1});
  CHECK(s.on(1) == std::vector<std::int64_t>{3, 4});
  CHECK(s.on(2) == std::vector<std::int64_t>{2});
  CHECK(s.on(3) == std::vector<std::int64_t>{5});
}

TEST_CASE("rows are one stretch, columns one for each row, and slices of inner dimensions are runs of them") {
  const auto count = [](std::vector<std::int64_t> shape, int dim) {
    const Scene s(std::move(shape), {{Axis::tp, shard_on(dim)}}, 2);
    return stretches_of(held(s.program, s.tensor, s.program.mesh.context(1)));
  };
  CHECK(count({4, 6}, 0) == std::vector<Stretch>{{0, 12, 12}});
  CHECK(count({4, 6}, 1) == std::vector<Stretch>{{0, 3, 3}, {3, 9, 3}, {6, 15, 3}, {9, 21, 3}});
  CHECK(count({2, 4, 3, 3}, 1) == std::vector<Stretch>{{0, 18, 18}, {18, 54, 18}});
}

TEST_CASE("every layout of slices partitions the tensor") {
  Shard zigzag = shard_on(1), padded = shard_on(1);
  zigzag.zigzag = padded.padded = true;
  for (const std::int64_t rows : {1, 3, 8})
    for (const std::int64_t columns : {1, 5, 12})
      for (const Layout& layout : {Layout{{Axis::tp, shard_on(0)}, {Axis::dp_shard, shard_on(1)}},
                                   Layout{{Axis::tp, zigzag}, {Axis::dp_shard, shard_flat()}},
                                   Layout{{Axis::dp_shard, shard_on(1)}, {Axis::tp, shard_on(1)}},
                                   Layout{{Axis::tp, padded}, {Axis::dp_shard, shard_on(0)}},
                                   Layout{{Axis::tp, shard_flat()}, {Axis::dp_shard, shard_flat()}}}) {
        INFO(rows << " x " << columns << " " << to_string(layout));
        CHECK(Scene({rows, columns}, layout, 3, 2).partitions(rows * columns));
      }
}

TEST_CASE("as many elements as the Program counts") {
  for (const Layout& layout :
       {Layout{{Axis::tp, shard_on(0)}, {Axis::dp_shard, shard_flat()}}, Layout{{Axis::tp, shard_on(1)}}}) {
    const Scene s({7, 5}, layout, 3, 2);
    for (int r = 0; r < 6; ++r)
      CHECK(static_cast<std::int64_t>(s.on(r).size()) == s.program.local_elements(s.tensor, s.program.mesh.context(r)));
  }
}

TEST_CASE("a halo is what neighbours hold too; the edge of the tensor has none") {
  const Scene s({8}, {{Axis::tp, Halo{0, 1, 2, {}}}}, 2);
  CHECK(s.on(0) == std::vector<std::int64_t>{0, 1, 2, 3, 4, 5});
  CHECK(s.on(1) == std::vector<std::int64_t>{3, 4, 5, 6, 7});
  const Held second = held(s.program, s.tensor, s.program.mesh.context(1));
  CHECK(second.inner == std::vector<Run>{{1, 4}});
  CHECK(second.haloed());
}

TEST_CASE("every rank numbers ragged rows for itself") {
  const Scene s({3}, {{Axis::tp, Ragged{0}}}, 2);
  for (const int rank : {0, 1}) CHECK(s.on(rank) == std::vector<std::int64_t>{0, 1, 2});
}
