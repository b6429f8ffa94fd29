// Convolutional networks in parallel: gradients of replicas, activations kept, stages of unlike blocks, tiles and their
// halos.

#include <map>

#include <fmt/format.h>

#include "core/base/index.hpp"
#include "core/config/settings/choices.hpp"
#include "core/program/body.hpp"
#include "core/program/flops.hpp"
#include "core/strategy/operators/halo.hpp"
#include "core/strategy/stage_cuts.hpp"
#include "core/strategy/workload.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/source_path.hpp"
#include "tests/unit/program/lowered.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

Network network(const std::string& blocks, int channels = 4, int height = 32, int width = 32) {
  return ModelLibrary({}).load(fmt::format(
      R"({{"schema": "rehearse/network/v1", "input": {{"channels": {}, "height": {}, "width": {}}}, "blocks": [{}]}})",
      channels, height, width, blocks));
}

/// A shipped model with square images of another size.
Network library_model(const std::string& name, std::int64_t side) {
  return ModelLibrary(rehearse::testing::source_path("scenarios/models")).load(name, {}, {side, side});
}

const std::string kHead =
    R"({"name": "head", "layers": [{"op": "global_pool"}, {"op": "linear", "out": 10, "bias": false},
    {"op": "softmax_loss"}]})";

Job fp32(Network n) {
  Job job(std::move(n), 0);
  job.workload.training.precision = Precision::fp32;
  job.workload.training.optimizer = Optimizer::sgd;
  job.workload.training.clip_gradients = false;
  job.microbatches = 1;
  return job;
}

/// Elements that `rank` sends in halo exchanges of tasks whose name holds `part`.
std::int64_t halo_elements(const Program& p, int rank, const std::string& part = "") {
  std::int64_t sum = 0;
  for_each_task(p, rank, [&](const Entry& e, const Body&, const Task& task) {
    const auto* c = std::get_if<CollectiveTask>(&task.kind);
    if (c == nullptr || c->op != CollectiveOp::halo_exchange || task.name.find(part) == std::string::npos) return;
    ExprContext at = context_of(p, rank, e);
    const auto members = p.mesh.members(nth(p.groups, c->group), rank, p.exprs);
    for (std::size_t i = 0; i < members.size(); ++i) {
      at.peer = static_cast<int>(i);
      sum += p.exprs.evaluate(c->count_to_peer, at);
    }
  });
  return sum;
}

double reduced_bytes(const Program& p, int rank) {
  double bytes = 0;
  for_each_task(p, rank, [&](const Entry& e, const Body& body, const Task& task) {
    const auto* c = std::get_if<CollectiveTask>(&task.kind);
    if (c != nullptr && task.name == "gradients") bytes += collective_bytes(p, body, task, context_of(p, rank, e));
  });
  return bytes;
}

/// How often rank 0 runs each kind of compute task with each number of passes over its operands.
std::map<std::pair<ComputeOp, double>, int> passes_of(const Job& job) {
  std::map<std::pair<ComputeOp, double>, int> out;
  const Program p = job.lower();
  for_each_task(p, 0, [&](const Entry&, const Body&, const Task& task) {
    if (const auto* c = std::get_if<ComputeTask>(&task.kind)) ++out[{c->op, c->passes}];
  });
  return out;
}

Error refusal_images(const Job& job) {
  try {
    (void)job.lower();
  } catch (const Error& e) {
    return e;
  }
  FAIL("accepted");
  throw std::logic_error("unreachable");
}

}  // namespace

TEST_CASE("replicas reduce every gradient of ResNet-50 once: 4 bytes a parameter") {
  Job job = fp32(shipped("resnet50"));
  job.strategy.dp = 4;
  const Program p = job.lower();
  CHECK(reduced_bytes(p, 0) == 4.0 * 25'557'032);
  CHECK(p.tokens_per_step == 0);
  CHECK(p.samples_per_step == 4);
}

