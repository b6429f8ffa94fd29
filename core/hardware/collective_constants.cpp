#include <nlohmann/json.hpp>

#include "core/hardware/read_specs.hpp"
#include "core/hardware/source_table.hpp"

namespace rehearse {
namespace {

constexpr NumberRange kGain{0.1, 2}, kShare{0.01, 1};

void check_positive(const ObjectReader& group, const std::string& key, const std::optional<Seconds>& time) {
  if (time && !(*time >= Seconds{0} && *time < Seconds{1})) group.fail(key, "not between 0 and a second");
}

Seconds duration(ObjectReader& group, const std::string& key) {
  const auto time = group.quantity<Seconds>(key);
  check_positive(group, key, time);
  return time;
}

}  // namespace

NetworkCollectives read_network_collectives(ObjectReader& group) {
  NetworkCollectives out;
  const auto time = [&](const std::string& key, std::optional<Seconds>& into) {
    if (group.has(key)) into = duration(group, key);
    group.expect(key);
  };
  const auto number = [&](const std::string& key, NumberRange range, std::optional<double>& into) {
    if (group.has(key)) into = group.number(key, range);
    group.expect(key);
  };
  time("crossing", out.crossing);
  number("bandwidth", kGain, out.bandwidth);
  time("message", out.message);
  number("message_share", kShare, out.message_share);
  number("all_to_all_share", kShare, out.all_to_all_share);
  out.sharp = group.boolean("sharp", false);
  out.torus = group.boolean("torus", false);
  return out;
}

CollectiveConstants read_collective_constants(const nlohmann::json& json, const std::string& origin,
                                              const std::string& generation) {
  ObjectReader file(json, origin);
  read_header(file, "collective_constants");
  SourceTable sources(file);
  CollectiveConstants out;
  out.generation = generation;

  ObjectReader latency = file.object("latency");
  sources.cite(latency);
  out.overhead = duration(latency, "overhead");
  out.floor = duration(latency, "floor");
  out.floor_per_rank = duration(latency, "floor_per_rank");
  out.ring_fill = duration(latency, "ring_fill");
  out.nvls_fill_per_head = duration(latency, "nvls_fill_per_head");
  latency.finish();

  ObjectReader bandwidth = file.object("bandwidth");
  sources.cite(bandwidth);
  out.ring = bandwidth.number("ring", kGain);
  out.ring_rank_loss = bandwidth.number("ring_rank_loss", {0, 2});
  out.nvls = bandwidth.number("nvls", kGain);
  out.nvls_tree = bandwidth.number("nvls_tree", kGain);
  out.bytewise = bandwidth.number("bytewise", {0.01, 1});
  bandwidth.finish();

  ObjectReader message = file.object("message");
  sources.cite(message);
  out.message = duration(message, "inside");
  out.message_through_host = duration(message, "through_host");
  out.all_to_all_share = message.number("all_to_all_share", kShare);
  message.finish();

  ObjectReader across = file.object("across");
  sources.cite(across);
  for (const char* key : {"crossing", "bandwidth", "message", "message_share", "all_to_all_share"})
    if (!across.has(key)) across.fail(key, "is missing");
  out.across = read_network_collectives(across);
  across.finish();

  ObjectReader overlap = file.object("overlap");
  sources.cite(overlap);
  out.sms_per_channel = overlap.number("sms_per_channel", {0, 8});
  ObjectReader touches = overlap.object("memory_touches");
  out.touches_all_reduce = touches.number("all_reduce", {0, 16});
  out.touches_reducing = touches.number("reducing", {0, 16});
  out.touches_moving = touches.number("moving", {0, 16});
  touches.finish();
  overlap.finish();

  file.finish();
  out.sources = sources.finish();
  return out;
}

}  // namespace rehearse
