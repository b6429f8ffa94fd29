#pragma once
// Times that a user has measured, which go before the model's.
//
//   { "schema": "rehearse/collective_table/v1",
//     "tables": [
//       { "op": "all_reduce", "ranks": 16, "nodes": 2, "source": "run 7", "rows": [["1KiB", "165us"], ["64MiB",
//       "2.64ms"]] }, { "op": "all_gather", "ranks": 16, "nodes": 2, "source": "run 7", "latency": "180us",
//       "bandwidth": "41GB/s" } ],
//     "sources": { "run 7": { "text": "nccl-tests on our two nodes, 2026-01-12", "evidence": "measured_here" } } }
//
// A table speaks of one operation on one shape of group: so many ranks, spread evenly or not over so many nodes. Sizes
// are nccl-tests' size column, as CollectiveModel takes them; bandwidth is nccl-tests' algbw for large messages: time =
// latency + bytes / bandwidth. Between two rows the time is a power of the size (a straight line where both are drawn
// as logarithms). Outside the rows the model goes on from the nearest row: its time, times what was measured at that
// row over what the model says there. Shapes that no table speaks of are the model's.

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "core/base/units.hpp"
#include "core/collective/collective_op.hpp"
#include "core/hardware/specs.hpp"

namespace rehearse {

class CollectiveTable {
 public:
  struct Row {
    Bytes bytes;
    Seconds time;
  };

  /// Reads the JSON text above; `origin` names it in errors. Throws Error (usage) with the JSON path: unknown keys, a
  /// shape given twice, more nodes than ranks, sizes that don't ascend, times that are not above zero, rows beside
  /// latency and bandwidth.
  static CollectiveTable parse(const std::string& text, const std::string& origin);

  /// The measured time, or nothing where no table has this operation and shape. `model` gives the model's time of any
  /// size.
  using Model = std::function<Seconds(Bytes)>;
  [[nodiscard]] std::optional<Seconds> time(CollectiveOp op, int ranks, int nodes, Bytes bytes,
                                            const Model& model) const;

  [[nodiscard]] const std::string& origin() const { return origin_; }
  [[nodiscard]] const std::vector<Source>& sources() const { return sources_; }
  [[nodiscard]] int shapes() const { return int(entries_.size()); }

 private:
  struct Entry {
    std::vector<Row> rows;  ///< Empty: the line below.
    Seconds latency;
    BytesPerSecond bandwidth;
  };
  std::string origin_;
  std::map<std::tuple<CollectiveOp, int, int>, Entry> entries_;  ///< By operation, ranks, nodes.
  std::vector<Source> sources_;
};

}  // namespace rehearse
