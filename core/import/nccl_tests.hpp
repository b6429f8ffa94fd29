#pragma once
// What nccl-tests print, as a table of measured collectives (core/collective/collective_table.hpp).

#include <string>
#include <string_view>
#include <vector>

#include "core/collective/collective_op.hpp"

namespace rehearse {

struct NcclTestsOptions {
  std::string op;         ///< "all_reduce"; needed where the text does not name its program.
  int ranks = 0;          ///< Needed where the text does not list its ranks.
  int nodes = 0;          ///< Likewise.
  bool in_place = false;  ///< The columns of in-place calls instead of those out of place.
};

/// One run of one program.
struct NcclTestsRun {
  CollectiveOp op = CollectiveOp::all_reduce;
  int ranks = 0, nodes = 0;
  struct Row {
    double bytes, time_us;
  };
  std::vector<Row> rows;           ///< By size; of a size that occurs twice, the faster.
  std::vector<std::string> notes;  ///< What is doubtful about it, a sentence each.
};

/// Runs of one or several programs of nccl-tests or rccl-tests, in the text's order. Columns are found by their names
/// in the header (time, algbw, busbw and #wrong of each kind of call), whatever else a release prints. A launcher's tag
/// before each line ("[1,0]<stdout>:" of mpirun, "[0]" of mpiexec, "0: " of srun) and a log's own prefix are taken off.
/// Ranks that the list leaves out are counted and noted. Lines of other programs around them are passed over. Throws
/// Error (usage), `where` "origin:line", for a text without a table, rows with a number missing, wrong results (#wrong
/// above 0, or values out of bounds), processes that ran each for itself, groups that ran at once, operations, ranks or
/// nodes that neither the text nor `options` tell, and a ratio of busbw to algbw that the operation does not have
/// between so many ranks. The operation is also told by that ratio where only one has it.
[[nodiscard]] std::vector<NcclTestsRun> parse_nccl_tests(std::string_view text, const std::string& origin,
                                                         const NcclTestsOptions& options);

/// rehearse/collective_table/v1. `source` says where and when it was measured.
[[nodiscard]] std::string collective_table_json(const std::vector<NcclTestsRun>& runs, const std::string& source);

}  // namespace rehearse
