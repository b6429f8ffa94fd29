// Any strategy gives the result of one rank: the proof that layouts, collectives, schedules and lifetimes are right.

#include <cstdlib>
#include <numeric>

#include "core/base/index.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/program/body.hpp"
#include "core/strategy/execution_gaps.hpp"
#include "core/strategy/workload.hpp"
#include "tests/parity/jobs.hpp"
#include "tests/support/catch.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

constexpr int kSteps = 20;
// What a step hands to the next (weights, moments, scales, what is gathered late) shows in the second and third. Single
// strategies, pairs and triples are held to one rank's over all twenty under the label slow; divided optimizers, fp8
// and statistics over a batch are held over these few alone.
constexpr int kFewSteps = 4;
constexpr double kTolerance = 1e-9;

const Outcome& one_rank(Net net) {
  static std::map<Net, Outcome> done;
  const auto [at, fresh] = done.try_emplace(net);
  if (fresh) at->second = run(spread(small_job(net), {}), kSteps, Numerics::fp64);
  return at->second;
}

/// The larger of what a collective with counts of its own sends and receives.
double counted_bytes(const Program& p, int rank, const Body& body, const Task& task, ExprContext at) {
  const auto& c = std::get<CollectiveTask>(task.kind);
  const GroupSpec& group = nth(p.groups, c.group);
  double sent = 0, received = 0;
  for (int peer = 0; peer < p.mesh.group_size(group, rank, p.exprs); ++peer) {
    at.peer = peer;
    sent += static_cast<double>(p.exprs.evaluate(c.count_to_peer, at));
    received += static_cast<double>(p.exprs.evaluate(c.count_from_peer, at));
  }
  return std::max(sent, received) * size_of(nth(p.tensors, nth(body.formals, task.operands[0].formal).like).dtype);
}

/// Bytes that a rank's tasks communicate in a step, counted from the Program.
double communicated(const Program& p, int rank) {
  double bytes = 0;
  for_each_task(p, rank, [&](const Entry& e, const Body& body, const Task& task) {
    const ExprContext at = context_of(p, rank, e);
    if (const auto* c = std::get_if<CollectiveTask>(&task.kind))
      bytes += c->variable_counts ? counted_bytes(p, rank, body, task, at) : collective_bytes(p, body, task, at);
    if (const auto* m = std::get_if<P2pTask>(&task.kind); m != nullptr && m->direction == P2pTask::Direction::send)
      for (const Operand& o : task.operands) bytes += bytes_of(p, body, o, at);
  });
  return bytes;
}

void check_accounts(const Program& p, const Outcome& outcome) {
  for (const RoleMemory& m : peak_memory(at_bounds(p), Bytes{0}, Bytes{0})) {
    CHECK(nth(outcome.last, m.rank).peak_bytes.value() == Approx(m.peak.value()).epsilon(0));
    for (int c = 0; c < kMemoryCategories; ++c)
      CHECK(nth(nth(outcome.last, m.rank).peak, c).value() == Approx(nth(m.by_category, c).value()).margin(0.5));
  }
  // What only the data decides is known by its sum alone: none is sent twice and none is lost.
  if (!p.dynamic_dims.empty()) return;
  for (int r = 0; r < p.mesh.ranks(); ++r)
    CHECK(nth(outcome.last, r).communicated.value() == Approx(communicated(p, r)).epsilon(1e-12));
}

void check_equal(const Outcome& expected, const Outcome& got, double tolerance) {
  for (std::size_t s = 0; s < got.losses.size(); ++s) {
    INFO("step " << s);
    CHECK(got.losses[s] == Approx(expected.losses[s]).epsilon(tolerance));
    CHECK((got.routing[s] == expected.routing[s]));
    REQUIRE(got.gradients[s].size() == expected.gradients[s].size());
    for (const auto& [name, values] : expected.gradients[s]) {
      INFO(name);
      CHECK(distance(values, got.gradients[s].at(name)) <= tolerance);
    }
  }
}

