#include "core/estimate/quick/quick_estimate.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/base/memory_room.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/config/settings/training.hpp"
#include "core/estimate/estimate.hpp"
#include "core/estimate/quick/group_places.hpp"
#include "core/estimate/quick/quick_step.hpp"
#include "core/estimate/quick/quick_tables.hpp"
#include "core/estimate/quick/stand_in.hpp"
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

/// Whether a layer's passes depend on where it stands among those of its stage.
bool place_matters(const StrategySettings& s) {
  return s.recompute == Recompute::full && (s.recompute_layers > 1 || s.recompute_method == RecomputeMethod::block);
}

/// One whose blocks are as those of `of` on the stages of `s`.
std::optional<Stand> stand_in_for_blocks(const Schedule& of, const StrategySettings& s, int stages, int least) {
  const auto suits = [&](const Schedule& other) {
    return other.pairs() == pairs_passes(of, s.pp) && other.splits_backward() == of.splits_backward();
  };
  return stand_in(suits, stages, 1, least);
}

}  // namespace

struct QuickEstimator::Impl {
  Impl(Workload base, const Cluster& c, const CostModel& m, const MemoryRule& r, int n, std::shared_ptr<QuickTables> t)
      : tables(t ? std::move(t) : quick_tables()),
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
              c.device_count() % c.node_count() == 0),
        places(c, m, experts) {}

  /// Blocks, and the passes of chunks of them.
  struct Blocks {
    std::shared_ptr<const QuickBlocks> of;
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
  GroupPlaces places;
  StrategySettings rest;
  std::optional<int> training_number;  ///< Of the workload's.
  /// Of null where the sibling cannot be lowered.
  std::unordered_map<TableKey, Blocks, HashOfTableKey> blocks;
  std::unordered_map<TableKey, MeshAnswers, HashOfTableKey> meshes;
  int generation = 0;  ///< Of the tables, when the above were begun.
  /// By layers, stages, chunks of each, the settings beside, and the schedule.
  std::map<std::array<int, 5>, std::pair<int, ChunkLayout>> layouts;
  std::map<std::array<int, 4>, std::optional<Stand>> stands;  ///< By kind, stages, chunks, least microbatches.
  QuickStep step;

  QuickEstimate evaluate(const StrategySettings& s);
  std::optional<QuickEstimate> closed_form(const StrategySettings& s);
  QuickEstimate lowered(const StrategySettings& s);
  void check(const StrategySettings& s, int microbatches) const;
  bool find(const StrategySettings& s, int microbatches, QuickParts& out);
  /// Lets go of what the tables have forgotten.
  void forget() {
    const int now = tables->meshes.generation() + tables->blocks.generation();
    if (now == generation) return;
    generation = now;
    meshes.clear();
    blocks.clear();
  }
  void set_layers(int count) {
    if (count == layers) return;
    workload = with_layers(std::move(workload), count);
    layers = count;
  }
  int rest_of(const StrategySettings& s);
  void set_training(const TrainingSettings& of);
  int schedule_of(const StrategySettings& s) { return schedule_names.of(s.schedule, tables->schedules); }
  Blocks& blocks_of(const StrategySettings& s, const Schedule& schedule, bool in_passes, int microbatches,
                    int rest_number);
  [[nodiscard]] const std::pair<int, ChunkLayout>& layout_of(const StrategySettings& s, const Schedule& schedule,
                                                             int rest_number);
  static const std::vector<const ChunkPasses*>& chunks_of(Blocks& of, int number, const ChunkLayout& layout);
  std::unique_ptr<QuickBlocks> make_blocks(const StrategySettings& s, const Schedule& schedule, int replicas, int shown,
                                           bool in_passes);
  std::unique_ptr<QuickBlocks> make_all_blocks(const StrategySettings& s, const Schedule& schedule, int shown,
                                               bool in_passes);
  MeshAnswers& mesh_of(const StrategySettings& s, const Schedule& schedule, MeshDetail detail, int microbatches,
                       int rest_number, const ChunkLayout& layout);
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

/// Whatever asks for many plans asks for those of one training one after the other.
void QuickEstimator::Impl::set_training(const TrainingSettings& of) {
  if (training_number && workload.training == of) return;
  workload.training = of;
  TrainingSettings t = of;
  t.global_batch = 0;
  t.tokens = 0;
  training_number = trainings.of(t, tables->trainings);
}

QuickEstimator::Impl::Blocks& QuickEstimator::Impl::blocks_of(const StrategySettings& s, const Schedule& schedule,
                                                              bool in_passes, int microbatches, int rest_number) {
  // As few replicas as divide what all of them divide.
  const int copies = in_passes && s.cp == 1 ? std::min(s.dp, 2) : 1;
  const bool few = places.few_tell(s);
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
                     *training_number,
                     in_passes ? 1 + s.zero_stage : 0,
                     shown,
                     in_passes && s.pp > 1,
                     few ? 0 : s.pp,
                     few ? 0 : s.dp_shard,
                     (pairs_passes(schedule, s.pp) ? 1 : 0) + (schedule.splits_backward() ? 2 : 0)};
  const auto [at, fresh] = blocks.try_emplace(key);
  if (fresh)
    at->second.of = tables->blocks.get(key, [&] {
      return few                    ? make_blocks(s, schedule, replicas, shown, in_passes)
             : places.pairs_alike() ? make_all_blocks(s, schedule, shown, in_passes)
                                    : nullptr;
    });
  return at->second;
}

