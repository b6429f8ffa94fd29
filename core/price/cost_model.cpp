#include "core/price/cost_model.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/base/stop.hpp"
#include "core/config/settings/input.hpp"
#include "core/config/settings/kernels.hpp"
#include "core/hardware/collective_constants.hpp"
#include "core/price/body_play.hpp"
#include "core/price/calibration/device_profile.hpp"
#include "core/price/host_copies.hpp"
#include "core/price/kernels/task_kernel.hpp"
#include "core/program/body.hpp"

namespace rehearse {

namespace {

/// Calibration group of updates on CPU cores, and its constant: bytes per second that one socket moves.
constexpr const char* kHostUpdate = "optimizer_on_cpu";
constexpr const char* kHostUpdateRate = "bytes_per_s_per_socket";

/// What the code that launches takes for something, of which captured graphs leave a tenth: the largest of the
/// cluster's GPUs.
Seconds of_host(const char* constant, const CostModel::Profiles& profiles, bool graphs) {
  Seconds out;
  for (const auto& [gpu, profile] : profiles)
    out = max(out, Seconds{profile.value_or("launch", constant, 0)} * (graphs ? 0.1 : 1.0));
  return out;
}

CollectiveModel::Options with_skew(CollectiveModel::Options options, const CostModel::Profiles& profiles, bool graphs) {
  options.skew = max(options.skew, of_host("collective_s", profiles, graphs));
  return options;
}

}  // namespace

double overlap_rate(double sm_sensitivity, double hbm_sensitivity, const Interference& load) {
  const double s = std::min(load.sm_share, 0.95), h = std::min(load.hbm_share, 0.95);
  return 1.0 / (1.0 + sm_sensitivity * s / (1.0 - s) + hbm_sensitivity * h / (1.0 - h));
}

TimeCategory category_of_stream(const Program& program, StreamId stream) {
  const Stream& s = program.streams.at(static_cast<std::size_t>(stream));
  if (s.role == StreamRole::storage || s.role == StreamRole::host) return TimeCategory::input;
  if (s.role != StreamRole::communication) return TimeCategory::exposed_copy;
  if (s.axes.contains(Axis::tp)) return TimeCategory::exposed_tp;
  if (s.axes.contains(Axis::cp)) return TimeCategory::exposed_cp;
  if (s.axes.contains(Axis::ep)) return TimeCategory::exposed_ep;
  if (s.axes.contains(Axis::dp_shard) || s.axes.contains(Axis::dp_replicate)) return TimeCategory::exposed_dp;
  if (s.axes.contains(Axis::pp)) return TimeCategory::exposed_pp;
  if (s.axes.contains(Axis::tile_h) || s.axes.contains(Axis::tile_w)) return TimeCategory::exposed_tile;
  return TimeCategory::exposed_copy;
}

namespace {

/// Whether a copy to the device runs beside others that leave it.
bool beside_copies_out(const Program& p, const Task& task, const Body& body) {
  const auto in_device = [&](const Operand& o) {
    return nth(p.tensors, nth(body.formals, o.formal).like).space == MemorySpace::device;
  };
  const bool to_device = std::any_of(task.operands.begin(), task.operands.end(),
                                     [&](const Operand& o) { return o.access != Access::read && in_device(o); });
  return to_device && std::any_of(p.streams.begin(), p.streams.end(),
                                  [](const Stream& s) { return s.role == StreamRole::copy_out; });
}

/// Experts of a product over rows whose numbers the device alone knows until the host asks; 0 for other tasks.
double counted_experts(const Program& p, const Task& task, const ExprContext& at) {
  const auto* c = std::get_if<ComputeTask>(&task.kind);
  const bool counted = c != nullptr && c->op == ComputeOp::grouped_matmul && c->group_sizes >= 0;
  return counted ? static_cast<double>(p.exprs.evaluate(c->dims[0], at)) : 0;
}

/// Whether no code of the model stands before a launch: messages, and what a library cuts an operation into.
bool in_another_call(const Task& task) {
  if (const auto* c = std::get_if<CollectiveTask>(&task.kind)) return c->op == CollectiveOp::send_recv;
  const auto* c = std::get_if<ComputeTask>(&task.kind);
  return c != nullptr && c->kernels == 0;
}

}  // namespace

struct CostModel::Impl {
  const Cluster* cluster;
  HostPaths host_paths;
  Options options;
  CollectiveModel collectives;
  std::map<std::string, KernelModel> kernels;
  std::map<std::string, BytesPerSecond> host_updates;  ///< Per socket, by GPU id; 0 where the profile states none.
  std::optional<MeasuredKernels> measured;
  Seconds message_wait;

