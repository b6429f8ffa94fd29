#pragma once
// The files under topologies/: one JSON file per GPU, machine, network and cluster, named by its id. Nothing is read
// before it is asked for, so a broken file harms only those who use it.

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"
#include "core/hardware/interconnects.hpp"
#include "core/hardware/specs.hpp"

namespace rehearse {

/// Not safe for concurrent use: asking for an entry may read its file.
class Catalogue {
 public:
  enum class Kind { gpu, machine, network, cluster };

  /// `root` holds interconnects.json and the folders gpus, machines, networks, clusters and collectives, of which any
  /// may be missing. Throws Error (usage) when it is no directory.
  explicit Catalogue(std::filesystem::path root);
  ~Catalogue();
  Catalogue(Catalogue&&) noexcept;
  Catalogue& operator=(Catalogue&&) noexcept;

  /// Ids, sorted.
  [[nodiscard]] std::vector<std::string> names(Kind kind) const;

  // All throw Error (usage): for an unknown id with the nearest known one; for a file that is wrong with the file and
  // the JSON path. The same id gives the same object every time. A GPU comes with the collectives file of its
  // generation, or else collectives/fallback.json.
  [[nodiscard]] std::shared_ptr<const GpuSpec> gpu(const std::string& id) const;
  [[nodiscard]] std::shared_ptr<const MachineSpec> machine(const std::string& id) const;
  [[nodiscard]] std::shared_ptr<const NetworkSpec> network(const std::string& id) const;
  [[nodiscard]] std::shared_ptr<const ClusterSpec> cluster(const std::string& id) const;
  [[nodiscard]] const Interconnects& interconnects() const;

  [[nodiscard]] const std::filesystem::path& root() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Error (usage): "unknown KIND 'WORD'" with the nearest of `valid`, which are too many to name, and the listing that
/// shows them: "rehearse list LISTING".
[[nodiscard]] Error unknown_entry(std::string_view kind, std::string_view word, std::span<const std::string> valid,
                                  std::string_view listing);

/// "gpu", "machine", "network", "cluster".
[[nodiscard]] std::string_view name_of(Catalogue::Kind kind);

}  // namespace rehearse