TEST_CASE("what a stage keeps for backward, counted by hand") {
  // Convolution keeps its input, batch norm its own, relu its result: 3 images of 8 x 32 x 32 of which the first is 4
  // channels deep.
  Job job = fp32(network(
      R"({"name": "a", "layers": [{"op": "conv2d", "out": 8, "kernel": 3, "padding": 1, "then": ["batch_norm", "relu"]},
                                                    {"op": "max_pool", "kernel": 2}]},)" +
      kHead));
  job.strategy.microbatch = 5;
  const Program p = job.lower();
  double saved = 0;
  for (const Tensor& t : p.tensors)
    if (t.lifetime == Lifetime::saved && t.alias_of < 0 && t.name.rfind("a.", 0) == 0)
      saved += p.local_bytes(t, p.mesh.context(0));
  const double pixels = 5 * 32 * 32;
  // Batch norm's input and relu's result in fp32, two moments per channel, an index of 8 bytes per pooled element.
  CHECK(saved == 4 * 8 * pixels + 4 * 8 * pixels + 4 * 2 * 8 + 8 * 8 * pixels / 4);
}

TEST_CASE("ResNet-50 keeps about 22 million elements per image") {
  // Each of the 53 convolutions keeps its input and each batch norm its own: 11.1 million elements of convolution
  // outputs (Canziani et al. 2016 count activations of 224 x 224 ResNet-50 likewise) twice over, less the relus' inputs
  // and the additions', which nothing keeps.
  Job job = fp32(shipped("resnet50"));
  const Program p = job.lower();
  const double peak = nth(peak_memory(p, Bytes{0}, Bytes{0}).at(0).by_category, MemoryCategory::activations).value();
  CHECK(peak / 4 > 19e6);
  CHECK(peak / 4 < 25e6);
}

TEST_CASE("images channel by channel: convolutions on tensor cores turn each operand, and nothing else does") {
  for (const Precision precision : {Precision::fp32, Precision::tf32, Precision::fp16_mixed, Precision::bf16_mixed}) {
    Job job = fp32(shipped("resnet50"));
    job.workload.training.precision = precision;
    auto expected = passes_of(job);
    CHECK(expected.at({ComputeOp::convolution, 1}) == 53);
    if (precision != Precision::fp32)
      for (const ComputeOp op : {ComputeOp::convolution, ComputeOp::convolution_grad}) {
        auto turned = expected.extract({op, 1});
        turned.key() = {op, 3};
        expected.insert(std::move(turned));
      }
    job.workload.kernels.declared.set("framework.channels_first", true);
    CHECK(passes_of(job) == expected);
  }
}

TEST_CASE("a batch norm that takes in what follows: the ReLU moves nothing, the addition its shortcut") {
  Job job = fp32(shipped("resnet50"));
  auto expected = passes_of(job);
  // 16 blocks with two ReLUs behind batch norms and one behind an addition, and the stem's. Sums of gradients where
  // blocks branch are additions, too.
  CHECK(expected.at({ComputeOp::activation, 1}) == 49);
  expected.erase({ComputeOp::activation, 1});
  expected.erase({ComputeOp::activation_grad, 1});
  expected.at({ComputeOp::add, 1}) -= 16;
  const double shortcut = 1.0 / 3;
  expected[{ComputeOp::activation, 0}] = 49;
  expected[{ComputeOp::activation_grad, 0}] = 33;
  expected[{ComputeOp::activation_grad, shortcut}] = 16;
  expected[{ComputeOp::add, shortcut}] = 16;
  job.workload.kernels.declared.set("framework.fused_batch_norm", true);
  CHECK(passes_of(job) == expected);
}

TEST_CASE("convolutions that do what batch norms around them need spare forward passes alone") {
  Job job = fp32(shipped("resnet50"));
  auto expected = passes_of(job);
  CHECK(expected.at({ComputeOp::statistics, 1}) == 2 * 53);  // Forward and backward.
  expected.at({ComputeOp::statistics, 1}) -= 53;
  expected[{ComputeOp::statistics, 0}] = 53;
  job.workload.kernels.declared.set("framework.batch_norm_in_convolution", std::string("statistics"));
  CHECK(passes_of(job) == expected);
  // Two of a block's three batch norms stand, with their ReLU, before a convolution and nothing else.
  expected.at({ComputeOp::norm, 1}) -= 32;
  expected[{ComputeOp::norm, 0}] = 32;
  expected.at({ComputeOp::activation, 1}) -= 32;
  expected[{ComputeOp::activation, 0}] = 32;
  job.workload.kernels.declared.set("framework.batch_norm_in_convolution", std::string("normalised"));
  CHECK(passes_of(job) == expected);
}

