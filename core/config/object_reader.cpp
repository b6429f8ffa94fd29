#include "core/config/object_reader.hpp"

#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/counts.hpp"
#include "core/base/registry.hpp"

namespace rehearse {
namespace {

using nlohmann::json;

// JSON pointer escapes (RFC 6901).
std::string escaped(const std::string& key) {
  std::string out;
  for (const char c : key) out += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  return out;
}

std::optional<std::int64_t> as_integer(const json& v) {
  if (v.is_number_unsigned()) {
    const auto u = v.get<std::uint64_t>();
    if (u > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return std::nullopt;
    return static_cast<std::int64_t>(u);
  }
  if (v.is_number_integer()) return v.get<std::int64_t>();
  if (v.is_number_float()) {
    const double d = v.get<double>();
    if (std::floor(d) == d && std::abs(d) <= kExactIntegers) return static_cast<std::int64_t>(d);
  }
  return std::nullopt;
}

/// Of a text where a number is wanted.
std::string hint_of(const json& v) { return v.is_string() ? count_hint(v.get<std::string>()) : std::string(); }

std::string range_text(NumberRange r) {
  if (r.max >= std::numeric_limits<double>::max()) return fmt::format("at least {:g}", r.min);
  if (r.min <= -std::numeric_limits<double>::max()) return fmt::format("at most {:g}", r.max);
  return fmt::format("{:g} to {:g}", r.min, r.max);
}
std::string range_text(IntegerRange r) {
  if (r.max == std::numeric_limits<std::int64_t>::max()) return fmt::format("at least {}", r.min);
  if (r.min == std::numeric_limits<std::int64_t>::min()) return fmt::format("at most {}", r.max);
  return fmt::format("{} to {}", r.min, r.max);
}

}  // namespace

std::string describe_value(const json& value) {
  std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  constexpr std::size_t kLongest = 60;
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  if (value.is_null()) return "null";
  return fmt::format("{} {}", value.type_name(), text);
}

ObjectReader::ObjectReader(const json& value, std::string origin, std::string path)
    : value_(&value), origin_(std::move(origin)), path_(std::move(path)) {
  if (!value.is_object()) throw Error(ErrorKind::usage, "wanted an object, found " + describe_value(value), where());
}

std::string ObjectReader::where(const std::string& key) const {
  const std::string pointer = key.empty() ? path_ : path_ + "/" + escaped(key);
  return origin_ + ": " + (pointer.empty() ? "/" : pointer);
}

void ObjectReader::fail(const std::string& key, const std::string& what, const std::string& hint) const {
  throw Error(ErrorKind::usage, what, where(key), hint);
}

void ObjectReader::fail_type(const std::string& key, std::string_view wanted, const json& found,
                             const std::string& hint) const {
  fail(key, fmt::format("wanted {}, found {}", wanted, describe_value(found)), hint);
}

bool ObjectReader::has(const std::string& key) const {
  const auto at = value_->find(key);
  return at != value_->end() && !(null_is_absent_ && at->is_null());
}

std::vector<std::string> ObjectReader::keys() const {
  std::vector<std::string> out;
  for (const auto& [key, value] : value_->items()) out.push_back(key);
  return out;
}

const json& ObjectReader::need(const std::string& key, std::string_view wanted) {
  expect(key);
  if (!has(key)) fail({}, fmt::format("key '{}' is missing: {}", key, wanted));
  return *value_->find(key);
}

std::string ObjectReader::string(const std::string& key) {
  const json& v = need(key, "a string");
  if (!v.is_string()) fail_type(key, "a string", v);
  return v.get<std::string>();
}

bool ObjectReader::boolean(const std::string& key) {
  const json& v = need(key, "true or false");
  if (!v.is_boolean()) fail_type(key, "true or false", v);
  return v.get<bool>();
}

std::int64_t ObjectReader::integer(const std::string& key, IntegerRange range) {
  const json& v = need(key, "an integer");
  if (!v.is_number()) fail_type(key, "an integer", v, hint_of(v));
  const std::optional<std::int64_t> i = as_integer(v);
  const bool fraction = v.is_number_float() && std::floor(v.get<double>()) != v.get<double>();
  if (fraction) fail_type(key, "an integer", v);
  if (!i || *i < range.min || *i > range.max)
    fail(key, fmt::format("{} is out of range: wanted an integer, {}", describe_value(v), range_text(range)));
  return *i;
}

double ObjectReader::number(const std::string& key, NumberRange range) {
  const json& v = need(key, "a number");
  if (!v.is_number()) fail_type(key, "a number", v, hint_of(v));
  const double d = v.get<double>();
  if (!(d >= range.min && d <= range.max))
    fail(key, fmt::format("{} is out of range: wanted {}", describe_value(v), range_text(range)));
  return d;
}

template <class Q>
Q ObjectReader::quantity(const std::string& key) {
  const json& v = need(key, "a quantity with its unit");
  try {
    if (v.is_string()) return parse<Q>(v.get<std::string>());
    if (v.is_number()) return parse<Q>(v.dump());
  } catch (const Error& e) {
    fail(key, e.what(), e.hint);
  }
  fail_type(key, "a text with a unit", v);
}
template Bytes ObjectReader::quantity<Bytes>(const std::string&);
template Seconds ObjectReader::quantity<Seconds>(const std::string&);
template Flops ObjectReader::quantity<Flops>(const std::string&);
template BytesPerSecond ObjectReader::quantity<BytesPerSecond>(const std::string&);
template FlopsPerSecond ObjectReader::quantity<FlopsPerSecond>(const std::string&);
template Watts ObjectReader::quantity<Watts>(const std::string&);
template Dollars ObjectReader::quantity<Dollars>(const std::string&);

std::string ObjectReader::choice(const std::string& key, std::span<const std::string> valid) {
  const std::string text = string(key);
  for (const std::string& name : valid)
    if (name == text) return text;
  const Error unknown = unknown_name(key, text, valid);
  fail(key, unknown.what(), unknown.hint);
}

std::string ObjectReader::string(const std::string& key, const std::string& fallback) {
  return has(key) ? string(key) : (expect(key), fallback);
}
bool ObjectReader::boolean(const std::string& key, bool fallback) {
  return has(key) ? boolean(key) : (expect(key), fallback);
}
std::int64_t ObjectReader::integer(const std::string& key, IntegerRange range, std::int64_t fallback) {
  return has(key) ? integer(key, range) : (expect(key), fallback);
}
double ObjectReader::number(const std::string& key, NumberRange range, double fallback) {
  return has(key) ? number(key, range) : (expect(key), fallback);
}
std::string ObjectReader::choice(const std::string& key, std::span<const std::string> valid,
                                 const std::string& fallback) {
  return has(key) ? choice(key, valid) : (expect(key), fallback);
}

const json& ObjectReader::need_array(const std::string& key, std::string_view wanted) {
  const json& v = need(key, wanted);
  if (!v.is_array()) fail_type(key, wanted, v);
  return v;
}

std::vector<std::string> ObjectReader::strings(const std::string& key) {
  std::vector<std::string> out;
  for (const json& v : need_array(key, "an array of strings")) {
    if (!v.is_string()) fail_type(key, fmt::format("a string at position {}", out.size()), v);
    out.push_back(v.get<std::string>());
  }
  return out;
}

std::vector<double> ObjectReader::numbers(const std::string& key, NumberRange range) {
  std::vector<double> out;
  for (const json& v : need_array(key, "an array of numbers")) {
    if (!v.is_number()) fail_type(key, fmt::format("a number at position {}", out.size()), v);
    const double d = v.get<double>();
    if (!(d >= range.min && d <= range.max))
      fail(key, fmt::format("{} is out of range: wanted {}", describe_value(v), range_text(range)));
    out.push_back(d);
  }
  return out;
}

ObjectReader ObjectReader::object(const std::string& key) {
  return ObjectReader(need(key, "an object"), origin_, path_ + "/" + escaped(key));
}

std::optional<ObjectReader> ObjectReader::optional_object(const std::string& key) {
  expect(key);
  if (!has(key)) return std::nullopt;
  return object(key);
}

std::vector<ObjectReader> ObjectReader::objects(const std::string& key) {
  std::vector<ObjectReader> out;
  for (const json& v : need_array(key, "an array of objects"))
    out.emplace_back(v, origin_, fmt::format("{}/{}/{}", path_, escaped(key), out.size()));
  return out;
}

const json* ObjectReader::raw(const std::string& key) {
  expect(key);
  return has(key) ? &*value_->find(key) : nullptr;
}

std::vector<std::string> ObjectReader::unknown_keys() const {
  std::vector<std::string> out;
  for (const std::string& key : keys())
    if (!asked_.contains(key)) out.push_back(key);
  return out;
}

void ObjectReader::finish() const {
  const std::vector<std::string> unknown = unknown_keys();
  if (unknown.empty()) return;
  const std::vector<std::string> valid(asked_.begin(), asked_.end());
  const Error e = unknown_name("key", unknown.front(), valid);
  fail(unknown.front(), e.what(), e.hint);
}

}  // namespace rehearse
