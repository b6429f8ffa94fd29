#include "gpu_backend/communicate/memory/neighbours.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"

namespace rehearse {

namespace {

/// The rank's machine and where its block is, a line each; empty where it has none.
std::string offer(const SharedBlock* block) {
  return block != nullptr ? machine_identity() + "\n" + block->address() : "";
}

bool reaches(const std::string& offered, std::size_t bytes) {
  const auto end = offered.find('\n');
  if (end == std::string::npos || offered.substr(0, end) != machine_identity()) return false;
  try {
    const SharedBlock theirs(offered.substr(end + 1));
    return theirs.bytes() == bytes;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

Neighbours::Neighbours(const MeetingBoard& board, int rank, int ranks) {
  // As much as groups will ask for: a limit on the size of files counts here, too.
  const std::size_t bytes = std::max(Pipes::shared_bytes(2), Pipes::shared_bytes(ranks));
  try {
    tried_ = std::make_unique<SharedBlock>(bytes);
  } catch (const Error&) {  // The system shares none: ranks talk otherwise.
  }
  const auto offered = [](int r) { return fmt::format("memory of rank {}", r); };
  const auto reached = [](int r) { return fmt::format("memory reached by rank {}", r); };
  board.set(offered(rank), offer(tried_.get()));
  std::string mine;
  for (int r = 0; r < ranks; ++r) mine += reaches(board.get(offered(r)), bytes) ? '1' : '0';
  board.set(reached(rank), mine);
  for (int r = 0; r < ranks; ++r) reached_.push_back(board.get(reached(r)));
}

bool Neighbours::share_memory(const std::vector<int>& ranks) const {
  const auto reach = [&](int a, int b) { return nth(nth(reached_, a), b) == '1'; };
  return std::all_of(ranks.begin(), ranks.end(), [&](int a) {
    return std::all_of(ranks.begin(), ranks.end(), [&](int b) { return reach(a, b); });
  });
}

}  // namespace rehearse
