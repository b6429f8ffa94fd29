#include "core/hardware/catalogue.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/index.hpp"
#include "core/base/near_names.hpp"
#include "core/config/json_file.hpp"
#include "core/hardware/read_specs.hpp"

namespace rehearse {

namespace fs = std::filesystem;

std::string_view name_of(Catalogue::Kind kind) {
  constexpr std::array<std::string_view, 4> kNames{"gpu", "machine", "network", "cluster"};
  return nth(kNames, kind);
}

Error unknown_entry(std::string_view kind, std::string_view word, std::span<const std::string> valid,
                    std::string_view listing) {
  return unknown_of_many(kind, word, valid, fmt::format("rehearse list {}", listing));
}

struct Catalogue::Impl {
  template <class Spec>
  using Cache = std::map<std::string, std::shared_ptr<const Spec>>;

  fs::path root;
  std::array<std::vector<std::string>, 4> names;
  Cache<GpuSpec> gpus;
  Cache<MachineSpec> machines;
  Cache<NetworkSpec> networks;
  Cache<ClusterSpec> clusters;
  std::optional<Interconnects> interconnects;
  Cache<CollectiveConstants> collectives;

  /// The entry from the cache, or read(json, file name) kept there.
  template <class Spec, class Read>
  std::shared_ptr<const Spec> get(Cache<Spec>& cache, Kind kind, const std::string& id, Read read) {
    if (auto it = cache.find(id); it != cache.end()) return it->second;
    const auto& known = nth(names, kind);
    if (!std::binary_search(known.begin(), known.end(), id))
      throw unknown_entry(name_of(kind), id, known, fmt::format("{}s", name_of(kind)));
    std::string file = (folder(kind) / (id + ".json")).string();
    auto spec = std::make_shared<const Spec>(read(load_json(file), file));
    cache[id] = spec;
    return spec;
  }

  /// Constants of a generation, those of "fallback" where it has no file, null where there is neither.
  std::shared_ptr<const CollectiveConstants> collectives_of(const std::string& generation) {
    if (auto it = collectives.find(generation); it != collectives.end()) return it->second;
    std::shared_ptr<const CollectiveConstants> out;
    for (const std::string& name : {generation, std::string("fallback")})
      if (const fs::path file = root / "collectives" / (name + ".json"); !out && fs::is_regular_file(file))
        out = std::make_shared<const CollectiveConstants>(
            read_collective_constants(load_json(file.string()), file.string(), name));
    return collectives[generation] = out;
  }

  [[nodiscard]] fs::path folder(Kind kind) const { return root / fmt::format("{}s", name_of(kind)); }

  [[nodiscard]] std::vector<std::string> list(Kind kind) const {
    std::vector<std::string> ids;
    for (const std::string& file : json_files_of(folder(kind).string())) ids.push_back(fs::path(file).stem().string());
    std::sort(ids.begin(), ids.end());
    return ids;
  }
};

Catalogue::Catalogue(fs::path root) : impl_(std::make_unique<Impl>()) {
  if (!fs::is_directory(root)) throw Error(ErrorKind::usage, "not a directory of topology files", root.string());
  impl_->root = std::move(root);
  for (Kind kind : {Kind::gpu, Kind::machine, Kind::network, Kind::cluster})
    nth(impl_->names, kind) = impl_->list(kind);
}

Catalogue::~Catalogue() = default;
Catalogue::Catalogue(Catalogue&&) noexcept = default;
Catalogue& Catalogue::operator=(Catalogue&&) noexcept = default;

std::vector<std::string> Catalogue::names(Kind kind) const { return nth(impl_->names, kind); }
const fs::path& Catalogue::root() const { return impl_->root; }

const Interconnects& Catalogue::interconnects() const {
  if (!impl_->interconnects) {
    std::string file = (impl_->root / "interconnects.json").string();
    impl_->interconnects = read_interconnects(load_json(file), file);
  }
  return *impl_->interconnects;
}

std::shared_ptr<const GpuSpec> Catalogue::gpu(const std::string& id) const {
  return impl_->get(impl_->gpus, Kind::gpu, id, [&](const nlohmann::json& json, const std::string& file) {
    GpuSpec spec = read_gpu(json, file, id, interconnects());
    spec.collectives = impl_->collectives_of(spec.generation);
    return spec;
  });
}

std::shared_ptr<const MachineSpec> Catalogue::machine(const std::string& id) const {
  return impl_->get(impl_->machines, Kind::machine, id, [&](const nlohmann::json& json, const std::string& file) {
    return read_machine(json, file, id, interconnects(), [&](const std::string& gpu_id) { return gpu(gpu_id); });
  });
}

std::shared_ptr<const NetworkSpec> Catalogue::network(const std::string& id) const {
  return impl_->get(impl_->networks, Kind::network, id,
                    [&](const nlohmann::json& json, const std::string& file) { return read_network(json, file, id); });
}

std::shared_ptr<const ClusterSpec> Catalogue::cluster(const std::string& id) const {
  return impl_->get(impl_->clusters, Kind::cluster, id,
                    [&](const nlohmann::json& json, const std::string& file) { return read_cluster(json, file, id); });
}

}  // namespace rehearse
