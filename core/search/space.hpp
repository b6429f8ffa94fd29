#pragma once
// Every way to spread one workload over a number of devices: the plans among which `search` chooses.
//
// A plan is a mesh (axes that multiply to the devices), a pipeline (schedule, chunks, microbatch), what is sharded over
// replicas, and what is kept, made again or moved out of activations. Settings that change nothing are written in one
// way only: with one stage there is one schedule, without tensor parallelism no sequence parallelism, without replicas
// nothing is sharded over them. Settings that are not searched (buckets, overlap, prefetch) are those of the scenario.

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/strategy/strategy.hpp"

namespace rehearse {

/// Settings with names and texts, as scenario files have them: {"tp", "8"}, {"fsdp.enabled", "true"}.
using SettingTexts = std::vector<std::pair<std::string, std::string>>;

/// The group of the keys that are searched.
inline constexpr std::string_view kSearchedGroup = "strategy.";
/// Keys of `strategy` that are searched, without their group. Any other key is the scenario's.
[[nodiscard]] std::vector<std::string> searched_keys();

class Space {
 public:
  /// Indices into the lists of this space. Small: millions are held at once.
  struct Plan {
    std::uint32_t mesh = 0;
    std::uint16_t pipeline = 0;  ///< Of the mesh.
    std::uint8_t sharding = 0;   ///< Of the mesh.
    std::uint8_t offload = 0, recompute = 0, context = 0;
    std::uint8_t declared = 0;  ///< Values of searched keys that other files declare (setting_key.hpp).
    bool sequence_parallel = false;
    bool operator==(const Plan&) const = default;
  };

  /// Lists all legal plans on `devices` devices. `own` gives what is not searched; of its searched keys those in
  /// `fixed` ("tp", "zero_stage") are kept too. Throws Error (usage) where none is left, with the last refusal.
  /// `workload` must outlive it. Plans that `admits` refuses are not legal; empty admits all.
  Space(const Workload& workload, StrategySettings own, int devices, std::set<std::string> fixed,
        std::function<bool(const StrategySettings&)> admits = {});

  /// Plans with every placement of their axes before anything was refused: factorisations x microbatches x schedules x
  /// chunks x sharding x sequence parallelism x recomputation x offload x context exchange x declared keys x orders of
  /// axes.
  [[nodiscard]] double combinations() const { return combinations_; }
  /// Legal ones: no strategy, schedule or division refuses them. In a fixed order, narrow ones first, each once, each
  /// in one placement.
  [[nodiscard]] const std::vector<Plan>& plans() const { return plans_; }
  [[nodiscard]] StrategySettings settings(const Plan& plan) const;
  /// GPUs over which the plan divides each layer.
  [[nodiscard]] int width(const Plan& plan) const { return width(meshes_[plan.mesh]); }
  /// Index of the plan that has these settings, whatever its order of axes.
  [[nodiscard]] std::optional<std::uint32_t> find(const StrategySettings& settings) const;
  /// Choices in which two plans differ: axes, schedule with its chunks, microbatch, sharding, offload, recomputation,
  /// context exchange, sequence parallelism.
  [[nodiscard]] int distance(const Plan& a, const Plan& b) const;
  /// Orders of the axes larger than one, the scenario's first; that one alone where `placement` is fixed.
  [[nodiscard]] std::vector<std::vector<std::string>> placements(const Plan& plan) const;

 private:
  struct Mesh {
    int dp, tp, pp, cp, ep, etp, tile_h, tile_w;
    bool operator==(const Mesh&) const = default;
  };
  struct Pipeline {
    std::uint8_t schedule;
    bool uneven;
    std::int16_t chunks;
    std::int32_t microbatch;
  };
  struct Sharding {
    std::uint8_t zero;
    bool gather_late, fsdp;
    std::int32_t dp_shard;
  };
  struct Lists {
    std::vector<Pipeline> pipelines;
    std::vector<Sharding> shardings;
  };

  [[nodiscard]] bool fixed(const char* key) const { return fixed_.contains(key); }
  [[nodiscard]] bool admits(const char* key, std::int64_t value, std::int64_t wanted) const {
    return !fixed(key) || value == wanted;
  }
  [[nodiscard]] static int width(const Mesh& m) { return m.tp * m.cp * m.tile_h * m.tile_w; }
  [[nodiscard]] std::vector<Mesh> meshes(int devices) const;
  [[nodiscard]] std::vector<Pipeline> pipelines(const Mesh& mesh) const;
  [[nodiscard]] std::vector<std::int16_t> chunk_counts(const Mesh& mesh) const;
  [[nodiscard]] std::vector<Sharding> shardings(const Mesh& mesh) const;
  [[nodiscard]] std::vector<std::uint8_t> recomputes() const;
  [[nodiscard]] std::vector<std::uint8_t> offloads() const;
  [[nodiscard]] std::vector<std::uint8_t> contexts(const Mesh& mesh) const;
  [[nodiscard]] std::vector<bool> sequence_parallel(const Mesh& mesh) const;
  void add_mesh(std::uint32_t index);
  /// Those that differ from `plan` in what is sharded, offloaded, recomputed and in the pipeline.
  void add_plans(Plan plan, const Lists& lists, const std::vector<std::uint8_t>& recompute,
                 const std::vector<std::uint8_t>& offload);
  [[nodiscard]] bool legal(const Plan& plan);

  const Workload& workload_;
  StrategySettings own_;
  std::set<std::string> fixed_;
  std::function<bool(const StrategySettings&)> admits_;
  std::vector<std::string> schedule_names_;
  std::vector<DeclaredSettings> declared_;  ///< Combinations of the searched keys that other files declare.
  std::vector<Mesh> meshes_;
  std::vector<Lists> lists_;  ///< By mesh.
  std::vector<Plan> plans_;
  double combinations_ = 0;
  std::string refusal_;  ///< The last one, for a space that is empty.
};

/// Most combinations of values of declared keys that one search tries.
inline constexpr std::size_t kMostDeclared = 32;

/// A number that no two plans of a space share: 28 bits for its mesh, which no space fills.
[[nodiscard]] constexpr std::uint64_t plan_number(const Space::Plan& p) {
  const std::uint64_t kept = (((std::uint64_t{p.declared} << 2 | p.offload) << 2 | p.recompute) << 2 | p.context) << 1 |
                             std::uint64_t{p.sequence_parallel};
  return ((std::uint64_t{p.mesh} << 16 | p.pipeline) << 8 | p.sharding) << 12 | kept;
}

/// The searched settings of a plan, in the order of searched_keys(); only those that mean something there (no schedule
/// with one stage).
[[nodiscard]] SettingTexts setting_texts(const StrategySettings& settings);
/// The same in one line: "tp=8 pp=8 dp=16 mb=1 interleaved_1f1b v=3 sp zero1 recompute=selective".
[[nodiscard]] std::string plan_label(const StrategySettings& settings);

}  // namespace rehearse
