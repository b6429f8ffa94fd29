#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/index.hpp"
#include "core/config/json_file.hpp"
#include "core/config/object_reader.hpp"
#include "core/report/results/search_report.hpp"

namespace rehearse {

namespace {

constexpr const char* kWrittenBy = "a part is what 'rehearse search --shard' writes with --format json";
constexpr IntegerRange kCount{0, std::numeric_limits<std::int64_t>::max()};

std::vector<std::string> overrides_of(const nlohmann::json& strategy) {
  std::vector<std::string> out;
  for (const auto& [key, value] : strategy.items())
    out.push_back(fmt::format("strategy.{}={}", key, value.is_string() ? value.get<std::string>() : value.dump()));
  return out;
}

Breakdown breakdown_of(ObjectReader reader) {
  Breakdown out;
  for (int c = 0; c < kTimeCategories; ++c)
    nth(out.seconds, c) = Seconds{reader.number(std::string(name_of(static_cast<TimeCategory>(c))), {}, 0)};
  return out;
}

Found found_of(ObjectReader& entry) {
  Found out;
  out.order = static_cast<std::uint64_t>(entry.integer("order", kCount));
  Evaluation& e = out.evaluation;
  e.fits = true;
  e.step_time = Seconds{entry.number("closed_form_step_time_s", {1e-12, 1e12})};
  e.needed = Bytes{entry.number("memory_bytes", {0, 1e18})};
  e.allocated = Bytes{entry.number("memory_allocated_bytes", {0, 1e18}, 0)};
  e.capacity = Bytes{entry.number("memory_capacity_bytes", {0, 1e18})};
  e.breakdown = breakdown_of(entry.object("breakdown"));
  e.breakdown *= 1 / (1 + entry.number("bias", {-1, 1e6}, 0));  // As modelled, which the closed form is.
  return out;
}

void read_candidates(ObjectReader& reader, const std::string& origin, SearchPart& out) {
  for (ObjectReader& entry : reader.objects("candidates")) {
    const nlohmann::json* strategy = entry.raw("strategy");
    if (strategy == nullptr || !strategy->is_object())
      throw Error(ErrorKind::usage, "a candidate has no object 'strategy'", origin, kWrittenBy);
    out.overrides.push_back(overrides_of(*strategy));
    out.report.result.best.push_back(found_of(entry));
  }
  for (const double i : reader.numbers("pareto", {0, 1e9})) {
    if (i >= static_cast<double>(out.overrides.size()))
      throw Error(ErrorKind::usage, fmt::format("pareto names candidate {}, there are {}", i, out.overrides.size()),
                  origin, kWrittenBy);
    out.front.push_back(static_cast<std::size_t>(i));
  }
}

void read_counts(ObjectReader space, SearchResult& out) {
  out.combinations = space.number("combinations", {0, 1e30});
  out.whole = space.boolean("whole", true);
  out.legal = static_cast<std::size_t>(space.integer("legal", kCount));
  out.fit = static_cast<std::size_t>(space.integer("fit", kCount));
  out.evaluated = static_cast<std::size_t>(space.integer("evaluated", kCount));
  out.lowered = static_cast<std::size_t>(space.integer("lowered", kCount));
  out.bounded = static_cast<std::size_t>(space.integer("bounded", kCount));
  if (space.has("proven")) out.proven = static_cast<std::size_t>(space.integer("proven", kCount));
  out.left = static_cast<std::size_t>(space.integer("left", kCount));
  out.unplayed = static_cast<std::size_t>(space.integer("unplayed", kCount, 0));
  out.least_left = Seconds{space.number("least_left_s", {0, 1e12})};
  out.at_peak = Seconds{space.number("at_peak_s", {0, 1e12}, 0)};
}

}  // namespace

SearchPart read_search_part(const std::string& json, const std::string& origin) {
  const nlohmann::json document = parse_json(json, origin);
  ObjectReader reader(document, origin);
  const std::vector<std::string> schema{kSearchSchema};
  (void)reader.choice("schema", schema);
  SearchPart out;
  SearchReport& report = out.report;
  report.scenario = reader.string("scenario");
  report.file = reader.string("file");
  const std::string objective = reader.choice("objective", objective_names());
  for (std::size_t i = 0; i < objective_names().size(); ++i)
    if (objective_names()[i] == objective) report.objective = static_cast<Objective>(i);
  if (auto shard = reader.optional_object("shard")) {
    report.shard.count = static_cast<int>(shard->integer("count", {1, 1'000'000}));
    report.shard.index = static_cast<int>(shard->integer("index", {0, report.shard.count - 1}));
  }
  report.fixed = reader.strings("fixed");
  report.most_memory = Bytes{reader.number("max_memory_bytes", {0, 1e18}, 0)};
  report.figures.price_per_gpu_hour = Dollars{reader.number("price_per_gpu_hour_usd", {0, 1e9}, 0)};
  report.top = static_cast<std::size_t>(reader.integer("top", {1, 1'000'000}));
  report.result.interrupted = reader.boolean("interrupted");
  read_counts(reader.object("space"), report.result);
  read_candidates(reader, origin, out);
  const nlohmann::json* resolved = reader.raw("resolved");
  if (resolved == nullptr)
    throw Error(ErrorKind::usage, "the scenario that was searched ('resolved') is missing", origin, kWrittenBy);
  report.scenario_json = resolved->dump();
  return out;
}

}  // namespace rehearse
