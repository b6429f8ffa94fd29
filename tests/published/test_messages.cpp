// Messages between the stages of a Megatron-LM pipeline whose hosts wait for each (Qi et al. 2024, arXiv:2401.10241,
// table 9, T_comm), against the model.

#include <algorithm>
#include <cmath>
#include <fstream>

#include <nlohmann/json.hpp>

#include "core/cluster/make_cluster.hpp"
#include "core/hardware/catalogue.hpp"
#include "core/price/cost_model.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/source_path.hpp"

using namespace rehearse;

namespace {

struct Measured {
  int stages = 0;
  Bytes bytes;
  double seconds = 0;
};

std::vector<Measured> measured_messages() {
  std::ifstream in(rehearse::testing::source_path("tests/published/data/sea_ai_lab_zero_bubble.json"));
  const auto file = nlohmann::json::parse(in);
  std::vector<Measured> out;
  for (const auto& row : file.at("entries"))
    if (row.at("measured").contains("t_comm_ms"))
      out.push_back({row.at("config").at("pp"), Bytes{row.at("config").at("message_bytes").get<double>()},
                     row.at("measured").at("t_comm_ms").get<double>() * 1e-3});
  return out;
}

/// A100 of a node each behind NVSwitch, a stage to a GPU, as the pipeline ran.
class Pipeline {
 public:
  explicit Pipeline(int stages)
      : catalogue_(rehearse::testing::source_path("topologies")),
        stages_(stages),
        cluster_(make_cluster(catalogue_, spec(stages))),
        cost_(cluster_,
              {{"a100_sxm4_80", load_calibration(rehearse::testing::source_path("topologies/calibration"),
                                                 *catalogue_.gpu("a100_sxm4_80"), {.host = "megatron"})}},
              {}) {}

  /// Mean over the hops of a chain there and back, wires alone.
  [[nodiscard]] double wires(Bytes bytes) const {
    double sum = 0;
    for (int s = 0; s + 1 < stages_; ++s) sum += cost_.collectives().send(bytes, s, s + 1).time.value();
    return sum / (stages_ - 1);
  }
  [[nodiscard]] double wait() const { return cost_.message_wait().value(); }

 private:
  static ClusterSpec spec(int stages) {
    ClusterSpec out;
    out.parts = {{"dgx_a100_80gb", std::max(1, stages / 8)}};
    out.network = "ib_hdr";
    return out;
  }

  Catalogue catalogue_;
  int stages_;
  Cluster cluster_;
  CostModel cost_;
};

}  // namespace

TEST_CASE("what a blocking message costs its hosts is what twelve measured chains of messages leave beside the wires") {
  const auto rows = measured_messages();
  REQUIRE(rows.size() == 12);
  double left = 0;
  std::vector<double> errors;
  for (const Measured& row : rows) {
    const Pipeline pipeline(row.stages);
    left += row.seconds - pipeline.wires(row.bytes);
    errors.push_back(std::abs((pipeline.wires(row.bytes) + pipeline.wait()) / row.seconds - 1));
    INFO(row.stages << " stages, " << row.bytes.value() << " bytes: " << row.seconds * 1e3 << " ms, predicted "
                    << (pipeline.wires(row.bytes) + pipeline.wait()) * 1e3);
    CHECK(errors.back() < 0.35);
  }
  CHECK_THAT(Pipeline(8).wait(), Catch::Matchers::WithinRel(left / static_cast<double>(rows.size()), 0.05));
  std::sort(errors.begin(), errors.end());
  CHECK(errors[errors.size() / 2] < 0.25);
}
