// Tasks that a GPU does as one call leave what they leave one by one, on the CPU and on the device: each fusion by
// itself, and whole networks over steps.
#include <set>

#include "core/base/index.hpp"
#include "core/config/settings/choices.hpp"
#include "core/strategy/workload.hpp"
#include "gpu_backend/execute/fuse/onto_zeros.hpp"
#include "tests/gpu/fused_cases.hpp"
#include "tests/parity/jobs.hpp"
#include "tests/support/skip.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

#define ON_A_DEVICE() \
  if (const auto none = no_device()) REHEARSE_SKIP(*none)

// ---- whole networks

struct FusedTraining {
  std::vector<double> losses, norms;
  std::map<std::string, std::vector<double>> tensors;
  std::multiset<std::string_view> fused;
  std::multiset<std::string> beside;  ///< Tensors side by side, by their names.
};

FusedTraining train_fused(const Program& program, int steps, Numerics numerics, bool fuse) {
  FusedTraining out;
  const auto data = synthetic_tokens(program.seed, kVocabulary);
  const auto device = device_under_test(numerics);
  LocalWorld world(1);
  const auto transport = world.transport(0);
  Executor executor(program, *device, *transport, *data, {.fuse = fuse});
  for (int s = 0; s < steps; ++s) {
    const StepResult r = executor.step();
    out.losses.push_back(r.loss);
    out.norms.push_back(r.gradient_norm);
  }
  executor.drain();
  for (const FusedGroup& g : executor.groups()) out.fused.insert(g.how->name);
  const RankPlan plan(program, 0);
  for (const SlotsSideBySide& all : executor.beside()) {
    std::string names;
    for (const int slot : all.slots) names += nth(program.tensors, nth(plan.slots(), slot).tensor).name + " ";
    out.beside.insert(names);
  }
  for (const Executor::Persistent& p : executor.persistent()) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(p.held->elements()) * size_of(p.type));
    device->read(*p.storage, 0, bytes);
    out.tensors[p.name] = decoded(bytes, p.type);
  }
  return out;
}

constexpr int kLayers = 4, kMicrobatches = 2;  // Layers of the small networks.

Job fused_job(Net net) {
  Job job = small_job(net);
  job.microbatches = kMicrobatches;
  job.workload.kernels.fused_cross_entropy = true;
  job.workload.kernels.attention = AttentionKernel::flash;
  job.workload.kernels.fused_norm = true;
  job.workload.training.clip_gradients = true;
  return job;
}

void check_trains_the_same(const FusedTraining& apart, const FusedTraining& fused, double within) {
  CHECK(apart.fused.empty());
  for (std::size_t s = 0; s < apart.losses.size(); ++s) {
    CHECK(fused.losses[s] == Approx(apart.losses[s]).epsilon(within));
    CHECK(fused.norms[s] == Approx(apart.norms[s]).epsilon(within));
  }
  REQUIRE(fused.tensors.size() == apart.tensors.size());
  for (const auto& [name, values] : apart.tensors) {
    INFO(name);
    CHECK(relative(fused.tensors.at(name), values) <= within);
  }
}

}  // namespace

TEST_CASE("fused: a product and GELU, whose input is kept where others read it", "[fused]") {
  ON_A_DEVICE();
  for (const bool kept : {true, false})
    for (const bool biased : {true, false}) {
      FusedCase c{"product and GELU",
                  {{in({2, 9, 24})}, {in({16, 24})}, {out({2, 9, 16}), !kept}, {in({16})}, {out({2, 9, 16})}},
                  {{task_of(ComputeOp::matmul, "linear"), {{0, kRead}, {1, kRead}, {2, kWrite}}},
                   {task_of(ComputeOp::activation, "gelu_tanh"), {{2, kRead}, {4, kWrite}}}}};
      if (biased) c.steps[0].operands.emplace_back(3, kRead), c.steps[0].offsets = {1};
      check_fusion(c, {k16});
      CHECK_FALSE(taken(c, k32));
    }
}

TEST_CASE("fused: a product and the residual it is added to", "[fused]") {
  ON_A_DEVICE();
  for (const bool first : {true, false}) {
    FusedCase c{
        "product and addition",
        {{in({2, 9, 24})}, {in({20, 24})}, {out({2, 9, 20}), true}, {in({20})}, {in({2, 9, 20})}, {out({2, 9, 20})}},
        {{task_of(ComputeOp::matmul, "linear"), {{0, kRead}, {1, kRead}, {2, kWrite}, {3, kRead}}, {}, {1}},
         {task_of(ComputeOp::add), {{first ? 2 : 4, kRead}, {first ? 4 : 2, kRead}, {5, kWrite}}}}};
    check_fusion(c, {k16, k32, k64});
    c.tensors[2].unseen = false;  // Somebody else reads the product.
    CHECK_FALSE(taken(c, k16));
  }
}

