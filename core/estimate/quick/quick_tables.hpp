#pragma once
// Blocks and meshes that estimators of one workload on one cluster have worked out, whatever thread they are on.

#include <array>
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

/// Tables of one kind. Each is made once, by the first that asks; others that want it meanwhile wait.
template <class Table>
class Shelf {
 public:
  /// make() gives a std::unique_ptr, null where there is no such table. Where it throws, the next one tries again.
  template <class Make>
  const Table* get(const TableKey& key, const Make& make) {
    Place* place = nullptr;
    {
      const std::lock_guard lock(mutex_);
      std::unique_ptr<Place>& at = places_[key];
      if (!at) at = std::make_unique<Place>();
      place = at.get();
    }
    std::call_once(place->once, [&] { place->table = make(); });
    return place->table.get();
  }

 private:
  struct Place {
    std::once_flag once;
    std::unique_ptr<Table> table;
  };
  std::mutex mutex_;
  std::unordered_map<TableKey, std::unique_ptr<Place>, HashOfTableKey> places_;
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
  Shelf<QuickBlocks> blocks;
  Shelf<QuickMesh> meshes;
  Numbering<StrategySettings> rests;  ///< Settings that no key spells out.
  Numbering<TrainingSettings> trainings;
  Numbering<std::string> schedules;
};

}  // namespace rehearse
