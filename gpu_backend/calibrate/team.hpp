#pragma once
// Some ranks of a calibration at work together, and the rest waiting.

#include <numeric>
#include <span>
#include <string>
#include <utility>

#include "gpu_backend/communicate/communicator.hpp"

namespace rehearse {

/// The first `ranks` ranks, seen from one of them.
class Team {
 public:
  /// `name`: of one team only; ranks find each other by it.
  Team(ComputeDevice& device, Transport& transport, int ranks, const std::string& name)
      : device_(device), rank_(transport.rank()), ranks_(ranks) {
    if (ranks < 2) return;
    std::vector<int> members(static_cast<std::size_t>(ranks));
    std::iota(members.begin(), members.end(), 0);
    communicator_ = transport.communicator(name + " of " + std::to_string(ranks), members);
    transport.ready();
  }

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int ranks() const { return ranks_; }
  [[nodiscard]] ComputeDevice& device() { return device_; }
  /// Sums over the team. Blocks; also the moment at which all are there.
  void sum(std::vector<double>& values) {
    if (!communicator_) return;
    const auto host = std::as_writable_bytes(std::span(values));
    const std::shared_ptr<Storage> there = device_.allocate(host.size());
    device_.write(*there, 0, host);
    CollectiveCall call;
    call.type = ElementType::real64;
    call.receive_counts = {static_cast<std::int64_t>(values.size())};
    call.name = "calibration";
    device_.wait(device_.submit(kStream, {}, {.run = {}, .start = [this, there, call](Done done) {
                                                CollectiveCall placed = call;
                                                placed.receive = there->data();
                                                communicator_->start(std::move(placed),
                                                                     [there, done = std::move(done)](
                                                                         std::exception_ptr e) { done(std::move(e)); });
                                              }}));
    device_.read(*there, 0, host);
  }
  void meet() {
    std::vector<double> nothing{0};
    sum(nothing);
  }

 private:
  static constexpr int kStream = 63;

  ComputeDevice& device_;
  std::unique_ptr<Communicator> communicator_;
  int rank_, ranks_;
};

}  // namespace rehearse
