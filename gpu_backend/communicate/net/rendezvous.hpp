#pragma once
// Where the ranks of a run meet: one process serves a small key-value store over TCP, all connect to it. It also tells
// everyone, within milliseconds, when one of them fails or dies: every rank keeps two connections open, for requests
// and for news, and one that closes without a goodbye is a death.
//
// Every request names the run (net/frame.hpp). Whoever does not know it sets no key, fails no run and holds no memory:
// a connection that has not named the run within kPatienceWithStrangers is closed, and of kMostStrangers at once the
// oldest is.

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "gpu_backend/communicate/net/frame.hpp"
#include "gpu_backend/communicate/net/socket.hpp"

namespace rehearse::net {

inline constexpr std::chrono::seconds kPatienceWithStrangers{10};
inline constexpr std::size_t kMostStrangers = 64;

class RendezvousServer {
 public:
  /// Serves `run` on `port` (0: a free one) of the address of `host`; of all addresses where that is not this machine's
  /// own, as behind a translated one.
  RendezvousServer(const std::string& host, int port, const RunName& run);
  /// Ends all connections; ranks that have not said goodbye see a failure.
  ~RendezvousServer();
  [[nodiscard]] int port() const;
  /// Tells every rank that `rank` has failed, as the launcher does when a process dies.
  void fail(int rank, const std::string& cause);
  /// Connections that are open now, for tests: what has been answered is closed.
  [[nodiscard]] std::size_t connections() const;

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

class RendezvousClient {
 public:
  /// Called once, from a thread of the client's, when any rank fails: "rank 2: was killed". Not called for this rank's
  /// own fail().
  using OnFailure = std::function<void(const std::string& cause)>;
  /// Throws Error (check_failed) where nobody serves there within a minute. Another run's server, another number of
  /// ranks, or a second process of the same rank is a failure.
  RendezvousClient(const std::string& host, int port, RunName run, int rank, OnFailure on_failure);
  /// Says goodbye.
  ~RendezvousClient();

  void set(const std::string& key, const std::string& value);
  /// Waits for it. Throws Error (check_failed) where the server or a rank has failed meanwhile.
  [[nodiscard]] std::string get(const std::string& key);
  void fail(const std::string& cause) noexcept;
  /// Address of this machine as the server sees it.
  [[nodiscard]] std::string local_address() const;

 private:
  struct Shared;
  std::unique_ptr<Shared> shared_;
};

}  // namespace rehearse::net
