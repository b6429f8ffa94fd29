#include "core/playground/choices.hpp"

#include <algorithm>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "core/api/build_info.hpp"
#include "core/api/lesson.hpp"
#include "core/api/task.hpp"
#include "core/config/json_file.hpp"
#include "core/config/scenario.hpp"
#include "core/framework/framework.hpp"
#include "core/hardware/catalogue.hpp"
#include "core/model/library.hpp"
#include "core/report/html/html_report.hpp"
#include "core/schedule/schedule.hpp"

namespace rehearse::playground {

namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr const char* kScenarioSchema = "rehearse/scenario/v1";

ordered_json scenarios(const DataDirectory& data) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(data.root / "scenarios"))
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  auto out = ordered_json::array();
  for (const fs::path& file : files) {
    if (!begins_with_schema(file.string(), kScenarioSchema)) continue;
    const Scenario whole = load_scenario(file.string());  // With what it extends.
    out.push_back({{"file", "scenarios/" + file.filename().string()},
                   {"scenario", ordered_json::parse(stated_json(whole, data.root.string()))}});
  }
  return out;
}

ordered_json models(const DataDirectory& data) {
  auto out = ordered_json::array();
  const ModelLibrary library(data.models());
  for (const std::string& name : library.names()) {
    const Network n = library.load(name);
    out.push_back({{"name", name},
                   {"parameters", n.parameter_count()},
                   {"layers", n.layers()},
                   {"sequence_length", n.sequences ? n.max_sequence_length : 0}});
  }
  return out;
}

ordered_json machines(const Catalogue& catalogue) {
  auto out = ordered_json::array();
  for (const std::string& id : catalogue.names(Catalogue::Kind::machine)) {
    const auto m = catalogue.machine(id);
    out.push_back({{"name", id}, {"title", m->name}, {"gpus", m->gpus}, {"gpu", m->gpu}});
  }
  return out;
}

ordered_json networks(const Catalogue& catalogue) {
  auto out = ordered_json::array();
  for (const std::string& id : catalogue.names(Catalogue::Kind::network))
    out.push_back({{"name", id}, {"title", catalogue.network(id)->name}});
  return out;
}

ordered_json frameworks(const DataDirectory& data) {
  auto out = ordered_json::array();
  const Frameworks all = Frameworks::load(data.frameworks());
  for (const Framework& f : all.all()) out.push_back({{"name", f.id()}, {"newest", all.find(f.name).id() == f.id()}});
  return out;
}

ordered_json pipeline_schedules() {
  auto out = ordered_json::array();
  for (const auto& entry : schedules().entries()) out.push_back({{"name", entry.name}, {"title", entry.summary}});
  return out;
}

ordered_json lessons(const DataDirectory& data) {
  auto out = ordered_json::array();
  for (const std::string& file : lesson_files(data)) {
    const Lesson lesson = load_lesson(file);
    // Where a figure is in it, the lesson's own page asks it.
    const auto question = lesson.question.fill([](const std::string&) { return std::optional<double>(); });
    out.push_back({{"name", lesson.name}, {"title", lesson.title}, {"question", question.value_or("")}});
  }
  return out;
}

ordered_json tasks(const DataDirectory& data) {
  auto out = ordered_json::array();
  for (const std::string& file : task_files(data)) {
    const LessonTask task = load_task(file);
    out.push_back({{"name", task.name}, {"track", task.track}, {"title", task.title}});
  }
  return out;
}

ordered_json keys() {
  auto out = ordered_json::array();
  for (const KeyHelp& k : scenario_keys())
    out.push_back({{"key", k.key}, {"type", k.type}, {"fallback", k.fallback}, {"help", k.help}});
  return out;
}

}  // namespace

std::string choices_json(const DataDirectory& data) {
  const Catalogue catalogue(data.topologies());
  return ordered_json{{"version", rehearse_version()},
                      {"scenarios", scenarios(data)},
                      {"models", models(data)},
                      {"machines", machines(catalogue)},
                      {"networks", networks(catalogue)},
                      {"frameworks", frameworks(data)},
                      {"schedules", pipeline_schedules()},
                      {"lessons", lessons(data)},
                      {"tasks", tasks(data)},
                      {"keys", keys()},
                      {"page", ordered_json::parse(page_words_json())}}
      .dump();
}

}  // namespace rehearse::playground
