#include "core/plan/price.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "core/config/json_file.hpp"
#include "core/config/object_reader.hpp"
#include "core/hardware/source_table.hpp"

namespace rehearse {

namespace {

struct Cited {
  std::string figure, date, key;
};

/// The amount under `name` of group `figure`, with its date and the keys of its sources.
std::optional<Dollars> read_figure(ObjectReader& file, SourceTable& sources, const std::string& figure,
                                   const std::string& name, std::vector<Cited>& cited) {
  std::optional<ObjectReader> group = file.optional_object(figure);
  if (!group) return {};
  sources.cite(*group);
  const std::string date = group->string("date");
  const std::vector<std::string> keys =
      group->raw("source")->is_array() ? group->strings("source") : std::vector{group->string("source")};
  for (const std::string& key : keys) cited.push_back({figure, date, key});
  const auto amount = group->quantity<Dollars>(name);
  group->finish();
  return amount;
}

}  // namespace

MachinePrice load_price(const std::filesystem::path& folder, const std::string& id) {
  const std::filesystem::path path = folder / (id + ".json");
  MachinePrice out;
  if (!std::filesystem::is_regular_file(path)) return out;
  const nlohmann::json json = load_json(path.string());
  ObjectReader file(json, path.string());
  read_header(file, "price");
  SourceTable sources(file);
  file.expect("name");
  std::vector<Cited> cited;
  out.purchase = read_figure(file, sources, "purchase", "price", cited);
  out.network = read_figure(file, sources, "network", "price", cited);
  out.rental = read_figure(file, sources, "rental", "per_gpu_hour", cited);
  file.finish();
  const std::vector<Source> table = sources.finish();
  for (const Cited& c : cited) {
    const auto at = std::find_if(table.begin(), table.end(), [&](const Source& s) { return s.key == c.key; });
    out.sources.push_back({c.figure, c.date, at->text, at->evidence});
  }
  return out;
}

MachinePrice mean_price(const std::vector<PricedMachines>& set) {
  MachinePrice out = set.front().price;
  const auto average = [&](auto MachinePrice::*figure, double PricedMachines::*weight) {
    auto& mean = out.*figure;
    double count = 0, sum = 0;
    for (const PricedMachines& part : set) {
      if (!(part.price.*figure)) return mean.reset();
      sum += part.*weight * (part.price.*figure)->value();
      count += part.*weight;
    }
    mean.emplace(sum / count);
  };
  average(&MachinePrice::purchase, &PricedMachines::machines);
  average(&MachinePrice::network, &PricedMachines::machines);
  average(&MachinePrice::power, &PricedMachines::machines);
  average(&MachinePrice::rental, &PricedMachines::gpus);
  for (std::size_t i = 1; i < set.size(); ++i)
    out.sources.insert(out.sources.end(), set[i].price.sources.begin(), set[i].price.sources.end());
  return out;
}

MachinePrice overridden(MachinePrice base, const MachinePrice& over) {
  const auto take = [&](const char* figure, auto& mine, const auto& other) {
    if (!other) return;
    mine = other;
    std::erase_if(base.sources, [&](const PriceSource& s) { return s.figure == figure; });
  };
  take("purchase", base.purchase, over.purchase);
  take("network", base.network, over.network);
  take("rental", base.rental, over.rental);
  take("power", base.power, over.power);
  base.sources.insert(base.sources.end(), over.sources.begin(), over.sources.end());
  return base;
}

}  // namespace rehearse