std::unique_ptr<QuickBlocks> QuickEstimator::Impl::make_blocks(const StrategySettings& s, const Schedule& schedule,
                                                               int replicas, int shown, bool in_passes) {
  StrategySettings small = s;
  // One stage where two do not fit: no messages then. Chunks that are the whole model have none either.
  small.pp = 2 * replicas * s.cp * s.tp <= cluster.device_count() && (s.pp > 1 || !in_passes) ? 2 : 1;
  small.virtual_stages = 1;
  small.layers_per_stage.clear();
  small.uneven_layers = true;
  const auto stand = stand_in_for_blocks(schedule, s, small.pp, shown);
  if (!stand) return nullptr;
  small.schedule = stand->name;
  small.dp = small.dp_replicate = replicas;
  small.dp_shard = 1;
  if (s.fsdp.enabled) std::swap(small.dp_replicate, small.dp_shard);
  if (!in_passes) small.zero_stage = 0;
  small.overlap = {};
  small.overlap.tp = s.overlap.tp;
  Workload& w = small.pp > 1 ? two_layers : one_layer;
  w.training = workload.training;
  w.training.global_batch = s.microbatch * replicas * stand->microbatches;
  try {
    return std::make_unique<QuickBlocks>(lower(w, small, replicas * s.cp * s.tp * small.pp), w.network, cost,
                                         *stand->schedule, false, shown > 1);
  } catch (const Error&) {  // Full lowering says why, or copes.
    return nullptr;
  }
}

/// From a sibling of all ranks, with a layer of each kind on every stage.
std::unique_ptr<QuickBlocks> QuickEstimator::Impl::make_all_blocks(const StrategySettings& s, const Schedule& schedule,
                                                                   int shown, bool in_passes) {
  StrategySettings plain = s;
  plain.virtual_stages = 1;
  const auto stand = stand_in_for_blocks(schedule, s, s.pp, shown);
  if (!stand) return nullptr;
  plain.schedule = stand->name;
  if (!in_passes) plain.zero_stage = 0;
  plain.overlap = {};
  plain.overlap.tp = s.overlap.tp;
  plain.layers_per_stage.assign(static_cast<std::size_t>(s.pp), kinds_of_layers(workload.network));
  Workload w = with_layers(one_layer, s.pp);
  for (int stage = 0; stage < s.pp; ++stage)
    for (std::size_t b = 0; b < w.network.blocks.size(); ++b)
      if (w.network.blocks[b].is_layer()) w.network.pattern.push_back(static_cast<int>(b));
  w.training = workload.training;
  w.training.global_batch = s.microbatch * s.dp * stand->microbatches;
  try {
    return std::make_unique<QuickBlocks>(lower(w, plain, cluster), w.network, cost, *stand->schedule, true, shown > 1);
  } catch (const Error&) {  // As above.
    return nullptr;
  }
}

