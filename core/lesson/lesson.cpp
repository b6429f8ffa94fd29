#include "core/lesson/lesson.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/index.hpp"
#include "core/base/registry.hpp"
#include "core/config/json_file.hpp"
#include "core/config/json_text.hpp"
#include "core/config/object_reader.hpp"
#include "core/lesson/file_parts.hpp"
#include "core/lesson/run_figures.hpp"

namespace rehearse {

namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 3> kStandings{"measured", "unverified", "claim"};
constexpr std::array<std::string_view, 7> kPictures{"steps", "time", "memory", "bars", "ring", "nodes", "hours"};

template <class Names>
std::vector<std::string> words(const Names& names) {
  return {names.begin(), names.end()};
}

template <class Enum, class Names>
Enum choice(ObjectReader& in, const std::string& key, const Names& names, Enum fallback) {
  const std::vector<std::string> valid = words(names);
  const std::string word = in.choice(key, valid, nth(valid, fallback));
  return static_cast<Enum>(std::find(valid.begin(), valid.end(), word) - valid.begin());
}

bool is_word(const std::string& key) {
  return !key.empty() && std::islower(static_cast<unsigned char>(key.front())) != 0 &&
         std::all_of(key.begin(), key.end(),
                     [](unsigned char c) { return std::islower(c) != 0 || std::isdigit(c) != 0 || c == '_'; });
}

LessonPlan read_plan(ObjectReader in, const fs::path& folder) {
  LessonPlan out;
  out.key = in.string("key");
  if (!is_word(out.key))
    in.fail("key", fmt::format("'{}' is not a lower-case word", out.key), "letters, digits and _, a letter first");
  out.title = FigureText::parse(in.string("title"), in.where("title"));
  out.is_fleet = in.has("fleet");
  if (out.is_fleet && in.has("scenario")) in.fail("fleet", "stands beside 'scenario'", "state either of them");
  in.expect("fleet"), in.expect("scenario");
  out.file = (folder / in.string(out.is_fleet ? "fleet" : "scenario")).lexically_normal().string();
  out.changes = optional_strings(in, "set");
  if (const nlohmann::json* reliability = in.raw("reliability")) {
    if (out.is_fleet) in.fail("reliability", "stands beside 'fleet'", "fleets have 'failures' and 'interruption'");
    out.reliability = reliability->dump();
    (void)reliability_of(out, {}, in.where("reliability"));
  }
  in.finish();
  return out;
}

LessonPicture read_picture(ObjectReader in) {
  LessonPicture out;
  out.kind = choice(in, "kind", kPictures, PictureKind::steps);
  out.title = in.string("title", "");
  out.plans = optional_strings(in, "plans");
  if (out.kind == PictureKind::bars) {
    out.figure = in.string("figure");
    out.form = in.choice("form", figure_forms(), "number");
  }
  in.finish();
  return out;
}

MeasuredFigure read_measurement(ObjectReader in) {
  MeasuredFigure out;
  out.id = in.string("id");
  out.what = in.string("what");
  out.unit = in.string("unit");
  out.measured = in.number("measured");
  if (out.measured == 0) in.fail("measured", "0 has no relative error");
  out.standing = choice(in, "standing", kStandings, Standing::measured);
  out.source = out.standing == Standing::claim ? in.string("source", "") : in.string("source");
  out.note = in.string("note", "");
  if (in.has("skipped"))
    out.skipped = in.string("skipped");
  else
    out.predicted = Formula::parse(in.string("predicted"), in.where("predicted"));
  in.expect("skipped");
  in.finish();
  return out;
}

/// Plans are all of one kind, and pictures are of that kind.
void check_kinds(const Lesson& lesson, const std::string& at) {
  const bool fleets = lesson.plans.front().is_fleet;
  for (std::size_t i = 0; i < lesson.plans.size(); ++i)
    if (lesson.plans[i].is_fleet != fleets)
      throw Error(ErrorKind::usage, "a scenario and a fleet in one lesson", fmt::format("{}plans/{}", at, i),
                  "plans of a lesson are all of one kind");
  for (std::size_t i = 0; i < lesson.pictures.size(); ++i) {
    const PictureKind kind = lesson.pictures[i].kind;
    const bool of_fleets = kind == PictureKind::nodes || kind == PictureKind::hours;
    if (kind != PictureKind::bars && of_fleets != fleets)
      throw Error(
          ErrorKind::usage,
          fmt::format("no picture of kind '{}' of {}", nth(kPictures, kind), fleets ? "a fleet" : "a scenario"),
          fmt::format("{}pictures/{}/kind", at, i),
          fleets ? "\"nodes\", \"hours\" or \"bars\"" : "\"steps\", \"time\", \"memory\", \"ring\" or \"bars\"");
  }
}

void check_names(const Lesson& lesson, const std::vector<std::string>& names, const std::string& where) {
  std::vector<std::string> keys;
  for (const LessonPlan& p : lesson.plans) keys.push_back(p.key);
  check_plans_named(keys, names, where);
}

void check(const Lesson& lesson) {
  const std::string at = lesson.origin + ": /";
  if (lesson.plans.empty()) throw Error(ErrorKind::usage, "a lesson without plans", at + "plans");
  for (std::size_t i = 0; i < lesson.plans.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (lesson.plans[i].key == lesson.plans[j].key)
        throw Error(ErrorKind::usage, fmt::format("two plans are '{}'", lesson.plans[i].key),
                    fmt::format("{}plans/{}/key", at, i));
  check_kinds(lesson, at);
  check_names(lesson, lesson.question.names(), at + "question");
  for (std::size_t i = 0; i < lesson.plans.size(); ++i)
    check_names(lesson, lesson.plans[i].title.names(), fmt::format("{}plans/{}/title", at, i));
  for (std::size_t i = 0; i < lesson.says.size(); ++i) {
    const std::string where = fmt::format("{}says/{}", at, i);
    check_names(lesson, names_in(lesson.says[i]), where);
    check_claims(lesson.shows, lesson.says[i].rests_on, where);
  }
  for (std::size_t i = 0; i < lesson.shows.size(); ++i)
    check_names(lesson, lesson.shows[i].holds.names(), fmt::format("{}shows/{}", at, i));
  for (std::size_t i = 0; i < lesson.measurements.size(); ++i)
    if (lesson.measurements[i].predicted)
      check_names(lesson, lesson.measurements[i].predicted->names(), fmt::format("{}measurements/{}", at, i));
  for (std::size_t i = 0; i < lesson.pictures.size(); ++i)
    for (const std::string& key : lesson.pictures[i].plans)
      check_names(lesson, {key + ".step_time"}, fmt::format("{}pictures/{}/plans", at, i));
}

/// "lesson.json" is called by its folder's name.
std::string name_of_file(const fs::path& path) {
  const std::string stem = path.stem().string();
  return stem == "lesson" || stem == "replay" ? fs::absolute(path).lexically_normal().parent_path().filename().string()
                                              : stem;
}

}  // namespace

std::string_view name_of(Standing standing) { return nth(kStandings, standing); }
std::string_view name_of(PictureKind kind) { return nth(kPictures, kind); }

Lesson parse_lesson(const std::string& text, const std::string& origin) {
  const nlohmann::json document = parse_json(text, origin);
  ObjectReader in(document, origin);
  const std::vector<std::string> schemas{kLessonSchema};
  (void)in.choice("schema", schemas);
  const fs::path path(origin);
  Lesson out;
  out.name = name_of_file(path);
  out.origin = origin;
  out.title = in.string("title");
  out.question = FigureText::parse(in.string("question", ""), in.where("question"));
  for (ObjectReader& plan : in.objects("plans")) out.plans.push_back(read_plan(plan, path.parent_path()));
  for (ObjectReader& picture : optional_objects(in, "pictures")) out.pictures.push_back(read_picture(picture));
  out.says = read_sayings(in, "says");
  out.shows = read_showings(in, "shows");
  out.next = optional_strings(in, "next");
  out.assumes = optional_strings(in, "assumes");
  for (ObjectReader& m : optional_objects(in, "measurements")) out.measurements.push_back(read_measurement(m));
  for (ObjectReader& c : optional_objects(in, "claims")) {
    out.claims.push_back({c.string("claim"), c.string("verdict"), c.string("original")});
    c.finish();
  }
  in.finish();
  check(out);
  return out;
}

Lesson load_lesson(const std::string& path) { return parse_lesson(read_text(path), origin_of(path)); }

}  // namespace rehearse
