#include "core/export/setting_table.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <stdexcept>

#include <fmt/format.h>

#include "core/config/json_file.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/model/library.hpp"
#include "core/model/model_file.hpp"
#include "core/strategy/roles/roles.hpp"
#include "core/strategy/workload.hpp"

namespace rehearse {

Registry<Exporter>& exporters() {
  static Registry<Exporter> registry("export target");
  return registry;
}

namespace {

std::map<std::string, std::string>& frameworks_of_targets() {
  static std::map<std::string, std::string> known;
  return known;
}

}  // namespace

std::string framework_of_target(const std::string& target) {
  const auto at = frameworks_of_targets().find(target);
  return at == frameworks_of_targets().end() ? std::string() : at->second;
}

bool writes_for(const std::string& target, const std::string& framework) {
  return frameworks_of_targets().emplace(target, framework).second;
}

std::optional<TransformerConfig> decoder_stack(const Scenario& scenario, const std::filesystem::path& models) {
  const ModelRef& m = scenario.model;
  const std::string origin = !m.file.empty() ? m.file : m.name;
  try {
    TransformerConfig out = m.inline_json.empty()
                                ? parse_hf_config(read_model_file(ModelLibrary(models).find(origin).string()), origin)
                                : parse_hf_config(parse_json(m.inline_json, "model"), "model");
    return out.causal ? std::optional(std::move(out)) : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

namespace exporting {

const TransformerConfig& trained_by(const std::string& target, const ExportInput& input) {
  if (!input.transformer || input.scenario.training.sequence_length <= 0)
    throw Error(ErrorKind::usage,
                fmt::format("{} trains decoder stacks on tokens, and {} is another kind of network", target,
                            input.workload.network.name),
                "model", "for this network: --to torchrun, slurm or kubernetes, which start any program");
  if (!input.transformer->has_words)
    throw Error(
        ErrorKind::usage,
        fmt::format("{} has no words for the layers of {} that are known here", target, input.transformer->model_type),
        "model", "for this network: --to torchrun, slurm or kubernetes, which start any program");
  return *input.transformer;
}

Rule told(const translate::Language& words, const std::string& key, std::string why) {
  std::string shown = words.names_of(key);
  return {key, std::move(shown), [&words, key](const Json& value, const ExportInput&) { return words.say(key, value); },
          std::move(why)};
}

Flags said(const translate::Language& words, std::initializer_list<std::pair<const char*, Json>> values) {
  Flags out;
  for (const auto& [ours, value] : values) {
    const auto flags = words.say(ours, value);
    if (!flags) throw std::logic_error(fmt::format("{} has no word for {} = {}", words.title, ours, value.dump()));
    out.insert(out.end(), flags->begin(), flags->end());
  }
  return out;
}

Rule choice(std::string key, std::string shown, std::vector<std::pair<Json, Flags>> choices, std::string why) {
  return {std::move(key), std::move(shown),
          [choices = std::move(choices)](const Json& value, const ExportInput&) -> std::optional<Flags> {
            for (const auto& [wanted, flags] : choices)
              if (wanted == value) return flags;
            return std::nullopt;
          },
          std::move(why)};
}

namespace {

/// What a target says by itself, or what comes with it.
bool of_target(const std::string& key) {
  return key == "schema" || key == "model" || key.starts_with("cluster") || key == "framework.name";
}

/// How to predict, not how to train.
bool of_prediction(const std::string& key) {
  return key == "calibration" || key == "collective_table" || key.starts_with("input");
}

/// What software does by itself is none of a job's settings: facts of the framework, and what its profile says where
/// the target has no rule.
bool of_software(const std::string& key, bool ruled, const ExportInput& in) {
  if (in.scenario.stated.contains(key)) return false;
  return key.starts_with("framework.") || (!ruled && in.by_profile.contains(key));
}

const Json* find(const Json& document, const std::string& key) {
  const Json* at = &document;
  for (std::size_t begin = 0; begin <= key.size();) {
    const std::size_t dot = std::min(key.find('.', begin), key.size());
    const auto next = at->is_object() ? at->find(key.substr(begin, dot - begin)) : at->end();
    if (!at->is_object() || next == at->end()) return nullptr;
    at = &*next;
    begin = dot + 1;
  }
  return at;
}

std::string folded(const std::string& text) {
  std::string out;
  for (const unsigned char c : text) out += static_cast<char>(std::tolower(c));
  return out;
}

/// What a key says of itself (setting_key.hpp); a target is meant by the beginning of its name, "megatron".
std::optional<Flag> declared_flag(const std::string& key, const Json& value, const std::string& target) {
  const auto* entry = find_declared_key(key);
  if (entry == nullptr) return std::nullopt;
  for (const auto& [name, flag] : entry->value.options.flags)
    if (folded(target).starts_with(folded(name))) return Flag{flag, value == true ? Json() : value};
  return std::nullopt;
}

void merge(std::vector<ExportedSetting>& to, const std::string& key, const Json& value, const Flags& flags) {
  for (const Flag& f : flags)
    to.push_back({key, plain(value), f.name, f.value.is_null() ? std::string() : plain(f.value)});
}

}  // namespace

bool sums_whole_gradients(const ExportInput& input) {
  const StrategySettings& s = input.scenario.strategy;
  const bool several = input.scenario.training.global_batch > s.microbatch * s.dp;
  const bool shards = s.fsdp.enabled || s.zero_stage >= 2;
  return several && !(shards && syncs_every_microbatch(s, true));
}

Rule autograd_sums() {
  return {"framework.fused_gradient_accumulation", "(autograd adds gradients up)",
          [](const Json& fused, const ExportInput& in) {
            return fused == true && sums_whole_gradients(in) ? std::nullopt : std::optional<Flags>(Flags{});
          },
          "autograd adds gradients up by a kernel of its own: set it to false for this target"};
}

std::optional<Flags> no_flags(const Json&, const ExportInput&) { return Flags{}; }

Mapped map_settings(const ExportInput& input, const std::vector<Rule>& rules, const std::string& target) {
  const Json scenario = Json::parse(resolved_json(input.scenario));
  Mapped out;
  for (const KeyHelp& help : scenario_keys()) {
    const Json* value = find(scenario, help.key);
    if (value == nullptr || value->is_null() || of_target(help.key)) continue;
    const Json fallback = Json::parse(help.fallback.empty() ? "null" : help.fallback, nullptr, false);
    const bool silent = *value == fallback || (value->is_array() && value->empty()) ||
                        (value->is_string() && value->get<std::string>().empty());
    if (of_prediction(help.key)) {
      if (!silent && !value->is_object())
        out.left_out.push_back({help.key, plain(*value), "says how to predict, not how to train"});
      continue;
    }
    const auto rule = std::find_if(rules.begin(), rules.end(), [&](const Rule& r) { return r.key == help.key; });
    if (rule != rules.end()) {
      if (const auto flags = rule->write(*value, input)) {
        out.flags.insert(out.flags.end(), flags->begin(), flags->end());
        merge(out.settings, help.key, *value, *flags);
        if (flags->empty() && !silent && !value->is_object())
          out.settings.push_back({help.key, plain(*value), "", rule->shown});
        continue;
      }
    }
    if (const auto flag = declared_flag(help.key, *value, target); flag && !silent) {
      out.flags.push_back(*flag);
      merge(out.settings, help.key, *value, {*flag});
      continue;
    }
    if (value->is_object()) continue;  // Its members are keys of their own.
    if (of_software(help.key, rule != rules.end(), input)) continue;
    // Where a profile has other defaults, what the scenario states at its own default is said, too.
    const bool meant =
        !input.scenario.framework.name.empty() && input.scenario.stated.contains(help.key) && fallback != "auto";
    const bool follows = fallback == "auto" && help.key.starts_with("strategy.dp");
    if (rule == rules.end() && !meant && (silent || follows)) continue;  // Automatic axes follow from the others.
    out.left_out.push_back(
        {help.key, plain(*value),
         rule != rules.end() && !rule->why.empty() ? rule->why : fmt::format("{} has no flag for it", target)});
  }
  return out;
}

std::optional<std::int64_t> whole_steps(const ExportInput& input) {
  const TrainingSettings& t = input.scenario.training;
  const double per_step = static_cast<double>(t.global_batch) * static_cast<double>(t.sequence_length);
  if (t.tokens == 0 || per_step == 0) return {};
  return static_cast<std::int64_t>(static_cast<double>(t.tokens) / per_step);
}

void round_tokens(Mapped& mapped, const ExportInput& input, std::int64_t each, const std::string& what) {
  const auto tokens = static_cast<std::int64_t>(input.scenario.training.tokens);
  if (each <= 0 || tokens % each == 0) return;
  mapped.left_out.push_back(
      {"training.tokens", std::to_string(tokens),
       fmt::format("in whole {}: {} of them are {} tokens", what, tokens / each, tokens / each * each)});
}

std::vector<std::int64_t> chunk_layers(const ExportInput& input) {
  const StrategySettings& s = input.scenario.strategy;
  std::vector<std::int64_t> out = s.layers_per_stage;
  const std::int64_t layers = input.transformer->layers, chunks = std::int64_t{s.pp} * s.virtual_stages;
  for (std::int64_t c = 0; out.size() < static_cast<std::size_t>(chunks); ++c)
    out.push_back(((c + 1) * layers + chunks - 1) / chunks - (c * layers + chunks - 1) / chunks);
  return std::adjacent_find(out.begin(), out.end(), std::not_equal_to<>()) == out.end() ? std::vector<std::int64_t>{}
                                                                                        : out;
}

void add_model(Mapped& mapped, const Flags& flags) {
  mapped.flags.insert(mapped.flags.end(), flags.begin(), flags.end());
  merge(mapped.settings, "model", "", flags);
}

bool enter(std::string name, std::string summary, const std::vector<Rule>& rules, Exporter exporter) {
  std::vector<ParameterHelp> table;
  for (const Rule& r : rules) table.push_back({r.key, r.shown, ""});
  return exporters().add({std::move(name), std::move(summary), std::move(table), std::move(exporter)});
}

Json nested(const Flags& flags) {
  Json out = Json::object();
  for (const Flag& f : flags) {
    Json* at = &out;
    std::size_t begin = 0;
    for (std::size_t dot = f.name.find('.'); dot != std::string::npos; begin = dot + 1, dot = f.name.find('.', begin))
      at = &(*at)[f.name.substr(begin, dot - begin)];
    (*at)[f.name.substr(begin)] = f.value.is_null() ? Json(true) : f.value;
  }
  return out;
}

std::string plain(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) return value.dump();
  std::string out;
  for (const Json& v : value) out += (out.empty() ? "" : " ") + plain(v);
  return out;
}

std::vector<Pool> pools(const ExportInput& input) {
  const Cluster& cluster = input.cluster;
  std::map<NodeId, int> ranks_of;
  for (const DeviceId d : input.program.device_of_rank) ++ranks_of[cluster.node_of(d)];
  std::vector<Pool> out;
  for (const auto& [node, ranks] : ranks_of) {
    const GpuSpec& gpu = cluster.gpu(cluster.first_device(node));
    if (!out.empty() && out.back().gpu_id == gpu.id && out.back().gpus == ranks) {
      ++out.back().nodes;
    } else {
      out.push_back({gpu.id, gpu.name, gpu.vendor, gpu.device == GpuSpec::Device::cpu, 1, ranks});
    }
  }
  return out;
}

int node_count(const std::vector<Pool>& pools) {
  return std::accumulate(pools.begin(), pools.end(), 0, [](int sum, const Pool& p) { return sum + p.nodes; });
}

std::string banner(const ExportInput& input) {
  // Whoever gets the file has no such folders.
  const std::filesystem::path origin = input.scenario.origin;
  std::string from = origin.is_absolute() ? origin.filename().string() : origin.string();
  std::replace(from.begin(), from.end(), '\n', ' ');
  return fmt::format("# Written by rehearse {} from {}.\n", input.version, from);
}

namespace {

bool empty_collection(const Json& v) { return (v.is_object() || v.is_array()) && v.empty(); }

void yaml_into(const Json& value, const std::string& indent, bool in_list, std::string& out) {
  bool first = true;
  const auto lead = [&] {
    out += first && in_list ? "" : indent;
    first = false;
  };
  if (value.is_object()) {
    for (const auto& [key, v] : value.items()) {
      lead();
      const bool simple = !key.empty() && std::all_of(key.begin(), key.end(), [](unsigned char c) {
        return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.' || c == '/';
      });
      out += (simple ? key : Json(key).dump()) + ":";
      if ((v.is_object() || v.is_array()) && !v.empty()) {
        out += "\n";
        yaml_into(v, indent + "  ", false, out);
      } else {
        out += " " + v.dump() + "\n";
      }
    }
    return;
  }
  for (const Json& v : value) {
    lead();
    out += "- ";
    if ((v.is_object() || v.is_array()) && !empty_collection(v))
      yaml_into(v, indent + "  ", true, out);
    else
      out += v.dump() + "\n";
  }
}

}  // namespace

std::string yaml(const Json& value) {
  std::string out;
  yaml_into(value, "", false, out);
  return out;
}

namespace {

/// A table's own keys, then the tables in it under dotted names.
void toml_table(const Json& table, const std::string& name, std::string& out) {
  std::string keys;
  for (const auto& [key, v] : table.items())
    if (!v.is_object()) keys += fmt::format("{} = {}\n", key, v.dump());
  if (!keys.empty()) out += name.empty() ? keys : fmt::format("{}[{}]\n{}", out.empty() ? "" : "\n", name, keys);
  for (const auto& [key, v] : table.items())
    if (v.is_object()) toml_table(v, name.empty() ? key : name + "." + key, out);
}

}  // namespace

std::string toml(const Json& value) {
  std::string out;
  toml_table(value, "", out);
  return out;
}

}  // namespace exporting

}  // namespace rehearse
