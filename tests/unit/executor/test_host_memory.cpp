// Memory that a step gives back is there for the next, and processors are shared out.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <set>
#include <thread>
#include <vector>

#include <sched.h>

#include "gpu_backend/cpu/cores.hpp"
#include "gpu_backend/cpu/host_memory.hpp"
#include "tests/support/catch.hpp"

using namespace rehearse;

TEST_CASE("a block that was given back is the next one of its size, the last first") {
  HostMemory memory;
  std::byte *a = memory.take(1000), *b = memory.take(1000), *other = memory.take(5000);
  std::memset(a, 1, 1000);
  std::memset(b, 2, 1000);
  memory.give_back(a, 1000);
  memory.give_back(b, 1000);
  memory.give_back(other, 5000);
  CHECK(memory.used() == 0);
  CHECK(memory.take(1000) == b);
  CHECK(memory.take(1000) == a);
  CHECK(memory.take(5000) == other);
  CHECK(memory.idle() == 0);
  memory.give_back(a, 1000);
  memory.give_back(b, 1000);
  memory.give_back(other, 5000);
}

TEST_CASE("blocks have the bytes asked for, at most an eighth more, and begin on a cache line") {
  for (std::size_t bytes = 0; bytes < 70'000; bytes += 1 + bytes / 7) {
    const std::size_t rounded = HostMemory::rounded(bytes);
    CHECK(rounded >= bytes);
    CHECK(rounded >= HostMemory::kAlignment);
    CHECK(rounded <= std::max(bytes + bytes / 8 + 1, bytes + HostMemory::kAlignment));
    CHECK(HostMemory::rounded(rounded) == rounded);
    HostMemory memory;
    std::byte* block = memory.take(bytes);
    CHECK(reinterpret_cast<std::uintptr_t>(block) % HostMemory::kAlignment == 0);
    memory.give_back(block, bytes);
  }
}

TEST_CASE("a step of any shape, again and again, keeps no more than half as much again as it uses at most") {
  HostMemory memory;
  std::size_t most = 0;
  // Each round uses other sizes than the one before.
  for (std::size_t round = 1; round < 40; ++round) {
    std::vector<std::byte*> blocks;
    for (std::size_t i = 0; i < 10; ++i) blocks.push_back(memory.take(round * 4096));
    most = std::max(most, memory.used());
    CHECK(memory.used() + memory.idle() <= most + most / 2);
    for (std::byte* b : blocks) memory.give_back(b, round * 4096);
  }
}

TEST_CASE("processors are divided evenly, without gaps and in order, and bound threads stay on their part") {
  for (int n = 1; n < 9; ++n)
    for (int of = 1; of <= n; ++of) {
      std::vector<int> cores(static_cast<std::size_t>(n)), together;
      std::iota(cores.begin(), cores.end(), 10);
      for (int i = 0; i < of; ++i) {
        const std::vector<int> part = part_of(cores, i, of);
        CHECK(static_cast<int>(part.size()) >= n / of);
        CHECK(static_cast<int>(part.size()) <= n / of + 1);
        together.insert(together.end(), part.begin(), part.end());
      }
      CHECK(together == cores);
    }
  const Cores cores;
  REQUIRE(cores.count() >= 1);
  CHECK(cores.bind(0, cores.count() + 1) == 1);  // Fewer than parts: left as it is.
  CHECK(Cores().count() == cores.count());
  CHECK(cores.bind(0, cores.count()) == 1);
  int seen = 0;
  std::thread([&] { seen = Cores().count(); }).join();
  CHECK(seen == 1);
  CHECK(cores.bind(0, 1) == cores.count());
  CHECK(Cores().count() == cores.count());
}
