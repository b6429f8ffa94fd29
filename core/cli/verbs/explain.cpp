#include <algorithm>
#include <filesystem>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/api/data_directory.hpp"
#include "core/api/lesson.hpp"
#include "core/api/task.hpp"
#include "core/base/index.hpp"
#include "core/base/near_names.hpp"
#include "core/cli/output.hpp"
#include "core/cli/verbs.hpp"
#include "core/cli/verbs/framework_words.hpp"
#include "core/cli/verbs/listings.hpp"
#include "core/cluster/fabric.hpp"
#include "core/cluster/make_cluster.hpp"
#include "core/collective/algorithm.hpp"
#include "core/collective/collective_op.hpp"
#include "core/config/glossary.hpp"
#include "core/config/scenario.hpp"
#include "core/export/export.hpp"
#include "core/fleet/order.hpp"
#include "core/fleet/placement.hpp"
#include "core/fleet/quota.hpp"
#include "core/fleet/rule.hpp"
#include "core/lesson/lesson.hpp"
#include "core/model/architecture.hpp"
#include "core/model/images/layer_list.hpp"
#include "core/model/library.hpp"
#include "core/model/op_table.hpp"
#include "core/model/operator_count.hpp"
#include "core/plan/plan.hpp"
#include "core/play/backend.hpp"
#include "core/play/words.hpp"
#include "core/report/formats/format.hpp"
#include "core/schedule/schedule.hpp"
#include "core/scoreboard/rows/row_field_help.hpp"
#include "core/strategy/aliases.hpp"
#include "core/strategy/strategy.hpp"

