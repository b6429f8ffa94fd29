#include "core/base/dtype.hpp"

#include "core/base/error.hpp"
#include "tests/support/catch.hpp"

using namespace rehearse;

TEST_CASE("every element type has a name that parses back") {
  for (const DType t : {DType::fp64, DType::fp32, DType::tf32, DType::bf16, DType::fp16, DType::fp8, DType::mxfp8,
                        DType::fp4, DType::int64, DType::int32, DType::uint8})
    CHECK(parse_dtype(name_of(t)) == t);
}

TEST_CASE("two fp4 elements share a byte and tf32 is stored as fp32") {
  CHECK(2 * size_of(DType::fp4) == size_of(DType::fp8));
  CHECK(size_of(DType::tf32) == size_of(DType::fp32));
  CHECK(2 * size_of(DType::bf16) == size_of(DType::fp32));
}

TEST_CASE("an unknown element type names the nearest and the valid ones") {
  try {
    (void)parse_dtype("bf61");
    FAIL("accepted");
  } catch (const Error& e) {
    CHECK(e.kind == ErrorKind::usage);
    CHECK(std::string(e.what()) == "unknown element type 'bf61'");
    CHECK(e.hint.find("did you mean 'bf16'?") != std::string::npos);
    CHECK(e.hint.find("fp64") != std::string::npos);
  }
}
