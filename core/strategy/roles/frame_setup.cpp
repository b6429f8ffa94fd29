#include "core/strategy/roles/frame_setup.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/strategy/workload.hpp"

#include <algorithm>

namespace rehearse {

namespace {

/// Adds streams to a program, one after another.
struct Streams {
  Program& program;
  [[nodiscard]] StreamId add(const std::string& name, StreamRole role, AxisSet axes = {}) const {
    program.streams.push_back({name, role, axes});
    return static_cast<StreamId>(program.streams.size() - 1);
  }
};

constexpr AxisSet kReplicas{Axis::dp_replicate, Axis::dp_shard};

/// Whether some chunk's successor is on the stage before, not counting the way round from the last stage to the first.
bool runs_back(const StrategySettings& settings, const Schedule& schedule, int microbatches) {
  const PipelineShape shape{settings.pp, settings.virtual_stages, microbatches};
  return settings.pp > 1 && (schedule.copies() > 1 || schedule.stage_of(settings.pp, shape) == settings.pp - 1);
}

}  // namespace

std::vector<AxisExtent> mesh_order(const StrategySettings& s) {
  std::vector<AxisExtent> order;
  const auto add = [&](Axis axis, int extent) {
    if (std::none_of(order.begin(), order.end(), [axis](const AxisExtent& e) { return e.axis == axis; }))
      order.push_back({axis, extent});
  };
  // Halos are exchanged around every layer: tiles that have no place of their own are neighbours.
  std::vector<std::string> names;
  for (const char* tile : {"tile_h", "tile_w"})
    if (std::find(s.placement.begin(), s.placement.end(), tile) == s.placement.end()) names.emplace_back(tile);
  names.insert(names.end(), s.placement.begin(), s.placement.end());
  for (const char* rest : {"tp", "cp", "dp", "pp"}) names.emplace_back(rest);
  for (const std::string& name : names) {
    if (name == "tp") add(Axis::tp, s.tp);
    if (name == "cp") add(Axis::cp, s.cp);
    if (name == "pp") add(Axis::pp, s.pp);
    if (name == "tile_h") add(Axis::tile_h, s.tile_h);
    if (name == "tile_w") add(Axis::tile_w, s.tile_w);
    if (name == "dp" || name == "dp_shard") add(Axis::dp_shard, s.dp_shard);
    if (name == "dp" || name == "dp_replicate") add(Axis::dp_replicate, s.dp_replicate);
  }
  return order;
}

void make_streams(ProgramFrame& frame, const StrategySettings& settings, const Schedule& schedule, int microbatches) {
  const Streams streams{frame.program};
  const auto talks = [&](const std::string& name, AxisSet axes) {
    return streams.add(name, StreamRole::communication, axes);
  };
  frame.compute = streams.add("compute", StreamRole::compute);
  frame.tp = talks("tp", {Axis::tp});
  frame.cp = talks("cp", {Axis::cp});
  frame.ep = talks("ep", {Axis::ep});
  frame.dp = talks("dp", kReplicas);
  frame.send_next = talks("pp.send_next", {Axis::pp});
  frame.receive_prev = talks("pp.receive_prev", {Axis::pp});
  frame.send_prev = talks("pp.send_prev", {Axis::pp});
  frame.receive_next = talks("pp.receive_next", {Axis::pp});
  frame.blocking_messages = !settings.overlap.pp;
  frame.chunk_copies = schedule.copies();
  frame.copies = streams.add("copies", StreamRole::copy);
  frame.io = streams.add("io", StreamRole::storage);
  frame.host = streams.add("host", StreamRole::host);
  frame.copies_out = settings.offload == Offload::none ? frame.copies : streams.add("copies.out", StreamRole::copy_out);
  // Hybrid sharding: reductions between nodes do not hold up gathers within them.
  frame.dp_replicate =
      settings.fsdp.enabled && settings.dp_replicate > 1 ? talks("dp.replicate", {Axis::dp_replicate}) : frame.dp;
  if (settings.data_parallel == DataParallelism::parameter_server) frame.dp_replicate = talks("dp.receive", kReplicas);
  if (settings.tile_h * settings.tile_w > 1) frame.tile = talks("tile", {Axis::tile_h, Axis::tile_w});
  if (runs_back(settings, schedule, microbatches))
    frame.back = {true, talks("pp.gradients.send_next", {Axis::pp}), talks("pp.activations.send_prev", {Axis::pp}),
                  talks("pp.gradients.receive_prev", {Axis::pp}), talks("pp.activations.receive_next", {Axis::pp})};
}

void set_types(ProgramFrame& frame, const Workload& workload) {
  switch (workload.training.precision) {
    case Precision::fp32:
      frame.activation_dtype = frame.arithmetic_dtype = DType::fp32;
      frame.mixed = false;
      break;
    case Precision::tf32:
      frame.activation_dtype = DType::fp32;
      frame.arithmetic_dtype = DType::tf32;
      frame.mixed = false;
      break;
    case Precision::bf16: frame.mixed = false; break;
    case Precision::bf16_mixed: break;
    case Precision::fp16_mixed: frame.activation_dtype = frame.arithmetic_dtype = DType::fp16; break;
    case Precision::fp8_mixed:
      frame.fp8 = workload.training.fp8;
      if (frame.fp8->recipe == Fp8Recipe::mxfp8) frame.narrow_arithmetic = DType::mxfp8;
      break;
    // NVFP4 scales blocks within a scale of the tensor: a pass finds its largest value.
    case Precision::fp4_mixed:
      frame.fp8 = workload.training.fp8;
      frame.fp8->recipe = Fp8Recipe::tensorwise;
      frame.narrow = frame.narrow_arithmetic = DType::fp4;
      break;
  }
  frame.samples_first = workload.kernels.samples_first;
  frame.gradient_dtype = workload.training.gradient_dtype == GradientDtype::fp32 ? DType::fp32 : frame.activation_dtype;
}

}  // namespace rehearse