namespace rehearse::cli {

namespace {

using Blocks = std::vector<DocumentBlock>;

/// "3 x 224 x 224": channels and sides, or features.
std::string sample_text(const Network& network) {
  std::string out;
  for (const Dim& d : network.blocks.front().tensors.front().shape)
    if (d.tag != DimTag::batch && !(d.tag == DimTag::fixed && d.size == 1))
      out += fmt::format("{}{}", out.empty() ? "" : " x ", d.size);
  return out;
}

/// Every operator, with what one sequence of the longest length costs it.
Blocks explain_model(const std::string& name) {
  const Network network = ModelLibrary(find_data().models()).load(name);
  const std::int64_t s = std::max<std::int64_t>(1, network.max_sequence_length);
  Facts facts{network.name,
              {{"parameters", with_commas(static_cast<double>(network.parameter_count()))},
               {"layers", std::to_string(network.layers())},
               {network.sequences ? "longest sequence" : "sample",
                network.sequences ? std::to_string(network.max_sequence_length) : sample_text(network)},
               {network.sequences ? "model FLOPs per sequence" : "model FLOPs per sample",
                to_string(model_flops(network, 1, s))}}};
  for (const std::string& what : network.simulated_only) facts.rows.emplace_back("simulated only", what);
  for (const std::string& note : network.notes) facts.rows.emplace_back("note", note);
  if (network.adversarial()) {
    std::int64_t generator = 0;
    for (int b = 0; b < network.discriminator; ++b)
      generator += nth(network.blocks, b).parameter_count() * nth(network.repeat, b);
    facts.rows.emplace_back("of which",
                            fmt::format("generator {}, discriminator {}", with_commas(static_cast<double>(generator)),
                                        with_commas(static_cast<double>(network.parameter_count() - generator))));
  }
  Table table{network.sequences ? fmt::format("Operators, forward pass of one sequence of {} tokens", s)
                                : "Operators, forward pass of one sample",
              {{"block"},
               {"operator"},
               {"kind"},
               {"times", true},
               {"parameters", true},
               {"matrix FLOPs", true},
               {"output elements", true}},
              {}};
  for (const OperatorCount& c : count_operators(network, 1, s))
    table.rows.push_back({c.block, c.op, std::string(name_of(c.kind)), std::to_string(c.repeat),
                          with_commas(static_cast<double>(c.parameters)),
                          c.forward_flops > Flops{0} ? to_string(c.forward_flops) : "",
                          with_commas(static_cast<double>(c.output_elements))});
  return {facts, table};
}

Table sources_of(const std::vector<Source>& sources) {
  Table table{"Sources", {{"key"}, {"evidence"}, {"where"}}, {}};
  for (const Source& s : sources) table.rows.push_back({s.key, std::string(name_of(s.evidence)), s.text});
  return table;
}

Blocks explain_gpu(const std::string& name) {
  const auto gpu = Catalogue(find_data().topologies()).gpu(name);
  Facts facts{gpu->name,
              {{"generation", gpu->generation},
               {"memory", to_string_iec(gpu->memory)},
               {"bandwidth", to_string(gpu->memory_bandwidth)},
               {"SMs", std::to_string(gpu->sm_count)},
               {"power", to_string(gpu->tdp)}}};
  for (const auto& [type, peak] : gpu->peak_dense)
    facts.rows.emplace_back(fmt::format("peak {}", name_of(type)), to_string(peak));
  return {facts, sources_of(gpu->sources)};
}

Blocks explain_machine(const std::string& name) {
  const auto m = Catalogue(find_data().topologies()).machine(name);
  Facts facts{m->name,
              {{"GPUs", fmt::format("{} x {}", m->gpus, m->gpu)},
               {"NICs", fmt::format("{} x {}, {}", m->nics, m->nic.name, to_string(m->nic.rate))},
               {"CPU", m->cpu_model},
               {"GPUDirect RDMA", m->gpudirect_rdma ? "yes" : "no"},
               {"peer-to-peer", m->peer_to_peer ? "yes" : "no"}}};
  if (m->trays > 1) facts.rows.emplace_back("hosts", fmt::format("{} in one NVLink domain", m->trays));
  if (m->power > Watts{0}) facts.rows.emplace_back("power", to_string(m->power));
  return {facts, sources_of(m->sources)};
}

Blocks explain_network(const std::string& name) {
  const auto n = Catalogue(find_data().topologies()).network(name);
  Facts facts{n->name,
              {{"kind", n->kind}, {"one hop", to_string(n->switch_latency)}, {"ends", to_string(n->nic_latency)}}};
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
  if (alias == nullptr) {
    std::vector<std::string> known = strategies().names();
    if (std::find(known.begin(), known.end(), name) != known.end()) return explain_entry(strategies(), name);
    for (const StrategyAlias& a : strategy_aliases()) known.push_back(a.name);
    throw unknown_name(strategies().kind(), name, known);
  }
  Blocks out{Paragraph{fmt::format("{} ({}): {}", alias->name, alias->framework, alias->settings)}};
  for (DocumentBlock& b : explain_entry(strategies(), alias->strategy)) out.push_back(std::move(b));
  return out;
}

std::vector<std::string> operator_names() {
  std::vector<std::string> out;
  for (const OpInfo& op : op_table()) out.emplace_back(op.name);
  return out;
}

Blocks explain_operator(const std::string& name) {
  for (const OpInfo& op : op_table()) {
    if (op.name != name) continue;
    const std::string inputs = op.inputs == kAnyInputs ? "two or more" : std::to_string(op.inputs);
    return {
        Paragraph{fmt::format("{}: {}", op.name, op.summary)},
        Facts{"",
              {{"tensors it takes", inputs},
               {"parameters", op.min_params == op.max_params ? std::to_string(op.min_params)
                                                             : fmt::format("{} to {}", op.min_params, op.max_params)},
               {"matrix FLOPs", op.matmul_flops != nullptr ? "yes" : "none"}}}};
  }
  throw unknown_name("operator", name, operator_names());
}

Blocks explain_task(const std::string& name) {
  const LessonTask task = load_task(find_task(name, find_data()));
  return {Paragraph{fmt::format("{}: {}", task.name, task.title)}, Paragraph{task.question},
          Facts{"", {{"try it", "rehearse task " + task.name}}}};
}

std::vector<std::string> task_names(const DataDirectory& data) {
  std::vector<std::string> out;
  for (const std::string& file : task_files(data)) out.push_back(std::filesystem::path(file).stem().string());
  return out;
}

/// The question that a lesson or replay answers, and its plans.
Blocks explain_lesson(const std::string& name, const std::vector<std::string>& files, const char* kind) {
  const Lesson lesson = load_lesson(find_lesson(name, files, kind));
  Blocks out{Paragraph{fmt::format("{}: {}", lesson.name, lesson.title)}};
  const std::vector<LessonAnswer> answers = unplayed_plans(lesson);
  if (const auto question = filled(lesson.question, answers); question && !question->empty())
    out.emplace_back(Paragraph{*question});
  Facts plans{"Plans", {}};
  for (const LessonAnswer& a : answers) plans.rows.emplace_back(a.key, a.title);
  out.emplace_back(std::move(plans));
  out.emplace_back(Facts{"", {{"play it", fmt::format("rehearse {} {}", kind, lesson.name)}}});
  return out;
}

std::vector<std::string> lesson_names(const std::vector<std::string>& files) {
  std::vector<std::string> out;
  for (const std::string& file : files) out.push_back(std::filesystem::path(file).parent_path().filename().string());
  return out;
}

std::string_view meaning_of(CollectiveOp op) {
  switch (op) {
    case CollectiveOp::all_reduce: return "every rank gives a buffer and gets the sum of all";
    case CollectiveOp::all_gather: return "every rank gives a part and gets all parts";
    case CollectiveOp::reduce_scatter: return "every rank gives a buffer and gets its part of the sum of all";
    case CollectiveOp::broadcast: return "every rank gets one rank's buffer";
    case CollectiveOp::reduce: return "one rank gets the sum of all buffers";
    case CollectiveOp::all_to_all: return "every rank gives each other one a part of its own";
    case CollectiveOp::halo_exchange:
      return "every rank exchanges a border with its neighbours in the group, whose ends are open";
    case CollectiveOp::send_recv: return "every rank sends to the next, the last to the first";
  }
  return "";
}

Blocks explain_collective(const std::string& name) {
  const CollectiveOp op = parse_collective_op(name);
  return {Paragraph{fmt::format("{}: {}", name, meaning_of(op))},
          Facts{"", {{"play it", fmt::format("rehearse collectives --cluster dgx_h100 --op {}", name)}}}};
}

/// No words where the data has none: a folder of one's own need not bring them.
Glossary glossary() {
  const std::filesystem::path file = find_data().glossary();
  return std::filesystem::exists(file) ? load_glossary(file.string()) : Glossary({});
}

Blocks explain_term(const std::string& name) {
  const Glossary words = glossary();
  const Term& t = words.at(name);
  Facts more{"", {}};
  if (!t.also.empty()) more.rows.emplace_back("also", fmt::format("{}", fmt::join(t.also, ", ")));
  if (!t.see.empty()) more.rows.emplace_back("see", fmt::format("{}", fmt::join(t.see, ", ")));
  more.rows.emplace_back("source", t.source);
  return {Paragraph{fmt::format("{}: {}", t.term, t.summary)}, Paragraph{t.text}, std::move(more)};
}

std::vector<std::string> catalogued(Catalogue::Kind kind) { return Catalogue(find_data().topologies()).names(kind); }

std::vector<std::string> strategy_names() {
  std::vector<std::string> out = strategies().names();
  for (const StrategyAlias& a : strategy_aliases()) out.push_back(a.name);
  return out;
}

/// Words of the field: what has the name itself goes before what the word means.
constexpr const char* kTerm = "term";

struct ExplainKind {
  std::string name;
  Blocks (*explain)(const std::string&);
  std::vector<std::string> (*names)();
  bool yields = false;  ///< Where something of another kind has the name too, that is meant.
};

const std::vector<ExplainKind>& kinds_explain() {
  using Names = std::vector<std::string>;
  static const std::vector<ExplainKind> table{
      {"model", explain_model, [] { return ModelLibrary(find_data().models()).names(); }},
      {"gpu", explain_gpu, [] { return catalogued(Catalogue::Kind::gpu); }},
      {"machine", explain_machine, [] { return catalogued(Catalogue::Kind::machine); }},
      {"network", explain_network, [] { return catalogued(Catalogue::Kind::network); }},
      {"cluster", explain_cluster, [] { return catalogued(Catalogue::Kind::cluster); }},
      {"family", [](const std::string& n) { return explain_entry(architectures(), n); },
       [] { return architectures().names(); }, true},
      {"operator", explain_operator, operator_names, true},
      {"layer", [](const std::string& n) { return explain_entry(layer_kinds(), n); },
       [] { return layer_kinds().names(); }},
      {"framework", [](const std::string& n) { return framework_page(find_data(), n); },
       [] { return framework_names(find_data()); }},
      {"strategy", explain_strategy, strategy_names},
      {"schedule", [](const std::string& n) { return explain_entry(schedules(), n); },
       [] { return schedules().names(); }},
      {"order", [](const std::string& n) { return explain_entry(fleet::orders(), n); },
       [] { return fleet::orders().names(); }},
      {"rule", [](const std::string& n) { return explain_entry(fleet::rules(), n); },
       [] { return fleet::rules().names(); }},
      {"quota", [](const std::string& n) { return explain_entry(fleet::quotas(), n); },
       [] { return fleet::quotas().names(); }},
      {"placement", [](const std::string& n) { return explain_entry(fleet::placements(), n); },
       [] { return fleet::placements().names(); }},
      {"fabric", [](const std::string& n) { return explain_entry(fabric_registry(), n); },
       [] { return fabric_registry().names(); }},
      {"backend", [](const std::string& n) { return explain_entry(backends(), n); }, [] { return backends().names(); }},
      {"format", [](const std::string& n) { return explain_entry(formats(), n); }, [] { return formats().names(); }},
      {"target", [](const std::string& n) { return explain_entry(exporters(), n); },
       [] { return exporters().names(); }},
      {"lesson", [](const std::string& n) { return explain_lesson(n, lesson_files(find_data()), "lesson"); },
       [] { return lesson_names(lesson_files(find_data())); }},
      {"task", explain_task, [] { return task_names(find_data()); }},
      {"replay", [](const std::string& n) { return explain_lesson(n, replay_files(find_data()), "replay"); },
       [] { return lesson_names(replay_files(find_data())); }},
      {"collective", explain_collective,
       []() -> Names {
         Names out;
         for (int op = 0; op <= static_cast<int>(CollectiveOp::send_recv); ++op)
           out.emplace_back(name_of(static_cast<CollectiveOp>(op)));
         return out;
       }},
      {"algorithm", [](const std::string& n) { return explain_entry(collective_algorithms(), n); },
       [] { return collective_algorithms().names(); }, true},
      {kTerm, explain_term, [] { return glossary().names(); }}};
  return table;
}

Blocks explain_kind(const std::string& kind, const std::string& name) {
  std::vector<std::string> names;
  for (const ExplainKind& k : kinds_explain()) {
    if (k.name == kind) return k.explain(name);
    names.push_back(k.name);
  }
  throw unknown_name("kind of thing", kind, names);
}

/// "machine:dgx_h100", for all things that are called `name`, or for all things.
std::vector<std::string> called(const std::string& name) {
  std::vector<std::string> out;
  std::set<std::string> known;
  for (const bool yielding : {false, true}) {
    for (const ExplainKind& k : kinds_explain()) {
      if (k.yields != yielding || (k.name == kTerm && !name.empty())) continue;
      for (const std::string& n : k.names())
        if ((name.empty() || n == name) && !(yielding && known.contains(n))) out.push_back(k.name + ":" + n);
    }
    for (const std::string& n : out) known.insert(n.substr(n.find(':') + 1));
  }
  return out;
}

/// What is neither a key nor the name of one thing. `of_keys` is what is said of it as a key.
[[noreturn]] void refuse(const std::string& word, const std::vector<std::string>& same, Error of_keys) {
  if (!same.empty())
    throw Error(ErrorKind::usage, fmt::format("'{}' is the name of several things", word), {}, question_of(same));
  const std::vector<std::string> all = called("");
  std::vector<std::string> names;
  for (const std::string& n : all) names.push_back(n.substr(n.find(':') + 1));
  std::vector<std::string> meant;
  for (const std::string& near : near_names(word, names))
    for (std::size_t i = 0; i < all.size(); ++i)
      if (names[i] == near && std::find(meant.begin(), meant.end(), all[i]) == meant.end()) meant.push_back(all[i]);
  const bool key = of_keys.hint.starts_with("did you mean");
  if (key || meant.empty()) throw of_keys;
  throw Error(ErrorKind::usage, fmt::format("unknown key or name '{}'", word.substr(0, 80)), {},
              fmt::format("{} see 'rehearse list keys'", question_of(meant)));
}

/// Fields of measured rows and the words that each may have.
Blocks explain_rows() {
  Blocks out{
      Paragraph{"A row is one measured training step: rehearse validate --measurements FILE, a JSON file of "
                "{\"entries\": [{\"id\", \"source\", \"config\": {}, \"measured\": {}}]}, or CSV. What a row "
                "leaves unsaid comes from file_meta.defaults of its file, then from its framework's profile; "
                "--explain ROW shows where each field came from."}};
  const auto list = [&out](const char* title, const std::vector<RowFieldHelp>& fields) {
    out.emplace_back(Heading{title});
    for (const RowFieldHelp& f : fields) out.emplace_back(Paragraph{fmt::format("{}: {}", f.names, f.help)});
  };
  list("Measured:", measured_field_help());
  list("Configuration:", row_field_help());
  return out;
}

void show(const Blocks& blocks, Console& console) {
  console.out << formats().at("table").value(Document{blocks, {}, {}}, console.style);
}

/// Lines of labels and text within the width: what is too long goes on below the beginning of its text. A command stays
/// whole, to be copied.
std::string fitted(const std::string& text, int width) {
  constexpr int kLeastText = 24, kIndent = 6;
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    if (columns_of(line) <= width || line.find("--set") != std::string::npos) {
      out += line + "\n";
      continue;
    }
    const std::size_t label = line.find_first_not_of(' '), gap = label == 0 ? std::string::npos : line.find(' ', label);
    const std::size_t begin = gap == std::string::npos ? 0 : line.find_first_not_of(' ', gap);
    const int column = static_cast<int>(begin);
    if (width - column >= kLeastText)
      out += line.substr(0, begin) + wrap(line.substr(begin), width - column, column) + "\n";
    else
      out += line.substr(0, gap) + "\n" + std::string(kIndent, ' ') +
             wrap(line.substr(begin), width - kIndent, kIndent) + "\n";
  }
  return out;
}

/// A key, or anything that has this name alone.
void explain_word(const std::string& word, Console& console) {
  try {
    console.out << fitted(rehearse::explain(word), console.style.width);
  } catch (const Error& of_keys) {
    const std::vector<std::string> same = called(word.empty() ? "-" : word);
    if (same.empty() && glossary().find(word) != nullptr) return show(explain_term(word), console);
    if (same.size() != 1) refuse(word, same, of_keys);
    show(explain_kind(same.front().substr(0, same.front().find(':')), word), console);
  }
}

int explain_verb_run(const Arguments& arguments, Console& console) {
  if (arguments.has("--json-schema")) {
    console.out << scenario_json_schema();
    return 0;
  }
  const std::string what = arguments.text("WHAT");
  const auto colon = what.find(':');
  if (what == "rows")
    show(explain_rows(), console);
  else if (colon != std::string::npos)
    show(explain_kind(what.substr(0, colon), what.substr(colon + 1)), console);
  else if (what == "plan" || what.starts_with("plan."))
    console.out << fitted(explain_plan(what), console.style.width);
  else
    explain_word(what, console);
  return 0;
}

}  // namespace

std::vector<std::string> explained_names() {
  std::vector<std::string> out;
  for (const ExplainKind& k : kinds_explain()) {
    if (k.name == kTerm) continue;
    try {
      for (std::string& name : k.names()) out.push_back(std::move(name));
    } catch (const Error&) {  // An installation without data has none of that kind.
    }
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

Verb explain_verb() {
  return {
      "explain",
      "What a key of the scenario means, what a named thing is, or what a word of the field means.",
      {"rehearse explain strategy.tp", "rehearse explain model:gpt3_175b", "rehearse explain machine:dgx_h100",
       "rehearse explain bubble", "rehearse explain rows"},
      {{"WHAT",
        "a key or group of keys, a name, or KIND:NAME where a name is not enough, with model, family, operator, layer, "
        "gpu, "
        "machine, network, cluster, fabric, strategy, schedule, backend, format, target, lesson, task, replay, "
        "collective, "
        "algorithm or term; rows: what a measured row may say; nothing lists the keys",
        false}},
      {{"--json-schema", "", "print the JSON Schema of scenario files, which editors check and complete by"}},
      "",
      explain_verb_run};
}

}  // namespace rehearse::cli
