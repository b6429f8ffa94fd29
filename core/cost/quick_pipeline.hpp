#pragma once
// The schedule's recurrence of estimate_pipeline over a known order of passes: a few additions and comparisons per pass. Messages beside kernels cost
// those kernels what the overlap rule says; only of the latest one at each end is the moment kept.

#include <array>
#include <vector>

#include "core/cost/quick_mesh.hpp"
#include "core/cost/quick_order.hpp"

namespace rehearse {

/// One stage's clock and books, in seconds.
struct QuickLane {
  double free = 0, held = 0, input_done = 0;
  double dp_free = 0;       ///< End of the last reduction or gather ...
  double dp_lost = 0;       ///< ... beside which kernels lose this share of their rate.
  Interference dp_load;
  double debt = 0;          ///< Lost to messages that were found to overlap kernels already played.
  double message_begin = 0, message_end = 0;
  int message = 0;          ///< Its direction.
  double trailing = 0;      ///< Seconds before `free` in which no collective of the work's own ran.
  double slowed = 0, exposed_tp = 0, exposed_dp = 0, exposed_pp = 0, exposed_copy = 0;
};

/// What one scenario's passes cost.
struct QuickCosts {
  struct Pass {
    const ChunkPass* pass = nullptr;
    double seconds = 0;                ///< With the preparation of its message.
    double prepare = 0;
    double unpack = 0;
    std::array<double, 2> lost{};      ///< Share of its rate beside a message forward, backward.
  };
  std::array<std::array<Pass, 2>, kChunkKinds> passes;
  const MeshMessages* forward = nullptr;   ///< Of activations ...
  const MeshMessages* backward = nullptr;  ///< ... and of their gradients.
  const QuickMesh* mesh = nullptr;
  int stages = 1, virtual_stages = 1, layers = 0;
  bool blocking = false;
};

/// By kind of stage of the mesh: what of the step before is still to come, in the ends of its tail's operations.
using TailEnds = std::vector<std::vector<double>>;

class QuickPipeline {
 public:
  /// Plays `order`, which is of `stages` stages, from `lanes`, one per kind of stage, to the end of every stage's last pass. Where `stages` are fewer than
  /// those of the mesh, its middle is shorter. `before` may be empty.
  void play(const QuickOrder& order, int stages, const QuickCosts& costs, const TailEnds& before, std::vector<QuickLane>& lanes);

 private:
  void wait(const Visit& v, const QuickCosts::Pass& pass, QuickLane& lane) const;
  void first_forward(const Visit& v, const ChunkPass& pass, QuickLane& lane) const;
  void last_backward(const Visit& v, const QuickCosts::Pass& pass, QuickLane& lane) const;
  void send(const Visit& v, const QuickCosts::Pass& pass, QuickLane& from);
  [[nodiscard]] int kind_of_stage(int stage) const;
  [[nodiscard]] const Transfer& message(int direction, int stage) const;

  const QuickCosts* costs_ = nullptr;
  const TailEnds* before_ = nullptr;
  int stages_ = 1;
  std::vector<QuickLane> lanes_;
  std::vector<double> arrival_, channel_free_;
  std::array<std::vector<const Transfer*>, 2> messages_;  ///< By direction and sender.
};

}  // namespace rehearse
