#include <algorithm>

#include "core/config/scenario.hpp"
#include "core/import/job/import_job.hpp"

namespace rehearse::job {

namespace {

Json* place(Json& document, const std::string& key) {
  Json* at = &document;
  std::size_t begin = 0;
  for (std::size_t dot = key.find('.'); dot != std::string::npos; begin = dot + 1, dot = key.find('.', begin))
    at = &(*at)[key.substr(begin, dot - begin)];
  return &(*at)[key.substr(begin)];
}

/// What follows from the rest of the scenario, or says nothing.
bool left_out(const Draft& d, const std::string& key, const Json& value) {
  if (value.is_null() || key == "strategy.dp") return true;
  const bool axis = key == "strategy.pp" || key == "strategy.cp" || key == "strategy.ep" || key == "strategy.etp" ||
                    key == "strategy.dp_replicate" || key == "strategy.virtual_stages";
  if (axis && value == 1) return true;
  if (key == "strategy.dp_shard")
    return value == 1 || (value == d.whole("strategy.dp", 0) && d.flag("strategy.fsdp.enabled"));
  return key == "strategy.context" && d.whole("strategy.cp", 1) == 1;
}

}  // namespace

std::string scenario_of(const Draft& d, const std::string& framework, const Json& model, const Json& cluster) {
  Json out{{"schema", kScenarioSchema}, {"framework", framework}, {"model", model}, {"cluster", cluster}};
  for (const KeyHelp& help : scenario_keys()) {
    const Fact* f = d.find(help.key);
    if (f == nullptr || left_out(d, help.key, f->value)) continue;
    if (help.key.starts_with("framework.") && out["framework"].is_string())
      out["framework"] = Json{{"name", framework}};
    *place(out, help.key) = f->value;
  }
  return out.dump(2) + "\n";
}

}  // namespace rehearse::job
