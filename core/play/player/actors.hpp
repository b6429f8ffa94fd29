#pragma once
// Who is played: one actor per rank, or per tensor-parallel group where its ranks are provably alike.

#include <cstdint>
#include <string>
#include <vector>

#include "core/play/player/compiled_role.hpp"

namespace rehearse {

struct Actor {
  int rank = 0;  ///< The first rank it stands for.
  DeviceId device = 0;
  int role = 0;
  int compiled = 0;  ///< Index into Cast::compiled.
  int ranks = 1;     ///< That it stands for, with itself.
};

/// Actors, their compiled roles and who they talk to.
struct Cast {
  std::vector<Actor> actors;
  std::vector<CompiledRole> compiled;
  int lanes = 1;        ///< Ranks an actor stands for.
  int lane_stride = 1;  ///< Device distance between them.
  std::string folding;  ///< What was folded and why it may be.
  std::vector<std::int32_t> actor_of_rank;

  /// One communicator: members as actors, and as devices (one lane's where lanes run side by side).
  struct Group {
    int program_group;
    int rank;  ///< A member.
    std::vector<std::int32_t> actors;
    std::vector<DeviceId> devices;
    int lanes;
  };
  std::vector<Group> groups;
  /// Group of an actor for a Program group; built for groups that operations use.
  [[nodiscard]] std::int32_t group_of(std::int32_t actor, int program_group) const {
    return group_index[static_cast<std::size_t>(program_group) * actors.size() + static_cast<std::size_t>(actor)];
  }
  std::vector<std::int32_t> group_index;  ///< By Program group and actor; -1 for none.

  /// Channel (edge, sender, receiver) of an actor's endpoint, as an index from 0.
  std::vector<std::vector<std::int32_t>> channels;  ///< [actor][endpoint * 2 + (0 send, 1 receive)]
  struct Channel {
    std::int32_t from, to, edge;
    int rank;  ///< That sends.
    DeviceId src, dst;
  };
  std::vector<Channel> channel_list;
};

/// Axes along which what a role does can differ: where a size, a predicate or a peer depends on the coordinate. Whom a
/// rank meets is another question: it is the groups that answer it.
[[nodiscard]] AxisSet mattering_axes(const Program& program);

/// Stride between the devices of a tensor-parallel group when all groups lie in one node each, evenly spaced; 0
/// otherwise.
[[nodiscard]] int lane_stride(const Program& program, const Cluster& cluster);

/// Lanes that are played as one, 1 where each rank is, and the device distance between neighbours.
struct LaneForm {
  int lanes = 1, stride = 1;
  bool operator==(const LaneForm&) const = default;
};
[[nodiscard]] LaneForm lane_form(const Program& program, const Cluster& cluster, const CostModel& cost,
                                 const RunOptions& options);

/// Whether ranks of one tensor-parallel group may do unequal work: sizes, predicates or peers that depend on the tp
/// coordinate.
[[nodiscard]] bool tp_coordinate_matters(const Program& program);

Cast make_cast(const Program& program, const Cluster& cluster, const CostModel& cost, const RunOptions& options);

}  // namespace rehearse
