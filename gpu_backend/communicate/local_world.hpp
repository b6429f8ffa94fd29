#pragma once
// Ranks as threads of one process: the cheapest way to run a Program of several ranks, and what most tests use.

#include <functional>
#include <memory>

#include "gpu_backend/communicate/communicator.hpp"

namespace rehearse {

class LocalWorld {
 public:
  explicit LocalWorld(int ranks);
  ~LocalWorld();
  /// The world as rank `rank` sees it; refers to this.
  [[nodiscard]] std::unique_ptr<Transport> transport(int rank);

 private:
  friend class LocalTransport;
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

/// Runs `body` as every rank of a LocalWorld, one thread each. Rethrows the error of the rank that failed first.
void run_locally(int ranks, const std::function<void(Transport&)>& body);

/// Adds `n` elements of `from` to `to` (or takes the larger, the smaller, or either's truth).
void reduce_into(std::byte* to, const std::byte* from, std::int64_t n, ElementType type, ReduceOp op);

}  // namespace rehearse