/// A plan for the network against one rank.
void check_parity(Net net, const std::vector<Variation>& chosen, const Program& p, int steps = kFewSteps) {
  std::string names;
  for (const Variation& v : chosen) names += v.name + "; ";
  INFO("network " << static_cast<int>(net) << ", " << names);
  try {
    const Outcome got = run(p, steps, Numerics::fp64);
    check_equal(one_rank(net), got, kTolerance);
    check_accounts(p, got);
  } catch (const std::exception& e) {
    FAIL_CHECK("it does not run: " << e.what());
  }
}

/// The same where no strategy refuses; whether none did.
bool check_if_legal(Net net, const std::vector<Variation>& chosen, int steps = kFewSteps) {
  const std::optional<Program> p = spread_if_legal(net, chosen);
  if (p) check_parity(net, chosen, *p, steps);
  return p.has_value();
}

int ranks_of(const std::vector<Variation>& chosen) {
  int n = 1;
  for (const Variation& v : chosen) n *= v.ranks;
  return n;
}

/// Under every variation that is legal for the network by itself, of which there are so many at least.
void check_all_legal(Net net, int at_least, int steps = kFewSteps) {
  REQUIRE_NOTHROW(spread(small_job(net), {}));
  int checked = 0;
  for (const Variation& v : all_variations()) checked += check_if_legal(net, {v}, steps) ? 1 : 0;
  CHECK(checked >= at_least);
}

/// Every two variations on one of the networks that can be split so. Returns how many there are.
int check_pairs(int steps) {
  const std::vector<std::vector<Net>> kinds{
      {Net::gpt, Net::llama}, {Net::mixtral, Net::deepseek}, {Net::cnn, Net::segmenter, Net::mlp}};
  const std::vector<Variation> all = all_variations();
  int pairs = 0;
  for (std::size_t a = 0; a < all.size(); ++a)
    for (std::size_t b = a + 1; b < all.size(); ++b) {
      if (ranks_of({all[a], all[b]}) > 4) continue;
      for (const std::vector<Net>& kind : kinds)
        if (check_if_legal(kind[(a + b) % kind.size()], {all[a], all[b]}, steps)) {
          ++pairs;
          break;
        }
    }
  return pairs;
}

}  // namespace

TEST_CASE("every registered strategy is shown to run for real, or says why it does not") {
  for (const auto& entry : strategies().entries()) {
    INFO(entry.name);
    CHECK(variations().contains(entry.name) == execution_gap(entry.name).empty());
  }
}

TEST_CASE("one strategy or schedule gives the result of one rank", "[parity]") {
  for (const Net net : {Net::gpt, Net::llama, Net::neox}) check_all_legal(net, 30);
}

TEST_CASE("one strategy or schedule gives the result of one rank over twenty steps", "[.slow]") {
  for (const Net net : {Net::gpt, Net::llama, Net::neox, Net::mixtral, Net::deepseek, Net::gpt_oss, Net::hybrid,
                        Net::adapted, Net::exchanged, Net::mlp, Net::cnn, Net::segmenter})
    check_all_legal(net, 10, kSteps);
  for (const Variation& v : all_variations())
    if (v.ranks > 1) (void)check_if_legal(Net::gan, {v}, kSteps);
}

TEST_CASE("two strategies together give the result of one rank over twenty steps", "[.slow]") {
  CHECK(check_pairs(kSteps) > 100);
}

TEST_CASE("a strategy in use as it says itself gives the result of one rank", "[one_place]") {
  for (const auto& entry : strategies().entries())
    for (const Variation& v : stated_by(*entry.value)) {
      INFO(entry.name << ": " << v.name);
      REQUIRE(execution_gap(entry.name).empty());
      check_parity(net_of(v), {v}, spread(small_job(net_of(v)), {v}));
    }
}

