#include "core/scoreboard/left_out.hpp"

#include "core/price/calibration/calibration.hpp"
#include "core/scoreboard/agreement.hpp"
#include "core/scoreboard/fitted_classes.hpp"
#include "tests/unit/scoreboard/rows.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

const std::string kCalibration = kRoot + "/topologies/calibration";

}  // namespace

TEST_CASE("constants of steps come from a part of one source's rows, many more than there are constants") {
  const auto constants = load_step_constants(kCalibration);
  REQUIRE_FALSE(constants.empty());
  std::map<std::string, int> of_source;
  for (const StepConstant& c : constants) {
    INFO(c.group << "." << c.constant);
    CHECK(c.value > 0);
    CHECK(c.every >= 2);  // The others are for the report.
    CHECK(c.rows >= 3);
    ++of_source[c.rows_of];
  }
  for (const auto& [source, n] : of_source) CHECK(n <= 4);
}

TEST_CASE("no fitted class has more than a tenth as many constants as rows") {
  for (const FittedClass& c : fitted_classes(kCalibration)) {
    INFO(c.generation << " " << c.group);
    CHECK(c.constants > 0);
    CHECK(c.constants * 10 <= c.rows);  // Held-out rows count: they are the class's too.
    CHECK(c.constants * 5 <= c.fitted);
    CHECK(c.fitted < c.rows);
  }
}

TEST_CASE("nor have all generations together, whose shared constants are classes of their own over the same rows") {
  struct Sum {
    int constants = 0, rows = 0;
  };
  std::map<std::string, Sum> of_class;
  for (const FittedClass& c : fitted_classes(kCalibration)) {
    of_class[c.group].constants += c.constants;
    if (c.generation.find(',') == std::string::npos) of_class[c.group].rows += c.rows;
  }
  REQUIRE(of_class.contains("attention"));
  for (const auto& [group, sum] : of_class) {
    INFO(group);
    CHECK(sum.constants * 10 <= sum.rows);
  }
}

TEST_CASE("without a source its constants are what they were before") {
  const Catalogue catalogue(kRoot + "/topologies");
  const auto a100 = catalogue.gpu("a100_sxm4_80");
  CalibrationOptions deepspeed{.host = "megatron_deepspeed"};
  const double with = load_calibration(kCalibration, *a100, deepspeed).value_or("launch", "collective_s", 0);
  deepspeed.without = "single-node CSV";
  const double without = load_calibration(kCalibration, *a100, deepspeed).value_or("launch", "collective_s", 0);
  CHECK(without == load_calibration(kCalibration, *a100).value_or("launch", "collective_s", 0));
  CHECK(with > without);
}

TEST_CASE(
    "Megatron's code takes longer around an operation than a bare launch, and Megatron-DeepSpeed is Megatron beneath") {
  const Catalogue catalogue(kRoot + "/topologies");
  const auto constant = [&](const char* host, const char* name) {
    return load_calibration(kCalibration, *catalogue.gpu("a100_sxm4_80"), {.host = host}).value_or("launch", name, -1);
  };
  CHECK(constant("", "operation_s") == -1);
  CHECK(constant("megatron", "operation_s") > constant("", "overhead_s"));
  CHECK(constant("megatron_deepspeed", "operation_s") > constant("", "overhead_s"));
  CHECK(constant("", "counted_product_s") > 0);
  for (const char* host : {"megatron", "megatron_deepspeed"}) {
    CHECK(constant(host, "overhead_s") == constant("", "overhead_s"));
    CHECK(constant(host, "counted_product_s") == 0);
  }
  CHECK(constant("megatron", "collective_s") == -1);
  CHECK(constant("megatron_deepspeed", "collective_s") > 0);
  CHECK(constant("megatron", "message_s") > 0);
  CHECK(constant("megatron_deepspeed", "message_s") == 0);  // Its messages hold up the device's queue alone.
}

TEST_CASE("a chip at its power limit sustains less than in a burst, and one with less power less still") {
  const Catalogue catalogue(kRoot + "/topologies");
  const auto level = [&](const char* gpu, bool bursts) {
    return load_calibration(kCalibration, *catalogue.gpu(gpu), {.bursts = bursts}).value("gemm", "efficiency");
  };
  CHECK(level("h100_sxm5_80", false) < level("h100_sxm5_80", true));
  CHECK(level("h100_96_500w", false) < level("h100_sxm5_80", false));
  CHECK(level("a100_sxm4_80", false) == level("a100_sxm4_80", true));  // No rows say so.
}

TEST_CASE("closed form and analytic back end play a row alike") {
  const std::vector<Measurement> rows{row_of(row_json())};
  const Agreement a = agreement(score(rows, paths()), rows, paths(), {.backend = "analytic"});
  for (const std::string& why : a.refused) FAIL_CHECK(why);
  REQUIRE(a.rows.size() == 1);
  CHECK(std::abs(a.rows[0].difference()) < 0.03);
  CHECK_THROWS_AS(agreement(score(rows, paths()), rows, paths(), {.backend = "abacus"}), Error);
}

TEST_CASE("jobs beyond the limit of GPUs are not played") {
  const std::vector<Measurement> rows{row_of(row_json())};
  CHECK(agreement(score(rows, paths()), rows, paths(), {.backend = "analytic", .most_gpus = 4}).rows.empty());
}
