// Where the facade reads its data from.

#include <cstdlib>

#include "tests/support/catch.hpp"
#include "tests/unit/api/support.hpp"

using namespace rehearse;
using testing::toy;
using testing::toys;

namespace {

/// $REHEARSE_DATA as long as it lives.
class DataVariable {
 public:
  explicit DataVariable(const std::string& value) { setenv("REHEARSE_DATA", value.c_str(), 1); }
  ~DataVariable() { unsetenv("REHEARSE_DATA"); }
  DataVariable(const DataVariable&) = delete;
  DataVariable& operator=(const DataVariable&) = delete;
};

}  // namespace

TEST_CASE("a folder that is given is read, whatever the environment says", "[api]") {
  const DataVariable wrong("/nowhere");
  CHECK_THROWS_AS(find_data(), Error);
  CHECK_THROWS_AS(memory(toy("pipeline_1f1b")), Error);
  CHECK(memory(toy("pipeline_1f1b"), {.data = toys()}).fits());
}

TEST_CASE("without a folder the variable is asked, then the source tree", "[api]") {
  CHECK(find_data().root == testing::source_path(""));
  const DataVariable given(toys());
  CHECK(find_data().root == toys());
  CHECK(data_in({}).root == toys());
}

TEST_CASE("a folder without machines is refused", "[api]") {
  CHECK_THROWS_AS(data_in(testing::source_path("tests/unit")), Error);
}

TEST_CASE("the version is the project's", "[api]") {
  const std::string version = rehearse_version();
  CHECK(std::count(version.begin(), version.end(), '.') == 2);
  CHECK(memory(toy("pipeline_1f1b"), {.data = toys()}).head.version == version);
}
