// Reading topologies/frameworks.

#include <algorithm>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/registry.hpp"
#include "core/config/json_file.hpp"
#include "core/config/object_reader.hpp"
#include "core/framework/framework.hpp"

namespace rehearse {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// Sources of one file, and which of them were cited.
class Citations {
 public:
  explicit Citations(ObjectReader& file) {
    ObjectReader sources = file.object("sources");
    for (const std::string& key : sources.keys()) {
      ObjectReader entry = sources.object(key);
      Source s{key, entry.string("text"), parse_evidence(entry.string("evidence", "published"))};
      const std::string repository = entry.string("repo", ""), commit = entry.string("commit", ""),
                        path = entry.string("file", ""), lines = entry.string("lines", "");
      if (!repository.empty()) {
        s.text = fmt::format("{} @{}, {}{}: {}", repository, commit.substr(0, 12), path,
                             lines.empty() ? "" : ", lines " + lines, s.text);
      }
      entry.finish();
      known_.emplace(key, std::move(s));
    }
  }

  /// The source that `keys` names, or several with commas between them as one.
  Source cite(const ObjectReader& at, const std::string& member, const std::string& keys) {
    Source out{keys, {}, Evidence::published};
    for (std::size_t start = 0; start <= keys.size();) {
      const std::size_t end = std::min(keys.find(',', start), keys.size());
      const std::string key = keys.substr(start, end - start);
      const auto found = known_.find(key);
      if (found == known_.end()) at.fail(member, fmt::format("'{}' is not among the sources", key));
      used_.insert(key);
      out.text += (out.text.empty() ? "" : "; ") + found->second.text;
      if (found->second.evidence == Evidence::estimate) out.evidence = Evidence::estimate;
      start = end + 1;
    }
    return out;
  }

  void finish(const ObjectReader& file) const {
    for (const auto& [key, source] : known_)
      if (!used_.contains(key)) file.fail("sources", fmt::format("nothing cites '{}'", key));
  }

