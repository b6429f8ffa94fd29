#include "core/report/results/memory_report.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/base/index.hpp"
#include "core/play/words.hpp"

namespace rehearse {

namespace {

/// Whole bytes, as JSON and spreadsheets take them.
std::int64_t whole(Bytes b) { return std::llround(b.value()); }

std::string options_of(const Suggestion& s) { return fmt::format("--set {}", fmt::join(s.changes, " --set ")); }

/// Categories that make up a visible part of what is allocated on any stage.
std::vector<int> shown_categories(const MemoryReport& report) {
  constexpr double kVisible = 0.005;
  std::vector<int> out;
  for (int c = 0; c < kMemoryCategories; ++c)
    if (c != static_cast<int>(MemoryCategory::framework) &&
        std::any_of(report.stages.begin(), report.stages.end(),
                    [c](const StageMemory& s) { return nth(s.memory.by_category, c) > s.allocated * kVisible; }))
      out.push_back(c);
  return out;
}

Table stage_table(const MemoryReport& report) {
  const std::vector<int> categories = shown_categories(report);
  Table table{"Peak memory per stage, GiB", {{"stage", true}}, {}};
  for (const int c : categories) table.columns.push_back({std::string(name_of(static_cast<MemoryCategory>(c))), true});
  for (const char* title : {"allocated", "reserved", "needed", "capacity"}) table.columns.push_back({title, true});
  const bool host = std::any_of(report.stages.begin(), report.stages.end(),
                                [](const StageMemory& s) { return s.host_bytes() > Bytes{0}; });
  if (host) table.columns.push_back({"in host", true});
  table.columns.push_back({"", false});
  for (const StageMemory& s : report.stages) {
    std::vector<std::string> row{std::to_string(s.stage)};
    for (const int c : categories) row.push_back(gib(nth(s.memory.by_category, c)));
    row.insert(row.end(), {gib(s.allocated), gib(s.reserved), gib(s.needed), gib(s.capacity)});
    if (host) row.push_back(gib(s.host_bytes()));
    row.emplace_back(!s.fits() ? "OVER" : s.barely() ? "near" : "");
    table.rows.push_back(std::move(row));
  }
  return table;
}

std::string rule_text(const MemoryReport& report) {
  return fmt::format(
      "Allocated: what tensors and workspace hold. Reserved: what a caching allocator takes for them, {:g} times as "
      "much. Needed: with the CUDA context and {} of buffers for each NCCL communicator, as nvidia-smi shows it. "
      "Capacity: what the driver leaves to processes.",
      report.rule.reserved_over_allocated, to_string(report.rule.communicator));
}

std::string over_host_text(const StageMemory& s) {
  return fmt::format(
      "Does not fit: the ranks of one node need {} of its {} of host memory. Offload less: strategy.offload none, or "
      "fewer offload_layers; or divide "
      "optimizer state over more ranks.",
      to_string_iec(s.host_needed), to_string_iec(s.host_capacity));
}

std::string over_text(const MemoryReport& report) {
  for (const StageMemory& s : report.stages)
    if (!s.host_fits()) return over_host_text(s);
  const StageMemory& worst = report.tightest();
  std::string text = fmt::format("Does not fit: stage {} needs {} of {}. ", worst.stage, to_string_iec(worst.needed),
                                 to_string_iec(worst.capacity));
  if (!report.suggestion)
    return text +
           "None of the changes tried (recomputation, sequence parallelism, ZeRO, FSDP, offloading, microbatch, tp, "
           "cp, pp, ep, or two of them) makes it fit.";
  return text + fmt::format("It would fit, with {} needed and a step of {}, the shortest of all tried, by",
                            to_string_iec(report.suggestion->needed), to_string(report.suggestion->step_time));
}

/// Of the stage nearest to its capacity.
std::string likely_text(const MemoryReport& report) {
  const StageMemory& worst = report.tightest();
  const auto [low, high] = report.range->ends(worst.needed, worst.allocated, report.rule);
  const char* fits = low > worst.capacity    ? ": all over its capacity"
                     : high > worst.capacity ? ": its upper part is over the capacity"
                                             : "";
  return fmt::format("Likely range of what stage {} needs: {} to {}, for 8 of 10 such peaks{}. By {}.", worst.stage,
                     to_string_iec(low), to_string_iec(high), fits, report.range->rests_on);
}

}  // namespace

std::vector<DocumentBlock> memory_blocks(const MemoryReport& report) {
  const StageMemory& worst = report.tightest();
  std::vector<DocumentBlock> blocks{stage_table(report)};
  blocks.push_back(
      Paragraph{fmt::format("Peak of stage {}: {}. {}", worst.stage, worst.memory.peak_at, rule_text(report))});
  if (report.range) blocks.push_back(Paragraph{likely_text(report)});
  if (!report.fits()) blocks.push_back(Paragraph{over_text(report)});
  if (report.fits() && worst.barely())
    blocks.push_back(Paragraph{fmt::format(
        "Fits barely: stage {} needs {} of {}. Predicted peaks are off by a few percent (tests/published/ACCURACY.md), "
        "so that it may run out of memory.",
        worst.stage, to_string_iec(worst.needed), to_string_iec(worst.capacity))});
  // To be copied: never broken into lines.
  if (report.suggestion)
    blocks.push_back(
        Picture{"", [options = options_of(*report.suggestion)](const TextStyle&) { return "  " + options + "\n"; }});
  return blocks;
}

nlohmann::ordered_json memory_json(const MemoryReport& report) {
  auto out = nlohmann::ordered_json::array();
  for (const StageMemory& s : report.stages) {
    auto categories = nlohmann::ordered_json::object();
    for (int c = 0; c < kMemoryCategories; ++c)
      categories[std::string(name_of(static_cast<MemoryCategory>(c)))] = whole(nth(s.memory.by_category, c));
    out.push_back({{"stage", s.stage},
                   {"rank", s.memory.rank},
                   {"peak_bytes", whole(s.memory.peak)},
                   {"allocated_bytes", whole(s.allocated)},
                   {"reserved_bytes", whole(s.reserved)},
                   {"needed_bytes", whole(s.needed)},
                   {"capacity_bytes", whole(s.capacity)},
                   {"peak_at", s.memory.peak_at},
                   {"by_category", std::move(categories)}});
    if (s.host_bytes() > Bytes{0})
      out.back().update({{"host_bytes", whole(s.host_bytes())},
                         {"host_needed_bytes", whole(s.host_needed)},
                         {"host_capacity_bytes", whole(s.host_capacity)}});
  }
  return out;
}

nlohmann::ordered_json memory_range_json(const MemoryReport& report) {
  if (!report.range) return nullptr;
  const StageMemory& worst = report.tightest();
  const auto [low, high] = report.range->ends(worst.needed, worst.allocated, report.rule);
  return {{"stage", worst.stage},       {"needed_bytes_p10", whole(low)},   {"needed_bytes_p90", whole(high)},
          {"rows", report.range->rows}, {"sources", report.range->sources}, {"rests_on", report.range->rests_on}};
}

nlohmann::ordered_json suggestion_json(const MemoryReport& report) {
  if (!report.suggestion) return nullptr;
  return {{"changes", report.suggestion->changes},
          {"needed_bytes", whole(report.suggestion->needed)},
          {"step_time_s", report.suggestion->step_time.value()}};
}

Table memory_records(const MemoryReport& report) {
  Table table;
  for (const char* title : {"stage", "rank", "peak_bytes", "needed_bytes", "capacity_bytes", "fits"})
    table.columns.push_back({title});
  for (int c = 0; c < kMemoryCategories; ++c)
    table.columns.push_back({fmt::format("{}_bytes", name_of(static_cast<MemoryCategory>(c)))});
  table.columns.push_back({"peak_at"});
  for (const StageMemory& s : report.stages) {
    std::vector<std::string> row{
        std::to_string(s.stage),         std::to_string(s.memory.rank),     std::to_string(whole(s.memory.peak)),
        std::to_string(whole(s.needed)), std::to_string(whole(s.capacity)), s.fits() ? "true" : "false"};
    for (const Bytes b : s.memory.by_category) row.push_back(std::to_string(whole(b)));
    row.push_back(s.memory.peak_at);
    table.rows.push_back(std::move(row));
  }
  return table;
}

}  // namespace rehearse
