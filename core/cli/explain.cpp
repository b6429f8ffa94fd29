#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/backend/backend.hpp"
#include "core/cli/data_directory.hpp"
#include "core/cli/output.hpp"
#include "core/cli/verbs.hpp"
#include "core/cluster/fabric.hpp"
#include "core/cluster/make_cluster.hpp"
#include "core/config/scenario.hpp"
#include "core/model/layer_list.hpp"
#include "core/model/library.hpp"
#include "core/model/operator_count.hpp"
#include "core/plan/plan.hpp"
#include "core/report/format.hpp"
#include "core/report/words.hpp"
#include "core/schedule/schedule.hpp"
#include "core/strategy/aliases.hpp"
#include "core/strategy/strategy.hpp"

namespace rehearse::cli {

namespace {

using Blocks = std::vector<DocumentBlock>;

/// "3 x 224 x 224": channels and sides, or features.
std::string sample_text(const Network& network) {
  std::string out;
  for (const Dim& d : network.blocks.front().tensors.front().shape)
    if (d.tag != DimTag::batch && !(d.tag == DimTag::fixed && d.size == 1)) out += fmt::format("{}{}", out.empty() ? "" : " x ", d.size);
  return out;
}

/// Every operator, with what one sequence of the longest length costs it.
Blocks explain_model(const std::string& name) {
  const Network network = ModelLibrary(find_data().models()).load(name);
  const std::int64_t s = std::max<std::int64_t>(1, network.max_sequence_length);
  Facts facts{network.name,
              {{"parameters", with_commas(static_cast<double>(network.parameter_count()))},
               {"layers", std::to_string(network.layers())},
               {network.sequences ? "longest sequence" : "sample", network.sequences ? std::to_string(network.max_sequence_length) : sample_text(network)},
               {network.sequences ? "model FLOPs per sequence" : "model FLOPs per sample", to_string(model_flops(network, 1, s))}}};
  Table table{network.sequences ? fmt::format("Operators, forward pass of one sequence of {} tokens", s) : "Operators, forward pass of one sample",
              {{"block"}, {"operator"}, {"kind"}, {"times", true}, {"parameters", true}, {"matrix FLOPs", true}, {"output elements", true}},
              {}};
  for (const OperatorCount& c : count_operators(network, 1, s))
    table.rows.push_back({c.block, c.op, std::string(name_of(c.kind)), std::to_string(c.repeat), with_commas(static_cast<double>(c.parameters)),
                          c.forward_flops > Flops{0} ? to_string(c.forward_flops) : "", with_commas(static_cast<double>(c.output_elements))});
  return {facts, table};
}

Table sources_of(const std::vector<Source>& sources) {
  Table table{"Sources", {{"key"}, {"evidence"}, {"where"}}, {}};
  for (const Source& s : sources) table.rows.push_back({s.key, std::string(name_of(s.evidence)), s.text});
  return table;
}

Blocks explain_gpu(const std::string& name) {
  const auto gpu = Catalogue(find_data().topologies()).gpu(name);
  Facts facts{gpu->name, {{"generation", gpu->generation}, {"memory", to_string_iec(gpu->memory)}, {"bandwidth", to_string(gpu->memory_bandwidth)}, {"SMs", std::to_string(gpu->sm_count)}, {"power", to_string(gpu->tdp)}}};
  for (const auto& [type, peak] : gpu->peak_dense) facts.rows.emplace_back(fmt::format("peak {}", name_of(type)), to_string(peak));
  return {facts, sources_of(gpu->sources)};
}

Blocks explain_machine(const std::string& name) {
  const auto m = Catalogue(find_data().topologies()).machine(name);
  Facts facts{m->name, {{"GPUs", fmt::format("{} x {}", m->gpus, m->gpu)}, {"NICs", fmt::format("{} x {}, {}", m->nics, m->nic.name, to_string(m->nic.rate))}, {"CPU", m->cpu_model}, {"GPUDirect RDMA", m->gpudirect_rdma ? "yes" : "no"}, {"peer-to-peer", m->peer_to_peer ? "yes" : "no"}}};
  if (m->trays > 1) facts.rows.emplace_back("hosts", fmt::format("{} in one NVLink domain", m->trays));
  if (m->power > Watts{0}) facts.rows.emplace_back("power", to_string(m->power));
  return {facts, sources_of(m->sources)};
}

Blocks explain_network(const std::string& name) {
  const auto n = Catalogue(find_data().topologies()).network(name);
  Facts facts{n->name, {{"kind", n->kind}, {"one hop", to_string(n->switch_latency)}, {"ends", to_string(n->nic_latency)}}};
  for (const auto& [key, value] : n->parameters) facts.rows.emplace_back(key, fmt::format("{:g}", value));
  return {facts, sources_of(n->sources)};
}

Blocks explain_cluster(const std::string& name) {
  const Catalogue catalogue(find_data().topologies());
  const auto spec = catalogue.cluster(name);
  return {Paragraph{make_cluster(catalogue, name).summary()}, sources_of(spec->sources)};
}

template <class Value>
Blocks explain_entry(const Registry<Value>& registry, const std::string& name) {
  const auto& entry = registry.at(name);
  Blocks out{Paragraph{fmt::format("{}: {}", entry.name, entry.summary)}};
  Table table{"", {{"parameter"}, {"default"}, {"what"}}, {}};
  for (const ParameterHelp& p : entry.parameters) table.rows.push_back({p.name, p.default_text, p.summary});
  if (!table.rows.empty()) out.push_back(table);
  return out;
}

/// A strategy by its own name or a framework's.
Blocks explain_strategy(const std::string& name) {
  const StrategyAlias* alias = find_strategy_alias(name);
  if (alias == nullptr) return explain_entry(strategies(), name);
  Blocks out{Paragraph{fmt::format("{} ({}): {}", alias->name, alias->framework, alias->settings)}};
  for (DocumentBlock& b : explain_entry(strategies(), alias->strategy)) out.push_back(std::move(b));
  return out;
}

struct Kind {
  std::string name;
  Blocks (*explain)(const std::string&);
};

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> table{{"model", explain_model},
                                       {"gpu", explain_gpu},
                                       {"machine", explain_machine},
                                       {"network", explain_network},
                                       {"cluster", explain_cluster},
                                       {"layer", [](const std::string& n) { return explain_entry(layer_kinds(), n); }},
                                       {"strategy", explain_strategy},
                                       {"schedule", [](const std::string& n) { return explain_entry(schedules(), n); }},
                                       {"fabric", [](const std::string& n) { return explain_entry(fabric_registry(), n); }},
                                       {"backend", [](const std::string& n) { return explain_entry(backends(), n); }},
                                       {"format", [](const std::string& n) { return explain_entry(formats(), n); }}};
  return table;
}

Blocks explain_kind(const std::string& kind, const std::string& name) {
  std::vector<std::string> names;
  for (const Kind& k : kinds()) {
    if (k.name == kind) return k.explain(name);
    names.push_back(k.name);
  }
  throw unknown_name("kind of thing", kind, names);
}

int explain_verb_run(const Arguments& arguments, Console& console) {
  const std::string what = arguments.text("WHAT");
  const auto colon = what.find(':');
  if (colon == std::string::npos) {
    console.out << (what == "plan" || what.starts_with("plan.") ? explain_plan(what) : rehearse::explain(what));
    return 0;
  }
  const Document document{explain_kind(what.substr(0, colon), what.substr(colon + 1)), {}, {}};
  console.out << formats().at("table").value(document, console.style);
  return 0;
}

}  // namespace

Verb explain_verb() {
  return {"explain",
          "What a key of the scenario means, or what a named thing is.",
          {"rehearse explain strategy.tp", "rehearse explain model:gpt3_175b", "rehearse explain machine:dgx_h100"},
          {{"WHAT", "a key or group of keys, or KIND:NAME with model, layer, gpu, machine, network, cluster, strategy, schedule, backend or format; nothing lists the keys", false}},
          {},
          "",
          explain_verb_run};
}

}  // namespace rehearse::cli