  Impl(const Cluster& c, const Profiles& profiles, const Options& o)
      : cluster(&c), host_paths(c), options(o), collectives(c, with_skew(o.collectives, profiles, o.cuda_graphs)) {
    for (const Cluster::Part& part : c.parts()) {
      const auto at = profiles.find(part.gpu->id);
      if (at == profiles.end()) throw Error(ErrorKind::usage, fmt::format("no calibration for GPU '{}'", part.gpu->id));
      kernels.try_emplace(part.gpu->id, *part.gpu, at->second);
      host_updates[part.gpu->id] = BytesPerSecond{at->second.value_or(kHostUpdate, kHostUpdateRate, 0)};
    }
    if (options.profile) measured.emplace(*options.profile, c.device_count());
    message_wait = of_host("message_s", profiles, o.cuda_graphs);
  }

  [[nodiscard]] const KernelModel& model(const Program& p, int rank) const {
    return kernels.at(cluster->gpu(nth(p.device_of_rank, rank)).id);
  }
  /// What captured graphs leave of the CPU's work.
  [[nodiscard]] double host_share() const { return options.cuda_graphs ? 0.1 : 1.0; }
  [[nodiscard]] BytesPerSecond pcie_rate(DeviceId d) const { return cluster->gpu(d).pcie.per_direction * kCopyOfRaw; }
  [[nodiscard]] int gpus_beside(DeviceId d) const { return std::max(1, cluster->machine(cluster->node_of(d)).gpus); }
  /// The GPUs of a node share the memory of its sockets.
  [[nodiscard]] BytesPerSecond host_rate(DeviceId d) const {
    const BytesPerSecond socket = host_updates.at(cluster->gpu(d).id);
    if (!(socket > BytesPerSecond{0}))
      throw Error(ErrorKind::usage,
                  fmt::format("no rate of updates on CPU cores ({}.{})", kHostUpdate, kHostUpdateRate),
                  "calibration profile of " + cluster->gpu(d).id);
    return socket * (static_cast<double>(std::max(1, cluster->machine(cluster->node_of(d)).sockets)) / gpus_beside(d));
  }
  [[nodiscard]] PricedTask compute(const Program& p, const Task& task, const Body& body, const ComputeTask& c, int rank,
                                   const ExprContext& at) const;
  [[nodiscard]] Seconds copies_of_whole(const Program& p, const Body& body, int rank, const ExprContext& at) const;
  [[nodiscard]] Seconds copy_of_whole(Bytes read, Bytes written, DeviceId d) const;
};

/// Where parameters and gradients are whole for a moment only, they come out of the buffer that a gather filled and go
/// into the one that a scatter empties (torch.distributed.fsdp, fully_shard: foreach_all_gather_copy_out,
/// foreach_reduce_scatter_copy_in): a pass over each on the compute stream. Gradients arrive there in 16 bits. A
/// profile of this machine has its own packing in its collectives.
Seconds CostModel::Impl::copies_of_whole(const Program& p, const Body& body, int rank, const ExprContext& at) const {
  constexpr double kArriving = 2;
  std::set<int> seen;
  double read = 0, written = 0;
  for (const auto v : body.graph.vertices()) {
    if (!std::holds_alternative<ComputeTask>(body.graph[v].kind)) continue;
    for (const Operand& o : body.graph[v].operands) {
      const Tensor& t = nth(p.tensors, nth(body.formals, o.formal).like);
      const bool whole_for_a_moment = t.lifetime == Lifetime::step && t.category == MemoryCategory::communication;
      if (!whole_for_a_moment || !seen.insert(o.formal).second) continue;
      const double bytes = p.local_bytes(t, at);
      read += o.access == Access::read ? bytes : bytes / size_of(t.dtype) * kArriving;
      written += bytes;
    }
  }
  return seen.empty() ? Seconds{} : copy_of_whole(Bytes{read}, Bytes{written}, nth(p.device_of_rank, rank));
}

Seconds CostModel::Impl::copy_of_whole(Bytes read, Bytes written, DeviceId d) const {
  if (measured || options.task_times) return {};
  return kernels.at(cluster->gpu(d).id).price(make_memory_bound(KernelClass::copy, read, written, DType::bf16, 1)).time;
}

PricedTask CostModel::Impl::compute(const Program& p, const Task& task, const Body& body, const ComputeTask& c,
                                    int rank, const ExprContext& at) const {
  if (options.task_times) {
    if (const auto known = options.task_times->find(task.name); known != options.task_times->end()) {
      PricedTask out;
      out.time = known->second.time;
      out.category = known->second.category;
      return out;
    }
  }
  if (p.role_of(task.stream) == StreamRole::host) {
    const TaskTraffic t = traffic_of(p, task, body, at);
    PricedTask out;
    out.time = out.floor = Bytes{t.read + t.written} / host_rate(nth(p.device_of_rank, rank));
    out.category = category_of(p, c, task.phase);
    return out;
  }
  if (measured)
    if (const auto time = measured->time(sized_operations(p, task, body, at), c.arithmetic)) {
      // Cores do kernels, dispatch and communication: nothing hides a launch, and whatever runs beside takes from any
      // kernel.
      return {*time + measured->dispatch(), Seconds{0}, category_of(p, c, task.phase), 1, 0, 1};
    }
  Kernel kernel = kernel_of(p, task, body, c, at);
  kernel.one_by_one = kernel.cls == KernelClass::grouped_gemm && !options.fused_experts;
  const KernelModel& m = model(p, rank);
  const KernelTime t = m.price(kernel);
  PricedTask out;
  out.time = t.time;
  out.floor = m.floor(kernel);
  out.category = category_of(p, c, task.phase);
  out.sm_sensitivity = t.sm_sensitivity;
  out.hbm_sensitivity = t.hbm_sensitivity;
  out.kernels = kernel.launches;
  // The device waits for a host that launches piece after piece.
  if (c.op == ComputeOp::copy && c.kernels > 1) out.time += m.launch_overhead() * c.kernels;
  return out;
}

CostModel::CostModel(const Cluster& cluster, const Profiles& profiles, const Options& options)
    : impl_(std::make_unique<Impl>(cluster, profiles, options)) {}
CostModel::~CostModel() = default;
CostModel::CostModel(CostModel&&) noexcept = default;

CostModel::Options CostModel::Options::of(const KernelSettings& kernels) {
  Options out;
  out.cuda_graphs = kernels.cuda_graphs;
  out.launch_blocking = kernels.launch_blocking;
  out.fused_experts = kernels.fused_experts;
  return out;
}

const Cluster& CostModel::cluster() const { return *impl_->cluster; }
const CostModel::Options& CostModel::options() const { return impl_->options; }
const CollectiveModel& CostModel::collectives() const { return impl_->collectives; }
Seconds CostModel::message_wait() const { return impl_->message_wait; }
Seconds CostModel::copy_of_whole(Bytes read, Bytes written, DeviceId device) const {
  return impl_->copy_of_whole(read, written, device);
}
Seconds CostModel::update_on_host(Bytes moved, DeviceId device) const {
  return impl_->options.task_times ? Seconds{} : moved / impl_->host_rate(device);
}

namespace {

/// The larger of the messages to the two neighbours.
Bytes halo_bytes(const Program& p, const CollectiveTask& c, DType dtype, ExprContext at) {
  const AxisSet axes = nth(p.groups, c.group).axes;
  std::int64_t most = 0;
  for (int a = 0; a < kAxisCount; ++a)
    if (axes.contains(static_cast<Axis>(a)))
      for (at.peer = 0; at.peer < nth(at.extent, a); ++at.peer)
        most = std::max({most, p.exprs.evaluate(c.count_to_peer, at), p.exprs.evaluate(c.count_from_peer, at)});
  return Bytes{static_cast<double>(most) * size_of(dtype)};
}

/// Ranks on a node that load samples, and those that are handed what another loaded.
struct Loaders {
  int readers = 0, fed = 0;
};

/// Of one rank.
Loaders loaders_of(const Program& program, const Role& role) {
  Loaders out;
  for (const Entry& e : role.step) {
    const Body& body = nth(program.bodies, e.body);
    for (const auto v : body.graph.vertices()) {
      const TaskKind& kind = body.graph[v].kind;
      if (std::holds_alternative<InputTask>(kind)) out.readers = 1;
      if (const auto* m = std::get_if<P2pTask>(&kind); m != nullptr && m->direction == P2pTask::Direction::receive)
        if (nth(program.edges, m->edge).kind == MessageKind::inputs) out.fed = 1;
    }
  }
  return out;
}

Loaders loaders_beside(const Program& program, const Cluster& cluster, int rank) {
  std::vector<Loaders> roles;
  for (const Role& role : program.roles) roles.push_back(loaders_of(program, role));
  const NodeId node = cluster.node_of(nth(program.device_of_rank, rank));
  Loaders out;
  for (std::size_t r = 0; r < program.device_of_rank.size(); ++r) {
    if (cluster.node_of(program.device_of_rank[r]) != node) continue;
    const Loaders& role = nth(roles, program.role_of_rank[r]);
    out.readers += role.readers;
    out.fed += role.fed;
  }
  return {std::max(1, out.readers), out.fed};
}

}  // namespace

Bytes CostModel::collective_bytes(const Program& program, const Task& task, const Body& body, const ExprContext& at) {
  const auto& c = std::get<CollectiveTask>(task.kind);
  if (c.op == CollectiveOp::halo_exchange)
    return halo_bytes(program, c, nth(program.tensors, nth(body.formals, task.operands.front().formal).like).dtype, at);
  // NCCL's formulas take the large side: what is written for gathers, what is read for everything else. A rank that
  // takes more of an uneven exchange than it gives is as slow as what it takes.
  double in = 0, out = 0;
  for (const Operand& o : task.operands)
    (o.access == Access::write ? out : in) +=
        program.local_bytes(nth(program.tensors, nth(body.formals, o.formal).like), at);
  if (c.op == CollectiveOp::all_to_all) return Bytes{std::max(in, out)};
  return Bytes{c.op == CollectiveOp::all_gather ? out : in};
}

PricedTask CostModel::price(const Program& program, const Task& task, const Body& body, int rank,
                            const ExprContext& at) const {
  if (const auto* c = std::get_if<ComputeTask>(&task.kind)) {
    PricedTask out = impl_->compute(program, task, body, *c, rank, at);
    if (const auto slow = impl_->options.slowdown.find(rank); slow != impl_->options.slowdown.end())
      out.time *= slow->second;
    return out;
  }
  PricedTask out;
  out.category = category_of_stream(program, task.stream);
  const auto device = [&](int r) { return nth(program.device_of_rank, r); };
  if (const auto* c = std::get_if<CollectiveTask>(&task.kind)) {
    std::vector<DeviceId> devices;
    for (const int r : program.mesh.members(nth(program.groups, c->group), rank, program.exprs))
      devices.push_back(device(r));
    if (devices.size() > 1)
      out.time = impl_->collectives
                     .choose(c->op, collective_bytes(program, task, body, at), devices,
                             {.packed = c->packed, .direct = c->direct})
                     .time;
    out.kernels = 1;
  } else if (const auto* in = std::get_if<InputTask>(&task.kind)) {
    const InputSettings& input = impl_->options.input;
    const Bytes bytes = input.sample * static_cast<double>(program.exprs.evaluate(in->samples, at));
    if (input.storage > BytesPerSecond{0})
      out.time = bytes / (input.storage * (1.0 / loaders_beside(program, *impl_->cluster, rank).readers));
    if (input.gpudirect_storage) out.time = max(out.time, bytes / impl_->pcie_rate(device(rank)));
  } else if (std::holds_alternative<HostTask>(task.kind)) {
    const InputSettings& input = impl_->options.input;
    double samples = 0;
    for (const Operand& o : task.operands)
      samples =
          static_cast<double>(program.local_extent(nth(program.tensors, nth(body.formals, o.formal).like), 0, at));
    if (input.decode_per_core > 0) {
      const Loaders beside = loaders_beside(program, *impl_->cluster, rank);
      const double loaders = 1 + static_cast<double>(beside.fed) / beside.readers;
      out.time = Seconds{samples / (input.decode_per_core * input.workers * loaders)};
    }
  } else if (std::holds_alternative<CopyTask>(task.kind)) {
    const TaskTraffic t = traffic_of(program, task, body, at);
    out.time = kCopyCall + Bytes{t.written} / copy_rate(*impl_->cluster, impl_->host_paths, device(rank),
                                                        beside_copies_out(program, task, body));
  }
  return out;
}

Seconds CostModel::launch_overhead(const Program& program, int rank) const {
  if (impl_->measured) return {};  // In the time of each kernel.
  return impl_->model(program, rank).launch_overhead() * impl_->host_share();
}

PricedBody CostModel::price_body(const Program& program, const Body& body, int rank, const ExprContext& at,
                                 int launches) const {
  check_stop();
  std::vector<BodyTask> tasks;
  Seconds host{0};
  const Seconds launch = launch_overhead(program, rank);
  const Seconds operation =
      impl_->measured ? Seconds{} : impl_->model(program, rank).operation_overhead() * impl_->host_share();
  // Graphs end where the host must know how many rows there are: launching expert by expert stays with it.
  const bool waits = !impl_->measured && !impl_->options.fused_experts;
  const Seconds counted =
      waits ? impl_->model(program, rank).counted_product_overhead() * impl_->host_share() : Seconds{};
  const Seconds expert = waits ? impl_->model(program, rank).expert_product_overhead() : Seconds{};
  const Seconds divided = impl_->measured ? Seconds{} : impl_->model(program, rank).divided_update_overhead();
  bool computes = false;
  for (const auto v : body.graph.vertices()) {
    const Task& task = body.graph[v];
    BodyTask t;
    t.stream = task.stream;
    for (const std::size_t before : body.graph.before(v)) t.after.push_back(static_cast<int>(before));
    if (program.exprs.evaluate(task.predicate, at) != 0) {
      t.priced = price(program, task, body, rank, at);
      t.computes = std::holds_alternative<ComputeTask>(task.kind);
      computes |= t.computes;
      host += (in_another_call(task) ? launch : operation) * t.priced.kernels;
      if (const auto* c = std::get_if<ComputeTask>(&task.kind);
          c != nullptr && c->op == ComputeOp::optimizer && c->kernels > 1)
        host += divided * c->kernels;
      if (const double experts = counted_experts(program, task, at); experts > 0) host += counted + expert * experts;
      if (const auto* c = std::get_if<CollectiveTask>(&task.kind); c != nullptr && t.priced.time > Seconds{0}) {
        std::vector<DeviceId> devices;
        for (const int r : program.mesh.members(nth(program.groups, c->group), rank, program.exprs))
          devices.push_back(nth(program.device_of_rank, r));
        const Bytes bytes = collective_bytes(program, task, body, at);
        t.load = interference(
            c->op, impl_->collectives.choose(c->op, bytes, devices, {.packed = c->packed, .direct = c->direct}), bytes,
            static_cast<int>(devices.size()), nth(program.device_of_rank, rank));
      }
    }
    tasks.push_back(std::move(t));
  }
  PricedBody out = play_body(tasks);
  const Seconds copies = impl_->copies_of_whole(program, body, rank, at);
  out.duration += copies;
  out.breakdown[TimeCategory::memory_bound] += copies;
  out.host = launches == kOncePerKernel ? host : launch * launches;
  // Threads of one process launch in turn.
  if (!program.process_of_rank.empty())
    out.host *= static_cast<double>(
        std::count(program.process_of_rank.begin(), program.process_of_rank.end(), nth(program.process_of_rank, rank)));
  if (computes) impl_->options.launch_blocking ? add_host_time(out) : apply_launch_floor(out);
  return out;
}

Interference CostModel::interference(CollectiveOp op, const CollectiveChoice& choice, Bytes bytes, int ranks,
                                     DeviceId device) const {
  const GpuSpec& gpu = impl_->cluster->gpu(device);
  Interference out;
  if (choice.time <= Seconds{0}) return out;
  if (impl_->measured) return {impl_->measured->taken_by_communication(), 0};
  const CollectiveConstants constants = gpu.collectives ? *gpu.collectives : CollectiveConstants{};
  out.sm_share = gpu.sm_count > 0 ? constants.sms_per_channel * choice.channels / gpu.sm_count : 0.0;
  const bool reducing = op == CollectiveOp::reduce_scatter || op == CollectiveOp::reduce;
  const double touches = op == CollectiveOp::all_reduce ? constants.touches_all_reduce
                         : reducing                     ? constants.touches_reducing
                                                        : constants.touches_moving;
  const double wire = bytes.value() * bus_factor(op, ranks) / choice.time.value();
  out.hbm_share = std::min(0.9, touches * wire / gpu.memory_bandwidth.value());
  return out;
}

namespace {

bool communicates(const Program& program) {
  const auto moves = [](const Task& t) {
    return std::holds_alternative<CollectiveTask>(t.kind) || std::holds_alternative<P2pTask>(t.kind);
  };
  for (const Body& body : program.bodies)
    for (const auto v : body.graph.vertices())
      if (moves(body.graph[v])) return true;
  return false;
}

bool updates_on_host(const Program& program) {
  for (const Body& body : program.bodies)
    for (const auto v : body.graph.vertices())
      if (std::holds_alternative<ComputeTask>(body.graph[v].kind) &&
          program.role_of(body.graph[v].stream) == StreamRole::host)
        return true;
  return false;
}

/// What a calibrated device measured, and the operators that it did not.
std::vector<EvidenceItem> measured_evidence(const Program& program, const DeviceProfile& profile, int ranks) {
  std::set<std::string, std::less<>> missing;
  for (const Body& body : program.bodies) {
    for (const auto v : body.graph.vertices()) {
      const auto* c = std::get_if<ComputeTask>(&body.graph[v].kind);
      const auto* setting = c != nullptr ? profile.find(ranks, c->arithmetic) : nullptr;
      if (c != nullptr && (setting == nullptr || !setting->operators.contains(measured_name(*c))))
        missing.insert(measured_name(*c));
    }
  }
  const Source source =
      profile.sources.empty() ? Source{"", profile.origin, Evidence::measured_here} : profile.sources.front();
  std::vector<EvidenceItem> out{{"operators and collectives", source.evidence, source.text, {}}};
  if (!missing.empty())
    out.push_back({fmt::format("not calibrated: {}", fmt::join(missing, ", ")),
                   Evidence::estimate,
                   "the kernel model's fallback constants on the rates of this machine",
                   {}});
  return out;
}

}  // namespace

std::vector<EvidenceItem> CostModel::evidence(const Program& program) const {
  if (impl_->measured) return measured_evidence(program, *impl_->options.profile, impl_->cluster->device_count());
  auto used = calibration_groups(program);
  if (updates_on_host(program)) used.insert(kHostUpdate);
  std::vector<EvidenceItem> out;
  for (const auto& [id, model] : impl_->kernels) {
    for (EvidenceItem item : model.evidence()) {
      const auto flash = item.what.find("attention_");
      if (used.count(flash == std::string::npos ? item.what : item.what.substr(0, flash) + "attention_") == 0) continue;
      if (impl_->kernels.size() > 1) item.what += " of " + id;
      out.push_back(std::move(item));
    }
  }
  if (!communicates(program)) return out;
  for (const Cluster::Part& part : impl_->cluster->parts()) {
    const CollectiveConstants* m = part.gpu->collectives.get();
    if (m == nullptr || m->sources.empty()) continue;
    // The weaker of what its latencies and its bandwidths rest on.
    Source weaker = m->sources.front();
    weaker.evidence = Evidence::measured_here;
    for (const Source& s : m->sources)
      if ((s.key == "latency" || s.key == "bandwidth") && s.evidence >= weaker.evidence) weaker = s;
    out.push_back({fmt::format("collectives on {}", part.gpu->generation), weaker.evidence, weaker.text, {}});
  }
  return out;
}

}  // namespace rehearse
