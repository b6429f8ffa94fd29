#include "core/price/calibration/device_profile.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.hpp"
#include "core/program/body.hpp"

namespace rehearse {

namespace {

bool is_real(DType t) { return t != DType::int64 && t != DType::int32 && t != DType::uint8; }

std::set<int> measured_ranks(const DeviceProfile& p) {
  std::set<int> out;
  for (const auto& s : p.settings) out.insert(s.ranks);
  return out;
}

void check_ranks(const DeviceProfile& p, int ranks) {
  if (const auto known = measured_ranks(p); !known.contains(ranks))
    throw Error(ErrorKind::usage,
                fmt::format("{} ranks on one machine, of which {} were measured", ranks, fmt::join(known, ", ")),
                p.origin, fmt::format("rehearse calibrate --device {} --ranks {} -o FILE", p.kind, ranks));
}

/// Operators that were not measured are priced by it.
BytesPerSecond copy_rate(const DeviceProfile& p, int ranks) {
  BytesPerSecond best{0};
  for (const auto& s : p.settings)
    if (s.ranks == ranks && s.copy_rate) best = max(best, *s.copy_rate);
  if (best > BytesPerSecond{0}) return best;
  throw Error(ErrorKind::usage,
              fmt::format("no copy_rate was measured with {} rank{} at work", ranks, ranks == 1 ? "" : "s"), p.origin,
              fmt::format("rehearse calibrate --device {} --ranks {} -o FILE", p.kind, ranks));
}

}  // namespace

const DeviceProfile::Setting* DeviceProfile::find(int ranks, DType arithmetic) const {
  for (const Setting& s : settings)
    if (s.ranks == ranks && s.arithmetic == arithmetic) return &s;
  return nullptr;
}

int DeviceProfile::most_ranks() const {
  int most = 1;
  for (const Setting& s : settings) most = std::max(most, s.ranks);
  return most;
}

FlopsPerSecond DeviceProfile::best_rate() const {
  FlopsPerSecond best{1e9};
  for (const Setting& s : settings)
    for (const auto& [what, op] : s.operators)
      if (op.axes == std::vector<std::string>{"m", "n", "k"})
        for (const Row& r : op.rows) best = max(best, Flops{2 * r.size[0] * r.size[1] * r.size[2]} / r.time);
  return best;
}

Program with_real_type(Program program, DType type) {
  for (Tensor& t : program.tensors)
    if (is_real(t.dtype)) t.dtype = type;
  for (Body& body : program.bodies)
    for (const auto v : body.graph.vertices())
      if (auto* c = std::get_if<ComputeTask>(&body.graph[v].kind)) c->arithmetic = c->accumulate = type;
  return program;
}

Cluster profile_cluster(const DeviceProfile& profile, int ranks, const NetworkSpec& network) {
  check_ranks(profile, ranks);
  BytesPerSecond fastest{1e9};
  for (const auto& c : profile.collectives)
    for (const auto& [bytes, time] : c.rows) fastest = max(fastest, bytes / time);
  constexpr double kNeverLimits = 64;  // The link stands for memory: times come from the table of collectives.
  auto gpu = std::make_shared<GpuSpec>();
  gpu->id = profile.kind + "_rank";
  gpu->name = ranks == 1 ? profile.name : fmt::format("{}, one of {} ranks", profile.name, ranks);
  gpu->generation = profile.kind;
  gpu->device = profile.kind == "cpu" ? GpuSpec::Device::cpu : GpuSpec::Device::gpu;
  gpu->memory = gpu->usable_memory = profile.memory * (1.0 / ranks);
  gpu->memory_bandwidth = copy_rate(profile, ranks);
  for (const DType t : {DType::fp64, DType::fp32, DType::tf32, DType::bf16, DType::fp16})
    gpu->peak_dense[t] = profile.best_rate();
  gpu->sm_count = std::max(1, profile.cores / ranks);
  gpu->pcie = {4, 16, fastest * kNeverLimits};
  auto machine = std::make_shared<MachineSpec>();
  machine->id = machine->name = "this machine";
  machine->gpu = gpu->id;
  machine->gpus = ranks;
  machine->cpu_model = profile.name;
  machine->cpu_vendor = "intel";  // NCCL's constants are not used: collectives are measured.
  machine->nics = 0;
  for (int r = 0; r < ranks; ++r)
    machine->vertices.push_back({MachineSpec::VertexKind::gpu, fmt::format("GPU{}", r), r});
  machine->vertices.push_back({MachineSpec::VertexKind::cpu, "CPU0", 0});
  for (int r = 0; r < ranks; ++r)
    machine->links.push_back(
        {r, ranks, MachineSpec::LinkKind::pcie, 1, fastest * kNeverLimits, fastest * kNeverLimits, Seconds{0}});
  return {fmt::format("this machine: {} rank{} on {}", ranks, ranks == 1 ? "" : "s", profile.name),
          {{machine, gpu, 1}},
          network};
}

MeasuredKernels::MeasuredKernels(const DeviceProfile& profile, int ranks) {
  check_ranks(profile, ranks);
  for (const auto& s : profile.settings) {
    if (s.ranks != ranks) continue;
    dispatch_ = max(dispatch_, s.dispatch);
    taken_ = std::max(taken_, s.taken_by_communication);
    for (const auto& [name, op] : s.operators) {
      std::vector<LogGrid::Point> points;
      for (const auto& r : op.rows) points.push_back({r.size, r.time.value()});
      grids_.emplace(std::pair(s.arithmetic, name), LogGrid(op.axes.size(), points));
    }
  }
}

std::optional<Seconds> MeasuredKernels::time(const std::vector<SizedOperation>& operations, DType arithmetic) const {
  Seconds out;
  for (const SizedOperation& o : operations) {
    const auto at = grids_.find({arithmetic, o.name});
    if (at == grids_.end() || at->second.axes() != o.size.size()) return std::nullopt;
    out += Seconds{at->second(o.size)} * o.repeats;
  }
  return out;
}

}  // namespace rehearse
