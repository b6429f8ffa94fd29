#include "core/cli/verbs/listings.hpp"
#include "core/api/lesson.hpp"
#include "core/api/task.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/cli/verbs/framework_words.hpp"
#include "core/cluster/fabric.hpp"
#include "core/collective/algorithm.hpp"
#include "core/collective/collective_op.hpp"
#include "core/config/glossary.hpp"
#include "core/config/scenario.hpp"
#include "core/export/export.hpp"
#include "core/export/fleet/fleet_export.hpp"
#include "core/fleet/order.hpp"
#include "core/fleet/placement.hpp"
#include "core/fleet/quota.hpp"
#include "core/fleet/rule.hpp"
#include "core/hardware/catalogue.hpp"
#include "core/lesson/lesson.hpp"
#include "core/model/architecture.hpp"
#include "core/model/images/layer_list.hpp"
#include "core/model/library.hpp"
#include "core/model/op_table.hpp"
#include "core/play/backend.hpp"
#include "core/report/formats/format.hpp"
#include "core/schedule/schedule.hpp"
#include "core/strategy/aliases.hpp"
#include "core/strategy/execution_gaps.hpp"
#include "core/strategy/strategy.hpp"

namespace rehearse::cli {

namespace {

Table models(const DataDirectory& data) {
  Table t{"", {{"model"}, {"parameters", true}, {"layers", true}, {"longest sequence", true}}, {}};
  const ModelLibrary library(data.models());
  for (const std::string& name : library.names()) {
    const Network n = library.load(name);
    t.rows.push_back({name, std::to_string(n.parameter_count()), std::to_string(n.layers()),
                      n.sequences ? std::to_string(n.max_sequence_length) : ""});
  }
  return t;
}

Table clusters(const DataDirectory& data) {
  Table t{"", {{"cluster"}, {"machines"}, {"network"}, {"name"}}, {}};
  const Catalogue catalogue(data.topologies());
  for (const std::string& id : catalogue.names(Catalogue::Kind::cluster)) {
    const auto c = catalogue.cluster(id);
    std::string machines;
    for (const auto& part : c->parts)
      machines += fmt::format("{}{} x {}", machines.empty() ? "" : " + ", part.nodes, part.machine);
    t.rows.push_back({id, machines, c->network, c->name});
  }
  return t;
}

Table machines(const DataDirectory& data) {
  Table t{"", {{"machine"}, {"GPUs"}, {"NICs"}, {"name"}}, {}};
  const Catalogue catalogue(data.topologies());
  for (const std::string& id : catalogue.names(Catalogue::Kind::machine)) {
    const auto m = catalogue.machine(id);
    t.rows.push_back({id, fmt::format("{} x {}", m->gpus, m->gpu),
                      fmt::format("{} x {}", m->nics, to_string(m->nic.rate)), m->name});
  }
  return t;
}

Table gpus(const DataDirectory& data) {
  Table t{"", {{"gpu"}, {"memory", true}, {"bandwidth", true}, {"16-bit peak", true}, {"name"}}, {}};
  const Catalogue catalogue(data.topologies());
  for (const std::string& id : catalogue.names(Catalogue::Kind::gpu)) {
    const auto g = catalogue.gpu(id);
    const auto peak = g->peak_dense.find(DType::fp16);
    t.rows.push_back({id, to_string_iec(g->memory), to_string(g->memory_bandwidth),
                      peak == g->peak_dense.end() ? "" : to_string(peak->second), g->name});
  }
  return t;
}

Table networks(const DataDirectory& data) {
  Table t{"", {{"network"}, {"kind"}, {"name"}}, {}};
  const Catalogue catalogue(data.topologies());
  for (const std::string& id : catalogue.names(Catalogue::Kind::network)) {
    const auto n = catalogue.network(id);
    t.rows.push_back({id, n->kind, n->name});
  }
  return t;
}

template <class Value>
Table registered(const Registry<Value>& registry) {
  Table t{"", {{registry.kind()}, {"what"}}, {}};
  for (const auto& entry : registry.entries()) t.rows.push_back({entry.name, entry.summary});
  return t;
}

/// Those registered, then the names that frameworks use.
Table strategies_and_aliases(const DataDirectory&) {
  Table t{"", {{strategies().kind()}, {"runs for real"}, {"what"}}, {}};
  for (const auto& entry : strategies().entries()) {
    const std::string gap = execution_gap(entry.name);
    t.rows.push_back({entry.name, gap.empty() ? "yes" : "no: " + gap, entry.summary});
  }
  for (const StrategyAlias& a : strategy_aliases())
    t.rows.push_back({a.name, "", fmt::format("{}: {}, {}", a.framework, a.strategy, a.settings)});
  return t;
}

std::vector<DocumentBlock> strategies_to_read() {
  Facts known{"Strategies", {}}, gaps{"Of these, simulated only", {}}, names{"What frameworks call them", {}};
  for (const auto& entry : strategies().entries()) {
    known.rows.emplace_back(entry.name, entry.summary);
    if (const std::string gap = execution_gap(entry.name); !gap.empty()) gaps.rows.emplace_back(entry.name, gap);
  }
  for (const StrategyAlias& a : strategy_aliases())
    names.rows.emplace_back(a.name, fmt::format("{}: {}, {}", a.framework, a.strategy, a.settings));
  if (gaps.rows.empty()) return {known, names};
  return {known, gaps, names};
}

Table collectives(const DataDirectory&) {
  Table t{"", {{"collective"}}, {}};
  for (int op = 0; op <= static_cast<int>(CollectiveOp::send_recv); ++op)
    t.rows.push_back({std::string(name_of(static_cast<CollectiveOp>(op)))});
  return t;
}

Table operators(const DataDirectory&) {
  Table t{"", {{"operator"}, {"what"}}, {}};
  for (const OpInfo& op : op_table()) t.rows.push_back({std::string(op.name), std::string(op.summary)});
  return t;
}

Table keys(const DataDirectory&) {
  Table t{"", {{"key"}, {"default"}, {"type"}, {"what"}}, {}};
  for (const KeyHelp& k : scenario_keys()) t.rows.push_back({k.key, k.fallback, k.type, k.help});
  return t;
}

Table glossary(const DataDirectory& data) {
  Table t{"", {{"term"}, {"what"}, {"also"}}, {}};
  const Glossary words = load_glossary(data.glossary().string());
  for (const Term& term : words.terms())
    t.rows.push_back({term.term, term.summary, fmt::format("{}", fmt::join(term.also, ", "))});
  return t;
}

/// A default as a column of few characters has it: lists lose their end, texts their quotes.
std::string short_default(std::string text) {
  constexpr std::size_t kLongest = 14;
  if (text.size() > 1 && text.front() == '"') text = text.substr(1, text.size() - 2);
  return text.size() <= kLongest ? text : text.substr(0, kLongest - 3) + "...";
}

/// A line for each key; its page has type, range and more words. What few set is counted only, but for `all`.
std::vector<DocumentBlock> keys_to_read(bool all) {
  Table t{"", {{"key"}, {"default"}, {"what"}}, {}};
  std::size_t left_out = 0;
  for (const KeyHelp& k : scenario_keys()) {
    if (k.seldom && !all)
      ++left_out;
    else
      t.rows.push_back({k.key, short_default(k.fallback), k.help});
  }
  std::string more = "rehearse explain KEY says its type and range, and what it does.";
  if (left_out > 0)
    more += fmt::format(" {} more, what frameworks do and what few set: rehearse list keys --all.", left_out);
  return {std::move(t), Paragraph{std::move(more)}};
}

/// As a column each for the term and its sentence, which is longer than a line.
std::vector<DocumentBlock> glossary_to_read(const DataDirectory& data) {
  Facts words{"", {}};
  const Glossary all = load_glossary(data.glossary().string());
  for (const Term& term : all.terms()) words.rows.emplace_back(term.term, term.summary);
  return {words};
}

Table tasks(const DataDirectory& data) {
  Table t{"", {{"task"}, {"track"}, {"what"}}, {}};
  for (const std::string& file : task_files(data)) {
    const LessonTask task = load_task(file);
    t.rows.push_back({task.name, task.track, task.title});
  }
  return t;
}

Table lessons_in(const std::vector<std::string>& files, const char* kind) {
  Table t{"", {{kind}, {"what"}}, {}};
  for (const std::string& file : files) {
    const Lesson lesson = load_lesson(file);
    t.rows.push_back({lesson.name, lesson.title});
  }
  return t;
}

struct ListingsKind {
  std::string name;
  Table (*make)(const DataDirectory&);
};

const std::vector<ListingsKind>& kinds_listings() {
  static const std::vector<ListingsKind> table{
      {"models", models},
      {"clusters", clusters},
      {"machines", machines},
      {"gpus", gpus},
      {"networks", networks},
      {"families", [](const DataDirectory&) { return registered(architectures()); }},
      {"operators", operators},
      {"layers", [](const DataDirectory&) { return registered(layer_kinds()); }},
      {"fabrics", [](const DataDirectory&) { return registered(fabric_registry()); }},
      {"frameworks", framework_listing},
      {"strategies", strategies_and_aliases},
      {"schedules", [](const DataDirectory&) { return registered(schedules()); }},
      {"backends", [](const DataDirectory&) { return registered(backends()); }},
      {"formats", [](const DataDirectory&) { return registered(formats()); }},
      {"targets", [](const DataDirectory&) { return registered(exporters()); }},
      {"fleet_targets", [](const DataDirectory&) { return registered(fleet_exporters()); }},
      {"collectives", collectives},
      {"algorithms", [](const DataDirectory&) { return registered(collective_algorithms()); }},
      {"orders", [](const DataDirectory&) { return registered(fleet::orders()); }},
      {"rules", [](const DataDirectory&) { return registered(fleet::rules()); }},
      {"quotas", [](const DataDirectory&) { return registered(fleet::quotas()); }},
      {"placements", [](const DataDirectory&) { return registered(fleet::placements()); }},
      {"lessons", [](const DataDirectory& data) { return lessons_in(lesson_files(data), "lesson"); }},
      {"tasks", tasks},
      {"replays", [](const DataDirectory& data) { return lessons_in(replay_files(data), "replay"); }},
      {"keys", keys},
      {"glossary", glossary}};
  return table;
}

}  // namespace

std::vector<std::string> listing_kinds() {
  std::vector<std::string> out;
  for (const ListingsKind& k : kinds_listings()) out.push_back(k.name);
  return out;
}

std::vector<DocumentBlock> listing_to_read(const std::string& kind, const DataDirectory& data, bool all) {
  if (kind == "keys") return keys_to_read(all);
  if (kind == "strategies") return strategies_to_read();
  if (kind == "glossary") return glossary_to_read(data);
  return {listing(kind, data)};
}

Table listing(const std::string& kind, const DataDirectory& data) {
  for (const ListingsKind& k : kinds_listings())
    if (k.name == kind) return k.make(data);
  throw unknown_name("listing", kind, listing_kinds());
}

}  // namespace rehearse::cli