TEST_CASE("parameters that are updated in backward train as those that are updated after it", "[parity]") {
  for (const int ranks : {1, 2}) {
    Job job = small_job(Net::gpt);
    job.workload.training.clip_gradients = false;
    job.strategy.microbatch = kSamples / ranks;
    job.microbatches = 1;
    job.strategy.fsdp.enabled = ranks > 1;
    job.strategy.dp = job.strategy.dp_shard = ranks;
    const Outcome after = run(job.lower(), kFewSteps, Numerics::fp64);
    job.strategy.declared.set("strategy.optimizer_in_backward", true);
    const Outcome within = run(job.lower(), kFewSteps, Numerics::fp64);
    for (int i = 0; i < kFewSteps; ++i)
      CHECK(nth(within.losses, i) == Approx(nth(after.losses, i)).epsilon(kTolerance));
  }
}

TEST_CASE("a layer that may stand anywhere trains on two ranks as on one", "[one_place]") {
  for (const auto& kind : layer_kinds().entries()) {
    if (!kind.value.anywhere) continue;
    INFO(kind.name);
    Job job = small_job(Net::mlp);
    job.workload.network = mlp_with(kind.name);
    const Outcome expected = run(spread(job, {}), kFewSteps, Numerics::fp64);
    check_equal(expected, run(spread(job, {variations().at("data_parallel").front()}), kFewSteps, Numerics::fp64),
                kTolerance);
  }
}

TEST_CASE("so it does where adapters alone are trained", "[parity]") {
  for (const Net net : {Net::adapted, Net::exchanged}) {
    check_all_legal(net, 20);
    for (const char* sharded : {"fsdp", "hsdp"}) CHECK(legal(net, {variations().at(sharded).front()}));
    // Two matrices for each of four products of four layers.
    CHECK(one_rank(net).gradients.front().size() == 2 * 4 * 4);
  }
}

TEST_CASE("so it does for networks with experts", "[parity]") {
  for (const Net net : {Net::mixtral, Net::deepseek, Net::gpt_oss, Net::hybrid}) {
    check_all_legal(net, 10);
    CHECK(one_rank(net).routing.front().size() > 100);  // What parity compares is there.
  }
}

TEST_CASE("so it does for networks over images and vectors", "[parity]") {
  for (const Net net : {Net::mlp, Net::cnn, Net::segmenter}) check_all_legal(net, 10);
}

TEST_CASE("experts that drop tokens drop the same ones however they are dealt", "[parity]") {
  for (const bool padded : {false, true}) {
    Job job = small_job(Net::mixtral);
    job.workload.training.experts.capacity_factor = 0.75;
    job.workload.training.experts.pad_to_capacity = padded;
    const Outcome expected = run(spread(job, {}), kFewSteps, Numerics::fp64);
    for (const char* strategy : {"data_parallel", "expert_parallel"})
      check_equal(expected, run(spread(job, {variations().at(strategy).front()}), kFewSteps, Numerics::fp64),
                  kTolerance);
  }
}

TEST_CASE("statistics over all replicas are those of one rank with their samples", "[parity]") {
  for (const Net net : {Net::cnn, Net::segmenter, Net::mixtral}) {
    Job job = small_job(net);
    job.workload.training.statistics = StatisticsScope::global;
    job.microbatches = kSamples / 2;
    Job split = job;
    job.strategy.microbatch = 2;
    split.strategy.dp_replicate = split.strategy.dp = 2;
    const Outcome expected = run(job.lower(), kFewSteps, Numerics::fp64);
    check_equal(expected, run(split.lower(), kFewSteps, Numerics::fp64), kTolerance);
    if (takes_images(net))
      split.strategy.tile_h = 2;
    else
      split.strategy.ep = 2;
    check_equal(expected, run(split.lower(), kFewSteps, Numerics::fp64), kTolerance);
  }
}