TEST_CASE("full recomputation keeps block inputs, and costs a second forward") {
  Job job = fp32(shipped("resnet50"));
  job.strategy.microbatch = 8;
  const Program keep = job.lower();
  job.strategy.recompute = Recompute::full;
  const Program again = job.lower();
  CHECK(peak_of_stage(again, 0).value() < 0.6 * peak_of_stage(keep, 0).value());
  CHECK(executed_matmul_flops(again).value() > 1.3 * executed_matmul_flops(keep).value());
}

TEST_CASE("stages of unlike blocks: the heaviest is as light as can be") {
  const Network n = shipped("vgg16");
  for (const int stages : {1, 2, 3, 4, 8, 16}) {
    const std::vector<int> cuts = cut_by_work(n, stages);
    CHECK(cuts.front() == 0);
    CHECK(cuts.back() == n.layers());
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i) CHECK(cuts[i] < cuts[i + 1]);
  }
  Job job = fp32(n);
  job.strategy.pp = 17;
  CHECK(std::string(refusal_images(job).what()) == "16 blocks are fewer than pp(17) * virtual_stages(1) = 17");
}

TEST_CASE("a message carries the shape that crosses its boundary") {
  Job job = fp32(shipped("vgg16"));
  job.strategy.pp = 4;
  job.strategy.microbatch = 2;
  job.microbatches = 4;
  const Program p = job.lower();
  validate(p);
  const Network& n = job.workload.network;
  std::map<int, double> sent;
  for (int rank = 0; rank < 3; ++rank)
    for_each_task(p, rank, [&](const Entry& e, const Body& body, const Task& task) {
      const auto* m = std::get_if<P2pTask>(&task.kind);
      if (m != nullptr && m->direction == P2pTask::Direction::send && e.microbatch == 0 &&
          task.name == "send.activations")
        sent[e.layer] = bytes_of(p, body, task.operands[0], context_of(p, rank, e));
    });
  CHECK(sent.size() == 3);
  for (const auto& [boundary, bytes] : sent) {
    const BlockSpec& next = nth(n.blocks, boundary);
    CHECK(bytes == 4.0 * static_cast<double>(elements(nth(next.tensors, next.input).shape, 2, 0)));
  }
}

TEST_CASE("skip connections travel with the messages of every boundary on their way") {
  Job job = fp32(library_model("unet", 64));
  job.strategy.pp = 3;
  job.microbatches = 3;
  const Program p = job.lower();
  validate(p);
  double carried = 0;
  for_each_task(p, 0, [&](const Entry& e, const Body& body, const Task& task) {
    if (task.name != "send.activations" || e.microbatch != 0) return;
    for (const Operand& o : task.operands) carried += bytes_of(p, body, o, context_of(p, 0, e));
  });
  const ChunkPlacement& first = p.chunks[0];
  double expected = 0;
  const Network& n = job.workload.network;
  const BlockSpec& next = nth(n.blocks, first.last_layer);
  expected += 4.0 * static_cast<double>(elements(nth(next.tensors, next.input).shape, 1, 0));
  for (const BlockSpec& b : n.blocks)
    for (const TensorSpec& t : b.tensors)
      if (!t.from.empty() && find_skip(n, t.from).first < first.last_layer)
        expected += 4.0 * static_cast<double>(elements(t.shape, 1, 0));
  CHECK(carried == expected);
}

TEST_CASE("batch norm over all replicas adds two small all-reduces per layer") {
  Job job = fp32(network(R"({"name": "a", "layers": [{"op": "batch_norm"}]},)" + kHead));
  job.strategy.dp = 2;
  const auto moments = [&] {
    std::vector<double> bytes;
    const Program p = job.lower();
    for_each_task(p, 0, [&](const Entry& e, const Body& body, const Task& task) {
      if (task.name.find("batch_norm") != std::string::npos && std::holds_alternative<CollectiveTask>(task.kind))
        bytes.push_back(collective_bytes(p, body, task, context_of(p, 0, e)));
    });
    return bytes;
  };
  CHECK(moments().empty());
  job.workload.training.statistics = StatisticsScope::global;
  // Two numbers per channel, forward; the image needs no gradient, so backward has none.
  CHECK(moments() == std::vector<double>{4.0 * 2 * 4});
}

