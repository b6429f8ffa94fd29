#pragma once
// The processors of this machine, shared out among ranks. Without this a rank's communication may be put where another
// rank computes and wait there for milliseconds, while its own core is idle.

#include <vector>

namespace rehearse {

class Cores {
 public:
  /// Those that this process may use now.
  Cores();

  [[nodiscard]] const std::vector<int>& numbers() const { return all_; }
  [[nodiscard]] int count() const { return static_cast<int>(all_.size()); }
  /// Whether some of the machine's are left out: whoever started this process has chosen.
  [[nodiscard]] bool chosen() const;
  /// Binds the threads of this process, and those that they start from now on, to part `index` of `of`: neighbours of
  /// one package and core stay together. Does nothing where there are fewer processors than parts. Returns how many one
  /// part has, at least 1.
  int bind(int index, int of) const;

 private:
  std::vector<int> all_;  ///< By package and core.
};

/// The processors of part `index` of `of`, of those listed: as even as can be, in order.
[[nodiscard]] std::vector<int> part_of(const std::vector<int>& cores, int index, int of);

}  // namespace rehearse
