// Backward in two halves, chunks in a V and chunks in two copies: what is computed, kept and sent.

#include <algorithm>
#include <map>
#include <set>

#include "core/base/index.hpp"
#include "core/config/settings/choices.hpp"
#include "core/program/body.hpp"
#include "core/program/flops.hpp"
#include "core/strategy/workload.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/program/lowered.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

Job pipeline(const std::string& schedule, int pp, int microbatches, int virtual_stages = 1, int layers = 8) {
  Job job(tiny_gpt(layers));
  job.strategy.pp = pp;
  job.strategy.schedule = schedule;
  job.strategy.virtual_stages = virtual_stages;
  job.microbatches = microbatches;
  return job;
}

double activations(const Program& p, int stage) {
  return nth(peak_memory(p, Bytes{0}, Bytes{0}).at(static_cast<std::size_t>(stage)).by_category,
             MemoryCategory::activations)
      .value();
}

double weights(const Program& p) {
  double bytes = 0;
  for (int rank = 0; rank < p.mesh.ranks(); ++rank) bytes += persistent_bytes(p, rank, MemoryCategory::weights);
  return bytes;
}

}  // namespace

TEST_CASE("the two halves of backward do what the whole does, each its own gradients") {
  for (const Recompute recompute : {Recompute::none, Recompute::full})
    for (const int tp : {1, 2}) {
      Job job = pipeline("1f1b", 2, 4);
      job.strategy.tp = tp;
      job.strategy.sequence_parallel = tp > 1;
      job.strategy.recompute = recompute;
      const Program whole = job.lower();
      job.strategy.schedule = "zb_h1";
      const Program halves = job.lower();
      validate(halves);
      CHECK(executed_matmul_flops(halves).value() == executed_matmul_flops(whole).value());
      std::map<Phase, int> products;
      for (const Role& role : halves.roles)
        for (const Entry& e : role.step) {
          const Body& body = nth(halves.bodies, e.body);
          for (const auto v : body.graph.vertices()) {
            const Task& task = body.graph[v];
            if (task.phase == Phase::weight_grad) CHECK(body.phase == Phase::weight_grad);
            const auto* c = std::get_if<ComputeTask>(&task.kind);
            if (c == nullptr || c->op != ComputeOp::matmul) continue;
            ++products[task.phase];
            if (task.phase == Phase::input_grad) CHECK(body.phase != Phase::weight_grad);
          }
        }
      CHECK(products[Phase::input_grad] == products[Phase::weight_grad]);
      CHECK(products[Phase::weight_grad] > 0);
    }
}

TEST_CASE("a gradient is sent when the input half is done, not the weight half") {
  const Program p = pipeline("zb_h1", 4, 8).lower();
  const Role& role = p.roles.at(2);
  std::map<EventId, Phase> recorded;
  int sends = 0;
  for (const Entry& e : role.step) {
    const Body& body = nth(p.bodies, e.body);
    if (e.record >= 0) recorded[e.record] = body.phase;
    if (body.name != "send.gradients") continue;
    ++sends;
    for (std::int32_t w = 0; w < e.wait_count; ++w)
      CHECK(recorded.at(nth(role.waits, e.first_wait + w).event) != Phase::weight_grad);
  }
  CHECK(sends == 8);
}

TEST_CASE("deferring weight gradients keeps as much on every stage as 1F1B keeps on its first") {
  const Program plain = pipeline("1f1b", 4, 8).lower(), split = pipeline("zb_h1", 4, 8).lower();
  // Stage 2 of 4 keeps two microbatches in 1F1B and four here, of which some are waiting for their weight halves only.
  CHECK(activations(split, 2) > 1.5 * activations(plain, 2));
  // Beyond what 1F1B keeps there is, for each microbatch that waits, the gradient of every product's output: of 34 b s
  // h bytes a layer 16 more.
  CHECK(activations(split, 2) < 2 * 1.5 * activations(plain, 2));
  // On the first stage weight halves follow at once: one microbatch waits.
  CHECK(activations(split, 0) < 1.25 * activations(plain, 0));
}

