#include "core/fleet/read_fleet.hpp"

#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/cluster/make_cluster.hpp"
#include "core/config/json_file.hpp"
#include "core/config/json_text.hpp"
#include "core/config/override.hpp"
#include "core/fleet/jobs.hpp"
#include "core/fleet/order.hpp"
#include "core/fleet/placement.hpp"
#include "core/fleet/quota.hpp"
#include "core/fleet/rule.hpp"

namespace rehearse::fleet {

namespace {

using nlohmann::json;

constexpr std::int64_t kMostNodes = 1'000'000;
constexpr JsonLimits kLimits{512'000'000, 64};

/// Nodes of one entry of "pools": counted ones, or machines of the catalogue.
void read_pool(ObjectReader& r, const Catalogue& catalogue, std::vector<Node>& to) {
  Node n;
  n.pool = r.string("name", "");
  const auto count = static_cast<int>(r.integer("nodes", {1, kMostNodes}, 1));
  if (r.has("machine")) {
    try {
      const auto machine = catalogue.machine(r.string("machine"));
      n.machine = r.string("machine");
      n.gpus = machine->gpus;
      n.model = machine->gpu;
    } catch (Error& e) {
      if (e.where.empty()) e.where = r.where("machine");
      throw;
    }
    r.expect("gpus"), r.expect("model");
  } else {
    r.expect("machine");
    n.gpus = static_cast<int>(r.integer("gpus", {0, 1024}));
    n.model = r.string("model", "");
  }
  n.cpu_milli = 1000 * r.integer("cpus", {0, 1'000'000}, 0);
  n.memory_mib = static_cast<std::int64_t>(r.quantity<Bytes>("memory", Bytes{0}).value() / (1 << 20));
  const auto per_rack = static_cast<int>(r.integer("nodes_per_rack", {1, kMostNodes}, kMostNodes));
  r.finish();
  const std::string prefix = n.pool.empty() ? "node" : n.pool + "-";
  for (int i = 0; i < count; ++i) {
    n.name = fmt::format("{}{}", prefix, to.size());
    n.rack = fmt::format("{}rack{}", prefix, i / per_rack);
    to.push_back(n);
  }
}

/// All nodes of a cluster of the product, a pool for each kind of machine.
void read_cluster(ObjectReader& top, const Catalogue& catalogue, Fleet& f) {
  std::vector<Node>& to = f.nodes;
  try {
    const Cluster cluster = make_cluster(catalogue, top.string("cluster"));
    for (const Cluster::Part& part : cluster.parts()) {
      for (int i = 0; i < part.nodes; ++i) {
        to.push_back({.name = fmt::format("node{}", to.size()),
                      .pool = part.machine->id,
                      .model = part.gpu->id,
                      .gpus = part.machine->gpus,
                      .machine = part.machine->id});
      }
    }
    f.network = cluster.network().id;
  } catch (Error& e) {
    if (e.where.empty()) e.where = top.where("cluster");
    throw;
  }
}

Queue read_queue(ObjectReader& r) {
  constexpr NumberRange any{0, 1e9};
  Queue q;
  q.where = r.where();
  q.name = r.string("name");
  q.parent = r.string("parent", "");
  q.guaranteed = r.number("guaranteed", any, 0);
  q.limit = r.number("limit", any, kUnlimited);
  q.weight = r.number("weight", any, 1);
  q.priority = static_cast<int>(r.integer("priority", {-1'000'000, 1'000'000}, 0));
  q.borrow = r.number("borrow", any, kUnlimited);
  q.lend = r.number("lend", any, kUnlimited);
  const std::vector<std::string> words{"never", "lower_priority", "any"};
  const std::string reclaim = r.choice("reclaim", words, "any");
  q.reclaim = static_cast<Reclaim>(std::find(words.begin(), words.end(), reclaim) - words.begin());
  q.preempts_own = r.boolean("preempts_own", false);
  if (r.has("pools")) {
    for (ObjectReader& p : r.objects("pools")) {
      q.pools.push_back({p.string("pool"), p.number("guaranteed", any, 0), p.number("limit", any, kUnlimited),
                         p.number("borrow", any, kUnlimited), p.number("lend", any, kUnlimited)});
      p.finish();
    }
  } else {
    r.expect("pools");
  }
  r.finish();
  return q;
}

Job read_job(ObjectReader& r) {
  Job j;
  j.where = r.where();
  j.name = r.string("name", r.path().substr(r.path().rfind('/') + 1));
  j.queue = r.string("queue", "");
  j.priority = static_cast<int>(r.integer("priority", {-1'000'000, 1'000'000}, 0));
  j.request = read_request(r);
  j.arrival = r.quantity<Seconds>("arrival", Seconds{0});
  j.work = read_work(r);
  if (j.work && r.has("duration")) r.fail("duration", "stands beside a scenario", "state either of them");
  if (!j.work) j.duration = r.quantity<Seconds>("duration");
  j.estimate = r.quantity<Seconds>("estimate", Seconds{0});
  j.preemptible = r.boolean("preemptible", true);
  if (r.has("speeds") && !j.work) {
    for (ObjectReader& s : r.objects("speeds")) {
      j.speeds.push_back({static_cast<int>(s.integer("gpus", {1, 1'000'000})), s.string("model", ""),
                          s.quantity<Seconds>("duration")});
      s.finish();
    }
  } else {
    r.expect("speeds");
  }
  r.finish();
  return j;
}

/// Every number that a registered part takes, by its name.
std::vector<std::string> parameter_names() {
  std::vector<std::string> out;
  const auto add = [&out](const auto& registry) {
    for (const auto& entry : registry.entries())
      for (const ParameterHelp& p : entry.parameters)
        if (std::find(out.begin(), out.end(), p.name) == out.end()) out.push_back(p.name);
  };
  add(orders()), add(rules()), add(quotas()), add(placements());
  return out;
}

Policy read_policy(ObjectReader& r) {
  Policy p;
  p.order = r.choice("order", orders().names(), p.order);
  p.rule = r.choice("rule", rules().names(), p.rule);
  p.quota = r.choice("quota", quotas().names(), p.quota);
  p.placement = r.choice("placement", placements().names(), p.placement);
  p.interval = r.quantity<Seconds>("interval", Seconds{0});
  for (const std::string& name : parameter_names()) {
    const std::string key = name.substr(name.find('.') + 1), group = name.substr(0, name.find('.'));
    if (!r.has(group)) {
      r.expect(group);
      continue;
    }
    ObjectReader inside = r.object(group);
    for (const std::string& other : parameter_names())
      if (other.starts_with(group + ".")) inside.expect(other.substr(group.size() + 1));
    if (inside.has(key)) p.parameters[name] = inside.number(key, {0, 1e12});
    inside.finish();
  }
  r.finish();
  return p;
}

void read_times(ObjectReader& top, Fleet& f) {
  f.until = top.quantity<Seconds>("until", f.until);
  f.seed = static_cast<std::uint64_t>(top.integer("seed", {0}, 1));
  if (std::optional<ObjectReader> r = top.optional_object("interruption")) {
    f.interruption.restart = r->quantity<Seconds>("restart", Seconds{0});
    f.interruption.start = r->quantity<Seconds>("start", Seconds{0});
    f.interruption.checkpoint = r->quantity<Seconds>("checkpoint", Seconds{0});
    f.interruption.resize = r->quantity<Seconds>("resize", Seconds{0});
    f.interruption.write = r->quantity<Seconds>("write", Seconds{0});
    if (f.interruption.write.value() > 0 && f.interruption.checkpoint.value() <= 0)
      r->fail("write", "takes time, but 'checkpoint' does not say how often", "for example \"checkpoint\": \"30min\"");
    r->finish();
  }
  if (std::optional<ObjectReader> r = top.optional_object("failures")) {
    f.failures.profile = r->string("profile", "");
    if (f.failures.profile.empty()) f.failures.mtbf = r->quantity<Seconds>("mtbf");
    if (f.failures.mtbf.value() <= 0) r->fail("mtbf", "nodes would fail all the time", "for example \"1000h\"");
    f.failures.repair = r->quantity<Seconds>("repair", f.failures.repair);
    f.failures.seed = static_cast<std::uint64_t>(r->integer("seed", {0}, 1));
    r->finish();
  }
  if (!top.has("outages")) return top.expect("outages");
  for (ObjectReader& r : top.objects("outages")) {
    f.outages.push_back({r.string("node"), r.quantity<Seconds>("down"), r.quantity<Seconds>("up")});
    r.finish();
  }
}

void read_jobs(ObjectReader& top, Fleet& f) {
  const auto append = [&f](std::vector<Job> jobs) {
    f.jobs.insert(f.jobs.end(), std::make_move_iterator(jobs.begin()), std::make_move_iterator(jobs.end()));
  };
  if (top.has("jobs"))
    for (ObjectReader& r : top.objects("jobs")) f.jobs.push_back(read_job(r));
  else
    top.expect("jobs");
  if (std::optional<ObjectReader> r = top.optional_object("table")) append(read_job_table(*r));
  if (std::optional<ObjectReader> r = top.optional_object("generate")) append(draw_jobs(*r));
  if (f.jobs.empty()) top.fail("jobs", "no job", "list \"jobs\", name a \"table\" of them, or \"generate\" some");
}

Fleet read_document(const json& document, const std::string& origin, const Catalogue& catalogue) {
  Fleet f;
  f.origin = origin;
  ObjectReader top(document, origin);
  const std::vector<std::string> schemas{std::string(kFleetSchema)};
  top.choice("schema", schemas);
  f.name = top.string("name", std::filesystem::path(origin).stem().string());
  if (top.has("cluster") && top.has("pools")) top.fail("pools", "stands beside 'cluster'", "state either of them");
  if (top.has("cluster"))
    read_cluster(top, catalogue, f);
  else
    top.expect("cluster");
  if (top.has("pools"))
    for (ObjectReader& r : top.objects("pools")) read_pool(r, catalogue, f.nodes);
  else
    top.expect("pools");
  f.network = top.string("network", f.network);
  if (f.nodes.empty())
    top.fail("pools", "no node to run jobs on", "add {\"machine\": \"dgx_h100\", \"nodes\": 4}, or a \"cluster\"");
  if (top.has("queues"))
    for (ObjectReader& r : top.objects("queues")) f.queues.push_back(read_queue(r));
  else
    top.expect("queues");
  if (std::optional<ObjectReader> r = top.optional_object("policy")) f.policy = read_policy(*r);
  read_times(top, f);
  read_jobs(top, f);
  top.finish();
  return f;
}

}  // namespace

Fleet parse_fleet(std::string_view text, const std::string& origin, const std::vector<std::string>& overrides,
                  const Catalogue& catalogue) {
  json document = parse_json(text, origin, kLimits);
  for (const std::string& change : overrides)
    place(document, parse_override(change, "policy.rule=easy", [](const std::string& key) { return key; }));
  return read_document(document, origin, catalogue);
}

Fleet load_fleet(const std::string& path, const std::vector<std::string>& overrides, const Catalogue& catalogue) {
  return parse_fleet(read_text(path, kLimits.bytes), origin_of(path), overrides, catalogue);
}

}  // namespace rehearse::fleet
