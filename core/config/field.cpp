#include "core/config/field.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/counts.hpp"
#include "core/base/near_names.hpp"
#include "core/base/portable.hpp"
#include "core/base/registry.hpp"
#include "core/config/object_reader.hpp"

namespace rehearse::schema {

using nlohmann::json;
using nlohmann::ordered_json;

const Field* find(std::string_view key) {
  const auto at = std::find_if(fields().begin(), fields().end(), [&](const Field& f) { return f.key == key; });
  return at == fields().end() ? nullptr : &*at;
}

bool is_group(std::string_view key) {
  return std::any_of(groups().begin(), groups().end(), [&](const Group& g) { return g.key == key; });
}

constexpr std::size_t kMostListed = 20;

Error unknown_key(const std::string& group, const std::string& name) {
  std::vector<std::string> members;
  if (group.empty()) members.emplace_back("extends");
  for (const Field& f : fields())
    if (f.group() == group) members.push_back(f.name());
  for (const Group& g : groups()) {
    const auto dot = g.key.rfind('.');
    if ((dot == std::string::npos ? std::string() : g.key.substr(0, dot)) == group && !find(g.key))
      members.push_back(g.key.substr(dot + 1));
  }
  Error e = members.size() > kMostListed ? unknown_of_many("key", name, members, "rehearse list keys")
                                         : unknown_name("key", name, members);
  if (e.hint.starts_with("did you mean")) return e;
  for (const Field& f : fields())
    if (f.name() == name) {
      e.hint = fmt::format("did you mean '{}'? {}", f.key, e.hint);
      break;
    }
  return e;
}

std::string read_text(const Field& f, ObjectReader& r) {
  std::string text = r.string(f.name());
  if (text.empty()) r.fail(f.name(), "wanted a name or a path, found an empty string");
  return text;
}

std::int64_t read_integer(const Field& f, ObjectReader& r) {
  const std::string name = f.name();
  const json* v = r.raw(name);
  if (f.automatic && v && v->is_string()) {
    if (*v == "auto") return 0;
    r.fail(name, "wanted an integer or \"auto\", found " + describe_value(*v), count_hint(v->get<std::string>()));
  }
  return r.integer(name, {static_cast<std::int64_t>(f.min), static_cast<std::int64_t>(f.max)});
}

double read_count(const Field& f, ObjectReader& r) {
  const std::string name = f.name();
  const json* v = r.raw(name);
  if (!v || !v->is_string()) return r.number(name, {f.min, f.max});
  const auto text = v->get<std::string>();
  const std::string hint = count_hint(text);
  double value = 0;
  const auto [end, status] = number_from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc{} || end != text.data() + text.size())
    r.fail(name, "wanted a number, found " + describe_value(*v),
           hint.empty() ? "example: " + (f.example.empty() ? "300e9" : f.example) : hint);
  if (!(value >= f.min && value <= f.max))
    r.fail(name, fmt::format("{} is out of range: wanted {:g} to {:g}", describe_value(*v), f.min, f.max));
  return value;
}

Bytes read_size(const Field& f, ObjectReader& r) {
  const auto value = r.quantity<Bytes>(f.name());
  if (value.value() < f.min || value.value() > f.max)
    r.fail(f.name(), fmt::format("{} is out of range: wanted {} to {}", to_string(value), to_string(Bytes{f.min}),
                                 to_string(Bytes{f.max})));
  return value;
}

BytesPerSecond read_rate(const Field& f, ObjectReader& r) {
  const auto value = r.quantity<BytesPerSecond>(f.name());
  if (value.value() < f.min || value.value() > f.max)
    r.fail(f.name(), fmt::format("{} is out of range: wanted {} to {}", to_string(value),
                                 to_string(BytesPerSecond{f.min}), to_string(BytesPerSecond{f.max})));
  return value;
}

namespace {

std::vector<std::string> split_at_commas(const std::string& text) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    std::string part = text.substr(at, comma - at);
    std::erase(part, ' ');
    out.push_back(std::move(part));
    at = comma + 1;
  }
  return out;
}

}  // namespace

std::vector<std::int64_t> read_integers(const Field& f, ObjectReader& r) {
  const std::string name = f.name();
  std::vector<std::int64_t> values;
  const auto take = [&](double value, const std::string& text) {
    if (!(value >= f.min && value <= f.max) || value != std::floor(value))
      r.fail(name,
             fmt::format("{} is no integer from {} to {}", text, static_cast<std::int64_t>(f.min),
                         static_cast<std::int64_t>(f.max)),
             "example: " + f.example);
    values.push_back(static_cast<std::int64_t>(value));
  };
  if (const json* v = r.raw(name); v && v->is_string()) {
    for (const std::string& part : split_at_commas(r.string(name))) {
      double value = 0;
      const auto [end, status] = number_from_chars(part.data(), part.data() + part.size(), value);
      if (status != std::errc{} || end != part.data() + part.size())
        r.fail(name, fmt::format("wanted integers separated by commas, found '{}'", part), "example: " + f.example);
      take(value, part);
    }
  } else {
    for (const double value : r.numbers(name)) take(value, fmt::format("{:g}", value));
  }
  return values;
}

std::vector<std::string> read_axes(const Field& f, ObjectReader& r) {
  const std::string name = f.name();
  const json* v = r.raw(name);
  const std::vector<std::string> axes = v && v->is_array() ? r.strings(name) : split_at_commas(r.string(name));
  for (auto it = axes.begin(); it != axes.end(); ++it) {
    if (std::find(f.choices.begin(), f.choices.end(), *it) == f.choices.end()) {
      const Error e = unknown_name(f.noun, *it, f.choices);
      r.fail(name, e.what(), e.hint);
    }
    if (std::find(axes.begin(), it, *it) != it) r.fail(name, fmt::format("{} '{}' is listed twice", f.noun, *it));
  }
  return axes;
}