TEST_CASE("a V has both ends of the model on its first stage: the tied embedding is stored once and needs no message") {
  const Program v = pipeline("zb_v", 2, 4, 2).lower(), line = pipeline("1f1b", 2, 4).lower();
  validate(v);
  const Program one = [] {
    Job job = pipeline("1f1b", 1, 4);
    return job.lower();
  }();
  CHECK(weights(v) == weights(one));
  CHECK(weights(line) > weights(one));
  const auto tied = [](const Program& p) {
    return std::any_of(p.bodies.begin(), p.bodies.end(),
                       [](const Body& b) { return b.name == "tied_embedding.reduce"; });
  };
  CHECK_FALSE(tied(v));
  CHECK(tied(line));
  // Chunks 1 and 2 meet on the last stage: no message goes from one to the other.
  int sends = 0;
  for (const Role& role : v.roles)
    for (const Entry& e : role.step) sends += nth(v.bodies, e.body).name.starts_with("send.");
  CHECK(sends == 4 * 2 * (2 * 2 - 2));
}

TEST_CASE("DualPipe holds every chunk twice, sums the copies' gradients and interleaves two directions") {
  const Program p = pipeline("dualpipe", 4, 8).lower();
  validate(p);
  const Program one = [] {
    Job job = pipeline("1f1b", 1, 8);
    return job.lower();
  }();
  CHECK(weights(p) == 2 * weights(one));
  for (int rank = 0; rank < 4; ++rank) {
    double summed = 0, gradients = 0;
    for_each_task(p, rank, [&](const Entry& e, const Body& body, const Task& task) {
      const auto* c = std::get_if<CollectiveTask>(&task.kind);
      if (c == nullptr || task.name != "copies") return;
      summed += collective_bytes(p, body, task, context_of(p, rank, e));
      CHECK(p.mesh.members(nth(p.groups, c->group), rank, p.exprs) ==
            std::vector<int>{std::min(rank, 3 - rank), std::max(rank, 3 - rank)});
    });
    gradients = persistent_bytes(p, rank, MemoryCategory::gradients);
    CHECK(summed == gradients);
    const Role& role = nth(p.roles, rank);
    int pairs = 0;
    for (std::size_t i = 0; i < role.step.size(); ++i) {
      const Entry& e = role.step[i];
      if (e.interleave != static_cast<int>(i) + 1) continue;
      const Entry& other = role.step[i + 1];
      CHECK(other.interleave == static_cast<int>(i));
      CHECK(e.copy != other.copy);
      CHECK(nth(p.bodies, e.body).phase == Phase::forward);
      ++pairs;
    }
    CHECK(pairs > 0);
  }
}

TEST_CASE("paired 1F1B interleaves the forward of one microbatch with the backward of an earlier one") {
  for (const int stages : {1, 2}) {
    const Program p = pipeline("paired_1f1b", stages, 8).lower();
    validate(p);
    for (const Role& role : p.roles) {
      int pairs = 0;
      for (std::size_t i = 0; i < role.step.size(); ++i) {
        const Entry& e = role.step[i];
        if (e.interleave != static_cast<int>(i) + 1) continue;
        const Entry& other = role.step[i + 1];
        CHECK(nth(p.bodies, e.body).phase == Phase::forward);
        CHECK(other.interleave == static_cast<int>(i));
        CHECK(e.microbatch > other.microbatch);
        ++pairs;
      }
      CHECK(pairs > 0);
    }
  }
}

TEST_CASE("two passes at once gather no parameters") {
  Job job = pipeline("paired_1f1b", 1, 4);
  job.strategy.dp = job.strategy.dp_replicate = 2;
  job.strategy.zero_stage = 2;
  CHECK_NOTHROW(job.lower());
  job.strategy.zero_stage = 3;
  CHECK_THROWS_WITH(job.lower(), Catch::Matchers::ContainsSubstring("two passes at once"));
}

TEST_CASE("interleaved bodies take turns where they communicate") {
  Job job = pipeline("dualpipe", 2, 4);
  job.strategy.tp = 2;
  const Program p = job.lower();
  for (const Body& b : p.bodies)
    if (b.name == "layer.forward") {
      // After attention's all-reduce and, nothing computing after the second, no more ... but the addition.
      CHECK(b.segments.size() == 2);
      for (const std::int32_t first : b.segments)
        CHECK(std::holds_alternative<CollectiveTask>(b.graph[static_cast<std::size_t>(first) - 1].kind));
    }
}

