#include "core/estimate/quick/quick_estimate.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/config/settings/training.hpp"
#include "core/estimate/estimate.hpp"
#include "core/estimate/quick/quick_step.hpp"
#include "core/estimate/quick/quick_tables.hpp"
#include "core/strategy/lower.hpp"
#include "core/strategy/workload.hpp"

namespace rehearse {

namespace {

std::int64_t bits_of(Bytes b) {
  std::int64_t out = 0;
  const double value = b.value();
  std::memcpy(&out, &value, sizeof out);
  return out;
}

/// Layers, with other blocks before and after them, each once, and nothing that goes past a block.
bool is_stack(const Network& net) {
  if (!net.sequences || net.uneven()) return false;
  for (std::size_t b = 0; b < net.blocks.size(); ++b) {
    const BlockSpec& block = net.blocks[b];
    if (!block.is_layer() && net.repeat[b] != 1) return false;
    if (std::any_of(block.tensors.begin(), block.tensors.end(), [](const TensorSpec& t) { return !t.from.empty(); }))
      return false;
  }
  return true;
}

int kinds_of_layers(const Network& net) {
  return static_cast<int>(
      std::count_if(net.blocks.begin(), net.blocks.end(), [](const auto& b) { return b.is_layer(); }));
}

/// So many of each kind.
Workload with_layers(Workload w, int layers) {
  Network& net = w.network;
  net.alternating = false;
  net.pattern.clear();
  for (std::size_t b = 0; b < net.blocks.size(); ++b)
    if (net.blocks[b].is_layer()) net.repeat[b] = layers;
  return w;
}

bool divides(int a, int b) { return a % b == 0 || b % a == 0; }

/// Whether a layer's passes depend on where it stands among those of its stage.
bool place_matters(const StrategySettings& s) {
  return s.recompute == Recompute::full && (s.recompute_layers > 1 || s.recompute_method == RecomputeMethod::block);
}

/// Whether a forward and a backward run interleaved.
bool pairs_passes(const Schedule& schedule, const StrategySettings& s) { return s.pp > 1 && schedule.pairs(); }
bool pairs_passes(const StrategySettings& s) { return pairs_passes(*schedules().at(s.schedule).value, s); }

/// Whether passes may have calls of their own between their blocks, and first and last ones others than the rest.
bool calls_in_passes(const StrategySettings& s) { return shards_in_passes(s) || s.grad_sync == GradientSync::every; }

}  // namespace

struct QuickEstimator::Impl {
  Impl(Workload base, const Cluster& c, const CostModel& m, const MemoryRule& r, int n, std::shared_ptr<QuickTables> t)
      : tables(t ? std::move(t) : std::make_shared<QuickTables>()),
        workload(std::move(base)),
        training(workload.training),
        one_layer(with_layers(workload, 1)),
        two_layers(with_layers(workload, kinds_of_layers(workload.network) > 1 ? 1 : 2)),
        cluster(c),
        cost(m),
        rule(r),
        steps(n),
        layers(workload.network.layers()),
        experts(workload.network.routing() != nullptr),
        one_kind(kinds_of_layers(workload.network) == 1),
        stack(is_stack(workload.network) && c.parts().size() == 1 && m.options().input.sample == Bytes{0} &&
              c.device_count() % c.node_count() == 0) {}

  /// Blocks, and the passes of chunks of them.
  struct Blocks {
    const QuickBlocks* of = nullptr;
    std::map<ChunkContent, ChunkPasses> passes;
    std::vector<std::vector<const ChunkPasses*>> chunks;  ///< By the layout's number and content.
    std::map<int, ChunkPairs> pairs;                      ///< By the layout's number.
  };

  std::shared_ptr<QuickTables> tables;
  Workload workload;
  TrainingSettings training;
  Workload one_layer, two_layers;
  const Cluster& cluster;
  const CostModel& cost;
  MemoryRule rule;
  int steps;
  int layers;  ///< Of `workload`, which set_layers() changes.
  const int own_layers = layers;
  bool experts, one_kind, stack;

