#include "core/api/lesson.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/api/fleet.hpp"
#include "core/api/memory.hpp"
#include "core/api/session/session.hpp"
#include "core/api/step.hpp"
#include "core/base/registry.hpp"
#include "core/config/json_text.hpp"
#include "core/lesson/run_figures.hpp"
#include "core/plan/step_search.hpp"

namespace rehearse {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostRows = 8;  // Of one plan's picture.

std::vector<std::string> files_in(const fs::path& folder, const char* file) {
  std::vector<std::string> out;
  std::error_code unreadable;
  for (const auto& entry : fs::directory_iterator(folder, unreadable))
    if (fs::is_regular_file(entry.path() / file, unreadable)) out.push_back((entry.path() / file).string());
  std::sort(out.begin(), out.end());
  return out;
}

LessonAnswer play_shared(const LessonPlan& plan, const std::vector<std::string>& changes) {
  FleetAnswer answer{open_fleet(plan.file, changes), {}};
  answer.result = fleet::run_fleet(answer.fleet);
  Figures figures = figures_of(answer);
  return {plan.key, {}, {}, std::move(figures), std::make_shared<const FleetAnswer>(std::move(answer)), {}, {}};
}

/// Of `changes` those that are for `plan`'s reliability.
std::vector<std::string> taken_out(std::vector<std::string>& changes, const LessonPlan& plan) {
  std::vector<std::string> out;
  if (plan.reliability.empty()) return out;
  const auto rest = std::stable_partition(changes.begin(), changes.end(),
                                          [](const std::string& c) { return !c.starts_with("reliability."); });
  out.assign(rest, changes.end());
  changes.erase(rest, changes.end());
  return out;
}

/// What failures cost a run of this scenario, where the plan says something of them.
void add_run(const Session& session, const LessonPlan& plan, const std::vector<std::string>& changes,
             LessonAnswer& out) {
  if (plan.reliability.empty()) return;
  const ReliabilitySettings settings = reliability_of(plan, changes, plan.key);
  const fs::path folder = session.data.topologies() / "reliability";
  GoodputRequest request;
  std::vector<FleetPart> parts;
  for (const Cluster::Part& part : session.cluster.parts()) {
    const double nodes = part.nodes;
    const PartCounts counts{nodes * part.machine->gpus, nodes * part.machine->nics, nodes * part.machine->trays};
    parts.push_back({settings.profile.empty() ? load_reliability(folder, part.gpu->generation)
                                              : named_reliability(folder, settings.profile),
                     counts});
    request.counts.gpus += counts.gpus;
    request.counts.nics += counts.nics;
    request.counts.hosts += counts.hosts;
  }
  request.times = times_of(settings, joined_reliability(parts));
  request.checkpoint = checkpoint_bytes(session.workload);
  out.figures.merge(run_figures(settings, request));
}

LessonAnswer play(const LessonPlan& plan, std::vector<std::string> changes, const std::string& backend) {
  changes.insert(changes.begin(), plan.changes.begin(), plan.changes.end());
  if (plan.is_fleet) return play_shared(plan, changes);
  const std::vector<std::string> of_run = taken_out(changes, plan);
  const Session session = open_session(plan.file, changes);
  SimulateOptions options;
  options.backend = backend;
  options.suggest = false;
  options.pictured = kMostRows;
  LessonAnswer out = answer_of(plan.key, simulate(session, session.lowered(), options));
  add_run(session, plan, of_run, out);
  return out;
}

std::vector<FigureText> titles_of(const Lesson& lesson) {
  std::vector<FigureText> out;
  for (const LessonPlan& plan : lesson.plans) out.push_back(plan.title);
  return out;
}

std::string key_of(const std::string& change) { return change.substr(0, change.find('=')); }

/// Of `changes` those of keys by which the lesson's plans differ: what `plan` is called may not hold with them.
std::vector<std::string> overridden(const Lesson& lesson, const LessonPlan& plan,
                                    const std::vector<std::string>& changes) {
  const auto differs = [&](const std::string& key) {
    return std::any_of(lesson.plans.begin(), lesson.plans.end(), [&](const LessonPlan& p) {
      return std::any_of(p.changes.begin(), p.changes.end(), [&](const std::string& c) { return key_of(c) == key; });
    });
  };
  std::vector<std::string> out;
  for (const std::string& change : changes)
    if (differs(key_of(change)) && std::find(plan.changes.begin(), plan.changes.end(), change) == plan.changes.end())
      out.push_back(change);
  return out;
}

}  // namespace

std::vector<std::string> lesson_files(const DataDirectory& data) { return files_in(data.lessons(), "lesson.json"); }
std::vector<std::string> replay_files(const DataDirectory& data) { return files_in(data.published(), "replay.json"); }

std::string find_lesson(const std::string& word, const std::vector<std::string>& files, const char* kind) {
  if (is_json_text(word) || word.find('/') != std::string::npos || word.ends_with(".json")) return word;
  std::vector<std::string> names;
  for (const std::string& file : files) {
    names.push_back(fs::path(file).parent_path().filename().string());
    if (names.back() == word) return file;
  }
  throw unknown_name(kind, word, names);
}

std::vector<LessonAnswer> play_plans(const Lesson& lesson, const std::vector<std::string>& changes,
                                     const std::string& backend) {
  std::vector<LessonAnswer> out;
  for (const LessonPlan& plan : lesson.plans) out.push_back(play(plan, changes, backend));
  entitle(titles_of(lesson), out);
  for (std::size_t i = 0; i < out.size(); ++i)
    if (const auto set = overridden(lesson, lesson.plans[i], changes); !set.empty())
      out[i].title += fmt::format(", now with {}", fmt::join(set, ", "));
  return out;
}

std::vector<LessonAnswer> unplayed_plans(const Lesson& lesson) {
  std::vector<LessonAnswer> out;
  for (const LessonPlan& plan : lesson.plans) {
    if (plan.is_fleet) {
      out.push_back({plan.key, {}, {}, {}, std::make_shared<const FleetAnswer>(), {}, {}});
      continue;
    }
    const Session session = open_session(plan.file, plan.changes);
    const Program program = session.lowered();
    StepReport report;
    report.head = session.head(program);
    report.memory = rehearse::memory(session, program, false).memory;
    LessonAnswer& answer = out.emplace_back(answer_of(plan.key, std::move(report)));
    add_run(session, plan, {}, answer);
  }
  entitle(titles_of(lesson), out);
  return out;
}

}  // namespace rehearse