TEST_CASE("deferred weight gradients of the output layer are computed after the last backward, and only they") {
  for (const auto& [schedule, chunks] : {std::pair{"1f1b", 1}, {"gpipe", 1}, {"interleaved_1f1b", 2}}) {
    INFO(schedule);
    Job job = pipeline(schedule, 4, 8, chunks);
    const Program plain = job.lower();
    job.strategy.deferred_head_gradients = 5;
    const Program deferred = job.lower();
    validate(deferred);
    CHECK(executed_matmul_flops(deferred).value() == executed_matmul_flops(plain).value());
    for (int stage = 0; stage < 4; ++stage) {
      std::vector<int> late;  // Microbatches of weight halves behind the last backward.
      std::size_t halves = 0;
      const Role& role = deferred.roles.at(static_cast<std::size_t>(stage));
      for (const Entry& e : role.step) {
        const Phase phase = nth(deferred.bodies, e.body).phase;
        if (phase == Phase::input_grad) late.clear();
        if (phase != Phase::weight_grad) continue;
        late.push_back(e.microbatch);
        ++halves;
      }
      CHECK(halves == (stage == 3 ? 8U : 0U));
      // The last microbatch's is not deferred, and comes right behind its own backward of the same block.
      if (stage == 3) CHECK(std::vector<int>(late.end() - 5, late.end()) == std::vector<int>{0, 1, 2, 3, 4});
    }
    // It keeps all microbatches anyway.
    if (std::string(schedule) == "gpipe")
      CHECK(activations(deferred, 3) == activations(plain, 3));
    else
      CHECK(activations(deferred, 3) > activations(plain, 3));
    CHECK(activations(deferred, 0) == activations(plain, 0));
  }
}

TEST_CASE("gradients of the output layer are reduced once, when all of them are there") {
  for (const char* model : {"tied", "untied"})
    for (const bool overlap : {true, false})
      for (const double bucket : {1e3, 1e9}) {
        INFO(model << ", overlap " << overlap << ", bucket " << bucket);
        Job job = pipeline("1f1b", 2, 4);
        if (std::string(model) == "untied") job.workload.network = tiny_llama();
        job.strategy.dp = job.strategy.dp_replicate = 2;
        job.strategy.deferred_head_gradients = 99;
        job.strategy.overlap.grad_reduce = overlap;
        job.strategy.bucket = Bytes{bucket};
        const Program p = job.lower();
        const Role& role = p.roles.at(1);
        std::set<int> head;  // What weight halves add to.
        std::size_t last_half = 0;
        for (std::size_t i = 0; i < role.step.size(); ++i) {
          const Body& body = nth(p.bodies, role.step[i].body);
          if (body.phase != Phase::weight_grad) continue;
          last_half = i;
          for (const auto v : body.graph.vertices())
            for (const Operand& o : body.graph[v].operands)
              if (o.access == Access::update) head.insert(nth(body.formals, o.formal).like);
        }
        REQUIRE(head.size() == 1);
        std::vector<std::size_t> reductions;
        for (std::size_t i = 0; i < role.step.size(); ++i) {
          const Body& body = nth(p.bodies, role.step[i].body);
          const bool holds = std::any_of(body.formals.begin(), body.formals.end(),
                                         [&](const Formal& f) { return head.contains(f.like); });
          if (holds && body.name == "gradients.reduce") reductions.push_back(i);
        }
        REQUIRE(reductions.size() == 1);
        CHECK(reductions.front() > last_half);
      }
}

TEST_CASE("what an order of passes cannot be combined with is refused with the reason") {
  const auto refusal = [](const Job& job) {
    try {
      (void)job.lower();
    } catch (const Error& e) {
      CHECK_FALSE(e.hint.empty());
      return std::string(e.what());
    }
    return std::string();
  };
  Job job = pipeline("zb_h1", 2, 4);
  job.strategy.dp = job.strategy.dp_replicate = 2;
  CHECK(refusal(job).empty());
  job.strategy.zero_stage = 2;
  CHECK(refusal(job).find("would stay whole in between") != std::string::npos);
  Job both = pipeline("zb_v", 2, 4, 2);
  both.strategy.overlap.pp = false;
  CHECK(refusal(both).find("sends both ways between two stages") != std::string::npos);
  Job head = pipeline("1f1b", 1, 4);
  head.strategy.deferred_head_gradients = 2;
  CHECK(refusal(head).find("no drain to hide in") != std::string::npos);
  head.strategy.pp = 2;
  CHECK(refusal(head).empty());
  head.strategy.schedule = "zb_h1";
  CHECK(refusal(head).find("defers weight gradients by itself") != std::string::npos);
  head.strategy.schedule = "1f1b";
  head.strategy.dp = head.strategy.dp_shard = 2;
  head.strategy.fsdp.enabled = true;
  CHECK(refusal(head).find("ZeRO 2, 3 and FSDP") != std::string::npos);
}
