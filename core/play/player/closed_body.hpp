#pragma once
// Bodies that are priced as a whole. Ranks that meet in such a body, if only by way of others, take it as one piece of
// work together or not at all: one that played it task by task would wait for calls that the others do not make.

#include <optional>
#include <vector>

#include "core/cluster/cluster.hpp"
#include "core/price/cost_model.hpp"
#include "core/program/program.hpp"

namespace rehearse {

/// Whether `body` is priced as a whole on `rank`: every collective of it and of the ranks that it meets there stays
/// inside one node, where its wires are the group's own; nothing else leaves the rank; and the host waits for none of
/// its tasks.
[[nodiscard]] bool is_closed(const Program& program, const Cluster& cluster, const Body& body, int rank);

/// Groups that one body calls, for each body that may be closed; each set once. Whether a body is closed on a rank
/// depends on the body's set alone, so that ranks alike in all sets may share what was compiled.
[[nodiscard]] std::vector<std::vector<int>> groups_called_together(const Program& program);
/// Whether all whom `rank` meets through these groups, and whom those meet, are on its node.
[[nodiscard]] bool meets_in_node(const Program& program, const Cluster& cluster, const std::vector<int>& groups,
                                 int rank);

/// How much longer its launches make the kernels of a call that is issued task by task, on `rank` at `at`. It is that
/// of the first rank of its role, which has the most experts' rows: a rank with fewer has its host ahead while it waits
/// for that one. `launches` as in CostModel::price_body.
[[nodiscard]] double launch_stretch(const Program& program, const CostModel& cost, const Body& body, int rank,
                                    ExprContext at, int launches);

}  // namespace rehearse
