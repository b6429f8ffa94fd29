#pragma once
// Blocks and meshes that estimators of one workload on one cluster have worked out, whatever thread they are on.

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/config/settings/strategy.hpp"
#include "core/config/settings/training.hpp"
#include "core/estimate/quick/quick_blocks.hpp"
#include "core/estimate/quick/quick_mesh.hpp"

namespace rehearse {

/// Numbers that decide a table.
using TableKey = std::array<std::int64_t, 23>;

struct HashOfTableKey {
  std::size_t operator()(const TableKey& key) const {
    std::uint64_t h = 0;
    for (const std::int64_t x : key) h = (h ^ static_cast<std::uint64_t>(x)) * 0x9E3779B97F4A7C15ULL, h ^= h >> 32;
    return h;
  }
};

/// Tables of one kind. Each is made once, by the first that asks; others that want it meanwhile wait. Where they take
/// more than `most` bytes, those that were not asked for lately are forgotten, and made again when they are wanted.
template <class Table>
class Shelf {
 public:
  explicit Shelf(std::size_t most) : most_(most) {}

  /// make() gives a std::unique_ptr, null where there is no such table. Where it throws, the next one tries again.
  template <class Make>
  std::shared_ptr<const Table> get(const TableKey& key, const Make& make) {
    const std::shared_ptr<Place> place = find(key);
    bool fresh = false;
    std::call_once(place->once, [&] { place->table = make(), fresh = true; });
    if (fresh) count(*place);
    return {place, place->table.get()};
  }
  /// Changes when tables have been forgotten: whoever keeps some of them may let them go.
  [[nodiscard]] int generation() const { return generation_; }

 private:
  struct Place {
    std::once_flag once;
    std::unique_ptr<Table> table;
    std::size_t bytes = 0;  ///< Once it is made and counted; guarded by the shelf's mutex.
  };
  using Places = std::unordered_map<TableKey, std::shared_ptr<Place>, HashOfTableKey>;

  std::shared_ptr<Place> find(const TableKey& key) {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<Place>& at = young_[key];
    if (at) return at;
    const auto known = old_.find(key);
    at = known != old_.end() ? known->second : std::make_shared<Place>();
    held_ += at->bytes;
    return at;
  }
  /// Two generations: the older one goes when the younger one takes half of the room.
  void count(Place& place) {
    const std::size_t bytes = place.table ? place.table->bytes() : sizeof(Place);
    const std::lock_guard lock(mutex_);
    held_ += place.bytes = bytes;
    if (2 * held_ < most_) return;
    old_ = std::move(young_);
    young_.clear();
    held_ = 0;
    ++generation_;
  }

  std::mutex mutex_;
  std::size_t most_, held_ = 0;
  std::atomic<int> generation_ = 0;
  Places young_, old_;
};

/// Numbers values in the order in which they are first asked for.
template <class Value>
class Numbering {
 public:
  int operator()(const Value& value) {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = known_.size(); i-- > 0;)
      if (known_[i] == value) return static_cast<int>(i);
    known_.push_back(value);
    return static_cast<int>(known_.size()) - 1;
  }

 private:
  std::mutex mutex_;
  std::vector<Value> known_;
};

/// Values of one estimator with their numbers: most often the last one is asked for again.
template <class Value>
class KnownNumbers {
 public:
  int of(const Value& value, Numbering<Value>& all) {
    for (std::size_t i = known_.size(); i-- > 0;)
      if (known_[i].first == value) return known_[i].second;
    known_.emplace_back(value, all(value));
    return known_.back().second;
  }

 private:
  std::vector<std::pair<Value, int>> known_;
};

struct QuickTables {
  explicit QuickTables(std::size_t most) : blocks(most / 4), meshes(most - most / 4) {}
  Shelf<QuickBlocks> blocks;
  Shelf<QuickMesh> meshes;
  Numbering<StrategySettings> rests;  ///< Settings that no key spells out.
  Numbering<TrainingSettings> trainings;
  Numbering<std::string> schedules;
};

}  // namespace rehearse
