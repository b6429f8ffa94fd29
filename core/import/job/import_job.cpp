#include "core/import/job/import_job.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/config/full_key.hpp"
#include "core/import/job/collect.hpp"
#include "core/import/job/model_of_job.hpp"
#include "core/translate/language.hpp"

namespace rehearse::job {

namespace {

using translate::Language;
using translate::languages;

bool about_ranks(const std::string& language) { return language == "launcher" || language == "environment"; }

/// The profile of the software that trains, without a release.
std::string framework_of(const std::vector<Section>& sections, const Draft& d) {
  std::vector<std::string> names;
  bool deepspeed = d.has("job.deepspeed");
  for (const Section& s : sections) {
    const Language* l = languages().find(s.language);
    if (l == nullptr || about_ranks(s.language)) continue;
    deepspeed = deepspeed || s.language == "deepspeed";
    if (!l->framework.empty()) names.push_back(l->framework);
  }
  if (names.empty()) return {};
  const bool megatron = std::find(names.begin(), names.end(), "megatron-core") != names.end();
  if (megatron && deepspeed) return "megatron-deepspeed";
  // A DeepSpeed file beside a program of its own is that program's.
  for (const std::string& n : names) {
    if (n == "pytorch-fsdp2" && d.whole("job.fsdp_version", 2) == 1) return "pytorch-fsdp1";
    if (n != "deepspeed") return n;
  }
  return names.front();
}

/// The newest release that knows all the words; empty for the newest of all.
std::string release_of(const std::string& framework, const std::vector<std::string>& last,
                       const Frameworks& frameworks) {
  std::string newest;
  for (const auto& entry : languages().entries())
    if (entry.value.framework == framework && !entry.value.newest.empty()) newest = entry.value.newest;
  for (const Framework& f : frameworks.all())  // From the oldest on.
    if (f.name == framework && std::find(last.begin(), last.end(), f.release) != last.end()) return f.release;
  return newest;
}

std::string id_of(const JobOptions& options, const std::vector<Section>& sections, Draft& d,
                  const std::vector<std::string>& last, const Frameworks& frameworks) {
  if (!options.framework.empty()) return frameworks.find(options.framework).id();
  const std::string name = framework_of(sections, d);
  if (name.empty())
    throw Error(ErrorKind::usage, "no framework is told by these settings", options.files.front(),
                "say which: --framework NAME ('rehearse list frameworks')");
  const std::string release = release_of(name, last, frameworks);
  const Framework& f = frameworks.find(release.empty() ? name : name + "@" + release);
  d.notes.push_back(
      release.empty()
          ? fmt::format("no file says the release: the newest known is taken, {}; --framework {}@RELEASE says another",
                        f.id(), name)
          : fmt::format(
                "{} is the newest release that takes all of these settings; --framework {}@RELEASE says another",
                f.id(), name));
  return f.id();
}

/// What the user states goes before everything.
void take_options(const JobOptions& options, Draft& d) {
  for (const std::string& text : options.set) {
    const std::size_t sign = text.find('=');
    if (sign == std::string::npos)
      throw Error(ErrorKind::usage, fmt::format("'{}' has no '='", text), "--set", "--set strategy.tp=8");
    const std::string key = full_key(text.substr(0, sign)), value = text.substr(sign + 1);
    if (key == "model" || key.starts_with("model."))
      throw Error(ErrorKind::usage, fmt::format("'{}' is no setting of the job", key), "--set",
                  "name the model with --model");
    if (key.starts_with("cluster"))
      throw Error(ErrorKind::usage, fmt::format("'{}' is no setting of the job", key), "--set",
                  "name machines with --cluster and --gpus");
    Json parsed = Json::parse(value, nullptr, false);
    d.facts[key] = {parsed.is_discarded() ? Json(value) : parsed, "--set " + text, ""};
  }
  if (options.vocabulary > 0) d.facts["model.vocabulary"] = {options.vocabulary, "--vocabulary", ""};
  if (options.vocabulary > 0) d.facts["model.vocabulary_multiple"] = {1, "--vocabulary", ""};
}

void take_fallbacks(const std::string& framework, Draft& d) {
  for (const auto& entry : languages().entries())
    if (entry.value.framework == framework)
      for (const translate::Fallback& f : entry.value.fallbacks)
        if (f.ours.find("microbatch") == std::string::npos && f.ours.find("accumulation") == std::string::npos &&
            !f.ours.starts_with("model."))
          d.follow(f.ours, f.value);
}

/// Facts that became keys and were erased again say nothing: settings that were taken for them do.
void mark_erased(Draft& d) {
  for (Outcome& o : d.outcomes)
    if (o.kind == Outcome::Kind::taken && !d.has(o.key)) {
      o.kind = Outcome::Kind::ignored;
      o.why = "without effect beside the other settings";
    }
}

}  // namespace

ImportedJob import_job(const JobOptions& options, const Catalogue& catalogue, const Frameworks& frameworks,
                       const std::filesystem::path& models) {
  ImportedJob out;
  Draft& d = out.draft;
  Collected all = collect({options.files, options.launch, options.environment, options.job});
  out.program = all.program;
  out.launches = all.launches;
  take_options(options, d);
  std::vector<std::string> last;
  take_settings(all.sections, d, last);
  out.framework = id_of(options, all.sections, d, last, frameworks);
  const std::string framework = out.framework.substr(0, out.framework.find('@'));
  d.notes.insert(d.notes.end(), all.notes.begin(), all.notes.end());
  if (!options.model.empty()) {
    for (auto fact = d.facts.begin(); fact != d.facts.end();)
      fact =
          fact->first.starts_with("model.") && fact->first != "model.experts" ? d.facts.erase(fact) : std::next(fact);
  }
  if (d.has("job.recipe_name"))
    d.notes.push_back(fmt::format("the recipe {} sets more, in Python: give the run's YAML to have all of it",
                                  d.word("job.recipe_name")));
  if (!options.model.empty()) d.facts["model.name"] = {options.model, "--model", ""};
  take_fallbacks(framework, d);
  // The cluster may say how many GPUs there are, which the job's own files then need not.
  Wishes wishes{options.gpus};
  finish_axes(d, framework, wishes);
  Json cluster = cluster_of(d, options, catalogue);
  if (wishes.gpus == 0 && d.has("job.gpus") && !d.has("strategy.dp"))
    finish_axes(d, framework, {d.whole("job.gpus", 0)});
  finish_precision(d, framework);
  JobModel model;
  if (options.model.empty())
    model = model_of(d, framework, models);
  else
    model = stated_model(options.model, models);
  finish_batch(d, framework);
  finish_sharding(d, framework);
  finish_stages(d, framework, model.layers);
  finish_recomputation(d, framework, model.layers);
  finish_training(d, framework);
  if (!d.has("training.sequence_length")) d.ask("the length of a sequence", "--set training.sequence_length=N");
  mark_erased(d);
  if (d.questions.empty() && !model.value.is_null() && !cluster.is_null())
    out.scenario = scenario_of(d, out.framework, model.value, cluster);
  return out;
}

}  // namespace rehearse::job