TEST_CASE("rows that a window needs of its neighbours") {
  const auto need = [](const WindowDim& w, std::int64_t in, std::int64_t out, int tiles) {
    const HaloNeed h = halo_of_input(w, in, out, tiles);
    CHECK(h.fits);
    return std::pair(h.before, h.after);
  };
  CHECK(need({3, 1, 1, 1}, 32, 32, 4) == std::pair<std::int64_t, std::int64_t>(1, 1));
  CHECK(need({5, 1, 2, 1}, 32, 32, 2) == std::pair<std::int64_t, std::int64_t>(2, 2));
  CHECK(need({3, 1, 2, 2}, 32, 32, 2) == std::pair<std::int64_t, std::int64_t>(2, 2));
  CHECK(need({1, 2, 0, 1}, 32, 16, 2) == std::pair<std::int64_t, std::int64_t>(0, 0));
  // Stride 2: output row o reads 2o - 1 to 2o + 1, so a tile needs one row before it and none behind.
  CHECK(need({3, 2, 1, 1}, 32, 16, 2) == std::pair<std::int64_t, std::int64_t>(1, 0));
  CHECK(need({2, 2, 0, 1}, 32, 16, 4) == std::pair<std::int64_t, std::int64_t>(0, 0));
  CHECK_FALSE(halo_of_input({7, 1, 3, 1}, 8, 8, 4).fits);  // Three rows of tiles that have two.
  CHECK_FALSE(halo_of_input({1, 1, 0, 1}, 5, 5, 4).fits);  // Slices of two: the last is empty.
  // Backward mirrors it: with stride 2 input row r was read by outputs r / 2 and, if odd, (r + 1) / 2.
  const HaloNeed back = halo_of_gradient({3, 2, 1, 1}, 32, 16, 2);
  CHECK(back.before == 0);
  CHECK(back.after == 1);
}

TEST_CASE("halos of one 3 x 3 convolution on 2 x 2 tiles, corners included") {
  const int channels = 4, batch = 3, side = 32;
  Job job = fp32(network(
      R"({"name": "a", "layers": [{"op": "conv2d", "name": "c", "out": 8, "kernel": 3, "padding": 1,
      "bias": false}]},)" +
          kHead,
      channels, side, side));
  job.strategy.tile_h = job.strategy.tile_w = 2;
  job.strategy.microbatch = batch;
  const Program p = job.lower();
  validate(p);
  // One row of 16, and one column of 16 and the corner that the row has brought.
  for (int rank = 0; rank < 4; ++rank) CHECK(halo_elements(p, rank, "c.halo") == batch * channels * (16 + 17));
  // The image needs no gradient: nothing goes back.
  for (int rank = 0; rank < 4; ++rank) CHECK(halo_elements(p, rank) == halo_elements(p, rank, "c.halo"));
}

TEST_CASE("inner tiles send on all sides") {
  Job job = fp32(network(
      R"({"name": "a", "layers": [{"op": "conv2d", "name": "c", "out": 4, "kernel": 5, "padding": 2,
      "bias": false}]},)" +
          kHead,
      1, 30, 30));
  job.strategy.tile_h = job.strategy.tile_w = 3;
  const Program p = job.lower();
  // Two rows up and down of 10; two columns left and right of 10 + 2 + 2.
  CHECK(halo_elements(p, 4) == 2 * 2 * 10 + 2 * 2 * 14);
  CHECK(halo_elements(p, 0) == 2 * 10 + 2 * 12);
}

TEST_CASE("backward exchanges the gradient, not the input again") {
  Job job =
      fp32(network(R"({"name": "a", "layers": [{"op": "conv2d", "name": "x", "out": 8, "kernel": 1, "bias": false},
                                                    {"op": "conv2d", "name": "c", "out": 16, "kernel": 3,
                                                    "padding": 1, "bias": false}]},)" +
                   kHead));
  job.strategy.tile_h = 2;
  const Program p = job.lower();
  CHECK(halo_elements(p, 0, "c.halo") == 8 * 32);
  CHECK(halo_elements(p, 0, "c.input_grad.halo") == 16 * 32);
  CHECK(halo_elements(p, 0) == (8 + 16) * 32);
}

