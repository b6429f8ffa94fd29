#include <set>

#include "core/config/settings/strategy.hpp"
#include "core/model/op_table.hpp"
#include "core/strategy/workload.hpp"
#include "models.hpp"

namespace rehearse::test {
namespace {

TEST_CASE("every operator has one entry with its own name") {
  std::set<std::string_view> names;
  for (const auto& info : op_table()) {
    CHECK(&op_info(info.kind) == &info);
    CHECK(name_of(info.kind) == info.name);
    CHECK(names.insert(info.name).second);
    CHECK_FALSE(info.summary.empty());
    CHECK(info.min_params <= info.max_params);
  }
}

TEST_CASE("only linears and attention have matrix products") {
  const auto n = shipped("gpt2");
  for (const auto& b : n.blocks)
    for (const auto& op : b.ops) {
      const bool products = op.kind == OpKind::linear || op.kind == OpKind::attention;
      CHECK((forward_matmul_flops(b, op, 1, 128, false).value() > 0) == products);
    }
}

TEST_CASE("a forward pass moves every operand once") {
  const auto n = shipped("gpt2");
  const std::int64_t b = 3, s = 128, h = 768, x = b * s * h;
  const auto moved = [&](std::string_view block_name, std::string_view op) {
    const auto& bl = block(n, block_name);
    const auto t = forward_traffic(bl, *find(bl.ops, op), b, s);
    return std::pair(t.read, t.written);
  };
  CHECK(moved("layer", "attention.add") == std::pair(2 * x, x));
  CHECK(moved("layer", "ln1") == std::pair(x + 2 * h, x));
  CHECK(moved("layer", "mlp.gelu") == std::pair(4 * x, 4 * x));
  CHECK(moved("layer", "attention.qkv") == std::pair(x + 3 * h * h + 3 * h, 3 * x));
  CHECK(moved("layer", "attention.core") == std::pair(3 * x, x));
  CHECK(moved("embedding", "word") == std::pair(b * s + x, x));  // rows looked up, not the table
  CHECK(moved("embedding", "position") == std::pair(x + s * h, x));
}

TEST_CASE("elements take batch and sequence from the workload") {
  const Shape shape{{DimTag::batch, 0}, {DimTag::sequence, 0}, {DimTag::heads, 4}, {DimTag::head_dim, 8}};
  CHECK(elements(shape, 2, 10) == 2 * 10 * 32);
  CHECK(elements({}, 2, 10) == 1);
}

}  // namespace
}  // namespace rehearse::test
