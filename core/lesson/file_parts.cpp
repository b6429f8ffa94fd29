#include "core/lesson/file_parts.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/registry.hpp"

namespace rehearse {

std::vector<std::string> optional_strings(ObjectReader& in, const std::string& key) {
  return in.has(key) ? in.strings(key) : (in.expect(key), std::vector<std::string>{});
}

std::vector<ObjectReader> optional_objects(ObjectReader& in, const std::string& key) {
  return in.has(key) ? in.objects(key) : (in.expect(key), std::vector<ObjectReader>{});
}

namespace {

Saying read_saying(const nlohmann::json& value, const std::string& where) {
  if (value.is_string()) return {std::nullopt, FigureText::parse(value.get<std::string>(), where), std::nullopt, {}};
  const std::size_t path = where.rfind(": ");
  ObjectReader in(value, where.substr(0, path), where.substr(path + 2));
  const auto text = [&in](const char* key) { return FigureText::parse(in.string(key), in.where(key)); };
  Saying out;
  if (in.has("say")) {
    out.text = text("say");
  } else {
    out.condition = Formula::parse(in.string("if"), in.where("if"));
    out.text = text("then");
    if (in.has("else")) out.otherwise = text("else");
  }
  out.rests_on = optional_strings(in, "rests_on");
  for (const char* key : {"say", "if", "then", "else"}) in.expect(key);
  in.finish();
  return out;
}

}  // namespace

std::vector<Saying> read_sayings(ObjectReader& in, const std::string& key) {
  std::vector<Saying> out;
  const nlohmann::json* says = in.raw(key);
  if (says == nullptr) return out;
  if (!says->is_array()) in.fail(key, "not a list", "a list of sentences, of {say, rests_on}, or of {if, then, else}");
  for (std::size_t i = 0; i < says->size(); ++i)
    out.push_back(read_saying((*says)[i], fmt::format("{}/{}", in.where(key), i)));
  return out;
}

std::vector<Showing> read_showings(ObjectReader& in, const std::string& key) {
  std::vector<Showing> out;
  for (ObjectReader& s : optional_objects(in, key)) {
    out.push_back({s.string("claim"), Formula::parse(s.string("holds"), s.where("holds"))});
    s.finish();
  }
  return out;
}

std::vector<std::string> names_in(const Saying& saying) {
  std::vector<std::string> out = saying.text.names();
  const auto add = [&out](const std::vector<std::string>& more) { out.insert(out.end(), more.begin(), more.end()); };
  if (saying.condition) add(saying.condition->names());
  if (saying.otherwise) add(saying.otherwise->names());
  return out;
}

void check_plans_named(const std::vector<std::string>& keys, const std::vector<std::string>& names,
                       const std::string& where) {
  for (const std::string& name : names) {
    const std::size_t dot = name.find('.');
    if (dot == std::string::npos)
      throw Error(ErrorKind::usage, fmt::format("'{}' is not a figure", name), where,
                  "a figure is PLAN.FIGURE, such as " + keys.front() + ".step_time");
    if (std::find(keys.begin(), keys.end(), name.substr(0, dot)) != keys.end()) continue;
    Error e = unknown_name("plan", name.substr(0, dot), keys);
    e.where = where;
    throw e;
  }
}

void check_claims(const std::vector<Showing>& claims, const std::vector<std::string>& named, const std::string& where) {
  std::vector<std::string> known;
  for (const Showing& s : claims) known.push_back(s.claim);
  for (const std::string& claim : named) {
    if (std::find(known.begin(), known.end(), claim) != known.end()) continue;
    Error e = unknown_name("claim", claim, known);
    e.where = where + "/rests_on";
    throw e;
  }
}

}  // namespace rehearse
