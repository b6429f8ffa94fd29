#include "core/search/space.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "core/config/settings/strategy.hpp"
#include "core/schedule/schedule.hpp"
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

/// What refuses `settings`, or nothing: arithmetic between axes, then every strategy in use.
std::optional<std::string> refused(const Workload& workload, const StrategySettings& settings) {
  const PlanRequest request{workload, settings,
                            static_cast<int>(workload.training.global_batch / (settings.microbatch * settings.dp))};
  try {
    for (const auto& entry : strategies().entries())
      if (entry.value->active(request)) entry.value->check(request);
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
      fixed_(std::move(fixed)),
      admits_(std::move(admits)),
      schedule_names_(schedules().names()) {
  own_.layers_per_stage.clear();
  own_.batch_per_replica.clear();
  if (!fixed_.contains("data_parallel")) own_.data_parallel = DataParallelism::replicas;
  declared_ = declared_choices(own_.declared, fixed_);
  meshes_ = meshes(devices);
  for (std::uint32_t m = 0; m < meshes_.size(); ++m) add_mesh(m);
  if (plans_.empty())
    throw Error(ErrorKind::usage,
                refusal_.empty() ? "no plan has these settings" : "no plan is legal; the last one refused: " + refusal_,
                "strategy", "fix fewer settings, or change the cluster's size");
}

std::vector<Space::Mesh> Space::meshes(int devices) const {
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
        try {
          schedules().entries()[s].value->check({mesh.pp, v, static_cast<int>(per_replica / b)});
          out.push_back({static_cast<std::uint8_t>(s), uneven, v, b});
        } catch (const Error&) {  // A shape that this schedule cannot run.
        }
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

std::vector<std::uint8_t> Space::recomputes() const {
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

std::vector<std::uint8_t> Space::offloads() const {
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

bool Space::legal(const Plan& plan) {
  const StrategySettings wanted = settings(plan);
  if (auto why = refused(workload_, wanted)) {
    refusal_ = std::move(*why);
    return false;
  }
  if (!admits_ || admits_(wanted)) return true;
  refusal_ = "the framework cannot do it (rehearse explain framework:NAME)";
  return false;
}

/// Settings that are refused whatever the rest are dropped with all that would follow: strategies look at the mesh and
/// its layouts first, then at what is sharded beside which schedule.
void Space::add_mesh(std::uint32_t index) {
  const Mesh& mesh = meshes_[index];
  lists_.push_back({pipelines(mesh), shardings(mesh)});
  const Lists& lists = lists_.back();
  const std::vector<std::uint8_t> recompute = recomputes(), offload = offloads(), context = contexts(mesh);
  Plan plan;
  plan.mesh = index;
  double orders = 1;
  int large = 0;
  for (const int size : {mesh.dp, mesh.tp, mesh.pp, mesh.cp, mesh.tile_h, mesh.tile_w}) large += size > 1;
  for (int i = 2; i <= large && !fixed("placement"); ++i) orders *= i;
  combinations_ +=
      static_cast<double>(lists.pipelines.size() * lists.shardings.size() * recompute.size() * offload.size() *
                          context.size() * sequence_parallel(mesh).size() * declared_.size()) *
      orders;
  for (plan.declared = 0; plan.declared < declared_.size(); ++plan.declared) {
    for (const bool sequence : sequence_parallel(mesh)) {
      plan.sequence_parallel = sequence;
      for (const std::uint8_t exchange : context) {
        plan.context = exchange;
        add_plans(plan, lists, recompute, offload);
      }
    }
  }
}

void Space::add_plans(Plan plan, const Lists& lists, const std::vector<std::uint8_t>& recompute,
                      const std::vector<std::uint8_t>& offload) {
  for (plan.sharding = 0; plan.sharding < lists.shardings.size(); ++plan.sharding) {
    for (const std::uint8_t moved : offload) {
      plan.offload = moved;
      int checked = -1;
      bool may = false;
      for (plan.pipeline = 0; plan.pipeline < lists.pipelines.size(); ++plan.pipeline) {
        plan.recompute = recompute.front();
        const Pipeline& pipeline = lists.pipelines[plan.pipeline];
        const int kind = (pipeline.schedule << 1) | (pipeline.chunks > 1);
        if (kind != checked) may = legal(plan);
        checked = kind;
        if (!may) continue;
        for (const std::uint8_t again : recompute) {
          plan.recompute = again;
          plans_.push_back(plan);
        }
      }
    }
  }
}

StrategySettings Space::settings(const Plan& plan) const {
  const Mesh& mesh = meshes_[plan.mesh];
  const Lists& lists = lists_[plan.mesh];
  const Pipeline& pipeline = lists.pipelines[plan.pipeline];
  const Sharding& sharding = lists.shardings[plan.sharding];
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

std::optional<std::uint32_t> Space::find(const StrategySettings& s) const {
  const Mesh wanted{s.dp, s.tp, s.pp, s.cp, s.ep, s.etp, s.tile_h, s.tile_w};
  const auto same = [&](const Plan& plan) {
    if (meshes_[plan.mesh] != wanted) return false;
    const Pipeline& pipeline = lists_[plan.mesh].pipelines[plan.pipeline];
    const Sharding& sharding = lists_[plan.mesh].shardings[plan.sharding];
    const bool passes =
        s.pp == 1 || (schedule_names_[pipeline.schedule] == s.schedule && pipeline.chunks == s.virtual_stages);
    const bool shards = sharding.zero == s.zero_stage && sharding.fsdp == s.fsdp.enabled &&
                        (!s.fsdp.enabled || sharding.dp_shard == s.dp_shard);
    return passes && pipeline.microbatch == s.microbatch && shards &&
           (s.zero_stage == 0 || sharding.gather_late == s.overlap.param_gather) &&
           plan.offload == static_cast<std::uint8_t>(s.offload) &&
           plan.recompute == static_cast<std::uint8_t>(s.recompute) &&
           (s.cp == 1 || plan.context == static_cast<std::uint8_t>(s.context)) &&
           (s.tp == 1 || plan.sequence_parallel == s.sequence_parallel) && declared_[plan.declared] == s.declared;
  };
  const auto at = std::find_if(plans_.begin(), plans_.end(), same);
  return at == plans_.end() ? std::nullopt : std::optional(static_cast<std::uint32_t>(at - plans_.begin()));
}

int Space::distance(const Plan& a, const Plan& b) const {
  const Mesh& m = meshes_[a.mesh];
  const Mesh& n = meshes_[b.mesh];
  const Pipeline& p = lists_[a.mesh].pipelines[a.pipeline];
  const Pipeline& q = lists_[b.mesh].pipelines[b.pipeline];
  const Sharding& s = lists_[a.mesh].shardings[a.sharding];
  const Sharding& t = lists_[b.mesh].shardings[b.sharding];
  const bool staged = m.pp > 1 && n.pp > 1;
  // A part of the replicas that is all of them stays so on other axes.
  const bool shards_differ = s.zero != t.zero || s.gather_late != t.gather_late || s.fsdp != t.fsdp ||
                             (s.dp_shard != t.dp_shard && (s.dp_shard == m.dp) != (t.dp_shard == n.dp));
  return (m == n ? 0 : 1) + (staged && (p.schedule != q.schedule || p.chunks != q.chunks) ? 1 : 0) +
         (p.microbatch == q.microbatch ? 0 : 1) + (shards_differ ? 1 : 0) + (a.offload == b.offload ? 0 : 1) +
         (a.recompute == b.recompute ? 0 : 1) + (m.cp > 1 && n.cp > 1 && a.context != b.context ? 1 : 0) +
         (m.tp > 1 && n.tp > 1 && a.sequence_parallel != b.sequence_parallel ? 1 : 0) +
         (a.declared == b.declared ? 0 : 1);
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
