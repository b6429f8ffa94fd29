#pragma once
// Where the ranks of a run meet: one process serves a small key-value store over TCP, all connect to it. It also tells
// everyone, within milliseconds, when one of them fails or dies: every rank keeps a connection open, and one that
// closes without a goodbye is a death.

#include <functional>
#include <memory>
#include <string>

#include "gpu_backend/communicate/net/socket.hpp"

namespace rehearse::net {

class RendezvousServer {
 public:
  /// Serves on `port` (0: a free one), on this machine only or on all addresses.
  RendezvousServer(int port, bool only_here);
  /// Ends all connections; ranks that have not said goodbye see a failure.
  ~RendezvousServer();
  [[nodiscard]] int port() const;
  /// Tells every rank that `rank` has failed, as the launcher does when a process dies.
  void fail(int rank, const std::string& cause);

 private:
  struct Shared;
  std::unique_ptr<Shared> shared_;
};

class RendezvousClient {
 public:
  /// Called once, from a thread of the client's, when any rank fails: "rank 2: was killed". Not called for this rank's
  /// own fail().
  using OnFailure = std::function<void(const std::string& cause)>;
  RendezvousClient(const std::string& host, int port, int rank, OnFailure on_failure);
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
