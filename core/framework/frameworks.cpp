#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.hpp"
#include "core/base/near_names.hpp"
#include "core/base/registry.hpp"
#include "core/framework/framework.hpp"

namespace rehearse {

namespace {

std::string plain(const std::string& json) {
  return json.size() > 1 && json.front() == '"' ? json.substr(1, json.size() - 2) : json;
}

}  // namespace

std::string_view name_of(Able able) {
  switch (able) {
    case Able::yes: return "yes";
    case Able::no: return "no";
    case Able::unknown: return "unknown";
  }
  return {};
}

std::string FrameworkCondition::text() const {
  if (any_of.empty()) return fmt::format("{} above {:g}", key, above);
  std::vector<std::string> words;
  for (const std::string& value : any_of) words.push_back(plain(value));
  return fmt::format("{} {}", key, fmt::join(words, " or "));
}

Ability Framework::can(std::string_view kind, std::string_view what) const {
  const auto at = std::find_if(abilities.begin(), abilities.end(),
                               [&](const Ability& a) { return a.kind == kind && a.name == what; });
  return at != abilities.end() ? *at : Ability{std::string(kind), std::string(what), Able::unknown, {}};
}

const Framework& Frameworks::find(std::string_view id) const {
  const std::size_t at = id.find('@');
  const std::string name(id.substr(0, at));
  std::vector<std::string> names, releases;
  const std::string_view release = at == std::string_view::npos ? std::string_view() : id.substr(at + 1);
  const Framework* newest = nullptr;
  for (const Framework& f : all_) {
    if (names.empty() || names.back() != f.name) names.push_back(f.name);
    if (f.name != name) continue;
    releases.push_back(f.id());
    if (f.release == release) return f;
    if (release.empty() || f.release.starts_with(std::string(release) + ".")) newest = &f;
  }
  if (releases.empty()) throw unknown_name("framework", name, names);
  if (newest == nullptr) throw unknown_name("release", std::string(id), releases);
  return *newest;
}

}  // namespace rehearse