TEST_CASE("two networks spread over replicas give the result of one rank, each with its update", "[parity]") {
  int checked = 0;
  for (const Variation& v : all_variations())
    if (v.ranks > 1 && check_if_legal(Net::gan, {v})) ++checked;
  CHECK(checked >= 6);
  const Variation& sliced = variations().at("zero1").front();
  for (const Variation& v : variations().at("data_parallel")) (void)check_if_legal(Net::gan, {v, sliced});
}

TEST_CASE("two networks take batch statistics over all replicas", "[parity]") {
  Job job = small_job(Net::gan);
  job.workload.training.statistics = StatisticsScope::global;
  job.microbatches = kSamples / 2;
  Job split = job;
  job.strategy.microbatch = 2;
  split.strategy.dp_replicate = split.strategy.dp = 2;
  check_equal(run(job.lower(), kFewSteps, Numerics::fp64), run(split.lower(), kFewSteps, Numerics::fp64), kTolerance);
}

TEST_CASE("two strategies together give the result of one rank", "[parity]") { CHECK(check_pairs(kFewSteps) > 100); }

TEST_CASE("three strategies together give the result of one rank", "[.slow]") {
  // There are thousands: one in 61 of them, or all where the environment says REHEARSE_ALL_TRIPLES.
  const std::size_t stride = std::getenv("REHEARSE_ALL_TRIPLES") != nullptr ? 1 : 61;
  const std::vector<Variation> all = all_variations();
  for (std::size_t a = 0; a < all.size(); ++a)
    for (std::size_t b = a + 1; b < all.size(); ++b)
      for (std::size_t c = b + 1; c < all.size(); ++c) {
        if ((a * 7 + b * 11 + c * 13) % stride != 0) continue;
        const std::vector<Variation> chosen{all[a], all[b], all[c]};
        const Net net = static_cast<Net>((a + b + c) % 3);
        if (ranks_of(chosen) <= 8) (void)check_if_legal(net, chosen, kSteps);
      }
}

TEST_CASE("in fp32 the first step agrees to rounding", "[parity]") {
  std::map<Net, Outcome> expected;
  for (const Variation& v : all_variations()) {
    INFO(v.name);
    const Net net = net_of(v);
    if (!expected.contains(net)) expected[net] = run(spread(small_job(net), {}), 1, Numerics::fp32);
    check_equal(expected[net], run(spread(small_job(net), {v}), 1, Numerics::fp32), 1e-5);
  }
}

TEST_CASE("kernels that fuse differently compute the same", "[parity]") {
  for (const Net net : {Net::gpt, Net::llama})
    for (const AttentionKernel attention : {AttentionKernel::unfused, AttentionKernel::flash})
      for (const bool fused_norm : {true, false})
        for (const std::string loss : {"one kernel", "megatron", "pytorch"})
          for (const Precision precision : {Precision::fp32, Precision::bf16_mixed, Precision::fp16_mixed}) {
            Job job = small_job(net);
            job.workload.kernels.attention = attention;
            job.workload.kernels.fused_norm = fused_norm;
            job.workload.kernels.fused_cross_entropy = loss == "one kernel";
            if (loss == "pytorch") job.workload.kernels.declared.set("framework.loss", loss);
            job.workload.kernels.declared.set("framework.gradient_placeholders", loss != "one kernel");
            job.workload.training.precision = precision;
            INFO("attention " << static_cast<int>(attention) << " norm " << fused_norm << " loss " << loss
                              << " precision " << static_cast<int>(precision));
            for (const int tp : {1, 2}) {
              job.strategy.tp = tp;
              check_equal(one_rank(net), run(spread(job, {}), 3, Numerics::fp64), kTolerance);
            }
          }
}

TEST_CASE("a loss that is taken chunk by chunk trains as one of all tokens", "[parity]") {
  // Three chunks of an even number of tokens: the last one is smaller.
  for (const Net net : {Net::gpt, Net::llama})
    for (const Variation& v : all_variations()) {
      if (!legal(net, {v})) continue;
      INFO("network " << static_cast<int>(net) << ", " << v.name);
      Job job = small_job(net);
      job.workload.kernels.declared.set("framework.linear_loss", std::string("chunks"));
      job.workload.kernels.declared.set("framework.loss_chunks", std::int64_t{3});
      const Program p = spread(job, {v});
      const Outcome got = run(p, kFewSteps, Numerics::fp64);
      check_equal(one_rank(net), got, kTolerance);
      check_accounts(p, got);
    }
}

