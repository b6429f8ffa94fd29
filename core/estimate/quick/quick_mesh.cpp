#include "core/estimate/quick/quick_mesh.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "core/base/index.hpp"
#include "core/program/body.hpp"
#include "core/program/rank_kinds.hpp"

namespace rehearse {

namespace {

/// First entry after the last pass.
int tail_of(const Program& p, const Role& role, std::vector<std::optional<PassPart>>& parts) {
  auto i = role.step.size();
  for (; i > 0; --i) {
    const auto body = static_cast<std::size_t>(role.step[i - 1].body);
    if (!parts[body]) parts[body] = part_of(p.bodies[body]);
    if (parts[body]->kind != PassPart::Kind::call) break;
  }
  return static_cast<int>(i);
}

Amounts persistent(const Program& p, const Role& role, ExprContext at) {
  Amounts out{};
  for (const Role::Persistent& held : role.persistent) {
    const Tensor& t = nth(p.tensors, held.tensor);
    if (t.alias_of >= 0 || t.space != MemorySpace::device) continue;
    at.layer = std::max(held.layer, 0);
    nth(out, t.category) += p.local_bytes(t, at);
  }
  return out;
}

Elsewhere host_held(const Program& p, const Role& role, ExprContext at) {
  Elsewhere out{};
  for (const Role::Persistent& held : role.persistent) {
    const Tensor& t = nth(p.tensors, held.tensor);
    if (t.alias_of >= 0 || t.space == MemorySpace::device) continue;
    at.layer = std::max(held.layer, 0);
    nth(out, t.space) += p.local_bytes(t, at);
  }
  return out;
}

bool equal(const Transfer& a, const Transfer& b) {
  return a.seconds == b.seconds && a.wait == b.wait && a.load.sm_share == b.load.sm_share &&
         a.load.hbm_share == b.load.hbm_share;
}

}  // namespace

namespace {

template <class Operation>
PassCalls with_needs(const PassCalls& calls, const Operation& operation_of) {
  PassCalls out;
  for (PassCall call : calls.all) {
    if (call.need >= 0) call.need = operation_of(call.need);
    out.add(std::move(call));
  }
  return out;
}

}  // namespace

/// What is needed of the Program while a mesh is read, and not afterwards.
class MeshReader {
 public:
  MeshReader(const Program& program, const Cluster& cluster, const CostModel& cost, const MemoryRule& rule,
             QuickMesh& out)
      : program_(program),
        cluster_(cluster),
        rule_(rule),
        prices_(program, cost),
        parts_(program.bodies.size()),
        sides_(side_streams(program)),
        out_(out) {}
  void read();

 private:
  void find_stages();
  void find_nodes();
  void read_stages();
  void read_stage(MeshStage& stage);
  [[nodiscard]] bool add_call(const Entry& e, int chunk, int blocks, MeshStage& stage);
  [[nodiscard]] PassPart::Kind kind(const Entry& e);
  void read_memory(MeshStage& stage, const std::vector<int>& ranks);

