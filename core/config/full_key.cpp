#include "core/config/full_key.hpp"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/near_names.hpp"
#include "core/base/registry.hpp"
#include "core/config/field.hpp"

namespace rehearse {

namespace {

bool inside_model(const std::string& key) {
  return key.starts_with("model.") && key.size() > 6 && key.find("..") == std::string::npos && !key.ends_with('.');
}

/// Those of `keys` that end in ".KEY" and have the fewest groups around them.
std::vector<std::string> outermost(const std::vector<std::string>& keys, const std::string& key) {
  const auto depth = [](const std::string& k) { return std::count(k.begin(), k.end(), '.'); };
  std::vector<std::string> out;
  for (const std::string& k : keys) {
    if (!k.ends_with("." + key)) continue;
    if (!out.empty() && depth(k) < depth(out.front())) out.clear();
    if (out.empty() || depth(k) == depth(out.front())) out.push_back(k);
  }
  return out;
}

void refuse_group(const std::string& key) {
  for (const schema::Group& g : schema::groups()) {
    if (g.key != key && !g.key.ends_with("." + key)) continue;
    std::vector<std::string> members;
    for (const schema::Field& f : schema::fields())
      if (f.group() == g.key) members.push_back(f.key);
    const std::string on = g.key + ".enabled";
    const bool switched = std::find(members.begin(), members.end(), on) != members.end();
    throw Error(ErrorKind::usage, fmt::format("'{}' is a group, not a key", key), {},
                (switched ? fmt::format("did you mean {}? ", on) : std::string()) +
                    fmt::format("its keys: {}", fmt::join(members, ", ")));
  }
}

/// A word without a group is held against the last words of keys.
Error unknown_key(const std::string& key, const std::vector<std::string>& keys) {
  Error out = unknown_of_many("key", key, keys, "rehearse list keys");
  if (key.find('.') != std::string::npos) return out;
  std::vector<std::string> last;
  for (const std::string& k : keys) last.push_back(k.substr(k.rfind('.') + 1));
  if (const std::string near = did_you_mean(key, last); !near.empty()) {
    const auto at = static_cast<std::size_t>(std::find(last.begin(), last.end(), near) - last.begin());
    out.hint = fmt::format("did you mean '{}'? see 'rehearse list keys'", keys[at]);
  }
  return out;
}

}  // namespace

std::string full_key(const std::string& key) {
  if (schema::find(key) || inside_model(key)) return key;
  if (key == "framework") return "framework.name";
  for (const schema::Field& f : schema::fields())
    if (f.was == key) return f.key;
  std::vector<std::string> keys;
  for (const schema::Field& f : schema::fields()) keys.push_back(f.key);
  const std::vector<std::string> meant = outermost(keys, key);
  if (meant.size() == 1) return meant.front();
  if (meant.size() > 1)
    throw Error(ErrorKind::usage, fmt::format("'{}' may be several keys", key), {}, question_of(meant));
  refuse_group(key);
  throw unknown_key(key, keys);
}

}  // namespace rehearse