TEST_CASE("every optimizer gives the result of one rank", "[parity]") {
  // zero1 slices what is updated, tp splits it, and both divide the numbers that LAMB and Adafactor take of whole
  // tensors.
  const auto& all = variations();
  const std::vector<std::vector<Variation>> ways{
      all.at("zero1"), all.at("tensor_parallel"), {all.at("zero1")[0], all.at("tensor_parallel")[0]}};
  for (const Optimizer optimizer :
       {Optimizer::sgd, Optimizer::adam, Optimizer::adamw, Optimizer::adafactor, Optimizer::lamb}) {
    INFO(name_of(optimizer));
    const Job job = small_job(Net::gpt, optimizer);
    const Outcome expected = run(spread(job, {}), kSteps, Numerics::fp64);
    CHECK(expected.losses.back() < expected.losses.front());
    for (const std::vector<Variation>& way : ways)
      check_equal(expected, run(spread(job, way), kFewSteps, Numerics::fp64), kTolerance);
  }
}

TEST_CASE("fp8 with scales of the step before gives the result of one rank", "[parity]") {
  // Scales are of whole tensors, over all ranks and microbatches: no strategy changes what a product reads.
  Job job = small_job(Net::gpt);
  job.workload.training.precision = Precision::fp8_mixed;
  const Outcome expected = run(spread(job, {}), kSteps, Numerics::fp64);
  CHECK(expected.losses.back() < expected.losses.front() - 0.1);
  for (const char* strategy : {"data_parallel", "tensor_parallel", "sequence_parallel", "zero1", "pipeline_parallel",
                               "recompute", "offload_activations", "overlapped_tensor_parallel"})
    for (const Variation& v : variations().at(strategy)) {
      INFO(v.name);
      check_equal(expected, run(spread(job, {v}), kFewSteps, Numerics::fp64), kTolerance);
    }
}

TEST_CASE("samples that come first compute the same", "[parity]") {
  for (const Precision precision : {Precision::fp32, Precision::fp8_mixed}) {
    Job job = small_job(Net::gpt);
    job.workload.training.precision = precision;
    const Outcome expected = run(spread(job, {}), kFewSteps, Numerics::fp64);
    job.strategy.tp = 2;
    job.strategy.microbatch = 2;
    job.microbatches = kSamples / 2;
    job.strategy.sequence_parallel = job.workload.kernels.samples_first = true;
    check_equal(expected, run(job.lower(), kFewSteps, Numerics::fp64), kTolerance);
    job.workload.kernels.gather_per_product = true;
    check_equal(expected, run(job.lower(), kFewSteps, Numerics::fp64), kTolerance);
  }
}

TEST_CASE("gradients that kernels of their own add up are the same", "[parity]") {
  for (const Net net : {Net::gpt, Net::mixtral, Net::cnn}) {
    Job job = small_job(net);
    job.workload.kernels.fused_gradient_accumulation = false;
    for (const Variation& v : all_variations()) {
      if (!legal(net, {v})) continue;
      INFO(v.name);
      const Program p = spread(job, {v});
      const Outcome got = run(p, kFewSteps, Numerics::fp64);
      check_equal(one_rank(net), got, kTolerance);
      check_accounts(p, got);
    }
  }
}

TEST_CASE("a ring that waits for keys and values of every query head computes the same", "[parity]") {
  Job job = small_job(Net::llama);
  const Outcome expected = run(spread(job, {}), kFewSteps, Numerics::fp64);
  job.workload.kernels.samples_first = true;
  const Variation ring{"cp, PyTorch's", 2, [](StrategySettings& s) { s.cp *= 2; }};
  check_equal(expected, run(spread(job, {ring}), kFewSteps, Numerics::fp64), kTolerance);
}