  KnownNumbers<StrategySettings> rests;
  KnownNumbers<TrainingSettings> trainings;
  KnownNumbers<std::string> schedule_names;
  std::vector<signed char> schedule_known;         ///< By schedule: 2 with several chunks, 1 with one; -1 not asked.
  std::vector<std::tuple<int, int, bool>> groups;  ///< Size, stride, groups_alike.
  std::optional<bool> even_node;
  StrategySettings rest;
  /// Of null where the sibling cannot be lowered.
  std::unordered_map<TableKey, Blocks, HashOfTableKey> blocks;
  std::unordered_map<TableKey, MeshAnswers, HashOfTableKey> meshes;
  /// By layers, stages, chunks of each, and the settings beside.
  std::map<std::array<int, 4>, std::pair<int, ChunkLayout>> layouts;
  QuickStep step;

  QuickEstimate evaluate(const StrategySettings& s);
  std::optional<QuickEstimate> closed_form(const StrategySettings& s);
  QuickEstimate lowered(const StrategySettings& s);
  [[nodiscard]] bool few_tell(const StrategySettings& s);
  [[nodiscard]] bool groups_alike(int size, int stride);
  [[nodiscard]] bool pairs_alike();
  void check(const StrategySettings& s, int microbatches) const;
  bool find(const StrategySettings& s, int microbatches, QuickParts& out);
  void set_layers(int count) {
    if (count == layers) return;
    workload = with_layers(std::move(workload), count);
    layers = count;
  }
  int rest_of(const StrategySettings& s);
  int training_of();
  int schedule_of(const StrategySettings& s) { return schedule_names.of(s.schedule, tables->schedules); }
  Blocks& blocks_of(const StrategySettings& s, bool pairs, int microbatches, int rest_number, int training_number);
  [[nodiscard]] const std::pair<int, ChunkLayout>& layout_of(const StrategySettings& s, int rest_number);
  static const std::vector<const ChunkPasses*>& chunks_of(Blocks& of, int number, const ChunkLayout& layout);
  std::unique_ptr<QuickBlocks> make_blocks(const StrategySettings& s, int replicas, int shown, bool in_passes);
  std::unique_ptr<QuickBlocks> make_all_blocks(const StrategySettings& s, int shown, bool in_passes);
  MeshAnswers& mesh_of(const StrategySettings& s, int microbatches, int rest_number, int training_number,
                       const ChunkLayout& layout);
};

QuickEstimate QuickEstimator::Impl::lowered(const StrategySettings& s) {
  const Program program = lower(workload, s, cluster);
  const Estimate e = estimate(program, cost, s, steps);
  QuickEstimate out{e.step_time, e.breakdown, e.slowest_role, {}, {}, {}, false};
  double fullest = -1;
  for (RoleMemory& memory : rule.peaks(program)) {
    Bytes capacity = cluster.gpu(nth(program.device_of_rank, memory.rank)).usable_memory;
    for (std::size_t r = 0; r < program.role_of_rank.size() && cluster.parts().size() > 1; ++r)
      if (program.role_of_rank[r] == memory.role)
        capacity = min(capacity, cluster.gpu(program.device_of_rank[r]).usable_memory);
    const Bytes needed = rule.needed(memory);
    if (needed / capacity <= fullest) continue;
    fullest = needed / capacity;
    out.needed = needed;
    out.capacity = capacity;
    out.memory = std::move(memory);
  }
  return out;
}

/// Whether tensor-parallel groups, and those that share sequences around them, are neighbours that fill nodes or parts
/// of nodes evenly: those of a sibling of the first few ranks then lie as all do.
bool QuickEstimator::Impl::few_tell(const StrategySettings& s) {
  const int node = cluster.device_count() / cluster.node_count();
  if (!divides(node, s.tp) || !divides(node, s.tp * s.cp)) return false;
  // Experts' groups take in replicas.
  if (experts && (!divides(node, s.tp * s.cp * s.dp) || !pairs_alike())) return false;
  bool tp = s.tp == 1, cp = s.cp == 1, all = true;
  for (const std::string& axis : s.placement) {
    if (axis == "tp")
      tp = true;
    else if (axis == "cp" && (s.cp == 1 || tp))
      cp = true;
    else if (axis != "ep")
      all = all && tp && cp && (!experts || axis != "pp" || &axis == &s.placement.back() || s.pp == 1);
  }
  return all && tp && cp && groups_alike(s.tp, 1) && groups_alike(s.cp, s.tp);
}

/// Whether all GPUs of a node have equal links to one another.
bool QuickEstimator::Impl::pairs_alike() {
  if (even_node) return *even_node;
  constexpr Bytes kSome{16e6};
  const int node = cluster.device_count() / cluster.node_count();
  even_node = true;
  for (int a = 0; a < node; ++a)
    for (int b = 0; b < node; ++b)
      if (a != b && cost.collectives().send(kSome, a, b).time != cost.collectives().send(kSome, 0, 1).time)
        even_node = false;
  return *even_node;
}

/// Whether groups of `size` devices so far apart cost the same wherever they lie in a node: not where GPUs have unequal
/// links to one another.
bool QuickEstimator::Impl::groups_alike(int size, int stride) {
  if (size == 1) return true;
  for (const auto& [s, t, alike] : groups)
    if (s == size && t == stride) return alike;
  constexpr Bytes kSome{16e6};
  const int span = size * stride, node = std::max(span, cluster.device_count() / cluster.node_count());
  bool alike = true;
  std::optional<std::pair<Seconds, Seconds>> first;
  for (int begin = 0; begin < node; begin += begin % span + 1 == stride ? span - stride + 1 : 1) {
    std::vector<DeviceId> group;
    for (int i = 0; i < size; ++i) group.push_back(begin + i * stride);
    const CollectiveModel& m = cost.collectives();
    const std::pair here{m.choose(CollectiveOp::all_reduce, kSome, group).time, m.send(kSome, group[0], group[1]).time};
    if (!first) first = here;
    alike = alike && here == *first;
  }
  groups.emplace_back(size, stride, alike);
  return alike;
}

/// What lower() refuses.
void QuickEstimator::Impl::check(const StrategySettings& s, int microbatches) const {
  check_strategies({workload, s, microbatches});
}

int QuickEstimator::Impl::rest_of(const StrategySettings& s) {
  rest = s;
  rest.dp = rest.dp_replicate = rest.dp_shard = rest.tp = rest.pp = rest.cp = rest.ep = rest.etp = rest.virtual_stages =
      1;
  rest.microbatch = 1;
  rest.schedule.clear();
  rest.sequence_parallel = rest.scatter_gather = false;
  rest.recompute = Recompute::none;
  rest.zero_stage = 0;
  rest.bucket = rest.first_bucket = Bytes{0};
  rest.overlap = {};
  return rests.of(rest, tables->rests);
}

int QuickEstimator::Impl::training_of() {
  TrainingSettings t = workload.training;
  t.global_batch = 0;
  t.tokens = 0;
  return trainings.of(t, tables->trainings);
}

QuickEstimator::Impl::Blocks& QuickEstimator::Impl::blocks_of(const StrategySettings& s, bool pairs, int microbatches,
                                                              int rest_number, int training_number) {
  const bool in_passes = calls_in_passes(s);
  // As few replicas as divide what all of them divide.
  const int copies = in_passes && s.cp == 1 && (s.zero_stage >= 2 || s.dp_shard > 1) ? std::min(s.dp, 2) : 1;
  const bool few = few_tell(s);
  const int replicas = experts || !few ? s.dp : copies, shown = in_passes ? std::min(microbatches, 2) : 1;
  const TableKey key{s.tp,
                     s.cp,
                     s.ep,
                     s.etp,
                     replicas,
                     s.microbatch,
                     static_cast<int>(s.recompute),
                     s.sequence_parallel,
                     s.scatter_gather,
                     s.overlap.tp,
                     rest_number,
                     training_number,
                     in_passes ? 1 + s.zero_stage : 0,
                     shown,
                     in_passes && s.pp > 1,
                     few ? 0 : s.pp,
                     few ? 0 : s.dp_shard,
                     pairs ? 1 + schedule_of(s) : 0};
  const auto [at, fresh] = blocks.try_emplace(key);
  if (fresh)
    at->second.of = tables->blocks.get(key, [&] {
      return few             ? make_blocks(s, replicas, shown, in_passes)
             : pairs_alike() ? make_all_blocks(s, shown, in_passes)
                             : nullptr;
    });
  return at->second;
}

std::unique_ptr<QuickBlocks> QuickEstimator::Impl::make_blocks(const StrategySettings& s, int replicas, int shown,
                                                               bool in_passes) {
  StrategySettings small = s;
  // One stage where two do not fit: no messages then. Chunks that are the whole model have none either.
  small.pp = 2 * replicas * s.cp * s.tp <= cluster.device_count() && (s.pp > 1 || !in_passes) ? 2 : 1;
  small.virtual_stages = 1;
  small.layers_per_stage.clear();
  small.uneven_layers = true;
  if (!pairs_passes(s)) small.schedule = "1f1b";
  small.dp = small.dp_replicate = replicas;
  small.dp_shard = 1;
  if (s.fsdp.enabled) std::swap(small.dp_replicate, small.dp_shard);
  if (!in_passes) small.zero_stage = 0;
  small.overlap = {};
  small.overlap.tp = s.overlap.tp;
  Workload& w = small.pp > 1 ? two_layers : one_layer;
  w.training = workload.training;
  w.training.global_batch = s.microbatch * replicas * shown;
  try {
    return std::make_unique<QuickBlocks>(lower(w, small, replicas * s.cp * s.tp * small.pp), w.network, cost, false,
                                         pairs_passes(s));
  } catch (const Error&) {  // Full lowering says why, or copes.
    return nullptr;
  }
}

/// From a sibling of all ranks, with a layer of each kind on every stage.
std::unique_ptr<QuickBlocks> QuickEstimator::Impl::make_all_blocks(const StrategySettings& s, int shown,
                                                                   bool in_passes) {
  StrategySettings plain = s;
  plain.virtual_stages = 1;
  if (!pairs_passes(s)) plain.schedule = "1f1b";
  if (!in_passes) plain.zero_stage = 0;
  plain.overlap = {};
  plain.overlap.tp = s.overlap.tp;
  plain.layers_per_stage.assign(static_cast<std::size_t>(s.pp), kinds_of_layers(workload.network));
  Workload w = with_layers(one_layer, s.pp);
  for (int stage = 0; stage < s.pp; ++stage)
    for (std::size_t b = 0; b < w.network.blocks.size(); ++b)
      if (w.network.blocks[b].is_layer()) w.network.pattern.push_back(static_cast<int>(b));
  w.training = workload.training;
  w.training.global_batch = s.microbatch * s.dp * shown;
  try {
    return std::make_unique<QuickBlocks>(lower(w, plain, cluster), w.network, cost, true, pairs_passes(s));
  } catch (const Error&) {  // As above.
    return nullptr;
  }
}

MeshAnswers& QuickEstimator::Impl::mesh_of(const StrategySettings& s, int microbatches, int rest_number,
                                           int training_number, const ChunkLayout& layout) {
  const bool in_passes = calls_in_passes(s);
  // Layers that run again may gather twice in backward. Buckets end with chunks.
  const bool again = s.zero_stage >= 3 && s.recompute == Recompute::full;
  const int chunks = in_passes && !s.fsdp.enabled ? s.virtual_stages : 1;
  const bool own = in_passes && (chunks > 1 || s.pp == 1);
  const int shown = !in_passes ? 1 : std::min(microbatches, chunks == 1 ? 3 : s.pp > 2 ? s.pp : 2 * s.pp);
  const int overlap = (s.overlap.grad_reduce ? 1 : 0) + (s.overlap.param_gather ? 2 : 0);
  const TableKey key{s.tp,
                     s.cp,
                     s.ep,
                     s.etp,
                     s.pp,
                     s.dp,
                     s.dp_replicate,
                     s.dp_shard,
                     s.sequence_parallel,
                     s.zero_stage,
                     bits_of(s.bucket),
                     bits_of(s.first_bucket),
                     overlap,
                     rest_number,
                     training_number,
                     layers,
                     shown,
                     2 * chunks + (again ? 1 : 0),
                     own ? schedule_of(s) : -1,
                     layout.equal() ? 0 : s.virtual_stages};
  if (const auto known = meshes.find(key); known != meshes.end()) return known->second;
  StrategySettings plain = s;
  plain.microbatch = 1;
  plain.virtual_stages = chunks;
  plain.schedule = own && !pairs_passes(s) ? s.schedule : "1f1b";
  if (!again) plain.recompute = Recompute::none;
  plain.scatter_gather = false;
  plain.overlap.tp = false;
  plain.overlap.pp = true;
  const auto make = [&]() -> std::unique_ptr<QuickMesh> {
    Workload shown_to = workload;
    shown_to.training.global_batch = std::int64_t{s.dp} * shown;
    if (chunks == 1 && !layout.equal()) shown_to.network = layout.by_stage(workload.network, plain.layers_per_stage);
    try {
      return std::make_unique<QuickMesh>(lower(shown_to, plain, cluster), cluster, cost, rule, in_passes,
                                         layout.by_kind());
    } catch (const Error&) {  // As above.
      return nullptr;
    }
  };
  return meshes.emplace(key, MeshAnswers(tables->meshes.get(key, make))).first->second;
}

const std::pair<int, ChunkLayout>& QuickEstimator::Impl::layout_of(const StrategySettings& s, int rest_number) {
  const std::array key{layers, s.pp, s.virtual_stages, rest_number};
  const auto known = layouts.find(key);
  if (known != layouts.end()) return known->second;
  const auto number = static_cast<int>(layouts.size());
  return layouts.emplace(key, std::pair{number, ChunkLayout(workload.network, s)}).first->second;
}

const std::vector<const ChunkPasses*>& QuickEstimator::Impl::chunks_of(Blocks& of, int number,
                                                                       const ChunkLayout& layout) {
  if (of.chunks.size() <= static_cast<std::size_t>(number)) of.chunks.resize(static_cast<std::size_t>(number) + 1);
  std::vector<const ChunkPasses*>& out = nth(of.chunks, number);
  if (!out.empty()) return out;
  for (const ChunkContent& content : layout.contents()) {
    const auto [at, fresh] = of.passes.try_emplace(content);
    if (fresh) at->second = of.of->passes(content);
    out.push_back(&at->second);
  }
  return out;
}

bool QuickEstimator::Impl::find(const StrategySettings& s, int microbatches, QuickParts& out) {
  out.schedule_number = schedule_of(s);
  out.schedule = schedules().at(s.schedule).value.get();
  out.shape = {s.pp, s.virtual_stages, microbatches};
  out.schedule->check(out.shape);
  check(s, microbatches);
  const auto known = 2 * static_cast<std::size_t>(out.schedule_number) + (s.virtual_stages > 1 ? 1 : 0);
  if (schedule_known.size() <= known) schedule_known.resize(known + 2, -1);
  if (schedule_known[known] < 0)
    schedule_known[known] = make_order(*out.schedule, {2, s.virtual_stages, 4}).whole ? 1 : 0;
  if (schedule_known[known] == 0) return false;
  const int rest_number = rest_of(s), training_number = training_of();
  const bool pairs = pairs_passes(*out.schedule, s);
  Blocks& of = blocks_of(s, pairs, microbatches, rest_number, training_number);
  out.blocks = of.of;
  const auto& [layout_number, layout] = layout_of(s, rest_number);
  out.layout = &layout;
  out.answers = &mesh_of(s, microbatches, rest_number, training_number, layout);
  out.mesh = out.answers->mesh();
  out.blocking = !s.overlap.pp;
  out.steps = steps;
  out.late_gathers = steps > 1 && s.overlap.param_gather;
  if (out.blocks == nullptr || out.mesh == nullptr || !out.blocks->complete() || !out.mesh->complete() ||
      (steps > 1 && !out.mesh->meets()) || (s.cp > 1 && out.mesh->unlike()))
    return false;
  out.chunks = &chunks_of(of, layout_number, layout);
  if (pairs) out.pairs = &of.pairs.try_emplace(layout_number, *of.of, layout).first->second;
  return true;
}

std::optional<QuickEstimate> QuickEstimator::Impl::closed_form(const StrategySettings& s) {
  const std::int64_t per_pass = s.microbatch * s.dp, ranks = std::int64_t{s.dp} * s.cp * s.tp * s.pp;
  const bool whole = s.dp == s.dp_replicate * s.dp_shard && ranks == cluster.device_count() && per_pass > 0 &&
                     workload.training.global_batch % per_pass == 0;
  if (s.dp != s.dp_replicate * s.dp_shard && s.dp_replicate == 1 && s.dp_shard > 0 && s.dp % s.dp_shard == 0) {
    StrategySettings completed = s;  // As lower() reads it.
    completed.dp_replicate = s.dp / s.dp_shard;
    return closed_form(completed);
  }
  QuickParts parts;
  if (!whole || !stack || place_matters(s) ||
      !find(s, static_cast<int>(workload.training.global_batch / per_pass), parts))
    return {};
  QuickEstimate out;
  out.closed_form = true;
  step.time(parts, out);
  step.memory(parts, rule, out);
  return out;
}

QuickEstimate QuickEstimator::Impl::evaluate(const StrategySettings& s) {
  if (auto known = closed_form(s)) return *std::move(known);
  return lowered(s);
}

bool shards_in_passes(const StrategySettings& s) { return s.zero_stage >= 2 || s.fsdp.enabled; }

std::shared_ptr<QuickTables> quick_tables() { return std::make_shared<QuickTables>(); }

QuickEstimator::QuickEstimator(Workload base, const Cluster& cluster, const CostModel& cost, MemoryRule rule, int steps,
                               std::shared_ptr<QuickTables> tables)
    : impl_(std::make_unique<Impl>(std::move(base), cluster, cost, rule, steps, std::move(tables))) {}
QuickEstimator::~QuickEstimator() = default;
QuickEstimator::QuickEstimator(QuickEstimator&&) noexcept = default;

QuickEstimate QuickEstimator::operator()(const StrategySettings& strategy, const TrainingSettings& training) {
  impl_->workload.training = training;
  impl_->set_layers(impl_->own_layers);
  return impl_->evaluate(strategy);
}

std::optional<QuickEstimate> QuickEstimator::closed_form(const StrategySettings& strategy, int layers) {
  if (layers > 0 && !impl_->one_kind) return {};
  impl_->workload.training = impl_->training;
  impl_->set_layers(layers > 0 ? layers : impl_->own_layers);
  return impl_->closed_form(strategy);
}

QuickEstimate QuickEstimator::operator()(const StrategySettings& strategy) {
  return (*this)(strategy, impl_->training);
}

}  // namespace rehearse
