#pragma once
// The threads of one CPU rank: they share the loops of its operators.
//
//   share(rows, 16, [&](std::int64_t first, std::int64_t last) { ... rows [first, last) ... });

#include <cstdint>
#include <functional>

namespace rehearse {

/// From here on loops are shared by so many threads, the calling one included; 1: none other. At least 1.
void set_team(int threads);
[[nodiscard]] int team_size();

/// Part of a loop: from `first` to before `last`.
using TeamWork = std::function<void(std::int64_t first, std::int64_t last)>;

/// Calls `work` for parts that together are [0, n), each of at least `least`, and returns when all are done. Parts may
/// run at the same time. A part is done by whoever is free, so that a thread that the machine keeps waiting keeps
/// nobody else waiting. In a part, and where another thread's loop is under way, everything is one part. `work` throws
/// nothing.
void share(std::int64_t n, std::int64_t least, const TeamWork& work);

}  // namespace rehearse