TEST_CASE("every fp8 recipe trains near what fp32 does", "[parity]") {
  for (const std::string& recipe : names_of<Fp8Recipe>()) {
    INFO(recipe);
    Job job = small_job(Net::llama);
    job.workload.training.precision = Precision::fp8_mixed;
    job.workload.training.fp8.recipe = static_cast<Fp8Recipe>(
        std::find(names_of<Fp8Recipe>().begin(), names_of<Fp8Recipe>().end(), recipe) - names_of<Fp8Recipe>().begin());
    const Outcome got = run(spread(job, {}), kSteps, Numerics::fp64);
    // Rounding is there, for delayed scales from the second step on ...
    CHECK(got.losses.at(1) != one_rank(Net::llama).losses.at(1));
    CHECK(got.losses.back() == Approx(one_rank(Net::llama).losses.back()).epsilon(0.05));  // ... and small.
  }
}

TEST_CASE("one fp8 copy of a tensor computes what two do, with the strategies that move and keep it", "[parity]") {
  Job job = small_job(Net::llama);
  job.workload.training.precision = Precision::fp8_mixed;
  const Outcome expected = run(spread(job, {}), kFewSteps, Numerics::fp64);
  job.workload.training.fp8.copies = Fp8Copies::one;
  check_equal(expected, run(spread(job, {}), kFewSteps, Numerics::fp64), kTolerance);
  for (const char* strategy : {"sequence_parallel", "recompute", "overlapped_tensor_parallel"})
    for (const Variation& v : variations().at(strategy)) {
      INFO(v.name);
      check_equal(expected, run(spread(job, {v}), kFewSteps, Numerics::fp64), kTolerance);
    }
}

TEST_CASE("attention in fp8 trains near what fp32 does", "[parity]") {
  for (const Fp8Recipe recipe : {Fp8Recipe::delayed, Fp8Recipe::mxfp8}) {
    Job job = small_job(Net::llama);
    job.workload.training.precision = Precision::fp8_mixed;
    job.workload.training.fp8.recipe = recipe;
    const Outcome without = run(spread(job, {}), kSteps, Numerics::fp64);
    job.workload.training.fp8.attention = true;
    job.workload.kernels.attention = AttentionKernel::flash;
    const Outcome got = run(spread(job, {}), kSteps, Numerics::fp64);
    CHECK(got.losses.back() != without.losses.back());
    CHECK(got.losses.back() == Approx(one_rank(Net::llama).losses.back()).epsilon(0.05));
    // Keys and values that travel in fp8 are what one rank reads in fp8, but for scales of slices.
    for (const ContextExchange exchange : {ContextExchange::ring, ContextExchange::ulysses}) {
      job.strategy.context = exchange;
      const Variation split{"cp", 2, [](StrategySettings& s) { s.cp *= 2; }};
      const Outcome apart = run(spread(job, {split}), kFewSteps, Numerics::fp64);
      INFO(name_of(recipe) << " " << name_of(exchange));
      CHECK(apart.losses.back() == Approx(got.losses.at(kFewSteps - 1)).epsilon(0.01));
    }
  }
}

TEST_CASE("a key's bias has no gradient, and nothing else does", "[parity]") {
  // Softmax does not change when all scores of a row do: the gradient of the bias of k is zero but for rounding.
  for (const auto& [name, values] : one_rank(Net::gpt).gradients.front()) {
    const bool qkv_bias = name.find("attention.qkv.bias") != std::string::npos;
    const std::size_t third = values.size() / 3;
    double keys = 0, all = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      all = std::max(all, std::abs(values[i]));
      if (qkv_bias && i >= third && i < 2 * third) keys = std::max(keys, std::abs(values[i]));
    }
    INFO(name);
    CHECK(all > 1e-6);
    if (qkv_bias) CHECK(keys < 1e-12 * all);
  }
}
