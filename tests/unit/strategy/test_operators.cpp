#include "core/model/op_table.hpp"
#include "core/strategy/bodies/block_lowering.hpp"
#include "tests/support/catch.hpp"

using namespace rehearse;

TEST_CASE("every operator is lowered") {
  for (const OpInfo& op : op_table()) {
    INFO(op.name);
    const OpLowering* lowering = find_lowering(op.kind);
    REQUIRE(lowering != nullptr);
    CHECK(&lowering_of(op.kind) == lowering);
  }
}
