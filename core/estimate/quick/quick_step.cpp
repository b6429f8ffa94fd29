#include "core/estimate/quick/quick_step.hpp"

#include <algorithm>
#include <cmath>

#include "core/base/index.hpp"

namespace rehearse {

namespace {

/// Times grow evenly with microbatches, chunks per stage and stages. Pipelines of more than
/// `kLong` stages are extrapolated from `kShort` and `kMedium`, with as many microbatches per stage, or from `kShort`
/// and `kLong` where that many microbatches divide only by those; from `kManyChunks` chunks on from `kFewChunks` and
/// `kMoreChunks`; more than three rounds of microbatches from two and three, with several chunks more than two from one
/// and two, where calls of the passes do not pile up.
constexpr int kShort = 4, kMedium = 6, kLong = 8, kFewChunks = 2, kMoreChunks = 3, kManyChunks = 4;
int far_rounds(const Schedule& schedule, const PipelineShape& shape, bool calls) {
  const int few = shape.virtual_stages > 1 && !calls ? 2 : 3;
  return runs(schedule, {shape.stages, shape.virtual_stages, (few - 1) * shape.stages}) ? few : few + 1;
}

std::uint64_t key_of(int schedule, const PipelineShape& shape) {
  return ((static_cast<std::uint64_t>(schedule) * 4096 + static_cast<std::uint64_t>(shape.stages)) * 4096 +
          static_cast<std::uint64_t>(shape.virtual_stages))
             << 28 |
         static_cast<std::uint64_t>(shape.microbatches);
}

void go_on(const QuickLane& near, QuickLane& far, double k) {
  const double shift = k * (far.free - near.free);
  far.free += shift;
  far.held += far.held > 0 ? k * (far.held - near.held) : 0.0;
  far.input_done += k * (far.input_done - near.input_done);
  far.sides_end = 0;
  for (std::size_t i = 0; i < far.sides.size(); ++i) {
    double& free = far.sides[i].free;
    free += free > 0 ? k * (free - near.sides[i].free) : 0.0;
    far.sides_end = std::max(far.sides_end, free);
  }
  far.gate += far.gate > 0 ? k * (far.gate - near.gate) : 0.0;
  far.before_last += k * (far.before_last - near.before_last);
  const auto grow = [k](double from, double& to) { to = std::max(to, to + k * (to - from)); };
  grow(near.slowed, far.slowed);
  grow(near.casts, far.casts);
  grow(near.exposed_tp, far.exposed_tp);
  grow(near.exposed_dp, far.exposed_dp);
  grow(near.exposed_pp, far.exposed_pp);
  grow(near.exposed_copy, far.exposed_copy);
}

/// `far` moved on by `k` times its distance from `near`.
void go_on(const std::vector<QuickLane>& near, std::vector<QuickLane>& far, double k) {
  for (std::size_t s = 0; s < far.size(); ++s) go_on(near[s], far[s], k);
}

void reset(StageLane& lane) {
  std::vector<Busy> traffic = std::move(lane.traffic);
  traffic.clear();
  lane = {};
  lane.traffic = std::move(traffic);
}

}  // namespace

const QuickOrder& QuickStep::order(const QuickParts& parts, const PipelineShape& shape) {
  const bool by_kind = parts.layout->by_kind();
  const auto [at, fresh] = orders_.try_emplace(key_of(2 * parts.schedule_number + (by_kind ? 1 : 0), shape));
  if (fresh) at->second = make_order(*parts.schedule, shape, by_kind);
  return at->second;
}

const ForkedOrder& QuickStep::forked(const QuickParts& parts, PipelineShape shape, int near, int far) {
  shape.microbatches = far;
  const bool by_kind = parts.layout->by_kind();
  const auto [at, fresh] = forks_.try_emplace(key_of(2 * parts.schedule_number + (by_kind ? 1 : 0), shape));
  if (fresh) at->second = fork_orders(*parts.schedule, shape, near, far, by_kind);
  return at->second;
}

/// The scenario's shape, with fewer microbatches where no more is ever alive with more: a few rounds then show every
/// moment.
PipelineShape QuickStep::telling(const QuickParts& parts) {
  PipelineShape few = parts.shape;
  few.microbatches = std::min(few.microbatches, 3 * few.stages);
  return parts.schedule->chunks_in_flight(0, few) == parts.schedule->chunks_in_flight(0, parts.shape) ? few
                                                                                                      : parts.shape;
}

const QuickStep::Moments& QuickStep::moments(const QuickParts& parts) {
  const PipelineShape shape = telling(parts);
  // Stages that are alike are three; the others are known by their number.
  const int layout = 2 * parts.schedule_number + (parts.mesh->alike() ? 1 : 0);
  const auto [at, fresh] = moments_.try_emplace(key_of(layout, shape));
  if (fresh)
    for (const MeshStage& stage : parts.mesh->stages())
      at->second.push_back(full_moments(*parts.schedule, shape, stage.role));
  return at->second;
}

void QuickStep::set_costs(const QuickParts& parts) {
  const std::vector<const ChunkPasses*>& chunks = *parts.chunks;
  ++costs_.number;
  costs_.mesh = parts.mesh;
  costs_.layout = parts.layout;
  costs_.pairs = parts.pairs;
  costs_.places = parts.layout->places();
  costs_.several = parts.mesh->in_passes();
  costs_.back = runs_back(*parts.schedule, parts.shape);
  costs_.blocking = parts.blocking;
  const bool sends = parts.shape.stages > 1;
  const std::array<const BlockMessage*, 2> messages{&parts.blocks->message(true), &parts.blocks->message(false)};
  if (sends) {
    costs_.messages = {&parts.answers->messages(messages[0]->bytes, parts.blocking),
                       &parts.answers->messages(messages[1]->bytes, parts.blocking)};
  }
  costs_.passes.resize(kPassKinds * chunks.size());
  for (std::size_t k = 0; k < chunks.size(); ++k) {
    const ChunkContent& content = parts.layout->contents()[k];
    for (int kind = 0; kind < kPassKinds; ++kind) {
      const auto pass = static_cast<Pass>(kind % kPasses);
      if (kind >= kPasses ? pass == Pass::forward || !costs_.several
                          : pass >= Pass::backward_input && !parts.blocks->splits())
        continue;
      QuickCosts::Pass& out = nth(costs_.passes, kPassKinds * k + static_cast<std::size_t>(kind));
      out = {};
      out.pass = &nth(*chunks[k], parts.blocks->kind_of(pass, kind >= kPasses));
      const std::size_t d = pass == Pass::forward ? 0 : 1;
      const bool ends = d == 0 ? content.last : content.first, hands_on = sends && pass != Pass::backward_weight;
      if (hands_on && !ends) out.prepare = messages[d]->prepare.seconds;
      if (hands_on) out.unpack = messages[d]->unpack.seconds;
      out.seconds = out.pass->work.seconds + out.prepare;
      out.plain = out.pass->inputs.empty() && out.unpack <= 0;
    }
  }
  set_calls(parts);
}

/// Where the pass stands among the blocks of its stage, in the order of the pass.
QuickMesh::Part QuickStep::part_of(const QuickParts& parts, int kind, int chunk, Pass pass) {
  const int stage = nth(parts.mesh->stages(), kind).role, direction = pass == Pass::forward ? 0 : 1;
  const ChunkContent& of = nth(parts.layout->contents(), parts.layout->content(stage, chunk));
  return {kind, chunk, pass, false, false, parts.layout->blocks_before(stage, chunk, direction), of.blocks()};
}

void QuickStep::set_calls(const QuickParts& parts) {
  costs_.calls.clear();
  if (!parts.mesh->in_passes()) return;
  for (int kind = 0; kind < static_cast<int>(parts.mesh->stages().size()); ++kind) {
    for (int chunk = 0; chunk < parts.layout->places(); ++chunk) {
      for (int pass = 0; pass < kPasses; ++pass) {
        if (pass >= static_cast<int>(Pass::backward_input) && !parts.blocks->splits()) {
          costs_.calls.resize(costs_.calls.size() + 3);
          continue;
        }
        QuickMesh::Part part = part_of(parts, kind, chunk, static_cast<Pass>(pass));
        for (const auto& [first, last] : {std::pair{true, false}, {false, false}, {false, true}}) {
          part.first = first;
          part.last = last;
          costs_.calls.push_back(&parts.answers->calls(part));
        }
      }
    }
  }
}

/// More microbatches than a few rounds of the pipeline are extrapolated. Where stages are unlike, or chunks run back
/// along them, so that they wait for each other both ways, not before two rounds have taken as long.
void QuickStep::play_rounds(const QuickParts& parts, const PipelineShape& shape, std::vector<QuickLane>& lanes) {
  constexpr double kEven = 1e-4;  // Of a round's time.
  const int p = shape.stages, m = shape.microbatches;
  const bool settles = costs_.back || !parts.layout->by_kind();
  start_ = lanes;
  double before = 0;
  for (int far = far_rounds(*parts.schedule, shape, parts.mesh->in_every_pass()) * p;; far += p) {
    const int near = far - p;
    if (m <= far || !runs(*parts.schedule, {p, shape.virtual_stages, near}) ||
        !runs(*parts.schedule, {p, shape.virtual_stages, far}))
      break;
    pipeline_.play(forked(parts, shape, near, far), shape, costs_, *before_, rounds_, lanes);
    const double round = lanes.back().free - rounds_.back().free;
    if (settles && std::abs(round - before) > kEven * round) {
      before = round;
      lanes = start_;
      continue;
    }
    return go_on(rounds_, lanes, static_cast<double>(m - far) / (far - near));
  }
  pipeline_.play(order(parts, shape), shape, costs_, *before_, lanes);
}

/// More chunks per stage than a few likewise; not where passes wait for the step before: the shorter the first ones
/// are, the more of its gathers they wait for.
void QuickStep::play_chunks(const QuickParts& parts, const PipelineShape& shape, std::vector<QuickLane>& lanes) {
  const int v = shape.virtual_stages;
  if (v < kManyChunks || parts.late_gathers || !parts.layout->round() || parts.mesh->in_passes() ||
      !parts.layout->by_kind())
    return play_rounds(parts, shape, lanes);
  chunks_ = lanes;
  play_rounds(parts, {shape.stages, kFewChunks, shape.microbatches}, chunks_);
  play_rounds(parts, {shape.stages, kMoreChunks, shape.microbatches}, lanes);
  go_on(chunks_, lanes, static_cast<double>(v - kMoreChunks) / (kMoreChunks - kFewChunks));
}

/// Whether steps of passes that take as long as each other grow evenly with stages, two microbatches a stage. They
/// don't where microbatches follow one another through all stages.
bool QuickStep::grows_evenly(const QuickParts& parts, int far) {
  constexpr int kRounds = 2;
  const auto shape = [&](int stages) {
    return PipelineShape{stages, std::min(parts.shape.virtual_stages, kMoreChunks), kRounds * stages};
  };
  const auto sweeps = [&](int stages) { return order(parts, shape(stages)).sweeps; };
  for (const int stages : {kShort, far, 2 * far - kShort})
    if (!runs(*parts.schedule, shape(stages))) return false;
  return sweeps(2 * far - kShort) - sweeps(far) == sweeps(far) - sweeps(kShort);
}

/// More stages, alike but for the ends, with as many microbatches per stage likewise; not where microbatches are fewer
/// than stages, of which first and last passes would be too great a part, and not where interleaved passes have calls,
/// which are taken to be those of other passes: what is off by little in two short pipelines is off by much further on.
void QuickStep::play(const QuickParts& parts, std::vector<QuickLane>& lanes) {
  const int p = parts.shape.stages, v = parts.shape.virtual_stages, m = parts.shape.microbatches;
  const bool alike = p > 1 && (parts.pairs == nullptr || costs_.calls.empty()) && parts.layout->by_kind() &&
                     parts.mesh->alike() && costs_.messages[0]->even && costs_.messages[1]->even;
  const auto part = [&](int stages) {
    return PipelineShape{stages, v, static_cast<int>(std::int64_t{m} * stages / p)};
  };
  const auto divides = [&](int stages) { return std::int64_t{m} * stages % p == 0; };
  const int far = divides(kMedium) ? kMedium : kLong;
  if (p <= kLong || m < p || !alike || !divides(kShort) || !divides(far) || !runs(*parts.schedule, part(kShort)) ||
      !runs(*parts.schedule, part(far)) || !grows_evenly(parts, far))
    return play_chunks(parts, parts.shape, lanes);
  stages_ = lanes;
  play_chunks(parts, part(kShort), stages_);
  play_chunks(parts, part(far), lanes);
  go_on(stages_, lanes, static_cast<double>(p - far) / (far - kShort));
}

/// The tails from where `lanes_` stand.
void QuickStep::walk(const QuickParts& parts) {
  const std::size_t n = parts.mesh->stages().size();
  for (std::size_t k = 0; k < n; ++k) {
    TailState& t = tails_[k];
    const QuickLane& from = lanes_[k];
    reset(t.lane);
    t.lane.free = from.free;
    t.lane.held = from.held;
    t.lane.waits[TimeCategory::overlap_slowdown] = Seconds{from.slowed};
    t.lane.waits[TimeCategory::exposed_tp] = Seconds{from.exposed_tp};
    t.lane.waits[TimeCategory::exposed_dp] = Seconds{from.exposed_dp};
    t.lane.waits[TimeCategory::exposed_pp] = Seconds{from.exposed_pp};
    t.lane.waits[TimeCategory::exposed_copy] = Seconds{from.exposed_copy};
    const std::vector<TimeCategory>& categories = parts.mesh->categories_of_sides();
    for (std::size_t i = 0; i < from.sides.size(); ++i) {
      t.side_ends[i] = from.sides[i].free;
      if (i < categories.size()) t.lane.add({from.free, from.sides[i].free, from.sides[i].load, categories[i]});
    }
  }
  walk_tails(parts.mesh->tails(), parts.mesh->sharing(), meetings_, tails_);
}

/// The tail of a step that nothing came before.
TailStart QuickStep::tail_alone(const QuickParts& parts) {
  TailStart out;
  walk(parts);
  for (TailState& t : tails_) {
    out.ends.push_back(t.ends);
    out.streams.push_back(t.streams);
    out.free.push_back(t.lane.free);
    out.end = std::max(out.end, t.end());
  }
  return out;
}

/// Where the step before leaves the stages: at the end of its tail. All of them meet in it, so that what came before
/// does not matter. Returns the end of it.
double QuickStep::start(const QuickParts& parts) {
  static const TailEnds none;
  const std::size_t n = parts.mesh->stages().size();
  tails_.resize(n);
  lanes_.assign(n, {});
  before_ = &none;
  if (parts.steps == 1) return 0;
  std::optional<TailStart>& from = parts.answers->start;
  if (!from) from = tail_alone(parts);
  before_ = &from->ends;
  for (std::size_t k = 0; k < n; ++k) {
    QuickLane& lane = lanes_[k];
    lane.free = from->free[k];
    const std::vector<StreamId>& sides = parts.mesh->stages()[k].tail.sides;
    for (std::size_t i = 0; i < std::min(lane.sides.size(), sides.size()); ++i) {
      lane.sides[i].free = nth(from->streams[k], sides[i]);
      lane.sides_end = std::max(lane.sides_end, lane.sides[i].free);
    }
  }
  return from->end;
}

void QuickStep::time(const QuickParts& parts, QuickEstimate& out) {
  set_costs(parts);
  const double before = start(parts);
  play(parts, lanes_);
  walk(parts);
  double end = 0;
  for (const TailState& t : tails_) end = std::max(end, t.end());
  out.step_time = Seconds{end - before};
  out.layer = parts.blocks->layer();
  choose_slowest(parts, out);
}

const std::vector<std::array<int, 3>>& QuickStep::pairs_of(const QuickParts& parts, int stage) {
  const PipelineShape& shape = parts.shape;
  const auto [at, fresh] = pairs_.try_emplace({parts.schedule_number, shape.stages, shape.virtual_stages,
                                               shape.microbatches, stage, parts.layout->by_kind() ? 1 : 0});
  if (!fresh) return at->second;
  std::map<std::pair<int, int>, int> count;
  const std::vector<Slot> order = parts.schedule->order(stage, shape);
  for (std::size_t i = 1; i < order.size(); ++i)
    if (order[i].paired)
      ++count[{parts.layout->content_of_chunk(order[i - 1].chunk), parts.layout->content_of_chunk(order[i].chunk)}];
  for (const auto& [contents, times] : count) at->second.push_back({contents.first, contents.second, times});
  return at->second;
}

Breakdown QuickStep::kernels(const QuickParts& parts, std::size_t kind) {
  const PipelineShape& shape = parts.shape;
  const int stage = parts.mesh->stages()[kind].role;
  Breakdown out;
  for (const auto& [content, times] : parts.layout->contents_of(stage)) {
    for (std::size_t d = 0; d < 2; ++d) {
      const QuickCosts::Pass& of = costs_.passes[kPassKinds * static_cast<std::size_t>(content) + d];
      Breakdown pass = of.pass->work.breakdown;
      if (of.prepare > 0) pass += parts.blocks->message(d == 0).prepare.breakdown;
      pass *= static_cast<double>(times) * shape.microbatches / parts.layout->copies();
      out += pass;
    }
  }
  if (parts.pairs != nullptr) {
    for (const auto& [forward, backward, times] : pairs_of(parts, stage)) {
      Breakdown both = parts.pairs->of(forward, backward, false).pass.work.breakdown;
      for (const int pass : {kPassKinds * forward, kPassKinds * backward + 1}) {
        Breakdown alone = nth(costs_.passes, pass).pass->work.breakdown;
        alone *= -1;
        both += alone;
      }
      both *= times;
      out += both;
    }
  }
  out += parts.mesh->stages()[kind].tail.kernels;
  if (Breakdown casts = parts.mesh->stages()[kind].between.kernels; casts.total() > Seconds{0}) {
    casts *= Seconds{lanes_[kind].casts} / casts.total();
    out += casts;
  }
  return out;
}

void QuickStep::choose_slowest(const QuickParts& parts, QuickEstimate& out) {
  double latest = -1;
  for (std::size_t k = 0; k < tails_.size(); ++k) {
    const double end = tails_[k].end();
    tails_[k].lane.wait_beside(end, TimeCategory::exposed_tp, TimeCategory::exposed_dp);
    if (k > 0 && end < latest * (1 - 1e-12)) continue;
    Breakdown b = kernels(parts, k);
    b += tails_[k].lane.waits;
    Seconds& bubble = b[TimeCategory::bubble];
    bubble = max(Seconds{0}, bubble + out.step_time - b.total());
    b *= out.step_time / b.total();
    if (k == 0 || end > latest * (1 + 1e-12) || bubble < out.breakdown[TimeCategory::bubble]) {
      out.breakdown = b;
      out.slowest_stage = parts.mesh->stages()[k].role;
    }
    latest = std::max(latest, end);
  }
}

void QuickStep::memory(const QuickParts& parts, const MemoryRule& rule, QuickEstimate& out) {
  if (parts.mesh->in_passes() || !parts.layout->by_kind() || parts.pairs != nullptr || parts.blocks->splits() ||
      !parts.layout->round())
    return memory_by_pass(parts, rule, out);
  const Moments& moments = this->moments(parts);
  double most = -1;
  const FullMoment* fullest = nullptr;
  std::size_t at = 0;
  const auto pass = [&](int kind, int direction) -> const PassMemory& {
    return nth(*nth(*parts.chunks, kind), direction).memory;
  };
  const auto leaving = [&](const FullMoment& m) -> const PassMemory* {
    return m.before < 0 ? nullptr : &pass(m.before / 2, m.before % 2);
  };
  for (std::size_t k = 0; k < moments.size(); ++k) {
    const MeshStage& stage = parts.mesh->stages()[k];
    const double held = sum(stage.held);
    if (held + stage.tail_peak > most) {
      most = held + stage.tail_peak;
      fullest = nullptr;
      at = k;
    }
    for (const FullMoment& m : moments[k]) {
      double alive = held;
      for (int c = 0; c < kChunkKinds; ++c) alive += nth(m.alive, c) * pass(c, 0).kept_in_all;
      const PassMemory* gone = leaving(m);
      const PassMemory& p = pass(m.kind, m.direction);
      const double here = alive + std::max(p.until_kernels + (gone != nullptr ? gone->leaving_in_all : 0.0), p.after);
      if (here <= most) continue;
      most = here;
      fullest = &m;
      at = k;
    }
  }
  const MeshStage& stage = parts.mesh->stages()[at];
  Amounts total = stage.held;
  if (fullest == nullptr) {
    add(total, stage.at_tail_peak);
  } else {
    for (int c = 0; c < kChunkKinds; ++c)
      for (std::size_t i = 0; i < total.size(); ++i) total[i] += nth(fullest->alive, c) * pass(c, 0).kept[i];
    const PassMemory* gone = leaving(*fullest);
    const PassMemory& p = pass(fullest->kind, fullest->direction);
    const bool early = p.until_kernels + (gone != nullptr ? gone->leaving_in_all : 0.0) > p.after;
    add(total, early ? p.at_until : p.at_after);
    if (early && gone != nullptr) add(total, gone->leaving);
  }
  set_memory(stage, total, rule, out);
  host_bytes_.clear();
  for (const MeshStage& s : parts.mesh->stages()) {
    HostCourse host(s.host_held);
    host.add(s.tail_memory);
    host_bytes_.push_back(host.bytes());
  }
  out.host_fits = parts.mesh->host_fits(host_bytes_);
}

void QuickStep::set_memory(const MeshStage& stage, const Amounts& total, const MemoryRule& rule, QuickEstimate& out) {
  out.memory.role = stage.role;
  out.memory.rank = stage.rank;
  out.memory.cached = stage.cached;
  out.memory.peak = Bytes{0};
  for (std::size_t i = 0; i < total.size(); ++i) {
    out.memory.by_category[i] = Bytes{total[i]};
    out.memory.peak += Bytes{total[i]};
  }
  nth(out.memory.peak_by_space, MemorySpace::device) = out.memory.peak;
  out.needed = rule.needed(out.memory);
  out.capacity = stage.capacity;
}

}  // namespace rehearse
