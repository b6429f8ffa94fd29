#include <algorithm>
#include <filesystem>

#include <sys/wait.h>
#include <unistd.h>

#include <simgrid/s4u.hpp>

#include "core/play/player/plan_play.hpp"
#include "sim/simgrid_clock.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/export/exports.hpp"
#include "tests/unit/import/trace_files.hpp"

namespace rehearse {
namespace {

using testing::Plan;
using testing::ScratchFile;

/// What any user of SimGrid would do: load the file, and let two actors a flow talk. Without anything of ours.
double with_simgrid_alone(const std::string& platform, const FluidPlan& plan) {
  namespace s4u = simgrid::s4u;
  int argc = 1;
  char name[] = "platform";
  char* argv[] = {name, nullptr};
  s4u::Engine engine(&argc, argv);
  engine.load_platform(platform);
  Bytes largest;
  for (const FluidEdge& e : plan.edges) largest = max(largest, e.bytes);
  for (std::size_t i = 0; i < plan.edges.size(); ++i) {
    const FluidEdge& edge = plan.edges[i];
    auto* box = s4u::Mailbox::by_name(std::to_string(i));
    const double bytes = edge.bytes.value(), rate = plan.rate_cap.value() * (edge.bytes / largest);
    s4u::Actor::create("sender", s4u::Host::by_name(std::to_string(edge.src)), [box, bytes, rate] {
      static int payload = 0;
      box->put_init(&payload, static_cast<std::uint64_t>(bytes))->set_rate(rate)->wait();
    });
    s4u::Actor::create("receiver", s4u::Host::by_name(std::to_string(edge.dst)), [box] { (void)box->get<int>(); });
  }
  engine.run();
  return s4u::Engine::get_clock() + plan.latency.value();
}

/// In a process of its own: SimGrid has one engine in each.
double apart(const std::string& platform, const FluidPlan& plan) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    const double time = with_simgrid_alone(platform, plan);
    const bool told = write(ends[1], &time, sizeof time) == static_cast<ssize_t>(sizeof time);
    _exit(told ? 0 : 1);
  }
  double time = 0;
  const bool heard = read(ends[0], &time, sizeof time) == static_cast<ssize_t>(sizeof time);
  int status = 0;
  waitpid(child, &status, 0);
  close(ends[0]);
  close(ends[1]);
  REQUIRE(heard);
  return time;
}

TEST_CASE("SimGrid alone gives collectives on the exported platform the times that we do") {
  const Plan node("llama3_8b_h100_8.json"), nodes("gpt3_175b_a100_64.json");
  struct Case {
    const Plan& plan;
    FluidPlan fluid;
    double alone;
  };
  std::vector<Case> cases;
  // SimGrid first sees the light in the processes of their own: this one's comes after.
  for (const auto& [plan, ranks] : {std::pair(&node, 8), std::pair(&nodes, 16)}) {
    const ScratchFile platform(plan->to("simgrid").files.front().text, ".xml");
    std::vector<DeviceId> group;
    for (int r = 0; r < ranks; ++r) group.push_back(r);
    for (const CollectiveOp op : {CollectiveOp::all_reduce, CollectiveOp::all_gather, CollectiveOp::all_to_all}) {
      FluidPlan fluid = plan->cost.collectives().plan(op, Bytes{64.0 * 1024 * 1024}, group);
      const double alone = apart(platform.path(), fluid);
      cases.push_back({*plan, std::move(fluid), alone});
    }
  }
  for (const Case& c : cases) {
    sim::SimGridClock clock(c.plan.session.cluster);
    CHECK(c.alone == Approx(play_plan(c.fluid, clock).value()).epsilon(1e-4));
  }
}

}  // namespace
}  // namespace rehearse
