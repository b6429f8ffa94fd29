#pragma once
// Everything the project asks of SimGrid, with its versions (3.32 to 4.1) hidden in simgrid_facade.cpp.
//
// SimGrid shares links here and does nothing else: no actors, no execs, one timer. Its network model becomes plain
// max-min fairness by
//   network/model:CM02          no TCP model: factors 1
//   network/crosstraffic:0      on by default, it would couple a flow with its reverse path
//   latency 0 on every route    CM02 gives a flow a share of a link in inverse proportion to its latency, and a bound
//   of gamma / (2 latency);
//                               a flow without latency has weight 1 and no such bound (the caller adds latency itself)
//   precision of time 1e-11 s   flows this close to the present have ended; more than the spacing of doubles up to 18 h
//   of simulated time precision of rates 1e-9     a link is full when less than this share of it is left (1e-5 by
//   default)
// Bytes and rates are handed over times 2^16, which changes no time and lets a flow end within 2^-16 byte, as payloads
// are whole.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

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

  /// The platform has a link per link of `cluster`, which must outlive the facade, and is built when it is first used.
  /// SimGrid allows one engine per process: throws Error (unavailable) while another facade lives. After its end the
  /// next may begin, at time 0.
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
  /// The only links that flows will cross: to be told before the first flow. Each costs memory.
  void keep_to(const std::vector<LinkId>& links);
  /// A flow over `links` (a link repeated w times carries it w-fold), of `bytes` > 0 (at most 2^48), at most `cap`.
  void start_flow(std::span<const LinkId> links, Bytes bytes, BytesPerSecond cap, std::uint64_t payload);
  /// Until no flow and no wake is left.
  void run();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The version of the SimGrid library, such as "3.32".
[[nodiscard]] const char* simgrid_version();

}  // namespace rehearse::sim