MeshAnswers& QuickEstimator::Impl::mesh_of(const StrategySettings& s, const Schedule& schedule, MeshDetail detail,
                                           int microbatches, int rest_number, const ChunkLayout& layout) {
  const bool in_passes = detail != MeshDetail::reductions, of_blocks = detail == MeshDetail::calls_of_blocks;
  // Layers that run again may gather twice in backward. Buckets end with chunks.
  const bool again = of_blocks || (in_passes && s.zero_stage >= 3 && s.recompute == Recompute::full);
  const bool placed = !layout.round(), halves = in_passes && schedule.splits_backward();
  const int chunks = placed || (in_passes && (of_blocks || !s.fsdp.enabled)) ? s.virtual_stages : 1;
  const auto suits = [&](const Schedule& other) {
    return placed ? &other == &schedule : !other.pairs() && other.splits_backward() == halves;
  };
  const int least = std::min(microbatches, in_passes ? 3 : 2), kind = placed ? schedule_of(s) : halves ? -2 : -1;
  const auto [known_stand, unknown] = stands.try_emplace({kind, s.pp, chunks, least});
  if (unknown) known_stand->second = stand_in(suits, s.pp, chunks, least);
  const std::optional<Stand>& stand = known_stand->second;
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
                     *training_number,
                     layers,
                     stand ? stand->microbatches : 0,
                     2 * chunks + (again ? 1 : 0),
                     kind,
                     layout.equal() ? 0 : s.virtual_stages,
                     static_cast<int>(detail),
                     of_blocks ? s.microbatch : 1,
                     of_blocks ? static_cast<int>(s.recompute) : 0};
  if (const auto known = meshes.find(key); known != meshes.end()) return known->second;
  StrategySettings plain = s;
  if (!of_blocks) plain.microbatch = 1;
  plain.virtual_stages = chunks;
  if (!again) plain.recompute = Recompute::none;
  plain.scatter_gather = false;
  plain.overlap.tp = false;
  plain.overlap.pp = true;
  const auto make = [&]() -> std::unique_ptr<QuickMesh> {
    if (!stand) return nullptr;
    plain.schedule = stand->name;
    Workload shown_to = workload;
    shown_to.training.global_batch = plain.microbatch * s.dp * stand->microbatches;
    if (chunks == 1 && !placed && !layout.equal())
      shown_to.network = layout.by_stage(workload.network, plain.layers_per_stage);
    try {
      return std::make_unique<QuickMesh>(lower(shown_to, plain, cluster), *stand->schedule, cluster, cost, rule, detail,
                                         layout.by_kind());
    } catch (const Error&) {  // As above.
      return nullptr;
    }
  };
  return meshes.emplace(key, MeshAnswers(tables->meshes.get(key, make))).first->second;
}

const std::pair<int, ChunkLayout>& QuickEstimator::Impl::layout_of(const StrategySettings& s, const Schedule& schedule,
                                                                   int rest_number) {
  const std::array key{layers, s.pp, s.virtual_stages, rest_number, schedule_of(s)};
  const auto known = layouts.find(key);
  if (known != layouts.end()) return known->second;
  const auto number = static_cast<int>(layouts.size());
  return layouts.emplace(key, std::pair{number, ChunkLayout(workload.network, s, schedule)}).first->second;
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
  const int rest_number = rest_of(s);
  const auto& [layout_number, layout] = layout_of(s, *out.schedule, rest_number);
  out.layout = &layout;
  for (MeshDetail detail = MeshDetail::reductions;; detail = out.mesh->wants()) {
    out.answers = &mesh_of(s, *out.schedule, detail, microbatches, rest_number, layout);
    out.mesh = out.answers->mesh();
    if (out.mesh == nullptr) return false;
    if (out.mesh->wants() == detail) break;
  }
  if (!out.mesh->complete()) return false;
  Blocks& of = blocks_of(s, *out.schedule, out.mesh->in_passes(), microbatches, rest_number);
  out.blocks = of.of.get();
  out.blocking = !s.overlap.pp;
  out.steps = steps;
  out.late_gathers = steps > 1 && s.overlap.param_gather;
  if (out.blocks == nullptr || !out.blocks->complete() || (steps > 1 && !out.mesh->meets()) ||
      (s.cp > 1 && out.mesh->unlike()))
    return false;
  out.chunks = &chunks_of(of, layout_number, layout);
  if (pairs_passes(*out.schedule, s.pp)) out.pairs = &of.pairs.try_emplace(layout_number, *of.of, layout).first->second;
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
  forget();
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

std::shared_ptr<QuickTables> quick_tables(std::size_t most) {
  constexpr double kShare = 1.0 / 8;
  return std::make_shared<QuickTables>(most > 0 ? most : static_cast<std::size_t>(kShare * memory_room().value()));
}

QuickEstimator::QuickEstimator(Workload base, const Cluster& cluster, const CostModel& cost, MemoryRule rule, int steps,
                               std::shared_ptr<QuickTables> tables)
    : impl_(std::make_unique<Impl>(std::move(base), cluster, cost, rule, steps, std::move(tables))) {}
QuickEstimator::~QuickEstimator() = default;
QuickEstimator::QuickEstimator(QuickEstimator&&) noexcept = default;

QuickEstimate QuickEstimator::operator()(const StrategySettings& strategy, const TrainingSettings& training) {
  impl_->set_training(training);
  impl_->set_layers(impl_->own_layers);
  return impl_->evaluate(strategy);
}

std::optional<QuickEstimate> QuickEstimator::closed_form(const StrategySettings& strategy, int layers) {
  if (layers > 0 && !impl_->one_kind) return {};
  impl_->set_training(impl_->training);
  impl_->set_layers(layers > 0 ? layers : impl_->own_layers);
  return impl_->closed_form(strategy);
}

QuickEstimate QuickEstimator::operator()(const StrategySettings& strategy) {
  return (*this)(strategy, impl_->training);
}

}  // namespace rehearse
