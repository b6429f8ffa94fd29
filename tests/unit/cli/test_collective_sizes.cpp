// Sizes, types and counts as nccl-tests has them.

#include "core/base/error.hpp"
#include "core/cli/verbs/collective_sizes.hpp"
#include "tests/support/catch.hpp"

using namespace rehearse;
using namespace rehearse::cli;

TEST_CASE("a letter is a power of 1024, a unit is what it says") {
  CHECK(parse_size("8", "-b") == 8);
  CHECK(parse_size("64K", "-b") == 65536);
  CHECK(parse_size("8g", "-b") == 8.0 * (1LL << 30));
  CHECK(parse_size("1.5M", "-b") == 1572864);
  CHECK(parse_size("64KiB", "-b") == 65536);
  CHECK(parse_size("64kB", "-b") == 64000);
  for (const char* bad : {"", "K", "12X", "-8", "0", "nan", "inf", "1e30", "8 8", "1GB/s"}) {
    INFO(bad);
    CHECK_THROWS_AS(parse_size(bad, "-b"), Error);
  }
}

TEST_CASE("sizes grow by a factor or by steps, end with the last that fits, and always grow") {
  CHECK(sizes_of({8, 64, 2, 0}) == std::vector<double>{8, 16, 32, 64});
  CHECK(sizes_of({8, 63, 2, 0}) == std::vector<double>{8, 16, 32});
  CHECK(sizes_of({10, 30, 2, 10}) == std::vector<double>{10, 20, 30});
  CHECK(sizes_of({1, 4, 1.1, 0}) == std::vector<double>{1, 2, 3, 4});
  CHECK_THROWS_AS(sizes_of({8, 4, 2, 0}), Error);
  CHECK_THROWS_AS(sizes_of({8, 16, 1, 0}), Error);
  CHECK_THROWS_AS(sizes_of({1, 1e15, 2, 1}), Error);
}

TEST_CASE("buffers that ranks divide hold whole lines of 16 bytes per rank, others whole elements") {
  CHECK(buffer_of(CollectiveOp::all_reduce, 1023, 4, 8).bytes == 1020);
  CHECK(buffer_of(CollectiveOp::all_reduce, 1023, 4, 8).count == 255);
  const Buffer gathered = buffer_of(CollectiveOp::all_gather, 1 << 20, 4, 16);
  CHECK(gathered.count == 16384);
  CHECK(gathered.bytes == 1 << 20);
  CHECK(buffer_of(CollectiveOp::all_to_all, 8, 4, 8).bytes == 0);
  const Buffer uneven = buffer_of(CollectiveOp::reduce_scatter, 1000, 2, 3);
  CHECK(uneven.count == 160);
  CHECK(uneven.bytes == 960);
}

TEST_CASE("types go by NCCL's names and the usual short ones") {
  CHECK(parse_element_type("float").bytes == 4);
  CHECK(parse_element_type("bf16").name == "bfloat16");
  CHECK(parse_element_type("f8e5m2").is_fp8);
  CHECK_FALSE(parse_element_type("int8").in_switch);
  CHECK_THROWS_AS(parse_element_type("fp12"), Error);
  CHECK_THROWS_AS(parse_element_type(""), Error);
}
