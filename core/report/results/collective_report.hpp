#pragma once
// nccl-tests' table for predicted collectives: what 'rehearse collectives' prints.

#include <string>
#include <vector>

#include "core/collective/collective.hpp"
#include "core/report/formats/document.hpp"

namespace rehearse {

/// One line of the table.
struct CollectiveRow {
  Bytes bytes;  ///< nccl-tests' size: the larger of what a rank sends and receives.
  /// Elements: of the buffer; per rank or per peer where the buffer is divided by ranks.
  double count = 0;
  CollectiveChoice choice;
  Seconds time;  ///< Of the choice, or as a back end played it.
  /// bytes / time, and that times bus_factor(): GB/s of 1e9 bytes. 0 for an empty call.
  [[nodiscard]] double algbw() const;
  [[nodiscard]] double busbw(CollectiveOp op, int ranks) const;
};

struct CollectiveReport {
  std::string program_version, cluster;
  CollectiveOp op = CollectiveOp::all_reduce;
  int ranks = 0, nodes = 0, per_node = 0;
  std::string type, redop;  ///< redop "none" where nothing is reduced.
  std::string backend;      ///< "model": the call alone; else the back end that played it.
  std::vector<CollectiveRow> rows;
  std::vector<std::string> rests_on;           ///< One line per source of the times.
  [[nodiscard]] double average_busbw() const;  ///< Over the rows, as nccl-tests' last line; 0 without rows.
};

/// JSON schema rehearse/collectives/v1: rows[{bytes, count, time_us, algbw_GBps, busbw_GBps, algorithm, protocol,
/// channels, from_table}].
[[nodiscard]] Document collective_document(const CollectiveReport& report);

}  // namespace rehearse