TEST_CASE("fused: a product and GELU's gradient", "[fused]") {
  ON_A_DEVICE();
  FusedCase c{"product and GELU's gradient",
              {{in({12, 24})}, {out({2, 9, 24}), true}, {in({2, 9, 12})}, {in({2, 9, 24})}, {out({2, 9, 24})}},
              {{task_of(ComputeOp::matmul, "linear_input_grad"), {{0, kRead}, {1, kWrite}, {2, kRead}}},
               {task_of(ComputeOp::activation_grad, "gelu_tanh"), {{1, kRead}, {3, kRead}, {4, kWrite}}}}};
  check_fusion(c, {k16});
}

TEST_CASE("fused: gradients of a weight and its bias, added to what is there or to zeros", "[fused]") {
  ON_A_DEVICE();
  for (const bool zeros : {true, false}) {
    const auto sums = [zeros](std::vector<std::int64_t> shape) {
      OperandSlot out = inout(std::move(shape), Holds::sums);
      if (zeros) out.values.assign(count(out.shape), 0.0);
      return out;
    };
    // The second output begins at element 10 of the bias: not at 16 bytes.
    FusedCase c{"gradients of weight and bias",
                {{in({2, 9, 24})}, {sums({26, 24})}, {in({2, 9, 10})}, {in({2, 9, 16})}, {sums({26})}},
                {{accumulating(task_of(ComputeOp::matmul, "linear_weight_grad")),
                  {{0, kRead}, {1, kUpdate}, {2, kRead}, {3, kRead}}},
                 {accumulating(task_of(ComputeOp::add, "column_sum")), {{2, kRead}, {3, kRead}, {4, kUpdate}}}},
                zeros};
    check_fusion(c, {k16, k32});
  }
}

TEST_CASE("fused: a product whose queries and keys are turned, and its gradients", "[fused]") {
  ON_A_DEVICE();
  const std::vector<std::int64_t> q{2, 9, 4, 8}, k{2, 9, 2, 8};
  FusedCase forward{
      "product and rotations",
      {{in({2, 9, 24})}, {in({64, 24})}, {out(q), true}, {out(k), true}, {out(k)}, {in({64})}, {out(q)}, {out(k)}},
      {{task_of(ComputeOp::matmul, "linear"),
        {{0, kRead}, {1, kRead}, {2, kWrite}, {3, kWrite}, {4, kWrite}, {5, kRead}},
        {},
        {1}},
       {task_of(ComputeOp::rope), {{2, kRead}, {6, kWrite}}},
       {task_of(ComputeOp::rope), {{3, kRead}, {7, kWrite}}}}};
  for (std::size_t i : {1, 2}) forward.steps[i].task.scalars = {8, 10000};
  check_fusion(forward, {k16, k32, k64});
  forward.tensors[3].unseen = false;  // Somebody else reads keys as they were.
  CHECK_FALSE(taken(forward, k16));

  const TaskOf input{task_of(ComputeOp::matmul, "linear_input_grad"),
                     {{0, kRead}, {1, kWrite}, {6, kRead}, {7, kRead}, {8, kRead}}},
      weight{accumulating(task_of(ComputeOp::matmul, "linear_weight_grad")),
             {{2, kRead}, {3, kUpdate}, {6, kRead}, {7, kRead}, {8, kRead}}},
      bias{accumulating(task_of(ComputeOp::add, "column_sum")), {{6, kRead}, {7, kRead}, {8, kRead}, {9, kUpdate}}};
  FusedCase backward{"rotations back and gradients of the product",
                     {{in({64, 24})},
                      {out({2, 9, 24})},
                      {in({2, 9, 24})},
                      {inout({64, 24}, Holds::sums)},
                      {inout(q), false, true},
                      {inout(k), false, true},
                      {out(q), true},
                      {out(k), true},
                      {in(k)},
                      {inout({64}, Holds::sums)}},
                     {{task_of(ComputeOp::rope_grad), {{5, kRead}, {7, kWrite}}},
                      {task_of(ComputeOp::rope_grad), {{4, kRead}, {6, kWrite}}}}};
  for (TaskOf& turn : backward.steps) turn.task.scalars = {8, 10000};
  for (const std::vector<TaskOf>& gradients : std::vector<std::vector<TaskOf>>{
           {weight, bias, input}, {input, weight, bias}, {weight, input}, {input, weight}}) {
    FusedCase c = backward;
    c.steps.insert(c.steps.end(), gradients.begin(), gradients.end());
    check_fusion(c, {k16, k32, k64});
    c.tensors[4].spent = false;
    CHECK_FALSE(taken(c, k16));
  }
}

