#include "core/search/space.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <utility>

#include "core/base/index.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/schedule/schedule.hpp"
#include "core/search/no_plan.hpp"
#include "core/search/parallel.hpp"
#include "core/strategy/workload.hpp"

namespace rehearse {

namespace {

std::vector<int> divisors(std::int64_t n) {
  std::vector<int> out;
  for (std::int64_t d = 1; d * d <= n; ++d)
    if (n % d == 0) {
      out.push_back(static_cast<int>(d));
      if (d * d != n) out.push_back(static_cast<int>(n / d));
    }
  std::sort(out.begin(), out.end());
  return out;
}

/// Which strategy in use refuses `settings`, and why; or nothing.
std::optional<std::string> refused(const Workload& workload, const StrategySettings& settings, PlanChecks checks) {
  const PlanRequest request{workload, settings,
                            static_cast<int>(workload.training.global_batch / (settings.microbatch * settings.dp))};
  try {
    check_strategies(request, checks);
  } catch (const Error& e) {
    return e.what();
  }
  return {};
}

bool is_power_of_two(int n) { return (n & (n - 1)) == 0; }

/// All values of the searched keys that other files declare and nobody fixed, those of `own` first.
std::vector<DeclaredSettings> declared_choices(const DeclaredSettings& own, const std::set<std::string>& fixed) {
  std::vector<DeclaredSettings> out{own};
  for (const auto& entry : declared_keys().entries()) {
    const bool searched = entry.name.starts_with(kSearchedGroup) && !entry.value.options.searched.empty();
    if (!searched || fixed.contains(entry.name.substr(kSearchedGroup.size()))) continue;
    const std::vector<DeclaredSettings> before = out;
    for (const SettingValue& value : entry.value.options.searched)
      for (DeclaredSettings choice : before) {
        choice.set(entry.name, value);
        if (std::find(out.begin(), out.end(), choice) == out.end()) out.push_back(std::move(choice));
      }
  }
  if (out.size() > kMostDeclared)
    throw Error(ErrorKind::usage, "more combinations of settings than a search tries", "strategy",
                "fix some of them with --fix");
  return out;
}

}  // namespace

Space::Space(const Workload& workload, StrategySettings own, int devices, std::set<std::string> fixed,
             std::function<bool(const StrategySettings&)> admits)
    : workload_(workload),
      own_(std::move(own)),
      devices_(devices),
      fixed_(std::move(fixed)),
      admits_(std::move(admits)),
      schedule_names_(schedules().names()) {
  own_.layers_per_stage.clear();
  own_.batch_per_replica.clear();
  if (!fixed_.contains("data_parallel")) own_.data_parallel = DataParallelism::replicas;
  declared_ = declared_choices(own_.declared, fixed_);
  recomputes_ = make_recomputes();
  offloads_ = make_offloads();
  meshes_ = make_meshes(devices);
  lists_.resize(meshes_.size());
  if (meshes_.empty()) throw no_plan("no plan has these settings", workload_, own_, devices_, fixed_);
}

std::vector<Space::Mesh> Space::make_meshes(int devices) const {
  const Network& net = workload_.network;
  const Routing* routing = net.routing();
  std::vector<Mesh> out;
  const auto only = [](bool may, std::vector<int> sizes) { return may ? std::move(sizes) : std::vector<int>{1}; };
  for (const int tp : only(net.sequences, divisors(devices))) {
    for (const int cp : only(net.sequences, divisors(devices / tp))) {
      for (const int tile_h : only(!net.sequences, divisors(devices / tp / cp))) {
        for (const int tile_w : only(!net.sequences, divisors(devices / tp / cp / tile_h))) {
          for (const int pp : divisors(devices / tp / cp / tile_h / tile_w)) {
            const int dp = devices / (tp * cp * pp * tile_h * tile_w);
            for (const int ep : routing == nullptr ? std::vector<int>{1} : divisors(routing->experts)) {
              for (const int etp : routing == nullptr || tp == 1 ? std::vector<int>{1} : std::vector<int>{1, tp}) {
                if (dp * cp * tp % (ep * etp) != 0) continue;
                const bool wanted = admits("dp", dp, own_.dp) && admits("tp", tp, own_.tp) &&
                                    admits("pp", pp, own_.pp) && admits("cp", cp, own_.cp) &&
                                    admits("ep", ep, own_.ep) && admits("etp", etp, own_.etp) &&
                                    admits("tile_h", tile_h, own_.tile_h) && admits("tile_w", tile_w, own_.tile_w);
                if (wanted && workload_.training.global_batch % dp == 0 && pp <= net.layers())
                  out.push_back({dp, tp, pp, cp, ep, etp, tile_h, tile_w});
              }
            }
          }
        }
      }
    }
  }
  std::stable_sort(out.begin(), out.end(), [](const Mesh& a, const Mesh& b) { return width(a) < width(b); });
  return out;
}

/// Chunks per stage that give every chunk a layer: those that divide the layers, and powers of two.
std::vector<std::int16_t> Space::chunk_counts(const Mesh& mesh) const {
  const int layers = workload_.network.layers();
  std::vector<std::int16_t> out;
  for (int v = 1; mesh.pp * v <= layers && v <= layers; ++v)
    if ((layers % (mesh.pp * v) == 0 || is_power_of_two(v)) && admits("virtual_stages", v, own_.virtual_stages))
      out.push_back(static_cast<std::int16_t>(v));
  return mesh.pp == 1 ? std::vector<std::int16_t>{1} : out;
}

bool Space::runs(std::size_t schedule, const PipelineShape& shape) const {
  const std::array key{static_cast<int>(schedule), shape.stages, shape.virtual_stages, shape.microbatches};
  const std::lock_guard lock(*asking_);
  const auto [at, fresh] = runs_.try_emplace(key, true);
  if (!fresh) return at->second;
  try {
    schedules().entries()[schedule].value->check(shape);
  } catch (const Error&) {
    at->second = false;
  }
  return at->second;
}

std::vector<Space::Pipeline> Space::pipelines(const Mesh& mesh) const {
  std::vector<Pipeline> out;
  const std::int64_t per_replica = workload_.training.global_batch / mesh.dp;
  const std::string alone = fixed("schedule") ? own_.schedule : "1f1b";
  for (std::size_t s = 0; s < schedule_names_.size(); ++s) {
    const std::string& name = schedule_names_[s];
    if (fixed("schedule") ? name != own_.schedule : mesh.pp == 1 && name != alone) continue;
    // Without experts a pair has nothing to hide.
    const Schedule& schedule = *schedules().entries()[s].value;
    if (!fixed("schedule") && schedule.pairs() && schedule.copies() == 1 && workload_.network.routing() == nullptr)
      continue;
    for (const std::int16_t v : chunk_counts(mesh)) {
      const bool uneven = !workload_.network.uneven() && workload_.network.layers() % (mesh.pp * v) != 0;
      if (uneven && fixed("uneven_layers") && !own_.uneven_layers) continue;
      for (const int b : divisors(per_replica)) {
        if (!admits("microbatch", b, own_.microbatch)) continue;
        if (runs(s, {mesh.pp, v, static_cast<int>(per_replica / b)}))
          out.push_back({static_cast<std::uint8_t>(s), uneven, v, b});
      }
    }
  }
  return out;
}

std::vector<Space::Sharding> Space::shardings(const Mesh& mesh) const {
  std::vector<Sharding> out;
  const bool wants_fsdp = own_.fsdp.enabled;
  const auto add = [&](int zero, bool late, bool fsdp, int shard) {
    if (admits("zero_stage", zero, own_.zero_stage) && admits("fsdp.enabled", fsdp, wants_fsdp) &&
        admits("dp_shard", shard, own_.dp_shard) && admits("dp_replicate", mesh.dp / shard, own_.dp_replicate) &&
        admits("overlap.param_gather", late, own_.overlap.param_gather))
      out.push_back({static_cast<std::uint8_t>(zero), late, fsdp, shard});
  };
  add(0, own_.overlap.param_gather && fixed("overlap.param_gather"), false, 1);
  if (mesh.dp * mesh.cp * mesh.tile_h * mesh.tile_w == 1) return out;
  add(1, false, false, 1);
  add(1, true, false, 1);
  add(2, false, false, 1);
  add(3, false, false, 1);
  for (const int shard : divisors(mesh.dp))
    if (shard * mesh.cp > 1) add(0, own_.overlap.param_gather && fixed("overlap.param_gather"), true, shard);
  return out;
}

std::vector<std::uint8_t> Space::make_recomputes() const {
  std::vector<std::uint8_t> out;
  const bool core_alone = own_.recompute_modules == std::vector<std::string>{"core_attn"};
  for (const Recompute r : {Recompute::none, Recompute::selective, Recompute::full}) {
    // Flash attention keeps no scores that could be made again.
    const bool idle =
        r == Recompute::selective &&
        (!workload_.network.sequences || (core_alone && workload_.kernels.attention == AttentionKernel::flash));
    if (fixed("recompute") ? r == own_.recompute : !idle) out.push_back(static_cast<std::uint8_t>(r));
  }
  return out;
}

std::vector<std::uint8_t> Space::make_offloads() const {
  if (fixed("offload")) return {static_cast<std::uint8_t>(own_.offload)};
  return {static_cast<std::uint8_t>(Offload::none), static_cast<std::uint8_t>(Offload::optimizer),
          static_cast<std::uint8_t>(Offload::activations), static_cast<std::uint8_t>(Offload::all)};
}

std::vector<std::uint8_t> Space::contexts(const Mesh& mesh) const {
  if (mesh.cp == 1 || fixed("context")) return {static_cast<std::uint8_t>(own_.context)};
  return {static_cast<std::uint8_t>(ContextExchange::ring), static_cast<std::uint8_t>(ContextExchange::ulysses),
          static_cast<std::uint8_t>(ContextExchange::allgather)};
}

std::vector<bool> Space::sequence_parallel(const Mesh& mesh) const {
  if (fixed("sequence_parallel")) return {own_.sequence_parallel};
  return mesh.tp == 1 ? std::vector<bool>{false} : std::vector<bool>{false, true};
}

std::optional<std::string> Space::refusal(const Plan& plan, PlanChecks checks) const {
  const StrategySettings wanted = settings(plan);
  if (auto why = refused(workload_, wanted, checks)) return why;
  if (checks == PlanChecks::axes || !admits_ || admits_(wanted)) return {};
  return "the framework cannot do it (rehearse explain framework:NAME)";
}

const Space::Lists& Space::lists(std::uint32_t mesh) const {
  std::optional<Lists>& known = lists_[mesh];
  if (!known) {
    const Mesh& m = meshes_[mesh];
    known = Lists{pipelines(m), shardings(m), contexts(m), sequence_parallel(m)};
  }
  return *known;
}

double Space::combinations_of(std::uint32_t index) const {
  const Mesh& mesh = meshes_[index];
  const Lists& l = lists(index);
  double orders = 1;
  int large = 0;
  for (const int size : {mesh.dp, mesh.tp, mesh.pp, mesh.cp, mesh.tile_h, mesh.tile_w}) large += size > 1;
  for (int i = 2; i <= large && !fixed("placement"); ++i) orders *= i;
  return static_cast<double>(l.pipelines.size() * l.shardings.size() * recomputes_.size() * offloads_.size() *
                             l.contexts.size() * l.sequence_parallel.size() * declared_.size()) *
         orders;
}

void Space::enumerate(int jobs, const std::function<bool()>& stop) {
  families_.assign(meshes_.size(), {});
  std::vector<char> done(meshes_.size(), 0);
  std::vector<std::string> refusals(meshes_.size());
  parallel_for(jobs, meshes_.size(), stop, [&](std::size_t m) {
    find_families(static_cast<std::uint32_t>(m), refusals[m]);
    done[m] = 1;
  });
  enumerated_ = static_cast<std::size_t>(std::count(done.begin(), done.end(), 1));
  combinations_ = 0;
  for (std::uint32_t m = 0; m < meshes_.size(); ++m)
    if (done[m] != 0) combinations_ += combinations_of(m);
  if (!all() || legal() > 0) return;
  const auto last = std::find_if(refusals.rbegin(), refusals.rend(), [](const auto& r) { return !r.empty(); });
  throw no_plan(
      last == refusals.rend() ? "no plan has these settings" : "no plan is legal; the last one refused: " + *last,
      workload_, own_, devices_, fixed_);
}

void Space::find_families(std::uint32_t mesh, std::string& refusal) {
  const Lists& l = lists(mesh);
  Plan plan;
  plan.mesh = mesh;
  for (plan.declared = 0; plan.declared < declared_.size(); ++plan.declared) {
    for (const bool sequence : l.sequence_parallel) {
      plan.sequence_parallel = sequence;
      for (const std::uint8_t exchange : l.contexts) {
        plan.context = exchange;
        if (l.pipelines.empty() || l.shardings.empty()) continue;
        if (auto why = this->refusal(plan, PlanChecks::axes))
          refusal = std::move(*why);
        else
          find_families_of(plan, refusal);
      }
    }
  }
}

void Space::find_families_of(Plan plan, std::string& refusal) {
  for (plan.sharding = 0; plan.sharding < lists(plan.mesh).shardings.size(); ++plan.sharding) {
    for (const std::uint8_t moved : offloads_) {
      plan.offload = moved;
      if (const std::uint64_t kinds = legal_kinds(plan, refusal); kinds != 0)
        families_[plan.mesh].push_back({plan, kinds});
    }
  }
}

std::uint64_t Space::legal_kinds(Plan plan, std::string& refusal) const {
  std::uint64_t out = 0;
  int checked = -1;
  plan.recompute = recomputes_.front();
  const std::vector<Pipeline>& pipelines = lists(plan.mesh).pipelines;
  for (std::size_t p = 0; p < pipelines.size(); ++p) {
    const int kind = pipeline_kind(pipelines[p]);
    if (kind == checked) continue;
    checked = kind;
    plan.pipeline = static_cast<std::uint16_t>(p);
    if (auto why = this->refusal(plan, PlanChecks::others))
      refusal = std::move(*why);
    else
      out |= std::uint64_t{1} << kind;
  }
  return out;
}

std::uint64_t Space::legal() const {
  std::uint64_t out = 0;
  for (std::uint32_t m = 0; m < families_.size(); ++m) {
    std::array<std::uint64_t, 64> of_kind{};
    if (families_[m].empty()) continue;
    for (const Pipeline& p : lists(m).pipelines) ++nth(of_kind, pipeline_kind(p));
    for (const Family& f : families_[m])
      for (std::size_t k = 0; k < of_kind.size(); ++k) out += (f.kinds >> k & 1) * of_kind[k];
  }
  return out * recomputes_.size();
}

std::vector<Space::Plan> Space::plans() const {
  std::vector<Plan> out;
  out.reserve(legal());
  for (std::uint32_t m = 0; m < families_.size(); ++m) {
    for (const Family& f : families_[m]) {
      Plan plan = f.first;
      const std::vector<Pipeline>& pipelines = lists(m).pipelines;
      for (std::size_t p = 0; p < pipelines.size(); ++p) {
        if ((f.kinds >> pipeline_kind(pipelines[p]) & 1) == 0) continue;
        plan.pipeline = static_cast<std::uint16_t>(p);
        for (const std::uint8_t again : recomputes_) {
          plan.recompute = again;
          out.push_back(plan);
        }
      }
    }
  }
  return out;
}

StrategySettings Space::settings(const Plan& plan) const {
  const Mesh& mesh = meshes_[plan.mesh];
  const Lists& from = lists(plan.mesh);
  const Pipeline& pipeline = from.pipelines[plan.pipeline];
  const Sharding& sharding = from.shardings[plan.sharding];
  StrategySettings s = own_;
  s.dp = mesh.dp, s.tp = mesh.tp, s.pp = mesh.pp, s.cp = mesh.cp, s.ep = mesh.ep, s.etp = mesh.etp,
  s.tile_h = mesh.tile_h, s.tile_w = mesh.tile_w;
  s.dp_shard = sharding.dp_shard;
  s.dp_replicate = mesh.dp / sharding.dp_shard;
  s.zero_stage = sharding.zero;
  s.fsdp.enabled = sharding.fsdp;
  s.overlap.param_gather = sharding.gather_late;
  s.schedule = schedule_names_[pipeline.schedule];
  s.virtual_stages = pipeline.chunks;
  s.uneven_layers = pipeline.uneven || (own_.uneven_layers && fixed("uneven_layers"));
  s.microbatch = pipeline.microbatch;
  s.recompute = static_cast<Recompute>(plan.recompute);
  s.offload = static_cast<Offload>(plan.offload);
  s.context = static_cast<ContextExchange>(plan.context);
  s.sequence_parallel = plan.sequence_parallel;
  s.declared = declared_[plan.declared];
  s.scatter_gather = own_.scatter_gather && mesh.tp > 1 && mesh.pp > 1;
  s.deferred_head_gradients = 0;  // Bounds take the last stage to drain after its own work.
  s.overlap.tp = own_.overlap.tp && mesh.tp > 1 && plan.sequence_parallel;
  // Axes that the scenario's order leaves out, as they are one there, come last.
  for (const char* axis : {"tp", "cp", "ep", "dp", "pp", "tile_h", "tile_w"})
    if (std::find(s.placement.begin(), s.placement.end(), axis) == s.placement.end()) s.placement.emplace_back(axis);
  return s;
}

std::optional<Space::Plan> Space::find(const StrategySettings& s) const {
  const Mesh wanted{s.dp, s.tp, s.pp, s.cp, s.ep, s.etp, s.tile_h, s.tile_w};
  const auto mesh = std::find(meshes_.begin(), meshes_.end(), wanted);
  if (mesh == meshes_.end()) return {};
  Plan out;
  out.mesh = static_cast<std::uint32_t>(mesh - meshes_.begin());
  const Lists& from = lists(out.mesh);
  const auto pipeline = std::find_if(from.pipelines.begin(), from.pipelines.end(), [&](const Pipeline& p) {
    return p.microbatch == s.microbatch &&
           (s.pp == 1 || (schedule_names_[p.schedule] == s.schedule && p.chunks == s.virtual_stages));
  });
  const auto sharding = std::find_if(from.shardings.begin(), from.shardings.end(), [&](const Sharding& h) {
    return h.zero == s.zero_stage && h.fsdp == s.fsdp.enabled && (!s.fsdp.enabled || h.dp_shard == s.dp_shard) &&
           (s.zero_stage == 0 || h.gather_late == s.overlap.param_gather);
  });
  const auto declared = std::find(declared_.begin(), declared_.end(), s.declared);
  if (pipeline == from.pipelines.end() || sharding == from.shardings.end() || declared == declared_.end()) return {};
  out.pipeline = static_cast<std::uint16_t>(pipeline - from.pipelines.begin());
  out.sharding = static_cast<std::uint8_t>(sharding - from.shardings.begin());
  out.declared = static_cast<std::uint8_t>(declared - declared_.begin());
  out.recompute = static_cast<std::uint8_t>(s.recompute);
  out.offload = static_cast<std::uint8_t>(s.offload);
  out.context = s.cp > 1 ? static_cast<std::uint8_t>(s.context) : from.contexts.front();
  out.sequence_parallel = s.tp > 1 ? s.sequence_parallel : bool{from.sequence_parallel.front()};
  const auto has = [](const auto& list, auto value) {
    return std::find(list.begin(), list.end(), value) != list.end();
  };
  if (!has(recomputes_, out.recompute) || !has(offloads_, out.offload) || !has(from.contexts, out.context) ||
      !has(from.sequence_parallel, out.sequence_parallel) || !legal(out))
    return {};
  return out;
}

std::vector<std::vector<std::string>> Space::placements(const Plan& plan) const {
  const StrategySettings s = settings(plan);
  std::vector<std::vector<std::string>> out{s.placement};
  if (fixed("placement")) return out;
  const auto size = [&](const std::string& axis) {
    return axis == "dp"       ? s.dp
           : axis == "tp"     ? s.tp
           : axis == "pp"     ? s.pp
           : axis == "cp"     ? s.cp
           : axis == "tile_h" ? s.tile_h
           : axis == "tile_w" ? s.tile_w
                              : 1;
  };
  std::vector<std::string> large, rest;
  for (const std::string& axis : s.placement)
    if (axis != "ep") (size(axis) > 1 ? large : rest).push_back(axis);
  const std::vector<std::string> first = large;
  std::sort(large.begin(), large.end());
  do {
    if (large == first) continue;
    out.push_back(large);
    out.back().insert(out.back().end(), rest.begin(), rest.end());
    // Experts' ranks nearer to one another than their copies.
    out.back().insert(std::find(out.back().begin(), out.back().end(), "dp"), "ep");
  } while (std::next_permutation(large.begin(), large.end()));
  return out;
}

}  // namespace rehearse
