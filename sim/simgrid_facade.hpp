#pragma once
// Everything the project asks of SimGrid, with its versions (3.32 to 4.1) hidden in simgrid_facade.cpp.
//
// SimGrid shares links here and does nothing else: no actors, no execs, one timer. Its network model is set up as plain max-min
// fairness, which takes more than choosing CM02:
//   network/model:CM02, network/crosstraffic:0   no TCP model, no coupling of a flow with its reverse path
//   network/TCP-gamma:1e30                       no window bound, which would be gamma / (2 latency)
//   latency 1 on every route                     CM02 shares a link in inverse proportion to route latency, even with weight-S 0
//   network/latency-factor:0                     and that latency is then not charged
//   precision of time 1e-11 s                    flows this close to the present have ended; ten times the spacing of doubles at
//                                                an hour of simulated time
//   precision of rates 1e-9                      a link is full when less than this share of it is left
// Bytes and rates are handed over times 2^16, which changes no time and lets a flow end within 2^-16 byte, as payloads are whole.

#include <cstdint>
#include <memory>
#include <span>

#include "core/cluster/cluster.hpp"

namespace rehearse::sim {

class SimGridFacade {
 public:
  /// Told what happens during run(); may call every function of the facade but run().
  class Listener {
   public:
    virtual ~Listener() = default;
    /// The date asked for with wake_at() is reached.
    virtual void on_wake() = 0;
    /// A flow ended now. `last` tells that no other flow ending at this date is still to be told of.
    virtual void on_flow_end(std::uint64_t payload, bool last) = 0;
  };

  /// Builds the platform: one host per device and one link per link of `cluster`, which must outlive the facade.
  /// SimGrid allows one engine per process: throws Error (unavailable) while another facade lives. After its end the next may begin,
  /// at time 0.
  SimGridFacade(const Cluster& cluster, Listener& listener);
  ~SimGridFacade();
  SimGridFacade(const SimGridFacade&) = delete;
  SimGridFacade& operator=(const SimGridFacade&) = delete;

  [[nodiscard]] double now() const;  ///< Seconds.
  /// Asks for on_wake() at `date` (seconds, not before now); replaces what was asked for before.
  void wake_at(double date);
  void forget_wake();
  /// Flows that ended at this date and have not been told of yet.
  [[nodiscard]] bool flow_ends_pending() const;
  /// A flow over `links` (a link repeated w times carries it w-fold), of `bytes` > 0 (at most 2^48), at most `cap`.
  void start_flow(DeviceId src, DeviceId dst, std::span<const LinkId> links, Bytes bytes, BytesPerSecond cap, std::uint64_t payload);
  /// Until no flow and no wake is left.
  void run();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The version of the SimGrid library, such as "3.32".
[[nodiscard]] const char* simgrid_version();

}  // namespace rehearse::sim