  const Program& program_;
  const Cluster& cluster_;
  const MemoryRule& rule_;
  EstimatePrices prices_;
  std::vector<std::optional<PassPart>> parts_;
  std::vector<StreamId> sides_;
  Meetings meetings_;
  QuickMesh& out_;
};

QuickMesh::QuickMesh(const Program& program, const Schedule& schedule, const Cluster& cluster, const CostModel& cost,
                     const MemoryRule& rule, MeshDetail detail, bool alike)
    : schedule_(schedule), prices_(cost), wants_(detail), alike_(alike), in_passes_(detail != MeshDetail::reductions) {
  MeshReader(program, cluster, cost, rule, *this).read();
}

void MeshReader::read() {
  for (const StreamId s : sides_) out_.categories_.push_back(category_of_stream(program_, s));
  const auto reduces = std::find(sides_.begin(), sides_.end(), program_.stream_along(Axis::dp_shard));
  out_.reductions_ = static_cast<int>(reduces - sides_.begin());
  prices_.fold_lanes(out_.prices_);
  const int p = static_cast<int>(program_.roles.size());
  for (int s = 0; s < p && p > 1; ++s) {
    out_.forward_.push_back(prices_.ends(s, (s + 1) % p));
    out_.backward_.push_back(prices_.ends(s, (s + p - 1) % p));
  }
  find_stages();
  find_nodes();
  read_stages();
  out_.unlike_ = prices_.unlike();
}

void MeshReader::read_stages() {
  const RankKinds kinds(program_);
  for (MeshStage& stage : out_.stages_) {
    read_stage(stage);
    if (!out_.complete_) return;
    read_memory(stage, kinds.first_ranks(stage.role));
  }
  out_.sharing_.assign(meetings_.size(), 0);
  for (const MeshStage& stage : out_.stages_) {
    out_.tails_.push_back(&stage.tail);
    for (const TailOperation& o : stage.tail.operations)
      if (o.meeting >= 0) ++nth(out_.sharing_, o.meeting);
  }
  const auto all = static_cast<int>(out_.stages_.size());
  out_.meets_ = all == 1 || std::any_of(out_.sharing_.begin(), out_.sharing_.end(), [all](int n) { return n == all; });
}

/// Stages between the first and the last hold as much and lie alike, or else each counts by itself.
void MeshReader::find_stages() {
  const int p = static_cast<int>(program_.roles.size());
  bool& alike = out_.alike_;
  for (int s = 2; s + 1 < p; ++s) alike = alike && prices_.class_of(s) == prices_.class_of(1);
  for (int s = 0; s < p; ++s) {
    if (alike && s > 1 && s + 1 < p) continue;
    out_.stages_.emplace_back();
    out_.stages_.back().role = s;
  }
}

void MeshReader::find_nodes() {
  const auto last = static_cast<int>(program_.roles.size()) - 1;
  std::map<NodeId, std::vector<int>> ranks;
  for (std::size_t r = 0; r < program_.role_of_rank.size(); ++r) {
    const int role = program_.role_of_rank[r];
    const std::size_t kind = !out_.alike_   ? static_cast<std::size_t>(role)
                             : role == 0    ? 0
                             : role == last ? out_.stages_.size() - 1
                                            : 1;
    std::vector<int>& here = ranks[cluster_.node_of(nth(program_.device_of_rank, static_cast<int>(r)))];
    here.resize(out_.stages_.size());
    ++here[kind];
  }
  std::set<std::pair<std::vector<int>, double>> seen;
  for (auto& [node, counts] : ranks)
    if (const Bytes all = cluster_.machine(node).host_memory; all > Bytes{0}) seen.insert({counts, all.value()});
  out_.nodes_.assign(seen.begin(), seen.end());
}

bool QuickMesh::host_fits(const std::vector<double>& bytes) const {
  return std::all_of(nodes_.begin(), nodes_.end(), [&](const auto& node) {
    return std::inner_product(bytes.begin(), bytes.end(), node.first.begin(), 0.0) <= node.second;
  });
}

PassPart::Kind MeshReader::kind(const Entry& e) {
  auto& part = nth(parts_, e.body);
  if (!part) part = part_of(nth(program_.bodies, e.body));
  return part->kind;
}

void MeshReader::read_stage(MeshStage& out) {
  const Role& role = nth(program_.roles, out.role);
  Stage stage;
  stage.role = out.role;
  stage.tail = tail_of(program_, role, parts_);
  const StagePasses passes(program_, out_.schedule_, out.role);
  out_.one_chunk_ = passes.chunks() == 1;
  // Not where one rank works for the others, as servers of parameters do.
  const bool all_here = std::all_of(role.step.begin(), role.step.end(),
                                    [&](const Entry& e) { return kind(e) != PassPart::Kind::pass || passes.has(e); });
  if (!all_here || passes.chunks() == 0) {
    out_.complete_ = false;
    return;
  }
  // By chunk: the microbatch whose backward is the last to add to its gradients.
  std::vector<int> final(static_cast<std::size_t>(passes.chunks()), -1);
  const auto place = [&](const Entry& e) { return passes.of(e, nth(program_.bodies, e.body).phase); };
  for (int i = 0; i < stage.tail; ++i) {
    const Entry& e = nth(role.step, i);
    if (kind(e) != PassPart::Kind::pass) continue;
    const StagePasses::Place at = place(e);
    if (at.pass == Pass::backward || at.pass == Pass::backward_weight) nth(final, at.chunk) = e.microbatch;
  }
  std::vector<CallEnd> calls;
  std::vector<EventId> needed;
  StagePasses::Place before{Pass::forward, 0, 0};
  bool after_final = false;
  for (int i = 0; i < stage.tail; ++i) {
    const Entry& e = nth(role.step, i);
    const PassPart::Kind kind = this->kind(e);
    if (kind == PassPart::Kind::pass) {
      before = place(e);
      after_final = (before.pass == Pass::backward || before.pass == Pass::backward_weight) &&
                    e.microbatch == nth(final, before.chunk);
      for (std::int32_t w = 0; w < e.wait_count; ++w)
        if (const Wait& wait = nth(role.waits, e.first_wait + w); wait.steps_back > 0) {
          if (before.pass != Pass::forward) out_.complete_ = false;
          needed.push_back(wait.event);
          out.needs.push_back({before.chunk, before.block, 0});
        }
    }
    if (kind != PassPart::Kind::call || out_.in_passes_) continue;
    if (!after_final || !add_call(e, before.chunk, before.block + 1, out)) out_.wants_ = MeshDetail::calls;
    if (e.record >= 0) calls.push_back({e.record, std::uint32_t{1} << out_.reductions_});
  }
  if (out_.wants_ != MeshDetail::reductions && !out_.in_passes_) {
    out_.complete_ = false;
    return;
  }
  const std::size_t of_passes = needed.size();
  if (out_.in_passes_) {
    out.between = read_calls(program_, passes, stage, prices_, needed);
    out_.complete_ = out_.complete_ && out.between.complete;
    calls = out.between.ends;
    if (out.between.of_blocks) out_.wants_ = MeshDetail::calls_of_blocks;
    out_.in_every_pass_ = out_.in_every_pass_ || out.between.each;
  }
  out.tail = compile_tail(program_, stage, prices_, calls, needed, meetings_);
  const auto operation_of = [&out](EventId event) {
    const auto at =
        std::find_if(out.tail.ends.begin(), out.tail.ends.end(), [&](const auto& e) { return e.first == event; });
    return at->second;
  };
  for (std::size_t n = 0; n < of_passes; ++n) out.needs[n].operation = operation_of(needed[n]);
  for (auto& of_kind : out.between.passes) {
    for (auto& chunk : of_kind)
      for (PassCalls& pass : chunk) pass = with_needs(pass, [&](int need) { return operation_of(nth(needed, need)); });
  }
}

PassCalls QuickMesh::calls(const Part& p) const {
  const auto& chunks = nth(nth(stages_, p.stage).between.passes, p.pass);
  const std::size_t chunk = one_chunk_ ? 0 : static_cast<std::size_t>(p.chunk);
  if (chunk >= chunks.size() || chunks[chunk].empty()) return {};
  const std::vector<PassCalls>& passes = chunks[chunk];
  const std::size_t last = passes.size() - 1;
  std::size_t pass = p.first ? 0 : p.last ? last : std::min<std::size_t>(1, last);
  // Where that was one of a pair, another of its kind.
  const std::vector<bool>& paired = nth(nth(stages_, p.stage).between.paired, p.pass)[chunk];
  if (paired[pass]) pass = static_cast<std::size_t>(std::find(paired.begin(), paired.end(), false) - paired.begin());
  if (pass > last) {
    QuickMesh::Part half = p;
    half.pass = Pass::backward_input;
    return p.pass == Pass::backward && schedule_.splits_backward() ? calls(half) : PassCalls{};
  }
  return one_chunk_ ? part_of(passes[pass], p.base, p.count) : passes[pass];
}

/// Reductions that begin together are one call. False for calls of any other kind.
bool MeshReader::add_call(const Entry& e, int chunk, int blocks, MeshStage& out) {
  const Body& body = nth(program_.bodies, e.body);
  ExprContext at = prices_.context(out.role);
  at.tables = &program_.tables;
  at.layer = e.layer;
  // Gradients that a reduction gives back are more than time.
  if (sum(body_curve(program_, at, body, nth(program_.binding_sets, e.bindings)).at_end) != 0) return false;
  for (const auto v : body.graph.vertices()) {
    if (!std::holds_alternative<CollectiveTask>(body.graph[v].kind) ||
        body.graph[v].stream != nth(sides_, out_.reductions_))
      return false;
    const Transfer t = prices_.collective(e.body, static_cast<int>(v), out.role);
    if (out.calls.empty() || out.calls.back().blocks != blocks || out.calls.back().chunk != chunk)
      out.calls.push_back({chunk, blocks, 0, {}});
    MeshCall& c = out.calls.back();
    const double all = c.seconds + t.seconds;
    if (all > 0)
      c.load = {(c.load.sm_share * c.seconds + t.load.sm_share * t.seconds) / all,
                (c.load.hbm_share * c.seconds + t.load.hbm_share * t.seconds) / all};
    c.seconds = all;
  }
  return body.graph.size() > 0;
}

void MeshReader::read_memory(MeshStage& stage, const std::vector<int>& ranks) {
  const Role& role = nth(program_.roles, stage.role);
  double most = -1;
  for (const int rank : ranks) {
    ExprContext at = program_.mesh.context(rank);
    at.tables = &program_.tables;
    const Amounts held = persistent(program_, role, at);
    if (sum(held) <= most) continue;
    most = sum(held);
    stage.held = held;
    stage.rank = rank;
    stage.host_held = host_held(program_, role, at);
  }
  nth(stage.held, MemoryCategory::workspace) += rule_.workspace.value();
  stage.cached = cached_blocks(program_, role, stage.rank);
  nth(stage.held, MemoryCategory::framework) += rule_.outside(program_, stage.rank).value();
  stage.capacity = cluster_.gpu(nth(program_.device_of_rank, stage.rank)).usable_memory;
  ExprContext at = program_.mesh.context(stage.rank);
  at.tables = &program_.tables;
  std::map<std::pair<int, int>, MemoryCall> seen;
  PassMemoryWalk tail;
  for (std::size_t i = static_cast<std::size_t>(tail_of(program_, role, parts_)); i < role.step.size(); ++i) {
    const Entry& e = role.step[i];
    const auto [known, fresh] = seen.try_emplace({e.body, e.bindings});
    if (!fresh && !out_.in_passes_) {
      tail.add(known->second);
      continue;
    }
    at.layer = e.layer;
    const Body& body = nth(program_.bodies, e.body);
    const BodyCurve curve = body_curve(program_, at, body, nth(program_.binding_sets, e.bindings));
    known->second = {e.stream == 0, body.graph.size() > 0, curve};
    tail.add(known->second);
    if (!curve.later.empty()) out_.complete_ = false;
    if (curve.peak <= stage.tail_peak) continue;
    stage.tail_peak = curve.peak;
    stage.at_tail_peak = curve.at_peak;
  }
  stage.tail_memory = tail.result();
}

MeshMessages QuickMesh::messages(Bytes bytes, bool blocking) const {
  const std::lock_guard lock(asking_);
  const auto slowest = [&](const EstimatePrices::Ends& ends) {
    Transfer out;
    for (const auto& [from, to] : ends) {
      const CallPrice& price = prices_.price({from, to, bytes.value(), blocking});
      if (price.seconds + price.wait > out.seconds) out = {price.seconds + price.wait, price.load, price.wait};
    }
    return out;
  };
  MeshMessages out;
  std::transform(forward_.begin(), forward_.end(), std::back_inserter(out.forward), slowest);
  std::transform(backward_.begin(), backward_.end(), std::back_inserter(out.backward), slowest);
  for (std::size_t s = 1; s + 1 < out.forward.size(); ++s)
    out.even = out.even && equal(out.forward[s], out.forward[0]) && equal(out.backward[s], out.backward.back());
  return out;
}

std::size_t QuickMesh::bytes() const {
  const auto of_calls = [](const PassCalls& c) {
    std::size_t out = sizeof(PassCalls) + c.timed.size() * sizeof(PassCalls::Timed) + c.tasks.size() * sizeof(CallTask);
    for (const PassCall& call : c.all)
      out += sizeof(PassCall) + kBytesOfMemoryCall + call.tasks.size() * sizeof(CallTask);
    return out;
  };
  std::size_t out = sizeof *this;
  for (const MeshStage& stage : stages_) {
    out += sizeof stage + stage.tail.operations.size() * sizeof(TailOperation);
    for (const auto& kind : stage.between.passes)
      for (const auto& chunk : kind)
        for (const PassCalls& calls : chunk) out += of_calls(calls);
  }
  for (const auto& ends : {forward_, backward_})
    for (const EstimatePrices::Ends& of : ends) out += of.size() * sizeof of[0];
  return out;
}

const MeshMessages& MeshAnswers::messages(Bytes bytes, bool blocking) {
  const auto [at, fresh] = messages_.try_emplace({bytes.value(), blocking});
  if (fresh) at->second = mesh_->messages(bytes, blocking);
  return at->second;
}

const PassCalls& MeshAnswers::calls(const QuickMesh::Part& p) {
  const std::uint64_t kind = (static_cast<std::uint64_t>(p.stage) * 4096 + static_cast<std::uint64_t>(p.chunk)) * 16 +
                             static_cast<std::uint64_t>(p.pass) * 4 +
                             (p.first  ? 2
                              : p.last ? 1
                                       : 0);
  const std::uint64_t key = kind << 32 | static_cast<std::uint64_t>(p.base) << 16 | static_cast<std::uint64_t>(p.count);
  const auto [at, fresh] = calls_.try_emplace(key);
  if (fresh) at->second = mesh_->calls(p);
  return at->second;
}

}  // namespace rehearse
