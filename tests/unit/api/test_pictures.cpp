// What pages draw of a step: kernels lie under the roof of their GPU, and a step's parts are those of its answer.
#include <nlohmann/json.hpp>

#include "core/api.hpp"
#include "core/api/pictures.hpp"
#include "core/api/session/session.hpp"
#include "core/price/roofline.hpp"
#include "tests/support/catch.hpp"

using namespace rehearse;

namespace {

Roofline roofline(const std::string& scenario, const std::vector<std::string>& changes = {}) {
  const Session session = open_session(scenario, changes);
  return roofline_of(session.lowered(), session.cost_model(), 0);
}

bool is_product(const RooflinePoint& p) { return p.cls == KernelClass::gemm || p.cls == KernelClass::attention_flash; }

double flops_of_products(const Roofline& roof) {
  double out = 0;
  for (const RooflinePoint& p : roof.points)
    if (is_product(p)) out += p.flops.value();
  return out;
}

}  // namespace

TEST_CASE("no kernel computes faster than its type's peak") {
  for (const char* scenario : {"scenarios/gpt3_175b_a100_1024.json", "scenarios/llama3_8b_h100_8.json",
                               "scenarios/mixtral_8x7b_h100_64.json", "scenarios/resnet50_v100_8.json"}) {
    INFO(scenario);
    const Roofline roof = roofline(scenario);
    REQUIRE_FALSE(roof.points.empty());
    CHECK_FALSE(roof.peaks.empty());
    for (const RooflinePoint& p : roof.points) {
      INFO(name_of(p.cls) << " " << name_of(p.arithmetic));
      const auto peak = roof.peaks.find(p.arithmetic);
      if (is_product(p) && peak != roof.peaks.end()) CHECK(p.flops / p.time <= peak->second);
    }
    for (std::size_t i = 1; i < roof.points.size(); ++i) CHECK(roof.points[i].time <= roof.points[i - 1].time);
  }
}

TEST_CASE("twice the microbatches are twice the products") {
  const Roofline once = roofline("scenarios/llama3_8b_h100_8.json", {"training.global_batch=64"});
  const Roofline twice = roofline("scenarios/llama3_8b_h100_8.json", {"training.global_batch=128"});
  CHECK(flops_of_products(twice) == Approx(2 * flops_of_products(once)).epsilon(1e-9));
}

TEST_CASE("a played step has all its pictures, an estimated one what needs no trace") {
  const Session session = open_session("scenarios/tiny_gpt2.json", {});
  const Program program = session.lowered();
  const auto names = [](const PageParts& parts) {
    std::vector<std::string> out;
    for (const auto& [name, json] : parts) {
      CHECK(nlohmann::json::accept(json));
      out.push_back(name);
    }
    return out;
  };
  using Names = std::vector<std::string>;
  CHECK(names(step_pictures(session, program, simulate(session, program, {.backend = "analytic"}))) ==
        Names{"plan", "gantt", "course", "topology", "roofline"});
  CHECK(names(step_pictures(session, program, estimate(session, program))) == Names{"plan", "roofline"});
}
