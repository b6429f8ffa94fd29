#pragma once
// Every way to spread one workload over a number of devices: the plans among which `search` chooses.
//
// A plan is a mesh (axes that multiply to the devices), a pipeline (schedule, chunks, microbatch), what is sharded over
// replicas, and what is kept, made again or moved out of activations. Settings that change nothing are written in one
// way only: with one stage there is one schedule, without tensor parallelism no sequence parallelism, without replicas
// nothing is sharded over them. Settings that are not searched (buckets, overlap, prefetch) are those of the scenario.

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/strategy/strategy.hpp"

namespace rehearse {

struct PipelineShape;

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
  /// Sizes of the axes, which multiply to the devices.
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
  /// What plans of one mesh choose from.
  struct Lists {
    std::vector<Pipeline> pipelines;  ///< By schedule, then by chunks.
    std::vector<Sharding> shardings;
    std::vector<std::uint8_t> contexts;
    std::vector<bool> sequence_parallel;
  };

  /// Lists the meshes of `devices` devices. `own` gives what is not searched; of its searched keys those in
  /// `fixed` ("tp", "zero_stage") are kept too. Throws Error (usage) where there is no mesh. `workload` must outlive
  /// it. Plans that `admits` refuses are not legal; empty admits all.
  Space(const Workload& workload, StrategySettings own, int devices, std::set<std::string> fixed,
        std::function<bool(const StrategySettings&)> admits = {});

  /// Finds all legal plans, on `jobs` threads: those that no strategy, schedule or division refuses. Begins nothing
  /// more after `stop` turned true (asked often, may be empty): then meshes are missing, and all() says so. Throws
  /// Error (usage) with the last refusal where no plan is legal.
  void enumerate(int jobs = 1, const std::function<bool()>& stop = {});
  [[nodiscard]] bool all() const { return enumerated_ == meshes_.size(); }
  /// Legal plans found, each in one placement.
  [[nodiscard]] std::uint64_t legal() const;
  /// The legal plans found, in a fixed order, narrow ones first, each once, each in one placement. Twelve bytes each.
  [[nodiscard]] std::vector<Plan> plans() const;
  /// Legal plans that differ in recomputation, chunks and microbatch alone.
  struct Family {
    Plan first;           ///< Its pipeline and recomputation mean nothing.
    std::uint64_t kinds;  ///< Legal ones: bit pipeline_kind().
  };
  [[nodiscard]] const std::vector<std::vector<Family>>& families() const { return families_; }  ///< By mesh.
  /// A schedule with one chunk a stage, or with several.
  [[nodiscard]] static int pipeline_kind(const Pipeline& p) { return 2 * p.schedule + (p.chunks > 1 ? 1 : 0); }

  /// Plans with every placement of their axes before anything was refused, of the meshes enumerated: factorisations x
  /// microbatches x schedules x chunks x sharding x sequence parallelism x recomputation x offload x context exchange x
  /// declared keys x orders of axes.
  [[nodiscard]] double combinations() const { return combinations_; }
  /// Whether nothing refuses the plan.
  [[nodiscard]] bool legal(const Plan& plan) const { return !refusal(plan); }
  [[nodiscard]] StrategySettings settings(const Plan& plan) const;
  /// GPUs over which the plan divides each layer.
  [[nodiscard]] int width(const Plan& plan) const { return width(meshes_[plan.mesh]); }
  /// The plan that has these settings, whatever its order of axes, where it is legal.
  [[nodiscard]] std::optional<Plan> find(const StrategySettings& settings) const;
  /// Orders of the axes larger than one, the scenario's first; that one alone where `placement` is fixed.
  [[nodiscard]] std::vector<std::vector<std::string>> placements(const Plan& plan) const;

  [[nodiscard]] const std::vector<Mesh>& meshes() const { return meshes_; }
  /// Made when first asked for: not from several threads before enumerate() was called.
  [[nodiscard]] const Lists& lists(std::uint32_t mesh) const;
  [[nodiscard]] const std::vector<std::uint8_t>& recomputes() const { return recomputes_; }
  [[nodiscard]] const std::vector<std::uint8_t>& offloads() const { return offloads_; }
  [[nodiscard]] std::uint8_t declared() const { return static_cast<std::uint8_t>(declared_.size()); }