 private:
  std::map<std::string, Source> known_;
  std::set<std::string> used_;
};

/// [value, source] or [value, source, note]
struct Cited {
  json value;
  Source source;
  std::string note;
};

Cited cited(ObjectReader& object, const std::string& key, Citations& citations) {
  const json& v = *object.raw(key);
  if (!v.is_array() || v.size() < 2 || v.size() > 3 || !v[1].is_string() || (v.size() == 3 && !v[2].is_string()))
    object.fail(key, "wanted [value, source] or [value, source, note]");
  return {v[0], citations.cite(object, key, v[1].get<std::string>()), v.size() == 3 ? v[2].get<std::string>() : ""};
}

/// Keys that describe the job and not the software.
bool of_the_job(const std::string& key) {
  return key == "schema" || key == "model" || key == "framework.name" || key.starts_with("cluster") ||
         key == "calibration" || key == "collective_table";
}

std::vector<FrameworkFact> facts_of(ObjectReader& facts, Citations& citations) {
  std::vector<FrameworkFact> out;
  for (const std::string& key : facts.keys()) {
    const Cited c = cited(facts, key, citations);
    if (of_the_job(key)) facts.fail(key, fmt::format("no software decides '{}'", key));
    Scenario tried;
    set(tried, key, c.value.dump(), facts.where(key));
    out.push_back({key, setting(tried, key), c.source, c.note});
  }
  return out;
}

FrameworkCondition condition_of(ObjectReader& when, const std::string& key) {
  FrameworkCondition out{key, {}, 0};
  const json& wanted = *when.raw(key);
  if (key != "gpu_generation") (void)setting(Scenario(), key);
  if (wanted.is_object()) {
    ObjectReader above = when.object(key);
    out.above = above.number("above");
    above.finish();
    return out;
  }
  for (const json& w : wanted.is_array() ? wanted : json::array({wanted})) out.any_of.push_back(w.dump());
  if (out.any_of.empty()) when.fail(key, "no job meets an empty list");
  return out;
}

/// The facts of a release: those that hold always, and those tied to conditions.
void add_rules(ObjectReader& part, const std::string& release, int step, Citations& citations,
               std::vector<FrameworkRule>& out) {
  if (auto facts = part.optional_object("facts")) out.push_back({release, {}, facts_of(*facts, citations), 2 * step});
  if (!part.has("when")) return;
  for (ObjectReader& entry : part.objects("when")) {
    FrameworkRule rule{release, {}, {}, 2 * step + 1};
    ObjectReader when = entry.object("if");
    for (const std::string& key : when.keys()) rule.when.push_back(condition_of(when, key));
    if (rule.when.empty()) entry.fail("if", "without a condition a fact belongs into 'facts'");
    ObjectReader facts = entry.object("facts");
    rule.facts = facts_of(facts, citations);
    entry.finish();
    out.push_back(std::move(rule));
  }
}

Able able_of(const ObjectReader& at, const std::string& key, const json& value) {
  for (const Able able : {Able::yes, Able::no, Able::unknown})
    if (value == name_of(able)) return able;
  at.fail(key, "wanted yes, no or unknown");
}

/// In place of what was said before of the same.
void put(Ability ability, std::vector<Ability>& out) {
  const auto at = std::find_if(out.begin(), out.end(),
                               [&](const Ability& a) { return a.kind == ability.kind && a.name == ability.name; });
  if (at == out.end())
    out.push_back(std::move(ability));
  else
    *at = std::move(ability);
}

void add_abilities(ObjectReader& part, Citations& citations, std::vector<Ability>& out) {
  auto can = part.optional_object("can");
  if (!can) return;
  for (const std::string_view kind : kAbilityKinds) {
    auto named = can->optional_object(std::string(kind));
    if (!named) continue;
    for (const std::string& name : named->keys()) {
      const Cited c = cited(*named, name, citations);
      put({std::string(kind), name, able_of(*named, name, c.value), c.source}, out);
    }
  }
  can->finish();
}

/// Rules cite keys that conditions of the same profile set: that would leave the order of reading to decide.
void check_conditions(const Framework& f, const std::string& file) {
  std::set<std::string> conditional;
  for (const FrameworkRule& rule : f.rules)
    for (const FrameworkFact& fact : rule.facts)
      if (!rule.when.empty()) conditional.insert(fact.key);
  for (const FrameworkRule& rule : f.rules)
    for (const FrameworkCondition& c : rule.when)
      if (conditional.contains(c.key))
        throw Error(ErrorKind::usage, fmt::format("a condition asks for {}, which another condition sets", c.key),
                    file + ": /when", "let both ask for what the key follows from");
}

/// Profiles that are read already: by name, the newest release; and by name@release.
using Known = std::map<std::string, Framework>;

/// More than any profile has: what it builds on goes after all of its own.
constexpr int kStepsBelow = 1'000'000;

/// `own` on top of `base`.
Framework on_top(const Framework& own, const Framework& base) {
  Framework out = own;
  out.rules = base.rules;
  for (FrameworkRule& rule : out.rules) rule.precedence -= kStepsBelow;
  out.rules.insert(out.rules.end(), own.rules.begin(), own.rules.end());
  out.abilities = base.abilities;
  for (const Ability& ability : own.abilities) put(ability, out.abilities);
  return out;
}

/// The releases of one file, each with all that holds of it. Empty where one builds on a profile that is not `known`,
/// whose name goes to `waits_for`.
std::vector<Framework> read_file(const std::string& path, const Known& known, std::string& waits_for) {
  const json document = load_json(path);
  ObjectReader file(document, path);
  static const std::vector<std::string> schema{"rehearse/framework/v1"};
  (void)file.choice("schema", schema);
  Framework now;
  now.name = file.string("name");
  now.title = file.string("title");
  if (now.name != fs::path(path).stem()) file.fail("name", "wanted the file's own name, without .json");
  std::string base = file.string("builds_on", "");
  int step = 0;
  Citations citations(file);
  add_rules(file, {}, step++, citations, now.rules);
  add_abilities(file, citations, now.abilities);
  std::vector<Framework> out;
  for (ObjectReader& part : file.objects("releases")) {
    now.release = part.string("release");
    now.date = part.string("date", "");
    (void)part.string("commit", "");
    base = part.string("builds_on", base);
    add_rules(part, now.release, step++, citations, now.rules);
    add_abilities(part, citations, now.abilities);
    part.finish();
    const auto below = known.find(base);
    if (!base.empty() && below == known.end()) return waits_for = base, std::vector<Framework>{};
    out.push_back(base.empty() ? now : on_top(now, below->second));
    check_conditions(out.back(), path);
  }
  if (out.empty()) file.fail("releases", "wanted one release or more");
  citations.finish(file);
  file.finish();
  return out;
}

}  // namespace

Frameworks Frameworks::load(const fs::path& directory) {
  std::vector<std::string> files = json_files_of(directory.string());
  if (files.empty()) throw Error(ErrorKind::usage, "no profiles of frameworks here", directory.string());
  Known known;
  std::map<std::string, std::vector<Framework>> read;
  // A profile waits until the one that it builds on is read.
  for (std::size_t left = files.size() + 1; !files.empty() && files.size() < left;) {
    left = files.size();
    std::string waits_for;
    std::erase_if(files, [&](const std::string& file) {
      std::vector<Framework> releases = read_file(file, known, waits_for);
      if (releases.empty()) return false;
      for (const Framework& f : releases) known[f.id()] = known[f.name] = f;
      read.emplace(releases.front().name, std::move(releases));
      return true;
    });
    if (files.size() == left)
      throw Error(ErrorKind::usage, fmt::format("builds on '{}', which is no profile here", waits_for), files.front());
  }
  Frameworks out;
  for (auto& [name, releases] : read) out.all_.insert(out.all_.end(), releases.begin(), releases.end());
  return out;
}

}  // namespace rehearse
