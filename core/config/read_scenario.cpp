#include <map>
#include <stdexcept>

#include <fmt/format.h>

#include "core/config/field.hpp"
#include "core/config/json_file.hpp"

namespace rehearse::schema {
namespace {

using nlohmann::json;

// The objects of one document by group key. A group that the file leaves out reads as an empty object, so that a
// missing required key is reported at its place.
class Groups {
 public:
  Groups(const json& document, const std::string& origin) { readers_.emplace("", ObjectReader(document, origin)); }

  ObjectReader& at(const std::string& group) {
    if (const auto known = readers_.find(group); known != readers_.end()) return known->second;
    const auto dot = group.rfind('.');
    ObjectReader& parent = at(dot == std::string::npos ? std::string() : group.substr(0, dot));
    const std::string name = group.substr(dot + 1);
    static const json empty = json::object();
    std::optional<ObjectReader> object;
    try {
      object = parent.optional_object(name);
    } catch (Error& e) {
      e.hint = fmt::format("see 'rehearse explain {}'", group);
      throw;
    }
    return readers_.emplace(group, object ? *object : ObjectReader(empty, parent.origin(), parent.path() + "/" + name))
        .first->second;
  }

  void refuse_unknown_keys() const {
    for (const auto& [group, reader] : readers_)
      if (const auto unknown = reader.unknown_keys(); !unknown.empty()) {
        const Error e = unknown_key(group, unknown.front());
        reader.fail(unknown.front(), e.what(), e.hint);
      }
  }

 private:
  std::map<std::string, ObjectReader> readers_;
};

void read_field(const Field& f, Scenario& out, ObjectReader& r, bool complete) {
  if (!r.has(f.name()) && !(complete && f.required)) return;
  try {
    f.read(f, out, r, complete);
  } catch (Error& e) {
    e.hint += fmt::format("{}see 'rehearse explain {}'", e.hint.empty() ? "" : "; ", f.key);
    throw;
  }
}

}  // namespace

Scenario read(const json& document, const std::string& origin, bool complete) {
  Groups groups(document, origin);
  Scenario out;
  out.origin = origin;
  if (const auto schema = document.find("schema"); schema != document.end() && *schema == "rehearse/plan/v1")
    throw Error(ErrorKind::usage, "this is a plan, not a scenario", origin + ": /schema", "'rehearse plan' reads it");
  read_field(*find("schema"), out, groups.at(""), complete);  // Another version has other keys: say so first.
  for (const Field& f : fields())
    if (f.read) groups.at(f.group()).expect(f.name());
  groups.refuse_unknown_keys();
  for (const Field& f : fields())
    if (f.read) read_field(f, out, groups.at(f.group()), complete);
  return out;
}

}  // namespace rehearse::schema

namespace rehearse {

std::string setting(const Scenario& scenario, std::string_view key) {
  const schema::Field* f = schema::find(key);
  if (f == nullptr || !f->write) throw std::logic_error("no setting: " + std::string(key));
  return f->write(scenario).dump();
}

void set(Scenario& scenario, std::string_view key, std::string_view value, const std::string& origin) {
  const schema::Field* f = schema::find(key);
  if (f == nullptr || !f->read)
    throw Error(ErrorKind::usage, fmt::format("'{}' is no key of a scenario", key), origin, "see 'rehearse list keys'");
  const nlohmann::json object{{f->name(), parse_json(value, origin)}};
  const std::string group = f->group();
  std::string path;
  for (const char c : "/" + group) path += c == '.' ? '/' : c;
  ObjectReader reader(object, origin, path);
  f->read(*f, scenario, reader, false);
}

}  // namespace rehearse
