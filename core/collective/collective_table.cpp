#include "core/collective/collective_table.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/config/json_file.hpp"
#include "core/hardware/source_table.hpp"

namespace rehearse {
namespace {

using Row = CollectiveTable::Row;

CollectiveOp read_op(ObjectReader& table) {
  const std::string name = table.string("op");
  try {
    return parse_collective_op(name);
  } catch (const Error& e) {
    table.fail("op", e.what(), e.hint);
  }
}

template <class Q, class Fail>
Q read_cell(const nlohmann::json& cell, const Fail& fail, const char* example) {
  if (!cell.is_string())
    fail(fmt::format("found {}", describe_value(cell)), fmt::format("a text with its unit, such as \"{}\"", example));
  Q out;
  try {
    out = parse<Q>(cell.get<std::string>());
  } catch (const Error& e) {
    fail(e.what(), e.hint);
  }
  return out;
}

std::vector<Row> read_rows(ObjectReader& table) {
  const nlohmann::json& rows = *table.raw("rows");
  if (!rows.is_array() || rows.empty())
    table.fail("rows", fmt::format("found {}", describe_value(rows)), "rows of [size, time]: [[\"1MiB\", \"309us\"]]");
  std::vector<Row> out;
  for (const auto& row : rows) {
    const std::string place = fmt::format("row {}: ", out.size());
    const auto fail = [&](const std::string& what, const std::string& hint = {}) {
      table.fail("rows", place + what, hint);
    };
    if (!row.is_array() || row.size() != 2)
      fail(fmt::format("found {}", describe_value(row)), "[size, time]: [\"1MiB\", \"309us\"]");
    const Row r{read_cell<Bytes>(row[0], fail, "1MiB"), read_cell<Seconds>(row[1], fail, "309us")};
    if (!(r.bytes > Bytes{0})) fail("a size above zero is wanted");
    if (!(r.time > Seconds{0})) fail("a time above zero is wanted");
    if (!out.empty() && !(r.bytes > out.back().bytes)) fail("sizes must ascend");
    out.push_back(r);
  }
  return out;
}

Seconds between(const Row& a, const Row& b, Bytes bytes) {
  const double share = std::log(bytes / a.bytes) / std::log(b.bytes / a.bytes);
  return Seconds{a.time.value() * std::pow(b.time / a.time, share)};
}

}  // namespace

CollectiveTable CollectiveTable::parse(const std::string& text, const std::string& origin) {
  const nlohmann::json json = parse_json(text, origin);
  ObjectReader file(json, origin);
  read_header(file, "collective_table");
  SourceTable sources(file);
  CollectiveTable out;
  out.origin_ = origin;
  for (ObjectReader& table : file.objects("tables")) {
    const CollectiveOp op = read_op(table);
    const auto ranks = static_cast<int>(table.integer("ranks", {2, 10'000'000}));
    const auto nodes = static_cast<int>(table.integer("nodes", {1, ranks}));
    sources.cite(table);
    Entry entry;
    if (table.has("rows")) {
      entry.rows = read_rows(table);
      if (table.has("latency") || table.has("bandwidth"))
        table.fail("rows", "beside latency and bandwidth", "give one or the other");
    } else {
      entry.latency = table.quantity<Seconds>("latency");
      entry.bandwidth = table.quantity<BytesPerSecond>("bandwidth");
      if (!(entry.latency >= Seconds{0})) table.fail("latency", "a time below zero");
      if (!(entry.bandwidth > BytesPerSecond{0})) table.fail("bandwidth", "a bandwidth above zero is wanted");
    }
    table.finish();
    if (!out.entries_.emplace(std::tuple(op, ranks, nodes), std::move(entry)).second)
      table.fail("", fmt::format("{} of {} ranks on {} nodes is given twice", name_of(op), ranks, nodes));
  }
  if (out.entries_.empty()) file.fail("tables", "no table is given");
  file.finish();
  out.sources_ = sources.finish();
  return out;
}

std::optional<Seconds> CollectiveTable::time(CollectiveOp op, int ranks, int nodes, Bytes bytes,
                                             const Model& model) const {
  const auto at = entries_.find(std::tuple(op, ranks, nodes));
  if (at == entries_.end()) return std::nullopt;
  const Entry& e = at->second;
  if (e.rows.empty()) return e.latency + bytes / e.bandwidth;
  const auto next =
      std::lower_bound(e.rows.begin(), e.rows.end(), bytes, [](const Row& r, Bytes b) { return r.bytes < b; });
  if (next != e.rows.end() && next->bytes == bytes) return next->time;
  if (next != e.rows.begin() && next != e.rows.end()) return between(*(next - 1), *next, bytes);
  const Row& nearest = next == e.rows.begin() ? e.rows.front() : e.rows.back();
  return Seconds{nearest.time.value() * (model(bytes) / model(nearest.bytes))};
}

}  // namespace rehearse
