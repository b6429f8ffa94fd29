#include <algorithm>
#include <filesystem>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/config/field.hpp"
#include "core/config/json_file.hpp"
#include "core/config/json_text.hpp"
#include "core/config/override.hpp"
#include "core/plan/plan_keys.hpp"

namespace rehearse {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using plan_schema::Key;
using plan_schema::Target;

/// "economics.pue" of "plan.economics.pue".
std::string without_root(const std::string& key) { return key.starts_with("plan.") ? key.substr(5) : key; }

/// "/economics/pue" of "economics.pue".
std::string path_of(const std::string& key) {
  std::string path = "/" + key;
  std::replace(path.begin(), path.end(), '.', '/');
  return path;
}

std::string rebased(const std::string& reference, const std::string& origin) {
  if (!is_file_reference(reference)) return reference;
  return schema::file_reference((fs::path(origin).parent_path() / reference).lexically_normal());
}

/// Reads the rows of `group` from `r`.
void read_group(const std::string& group, Target to, ObjectReader& r) {
  for (const Key& k : plan_schema::keys()) {
    if (k.group() != group) continue;
    if (k.required || r.has(k.name()))
      k.read(k, to, r);
    else
      r.expect(k.name());
  }
}

void read_optional_group(const std::string& group, const std::string& name, Target to, ObjectReader& parent) {
  if (std::optional<ObjectReader> r = parent.optional_object(name)) {
    read_group(group, to, *r);
    r->finish();
  }
}

PlanCandidate read_candidate(Plan& plan, ObjectReader& r) {
  PlanCandidate out;
  out.where = r.where();
  read_group("candidates", {plan, out}, r);
  read_optional_group("candidates.price", "price", {plan, out}, r);
  r.finish();
  if (out.machine.empty() && out.cluster.empty())
    r.fail("machine", "wanted a machine's name or the path of its file",
           "for example \"dgx_h100\"; a set as it is has \"cluster\" in its place");
  if (!out.machine.empty() && !out.cluster.empty())
    r.fail("cluster", "stands beside 'machine'", "state either of them");
  out.machine = rebased(out.machine, plan.origin);
  out.cluster = rebased(out.cluster, plan.origin);
  out.network = rebased(out.network, plan.origin);
  if (out.name.empty()) out.name = fs::path(out.machine + out.cluster).stem().string();
  const auto given = [&out](const char* figure, bool is) {
    if (is)
      out.price.sources.push_back(
          {figure, out.price_date, out.price_source.empty() ? "the plan" : out.price_source, Evidence::estimate});
  };
  given("purchase", out.price.purchase.has_value());
  given("network", out.price.network.has_value());
  given("rental", out.price.rental.has_value());
  given("power", out.price.power.has_value());
  return out;
}

/// Two candidates of one name would be one row twice: the second use of a name is numbered, past numbers that somebody
/// else has.
void name_apart(std::vector<PlanCandidate>& candidates) {
  std::set<std::string> given;
  for (const PlanCandidate& c : candidates) given.insert(c.name);
  std::map<std::string, int> uses;
  for (PlanCandidate& c : candidates) {
    const std::string name = c.name;
    for (int use = ++uses[name]; use > 1; use = ++uses[name]) {
      c.name = fmt::format("{} ({})", name, use);
      if (given.insert(c.name).second) break;
    }
  }
}

Scenario read_base(const json& document, const Plan& plan) {
  json scenario{{"schema", kScenarioSchema}, {"cluster", {{"machine", "any"}, {"nodes", 1}}}};
  for (const std::string& key : plan_schema::scenario_keys())
    if (document.contains(key)) scenario[key] = document[key];
  Scenario base = parse_scenario(scenario.dump(), plan.origin);
  if (base.training.tokens <= 0)
    throw Error(ErrorKind::usage, "a plan is for a whole run, and 0 tokens train nothing",
                plan.origin + ": /training/tokens", "set training.tokens, for example \"2e12\"");
  return base;
}

}  // namespace

ReliabilitySettings read_reliability(ObjectReader& reader) {
  Plan plan;
  PlanCandidate none;
  read_group("reliability", {plan, none}, reader);
  read_optional_group("reliability.mtbf", "mtbf", {plan, none}, reader);
  reader.finish();
  return plan.reliability;
}

namespace {

Plan read_document(const json& document, const std::string& origin) {
  if (const auto schema = document.find("schema"); schema != document.end() && *schema == kScenarioSchema)
    throw Error(ErrorKind::usage, "this is a scenario, not a plan", origin + ": /schema",
                "'rehearse simulate' and 'rehearse search' read it");
  Plan plan;
  plan.origin = origin;
  PlanCandidate none;
  ObjectReader top(document, origin);
  const std::vector<std::string> schemas{std::string(kPlanSchema)};
  top.choice("schema", schemas);
  for (const std::string& key : plan_schema::scenario_keys()) top.expect(key);
  read_group("", {plan, none}, top);
  read_optional_group("economics", "economics", {plan, none}, top);
  if (std::optional<ObjectReader> r = top.optional_object("reliability")) plan.reliability = read_reliability(*r);
  read_optional_group("uncertainty", "uncertainty", {plan, none}, top);
  for (ObjectReader& r : top.objects("candidates")) plan.candidates.push_back(read_candidate(plan, r));
  top.finish();
  if (plan.candidates.empty())
    top.fail("candidates", "no machine to compare", "add {\"machine\": \"dgx_h100\", \"network\": \"superpod_h100\"}");
  if (plan.range_low.value_or(1) > plan.range_high.value_or(std::max(1.0, plan.range_low.value_or(1))))
    top.fail("uncertainty", "low is above high");
  name_apart(plan.candidates);
  plan.base = read_base(document, plan);
  if (const auto strategy = document.find("strategy"); strategy != document.end())
    for (const auto& [key, value] : strategy->items()) plan.fixed.insert(key);
  if (plan.name.empty()) plan.name = fs::path(origin).stem().string();
  return plan;
}

/// Where the error is in what an override brought in, that override takes the place of the file.
void blame_override(Error& e, const json& file, const std::string& origin, const std::vector<std::string>& overrides) {
  const std::string root = origin + ": ";
  if (!e.where.starts_with(root + "/")) return;
  const std::string at = e.where.substr(root.size());
  for (auto it = overrides.rbegin(); it != overrides.rend(); ++it) {
    const std::string path = path_of(without_root(it->substr(0, it->find('='))));
    const bool inside = (at + "/").starts_with(path + "/"),
               brought = (path + "/").starts_with(at + "/") && !file.contains(json::json_pointer(at));
    if (!inside && !brought) continue;
    e.where = "--set " + it->substr(0, 80) + (at.size() > path.size() ? ": " + at.substr(path.size()) : "");
    return;
  }
}

}  // namespace

Plan parse_plan(std::string_view text, const std::string& origin, const std::vector<std::string>& overrides) {
  const json file = parse_json(text, origin);
  json document = file;
  for (const std::string& change : overrides) place(document, parse_override(change, "deadline_days=30", without_root));
  try {
    return read_document(document, origin);
  } catch (Error& e) {
    blame_override(e, file, origin, overrides);
    throw;
  }
}

Plan load_plan(const std::string& path, const std::vector<std::string>& overrides) {
  return parse_plan(read_text(path), origin_of(path), overrides);
}

}  // namespace rehearse