TEST_CASE("fused: all gradients of a norm, and of the residual beside it", "[fused]") {
  ON_A_DEVICE();
  for (const char* norm : {"layer_norm", "rms_norm"})
    for (const bool adds : {true, false})
      for (const std::int64_t width : {64, 1280}) {
        const bool biased = std::string_view(norm) == "layer_norm";
        const std::vector<std::int64_t> shape{2, 37, width};
        FusedCase c{adds ? "gradients of norm and residual" : "gradients of norm",
                    {{in(shape)},
                     {in(shape)},
                     {in({width})},
                     {out(shape), adds},
                     {inout({width}, Holds::sums)},
                     {inout({width}, Holds::sums)},
                     {in(shape)},
                     {out(shape)}},
                    {{task_of(ComputeOp::norm_grad, norm), {{0, kRead}, {1, kRead}, {2, kRead}, {3, kWrite}}},
                     {accumulating(task_of(ComputeOp::norm_grad, norm)), {{0, kRead}, {1, kRead}, {4, kUpdate}}}}};
        if (biased) c.steps[1].operands.emplace_back(5, kUpdate);
        if (adds)
          c.steps.push_back({task_of(ComputeOp::add), {{3, kRead}, {6, kRead}, {7, kWrite}}});
        else
          c.tensors[7].slot.access = kRead;
        for (TaskOf& s : c.steps) s.task.epsilon = 1e-5;
        check_fusion(c, width > 64 ? std::initializer_list<ElementType>{k16}
                                   : std::initializer_list<ElementType>{k16, k32, k64});
      }
}

TEST_CASE("fused: the sums of a loss, and its gradient", "[fused]") {
  ON_A_DEVICE();
  constexpr std::int64_t kRows = 5, kStored = 48;
  for (const std::int64_t valid : {48, 40, 43}) {
    OperandSlot logits = in({1, kRows, kStored}), grad = out({1, kRows, kStored});
    logits.all = grad.all = {1, kRows, valid};
    const OperandSlot labels = given(in({1, kRows}, Holds::integers), whole_numbers(kRows, valid, 3));
    FusedCase c{"loss and its gradient",
                {{logits},
                 {labels},
                 {out({1, kRows}, Holds::sums)},
                 {out({1, kRows, 2}, Holds::sums)},
                 {out({1}, Holds::sums)},
                 {grad}},
                {{task_of(ComputeOp::cross_entropy, "max"), {{0, kRead}, {2, kWrite}}},
                 {task_of(ComputeOp::cross_entropy, "sums"), {{0, kRead}, {1, kRead}, {2, kRead}, {3, kWrite}}},
                 {task_of(ComputeOp::cross_entropy, "loss_of_sums"), {{3, kRead}, {4, kWrite}}},
                 {task_of(ComputeOp::cross_entropy_grad, "fused"),
                  {{0, kRead}, {1, kRead}, {5, kWrite}, {2, kRead}, {3, kRead}},
                  {kRows}}}};
    check_fusion(c, {k16, k32, k64});
    c.name = "sums of the loss";
    c.steps.resize(2);
    c.tensors[4].slot.access = c.tensors[5].slot.access = kRead;
    check_fusion(c, {k16, k32, k64});
  }
}

TEST_CASE("fused: an update with clipping, the model's copy and cleared gradients", "[fused]") {
  ON_A_DEVICE();
  for (const char* adam : {"adamw", "adam"})
    for (const double largest : {0.5, 1e9}) {
      FusedCase c{"update",
                  {{inout({300}, Holds::sums)},
                   {inout({300}, Holds::sums)},
                   {inout({300}, Holds::sums)},
                   {given(inout({300}, Holds::sums), whole_numbers(300, 9, 5))},
                   {given(in({1}, Holds::sums), {300.0})},
                   {out({300})}},
                  {{task_of(ComputeOp::scale, "clip"), {{0, kUpdate}, {4, kRead}}},
                   {task_of(ComputeOp::optimizer, adam), {{0, kRead}, {1, kUpdate}, {2, kUpdate}, {3, kUpdate}}},
                   {task_of(ComputeOp::cast, "from_master"), {{1, kRead}, {5, kWrite}}},
                   {task_of(ComputeOp::fill, "zeros"), {{0, kWrite}}}}};
      c.steps[0].task.scalars = {largest};
      c.steps[1].task.scalars = {1e-2, 0.1, 0.9, 0.999, 1e-8};
      check_fusion(c, {k16});
      c.tensors[5].slot.access = kRead;
      c.steps.erase(c.steps.begin() + 2);  // Without a copy in 16 bits.
      check_fusion(c, {k32, k64});
    }
}

