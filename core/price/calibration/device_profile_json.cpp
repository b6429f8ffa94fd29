#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/units.hpp"
#include "core/collective/collective_table.hpp"
#include "core/config/json_file.hpp"
#include "core/hardware/source_table.hpp"
#include "core/price/calibration/device_profile.hpp"

namespace rehearse {

namespace {

using DeviceProfileJsonJson = nlohmann::ordered_json;
constexpr const char* kDeviceProfileJsonSchema = "rehearse/device_profile/v1";

std::string columns_of(const std::vector<std::string>& axes) {
  return fmt::format("{}, time_us, spread", fmt::join(axes, ", "));
}

DeviceProfile::Operator read_operator(ObjectReader& o) {
  DeviceProfile::Operator out;
  out.axes = o.strings("axes");
  if (out.axes.empty() || out.axes.size() > 3) o.fail("axes", fmt::format("{} axes", out.axes.size()), "one to three");
  if (o.string("columns") != columns_of(out.axes))
    o.fail("columns", "not the axes, time_us and spread", columns_of(out.axes));
  const nlohmann::json* rows = o.raw("rows");
  if (rows == nullptr || !rows->is_array() || rows->empty()) o.fail("rows", "no rows of numbers");
  for (const auto& row : *rows) {
    const auto bad = [&] {
      o.fail("rows", fmt::format("found {}", describe_value(row)),
             fmt::format("[{}], all finite, sizes and times above zero", columns_of(out.axes)));
    };
    if (!row.is_array() || row.size() != out.axes.size() + 2 || !std::all_of(row.begin(), row.end(), [](const auto& x) {
          return x.is_number() && std::isfinite(x.template get<double>());
        }))
      bad();
    DeviceProfile::Row r;
    for (std::size_t i = 0; i < out.axes.size(); ++i) r.size.push_back(row[i].get<double>());
    r.time = Seconds{row[out.axes.size()].get<double>() * kMicrosecond};
    r.spread = row[out.axes.size() + 1].get<double>();
    if (!(r.time > Seconds{0}) || r.spread < 0 ||
        std::any_of(r.size.begin(), r.size.end(), [](double x) { return x <= 0; }))
      bad();
    out.rows.push_back(std::move(r));
  }
  o.finish();
  return out;
}

template <class Q>
Q positive(ObjectReader& o, const std::string& key) {
  const Q q = o.quantity<Q>(key);
  if (!(q.value() > 0) || !std::isfinite(q.value())) o.fail(key, "wanted above zero");
  return q;
}

DeviceProfile::Setting read_setting(ObjectReader& o) {
  DeviceProfile::Setting s;
  s.ranks = static_cast<int>(o.integer("ranks", {1, 100'000}));
  try {
    s.arithmetic = parse_dtype(o.string("arithmetic"));
  } catch (const Error& e) {
    o.fail("arithmetic", e.what(), e.hint);
  }
  s.threads = static_cast<int>(o.integer("threads", {1, 100'000}));
  s.dispatch = o.quantity<Seconds>("dispatch");
  if (!(s.dispatch >= Seconds{0})) o.fail("dispatch", "a time below zero");
  if (o.has("copy_rate")) s.copy_rate = positive<BytesPerSecond>(o, "copy_rate");
  s.taken_by_communication = o.number("taken_by_communication", {0, 0.95}, 0);
  if (o.has("taken_by_others")) s.taken_by_others = o.number("taken_by_others", {0, 1});
  if (o.has("pace")) s.pace = positive<Seconds>(o, "pace");
  for (ObjectReader& op : o.objects("operators")) {
    const std::string name = op.string("name");
    if (!s.operators.emplace(name, read_operator(op)).second) op.fail("name", fmt::format("'{}' is given twice", name));
  }
  o.finish();
  return s;
}

std::vector<DeviceProfile::Collective> read_collectives(ObjectReader& file) {
  const nlohmann::json* table = file.raw("collectives");
  if (table == nullptr) return {};
  (void)CollectiveTable::parse(table->dump(), file.where("collectives"));  // All its own checks.
  std::vector<DeviceProfile::Collective> out;
  for (const auto& t : table->at("tables")) {
    DeviceProfile::Collective c{parse_collective_op(t.at("op").get<std::string>()), t.at("ranks").get<int>(), {}};
    if (!t.contains("rows")) file.fail("collectives", "a table without rows");
    for (const auto& row : t.at("rows"))
      c.rows.emplace_back(parse<Bytes>(row[0].get<std::string>()), parse<Seconds>(row[1].get<std::string>()));
    out.push_back(std::move(c));
  }
  return out;
}

DeviceProfileJsonJson operators_json(const DeviceProfile::Setting& s) {
  DeviceProfileJsonJson out = DeviceProfileJsonJson::array();
  for (const auto& [name, op] : s.operators) {
    DeviceProfileJsonJson rows = DeviceProfileJsonJson::array();
    for (const auto& r : op.rows) {
      DeviceProfileJsonJson row = r.size;
      row.push_back(r.time.value() / kMicrosecond);
      row.push_back(r.spread);
      rows.push_back(std::move(row));
    }
    out.push_back({{"name", name}, {"axes", op.axes}, {"columns", columns_of(op.axes)}, {"rows", std::move(rows)}});
  }
  return out;
}

/// Full precision, so that a file read back is the same.
template <class Q>
std::string text_of(Q q, const char* unit) {
  return fmt::format("{}{}", q.value(), unit);
}

DeviceProfileJsonJson sources_json(const std::vector<Source>& sources) {
  DeviceProfileJsonJson out = DeviceProfileJsonJson::object();
  for (const Source& s : sources) out[s.key] = {{"text", s.text}, {"evidence", name_of(s.evidence)}};
  return out;
}

DeviceProfileJsonJson collectives_json(const DeviceProfile& p) {
  DeviceProfileJsonJson tables = DeviceProfileJsonJson::array();
  for (const auto& c : p.collectives) {
    DeviceProfileJsonJson rows = DeviceProfileJsonJson::array();
    for (const auto& [bytes, time] : c.rows) rows.push_back({text_of(bytes, "B"), text_of(time, "s")});
    tables.push_back({{"op", name_of(c.op)},
                      {"ranks", c.ranks},
                      {"nodes", 1},
                      {"source", p.sources.at(0).key},
                      {"rows", std::move(rows)}});
  }
  return {{"schema", "rehearse/collective_table/v1"},
          {"tables", std::move(tables)},
          {"sources", sources_json({p.sources.at(0)})}};
}

/// One line per row of numbers: a file that people can read and compare.
std::string with_short_rows(const std::string& text) {
  std::string out;
  int inside = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '[') {
      const std::size_t close = text.find_first_of("[]{}", i + 1);
      inside = close != std::string::npos && text[close] == ']' ? 1 : 0;
    }
    if (inside != 0 && (text[i] == '\n' || text[i] == ' ')) {
      if (text[i] == ' ' && !out.empty() && out.back() == ',') out += ' ';
      continue;
    }
    if (text[i] == ']') inside = 0;
    out += text[i];
  }
  return out;
}

}  // namespace

bool is_device_profile(const std::string& text, const std::string& origin) {
  const nlohmann::json json = parse_json(text, origin);
  return json.is_object() && json.value("schema", nlohmann::json()) == kDeviceProfileJsonSchema;
}

DeviceProfile parse_device_profile(const std::string& text, const std::string& origin) {
  const nlohmann::json json = parse_json(text, origin);
  ObjectReader file(json, origin);
  read_header(file, "device_profile");
  SourceTable sources(file);
  DeviceProfile p;
  p.origin = origin;
  p.date = file.string("date", "");
  ObjectReader device = file.object("device");
  sources.cite(device);
  const std::vector<std::string> kinds{"cpu", "cuda"};
  p.kind = device.choice("kind", kinds);
  p.name = device.string("name");
  p.math_library = device.string("math_library");
  p.cores = static_cast<int>(device.integer("cores", {1, 1'000'000}));
  p.memory = positive<Bytes>(device, "memory");
  device.finish();
  for (ObjectReader& o : file.objects("settings")) {
    DeviceProfile::Setting s = read_setting(o);
    if (p.find(s.ranks, s.arithmetic) != nullptr)
      o.fail("ranks", fmt::format("{} ranks in {} are given twice", s.ranks, name_of(s.arithmetic)));
    p.settings.push_back(std::move(s));
  }
  if (p.settings.empty()) file.fail("settings", "nothing was measured");
  p.collectives = read_collectives(file);
  file.finish();
  p.sources = sources.finish();
  return p;
}

DeviceProfile load_device_profile(const std::string& file) { return parse_device_profile(read_text(file), file); }

std::string collective_table_text(const DeviceProfile& p) {
  return p.collectives.empty() ? std::string() : collectives_json(p).dump();
}

std::string to_json(const DeviceProfile& p) {
  DeviceProfileJsonJson out{{"schema", kDeviceProfileJsonSchema}};
  if (!p.date.empty()) out["date"] = p.date;
  out["device"] = {{"kind", p.kind},
                   {"name", p.name},
                   {"cores", p.cores},
                   {"memory", text_of(p.memory, "B")},
                   {"math_library", p.math_library},
                   {"source", p.sources.at(0).key}};
  for (const auto& s : p.settings) {
    DeviceProfileJsonJson setting{{"ranks", s.ranks},
                                  {"arithmetic", name_of(s.arithmetic)},
                                  {"threads", s.threads},
                                  {"dispatch", text_of(s.dispatch, "s")}};
    if (s.copy_rate) setting["copy_rate"] = text_of(*s.copy_rate, "B/s");
    setting["taken_by_communication"] = s.taken_by_communication;
    if (s.taken_by_others) setting["taken_by_others"] = *s.taken_by_others;
    if (s.pace) setting["pace"] = text_of(*s.pace, "s");
    setting["operators"] = operators_json(s);
    out["settings"].push_back(std::move(setting));
  }
  if (!p.collectives.empty()) out["collectives"] = collectives_json(p);
  out["sources"] = sources_json(p.sources);
  return with_short_rows(out.dump(1)) + "\n";
}

}  // namespace rehearse