ModelRef read_model(const Field& f, ObjectReader& r) {
  const json* v = r.raw(f.name());
  if (v && v->is_object()) return {{}, {}, v->dump()};
  if (v && !v->is_string())
    r.fail(f.name(), "wanted a model's name, the path of its config.json or an object, found " + describe_value(*v));
  std::string text = read_text(f, r);
  if (is_file_reference(text)) return {{}, std::move(text), {}};
  return {std::move(text), {}, {}};
}

namespace {

ClusterPart read_part(ObjectReader& r, bool complete) {
  const Field& machine = *find("cluster.machine");
  const Field& nodes = *find("cluster.nodes");
  r.expect(machine.name());
  r.expect(nodes.name());
  ClusterPart part;
  if (complete || r.has(machine.name())) part.machine = read_text(machine, r);
  if (r.has(nodes.name())) part.nodes = static_cast<int>(read_integer(nodes, r));
  return part;
}

std::vector<ClusterPart> read_parts(std::vector<ObjectReader> objects, const ObjectReader& at, const std::string& key) {
  if (objects.empty()) at.fail(key, "wanted at least one {\"machine\", \"nodes\"}, found an empty array");
  std::vector<ClusterPart> parts;
  for (ObjectReader& o : objects) {
    parts.push_back(read_part(o, true));
    o.finish();
  }
  return parts;
}

ClusterRef read_cluster_object(ObjectReader& r, bool complete) {
  ClusterRef out;
  const Field& network = *find("cluster.network");
  r.expect("parts");
  r.expect(network.name());
  if (r.has(network.name())) out.network = read_text(network, r);
  if (r.has("gpudirect_rdma")) out.gpudirect_rdma = r.boolean("gpudirect_rdma");
  if (r.has("pxn")) out.pxn = r.boolean("pxn");
  if (r.has("gpus_per_node")) out.gpus_per_node = static_cast<int>(read_integer(*find("cluster.gpus_per_node"), r));
  r.expect("gpudirect_rdma");
  r.expect("pxn");
  r.expect("gpus_per_node");
  if (r.has("parts")) {
    for (const char* key : {"machine", "nodes"})
      if (r.has(key))
        r.fail(key, fmt::format("'{}' stands beside 'parts'", key), "state either machine and nodes, or parts");
    r.expect("machine");
    r.expect("nodes");
    out.parts = read_parts(r.objects("parts"), r, "parts");
  } else {
    out.parts = {read_part(r, complete)};
  }
  r.finish();
  return out;
}

ordered_json write_part(const ClusterPart& part) { return {{"machine", part.machine}, {"nodes", part.nodes}}; }

}  // namespace

ClusterRef read_cluster(const Field& f, ObjectReader& r, bool complete) {
  const std::string name = f.name();
  const json* v = r.raw(name);
  ClusterRef out;
  if (v && v->is_object()) {
    ObjectReader object = r.object(name);
    return read_cluster_object(object, complete);
  }
  if (v && v->is_array()) {
    out.parts = read_parts(r.objects(name), r, name);
    return out;
  }
  if (v && !v->is_string())
    r.fail(name,
           "wanted a cluster's name, a path or {\"machine\", \"nodes\", \"network\"}, found " + describe_value(*v));
  std::string text = read_text(f, r);
  (is_file_reference(text) ? out.file : out.name) = std::move(text);
  return out;
}

ordered_json write_integer(const Field& f, std::int64_t value) {
  return f.automatic && value == 0 ? ordered_json("auto") : ordered_json(value);
}

ordered_json write_count(double value) {
  if (std::floor(value) == value && value < kExactIntegers) return static_cast<std::int64_t>(value);
  return value;
}

namespace {

/// The shortest text that reads back as the same value.
template <class Q>
ordered_json write_quantity(Q value, const char* unit) {
  for (int digits = 1; digits <= 6; ++digits) {
    std::string text = to_string(value, digits);
    std::erase(text, ' ');
    if (parse<Q>(text) == value) return text;
  }
  return fmt::format("{}{}", value.value(), unit);
}

}  // namespace

ordered_json write_size(Bytes value) { return write_quantity(value, "B"); }
ordered_json write_rate(BytesPerSecond value) { return write_quantity(value, "B/s"); }

ordered_json write_integers(const std::vector<std::int64_t>& values) {
  return values.empty() ? ordered_json() : ordered_json(values);
}
ordered_json write_axes(const std::vector<std::string>& axes) { return fmt::format("{}", fmt::join(axes, ",")); }

ordered_json write_model(const ModelRef& model) {
  if (!model.inline_json.empty()) return ordered_json::parse(model.inline_json);
  return model.file.empty() ? model.name : model.file;
}

ordered_json write_cluster(const ClusterRef& cluster) {
  if (cluster.parts.empty()) return cluster.file.empty() ? cluster.name : cluster.file;
  ordered_json out;
  if (cluster.parts.size() == 1) {
    out = write_part(cluster.parts.front());
  } else {
    for (const ClusterPart& part : cluster.parts) out["parts"].push_back(write_part(part));
  }
  if (!cluster.network.empty()) out["network"] = cluster.network;
  if (cluster.gpudirect_rdma) out["gpudirect_rdma"] = *cluster.gpudirect_rdma;
  if (cluster.pxn) out["pxn"] = *cluster.pxn;
  if (cluster.gpus_per_node > 0) out["gpus_per_node"] = cluster.gpus_per_node;
  return out;
}

}  // namespace rehearse::schema