TEST_CASE("fused: networks train as they do task by task", "[fused]") {
  ON_A_DEVICE();
  for (const Net net : {Net::gpt, Net::llama}) {
    INFO("network " << static_cast<int>(net));
    const Program program = fused_job(net).lower();
    const FusedTraining fused = train_fused(program, 3, Numerics::fp64, true);
    check_trains_the_same(train_fused(program, 3, Numerics::fp64, false), fused, 1e-9);
    for (const char* name : {"gradients of norm and residual", "loss and its gradient", "update"}) {
      INFO(name);
      CHECK(fused.fused.count(name) > 0);
    }
    for (const std::string& names : fused.beside) UNSCOPED_INFO(names);
    // Queries, keys and values, and what is gated, in both directions of every layer and microbatch.
    CHECK(fused.beside.size() == (net == Net::llama ? 4u : 2u) * static_cast<std::size_t>(kLayers * kMicrobatches));
    // GPT's residuals are added with dropout.
    CHECK((fused.fused.count("product and addition") > 0) == (net == Net::llama));
  }
}

TEST_CASE("fused: mixed precision trains as task by task, to rounding", "[fused]") {
  ON_A_DEVICE();
  Job job = fused_job(Net::gpt);
  job.workload.training.precision = Precision::bf16_mixed;
  const Program program = job.lower();
  const FusedTraining fused = train_fused(program, 2, Numerics::plan, true),
                      apart = train_fused(program, 2, Numerics::plan, false);
  for (std::size_t s = 0; s < 2; ++s) CHECK(fused.losses[s] == Approx(apart.losses[s]).epsilon(0.01));
  for (const char* name : {"product and GELU", "product and GELU's gradient", "gradients of weight and bias"}) {
    INFO(name);
    CHECK(fused.fused.count(name) > 0);
  }
}

TEST_CASE("fused: gradients are zeros for the first microbatch, and not for the second", "[fused]") {
  const Program program = fused_job(Net::gpt).lower();
  const RankPlan plan(program, 0);
  const std::vector<bool> zeros = adds_to_zeros(plan);
  std::map<int, std::pair<int, int>> of_microbatch;  // Those onto zeros, and all.
  for (std::size_t i = 0; i < zeros.size(); ++i) {
    const auto* task = std::get_if<ComputeTask>(&plan.step()[i].task->kind);
    if (task == nullptr || operator_name(*task) != "matmul.linear_weight_grad") continue;
    auto& [fresh, all] = of_microbatch[plan.step()[i].at.microbatch];
    fresh += zeros[i] ? 1 : 0, ++all;
  }
  REQUIRE(of_microbatch.size() == 2);
  CHECK(of_microbatch[0].first == of_microbatch[0].second);
  CHECK(of_microbatch[1].first == 0);
}

TEST_CASE("one by one: the host hears of each task before it is issued, and errors name theirs") {
  ON_A_DEVICE();
  const Program program = fused_job(Net::gpt).lower();
  const auto data = synthetic_tokens(program.seed, kVocabulary);
  std::vector<std::string> heard;
  const auto device = open_cuda_device(
      {.numerics = Numerics::fp32, .on_task = [&](std::string_view task) { heard.emplace_back(task); }});
  LocalWorld world(1);
  const auto transport = world.transport(0);
  Executor executor(program, *device, *transport, *data, {.fuse = false});
  (void)executor.step();
  const RankPlan plan(program, 0);
  REQUIRE(heard.size() == plan.step().size());
  for (std::size_t i = 0; i < heard.size(); ++i) CHECK(heard[i] == name_of(plan.step()[i]));
  const auto fails = [] { throw Error(ErrorKind::check_failed, "an illegal address", "cuda"); };
  try {
    (void)device->submit(0, {}, {.run = fails, .start = {}, .name = "layer.forward/ln1"});
    FAIL("nothing was thrown");
  } catch (const Error& e) {
    CHECK(e.where == "task 'layer.forward/ln1', cuda");
  }
}