 private:
  [[nodiscard]] bool fixed(const char* key) const { return fixed_.contains(key); }
  [[nodiscard]] bool admits(const char* key, std::int64_t value, std::int64_t wanted) const {
    return !fixed(key) || value == wanted;
  }
  [[nodiscard]] static int width(const Mesh& m) { return m.tp * m.cp * m.tile_h * m.tile_w; }
  [[nodiscard]] std::vector<Mesh> make_meshes(int devices) const;
  [[nodiscard]] std::vector<Pipeline> pipelines(const Mesh& mesh) const;
  /// Whether the schedule has an order for the shape. Any number of threads may ask.
  [[nodiscard]] bool runs(std::size_t schedule, const PipelineShape& shape) const;
  [[nodiscard]] std::vector<std::int16_t> chunk_counts(const Mesh& mesh) const;
  [[nodiscard]] std::vector<Sharding> shardings(const Mesh& mesh) const;
  [[nodiscard]] std::vector<std::uint8_t> make_recomputes() const;
  [[nodiscard]] std::vector<std::uint8_t> make_offloads() const;
  [[nodiscard]] std::vector<std::uint8_t> contexts(const Mesh& mesh) const;
  [[nodiscard]] std::vector<bool> sequence_parallel(const Mesh& mesh) const;
  [[nodiscard]] double combinations_of(std::uint32_t mesh) const;
  [[nodiscard]] std::optional<std::string> refusal(const Plan& plan, PlanChecks checks = PlanChecks::all) const;
  void find_families(std::uint32_t mesh, std::string& refusal);
  /// Those that differ from `plan` in what is sharded and moved.
  void find_families_of(Plan plan, std::string& refusal);
  /// Those that differ from `plan` in the pipeline.
  [[nodiscard]] std::uint64_t legal_kinds(Plan plan, std::string& refusal) const;

  const Workload& workload_;
  StrategySettings own_;
  int devices_;
  std::set<std::string> fixed_;
  std::function<bool(const StrategySettings&)> admits_;
  std::vector<std::string> schedule_names_;
  std::vector<DeclaredSettings> declared_;  ///< Combinations of the searched keys that other files declare.
  std::vector<std::uint8_t> recomputes_, offloads_;
  std::vector<Mesh> meshes_;
  mutable std::vector<std::optional<Lists>> lists_;  ///< By mesh.
  std::unique_ptr<std::mutex> asking_ = std::make_unique<std::mutex>();
  mutable std::map<std::array<int, 4>, bool> runs_;
  std::vector<std::vector<Family>> families_;  ///< By mesh.
  std::size_t enumerated_ = 0;                 ///< Meshes.
  double combinations_ = 0;
};

/// Most combinations of values of declared keys that one search tries.
inline constexpr std::size_t kMostDeclared = 32;

/// A number that no two plans of a space share, and that grows in the order in which it lists them. 20 bits are for the
/// mesh, which no space fills: 56 in all.
[[nodiscard]] constexpr std::uint64_t plan_number(const Space::Plan& p) {
  std::uint64_t out = p.mesh;
  out = out << 5 | p.declared;
  out = out << 1 | std::uint64_t{p.sequence_parallel};
  out = out << 2 | p.context;
  out = out << 8 | p.sharding;
  out = out << 2 | p.offload;
  out = out << 16 | p.pipeline;
  return out << 2 | p.recompute;
}
[[nodiscard]] constexpr Space::Plan plan_of_number(std::uint64_t n) {
  const auto take = [&n](int bits) {
    const std::uint64_t out = n & ((std::uint64_t{1} << bits) - 1);
    n >>= bits;
    return out;
  };
  Space::Plan p;
  p.recompute = static_cast<std::uint8_t>(take(2));
  p.pipeline = static_cast<std::uint16_t>(take(16));
  p.offload = static_cast<std::uint8_t>(take(2));
  p.sharding = static_cast<std::uint8_t>(take(8));
  p.context = static_cast<std::uint8_t>(take(2));
  p.sequence_parallel = take(1) != 0;
  p.declared = static_cast<std::uint8_t>(take(5));
  p.mesh = static_cast<std::uint32_t>(n);
  return p;
}
/// The searched settings of a plan, in the order of searched_keys(); only those that mean something there (no schedule
/// with one stage).
[[nodiscard]] SettingTexts setting_texts(const StrategySettings& settings);
/// The same in one line: "tp=8 pp=8 dp=16 mb=1 interleaved_1f1b v=3 sp zero1 recompute=selective".
[[nodiscard]] std::string plan_label(const StrategySettings& settings);

}  // namespace rehearse
