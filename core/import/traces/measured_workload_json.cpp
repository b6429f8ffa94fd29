
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/config/json_file.hpp"
#include "core/config/json_text.hpp"
#include "core/config/object_reader.hpp"
#include "core/import/traces/measured_workload.hpp"
#include "core/strategy/workload.hpp"

namespace rehearse {

namespace {

constexpr double kMeasuredWorkloadJsonMicro = 1e6;
constexpr std::size_t kMostBytes = 1'000'000'000;

nlohmann::ordered_json operation_json(const MeasuredOperation& o) {
  nlohmann::ordered_json out{{"stream", o.stream}, {"delay_us", o.delay.value() * kMeasuredWorkloadJsonMicro}};
  if (!o.after.empty()) out["after"] = o.after;
  for (const auto& [category, time] : o.work)
    out["work_us"][std::string(name_of(category))] = time.value() * kMeasuredWorkloadJsonMicro;
  if (o.call.empty()) return out;
  out["call"] = o.call;
  if (o.sized) out["bytes"] = o.bytes.value();
  if (o.group >= 0) out["group"] = o.group;
  if (o.edge >= 0) out["peer"] = o.peer, out["edge"] = o.edge;
  out["measured_us"] = o.measured.value() * kMeasuredWorkloadJsonMicro;
  return out;
}

TimeCategory category_named(ObjectReader& in, const std::string& name) {
  for (int c = 0; c < kTimeCategories; ++c)
    if (name_of(static_cast<TimeCategory>(c)) == name) return static_cast<TimeCategory>(c);
  in.fail(name, "is no category of time");
}

MeasuredOperation read_operation(ObjectReader& in, std::int64_t index, std::int64_t streams, std::int64_t groups,
                                 std::int64_t ranks) {
  constexpr std::int64_t kMostEdges = 256;  // Of two streams each.
  constexpr NumberRange kTime{0, 1e12};
  MeasuredOperation o;
  o.stream = static_cast<int>(in.integer("stream", {0, streams - 1}));
  o.delay = Seconds{in.number("delay_us", kTime) / kMeasuredWorkloadJsonMicro};
  if (in.has("after"))
    for (const double a : in.numbers("after", {0, static_cast<double>(index - 1)}))
      o.after.push_back(static_cast<int>(a));
  if (auto work = in.optional_object("work_us")) {
    for (const std::string& name : work->keys())
      o.work[category_named(*work, name)] = Seconds{work->number(name, kTime) / kMeasuredWorkloadJsonMicro};
    work->finish();
  }
  if (in.has("call")) {
    static const std::vector<std::string> kCalls{"all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce",
                                                 "all_to_all", "gather",     "scatter",        "barrier",   "send",
                                                 "receive",    "send_recv",  "unknown"};
    o.call = in.choice("call", kCalls);
  }
  o.sized = in.has("bytes");
  o.bytes = Bytes{in.number("bytes", {0, 1e15}, 0)};
  o.group = static_cast<int>(in.integer("group", {0, groups - 1}, -1));
  if (in.has("peer") || in.has("edge")) {
    o.peer = static_cast<int>(in.integer("peer", {0, ranks - 1}));
    o.edge = static_cast<int>(in.integer("edge", {0, kMostEdges - 1}));
  }
  o.measured = Seconds{in.number("measured_us", kTime, 0) / kMeasuredWorkloadJsonMicro};
  in.finish();
  return o;
}

ClusterRef read_cluster_part(ObjectReader in) {
  ClusterRef out;
  if (in.has("name")) {
    const std::string name = in.string("name");
    (is_file_reference(name) ? out.file : out.name) = name;
  } else {
    out.parts.push_back({in.string("machine"), static_cast<int>(in.integer("nodes", {1, 10'000'000}, 1))});
    out.network = in.string("network", "");
  }
  in.finish();
  return out;
}

/// "a.b=c" into the document.
void apply(nlohmann::json& document, const std::string& change) {
  const std::size_t equals = change.find('=');
  if (equals == std::string::npos || equals == 0)
    throw Error(ErrorKind::usage, fmt::format("'{}' is not KEY=VALUE", change), "--set",
                "example: --set cluster.machine=dgx_h100");
  nlohmann::json* at = &document;
  std::string key = change.substr(0, equals);
  for (std::size_t dot = key.find('.'); dot != std::string::npos; dot = key.find('.')) {
    at = &(*at)[key.substr(0, dot)];
    if (!at->is_object() && !at->is_null())
      throw Error(ErrorKind::usage, fmt::format("'{}' has no members", key.substr(0, dot)), "--set " + change);
    key = key.substr(dot + 1);
  }
  const std::string text = change.substr(equals + 1);
  const nlohmann::json value = nlohmann::json::parse(text, nullptr, false);
  (*at)[key] = value.is_discarded() ? nlohmann::json(text) : value;
}

}  // namespace

std::string measured_workload_json(const MeasuredWorkload& w) {
  nlohmann::ordered_json out{{"schema", kMeasuredWorkloadSchema},
                             {"name", w.name},
                             {"gpu", w.gpu},
                             {"world_size", w.world_size},
                             {"step", w.step},
                             {"measured_step_us", w.measured_step.value() * kMeasuredWorkloadJsonMicro}};
  out["groups"] = nlohmann::ordered_json::array();
  for (const GroupShape& g : w.groups) {
    nlohmann::ordered_json shape{{"stride", g.stride}, {"size", g.size}};
    if (g.data_parallel) shape["data_parallel"] = true;
    out["groups"].push_back(std::move(shape));
  }
  if (!w.notes.empty()) out["notes"] = w.notes;
  for (const MeasuredRank& r : w.ranks) {
    nlohmann::ordered_json rank{
        {"rank", r.rank}, {"streams", r.streams}, {"operations", nlohmann::ordered_json::array()}};
    for (const MeasuredOperation& o : r.operations) rank["operations"].push_back(operation_json(o));
    out["ranks"].push_back(std::move(rank));
  }
  return out.dump(1) + "\n";
}

MeasuredWorkload read_measured_workload(const std::string& path, const std::vector<std::string>& overrides) {
  nlohmann::json document = parse_json(read_text(path, kMostBytes), origin_of(path));
  if (!document.is_object()) throw Error(ErrorKind::usage, "no measured workload", path);
  for (const std::string& change : overrides) apply(document, change);
  ObjectReader in(document, path);
  MeasuredWorkload w;
  const std::vector<std::string> schemas{std::string(kMeasuredWorkloadSchema)};
  (void)in.choice("schema", schemas);
  w.name = in.string("name", "");
  w.gpu = in.string("gpu", "");
  w.step = in.string("step", "");
  w.world_size = static_cast<int>(in.integer("world_size", {1, 10'000'000}));
  w.measured_step = Seconds{in.number("measured_step_us", {0, 1e15}) / kMeasuredWorkloadJsonMicro};
  for (ObjectReader& g : in.objects("groups")) {
    w.groups.push_back({static_cast<int>(g.integer("stride", {1, w.world_size})),
                        static_cast<int>(g.integer("size", {1, w.world_size})), g.boolean("data_parallel", false)});
    g.finish();
  }
  if (in.has("notes")) w.notes = in.strings("notes");
  for (ObjectReader& r : in.objects("ranks")) {
    MeasuredRank rank;
    rank.rank = static_cast<int>(r.integer("rank", {0, w.world_size - 1}));
    rank.streams = r.strings("streams");
    for (ObjectReader& o : r.objects("operations"))
      rank.operations.push_back(read_operation(o, static_cast<std::int64_t>(rank.operations.size()),
                                               static_cast<std::int64_t>(rank.streams.size()),
                                               static_cast<std::int64_t>(w.groups.size()), w.world_size));
    r.finish();
    w.ranks.push_back(std::move(rank));
  }
  if (w.ranks.empty()) in.fail("ranks", "no rank is given");
  if (auto cluster = in.optional_object("cluster")) w.cluster = read_cluster_part(std::move(*cluster));
  w.data_parallel = static_cast<int>(in.integer("data_parallel", {1, 10'000'000}, 0));
  w.kernel_scale = in.number("kernel_scale", {1e-6, 1e6}, 1);
  const std::vector<std::string> modes{"model", "measured"};
  w.calls_measured = in.choice("calls", modes, "model") == "measured";
  const std::vector<std::string> message_modes{"refused", "measured"};
  w.messages_measured = in.choice("messages", message_modes, "refused") == "measured";
  in.finish();
  return w;
}

bool is_measured_workload(const std::string& path) { return begins_with_schema(path, kMeasuredWorkloadSchema); }

}  // namespace rehearse