TEST_CASE("tiles hold equal parts of the image and all of the parameters, whose gradients are summed") {
  Job job = fp32(library_model("unet", 256));
  job.strategy.dp = 2;
  const Program whole = job.lower();
  job.strategy.tile_h = job.strategy.tile_w = 2;
  const Program tiled = job.lower();
  validate(tiled);
  CHECK(reduced_bytes(tiled, 0) == reduced_bytes(whole, 0));
  CHECK(persistent_bytes(tiled, 0, MemoryCategory::weights) == persistent_bytes(whole, 0, MemoryCategory::weights));
  const auto activations = [](const Program& p) {
    return nth(peak_memory(p, Bytes{0}, Bytes{0}).at(0).by_category, MemoryCategory::activations).value();
  };
  CHECK(activations(tiled) < 0.3 * activations(whole));
  CHECK(activations(tiled) > 0.25 * activations(whole));
  CHECK(executed_matmul_flops(tiled).value() == executed_matmul_flops(whole).value());
}

TEST_CASE("DeepLab-v3+ in tiles: the image-level branch sees the whole image and spreads over each tile") {
  Job job = fp32(library_model("deeplab_v3_plus", 512));
  const Program whole = job.lower();
  job.strategy.tile_h = job.strategy.tile_w = 2;
  const Program tiled = job.lower();
  validate(tiled);
  // Every tile computes the branch of the pooled image, a convolution of 2048 to 256 channels and its normalisation,
  // whole.
  const double branch = 2048 * 256 + 2 * 256;
  CHECK(reduced_bytes(tiled, 0) == 4.0 * (static_cast<double>(job.workload.network.parameter_count()) - branch));
  CHECK(persistent_bytes(tiled, 0, MemoryCategory::weights) == persistent_bytes(whole, 0, MemoryCategory::weights));
  // Features of the pooled branch are gathered in forward, its gradient of one pixel is summed over the tiles in
  // backward.
  int gathers = 0, sums = 0;
  for_each_task(tiled, 0, [&](const Entry&, const Body&, const Task& task) {
    const auto* c = std::get_if<CollectiveTask>(&task.kind);
    if (c == nullptr) return;
    gathers += c->op == CollectiveOp::all_gather && task.name.starts_with("image_pool");
    sums += c->op == CollectiveOp::all_reduce && task.name == "image_spread.input_grad.all_reduce";
  });
  CHECK(gathers > 0);
  CHECK(sums == 1);
  // Every tile convolves the one pooled pixel: 2048 x 256 products a tile, three times over the step.
  CHECK(executed_matmul_flops(tiled).value() - executed_matmul_flops(whole).value() == 3 * 3.0 * 2 * 2048 * 256);
}

TEST_CASE("images whose tiles become too small are gathered, or refused where they grow again") {
  Job job = fp32(shipped("resnet50"));
  job.strategy.tile_h = 4;  // 7 rows in the last stage: slices of two.
  validate(job.lower());
  job.strategy.tile_h = 16;  // 14 rows in the third.
  const Program p = job.lower();
  int gathers = 0;
  for_each_task(p, 0, [&](const Entry&, const Body&, const Task& task) {
    const auto* c = std::get_if<CollectiveTask>(&task.kind);
    gathers += c != nullptr && c->op == CollectiveOp::all_gather;
  });
  CHECK(gathers > 0);
  Job small = fp32(library_model("unet", 64));
  small.strategy.tile_h = 8;
  CHECK(refusal_images(small).where == "strategy.tile_h");
}

TEST_CASE("tiles are refused where they mean nothing") {
  Job gpt(tiny_gpt());
  gpt.strategy.tile_w = 2;
  CHECK(std::string(refusal_images(gpt).what()).find("takes no images") != std::string::npos);
  Job zero = fp32(shipped("resnet50"));
  zero.strategy.tile_h = 2;
  zero.strategy.zero_stage = 1;
  CHECK(refusal_images(zero).where == "strategy.zero_stage");
  Job split = fp32(shipped("resnet50"));
  split.strategy.tp = 2;
  CHECK(refusal_images(split).where == "strategy.tp");
}
