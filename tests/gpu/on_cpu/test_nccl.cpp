// What the NCCL of the machine on the CPU promises: it moves what NCCL moves, and blocks, or refuses, where NCCL may.
#include <nccl.h>

#include <array>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/catch.hpp"

namespace {

/// One of the ranks, a thread of its own.
struct Rank {
  int number = 0, ranks = 0;
  ncclComm_t world = nullptr;
  cudaStream_t stream = nullptr;
  std::string failed;

  /// What either of NCCL and CUDA says of `result`.
  void check(ncclResult_t result) {
    if (result != ncclSuccess && failed.empty()) failed = ncclGetLastError(world);
  }
  void wait() {
    if (const cudaError_t status = cudaStreamSynchronize(stream); status != cudaSuccess && failed.empty())
      failed = cudaGetErrorString(status);
  }
};

/// What each rank failed with.
std::vector<std::string> on_ranks(int n, const std::function<void(Rank&)>& body, on_cpu::GpuSettings settings = {}) {
  const on_cpu::LateStreams late(settings);
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  std::vector<Rank> ranks(static_cast<std::size_t>(n));
  std::vector<std::thread> threads;
  for (int r = 0; r < n; ++r)
    threads.emplace_back([&, r] {
      Rank& me = ranks[static_cast<std::size_t>(r)];
      me.number = r, me.ranks = n;
      (void)cudaStreamCreateWithFlags(&me.stream, cudaStreamNonBlocking);
      (void)ncclCommInitRank(&me.world, n, id, r);
      body(me);
      (void)ncclCommDestroy(me.world);
      (void)cudaStreamDestroy(me.stream);
    });
  for (std::thread& t : threads) t.join();
  std::vector<std::string> out;
  for (const Rank& r : ranks) out.push_back(r.failed);
  return out;
}

using Numbers = std::vector<double>;

}  // namespace

TEST_CASE("collectives of the machine on the CPU move what NCCL's move", "[machine]") {
  constexpr int kRanks = 3;
  std::array<Numbers, kRanks> sums, largest, gathered, scattered, cast, at_root, received;
  const auto failed = on_ranks(kRanks, [&](Rank& me) {
    const auto r = static_cast<std::size_t>(me.number);
    const double x = me.number + 1;
    Numbers mine{x, 10 * x, 100 * x};
    for (auto* all : {&sums, &largest, &gathered, &scattered, &cast, &at_root, &received}) (*all)[r] = {0, 0, 0};
    me.check(ncclAllReduce(mine.data(), sums[r].data(), 3, ncclFloat64, ncclSum, me.world, me.stream));
    me.check(ncclAllReduce(mine.data(), largest[r].data(), 3, ncclFloat64, ncclMax, me.world, me.stream));
    me.check(ncclAllGather(mine.data(), gathered[r].data(), 1, ncclFloat64, me.world, me.stream));
    me.check(ncclReduceScatter(mine.data(), scattered[r].data(), 1, ncclFloat64, ncclSum, me.world, me.stream));
    me.check(ncclBroadcast(mine.data(), cast[r].data(), 3, ncclFloat64, 1, me.world, me.stream));
    me.check(ncclReduce(mine.data(), at_root[r].data(), 3, ncclFloat64, ncclSum, 2, me.world, me.stream));
    me.check(ncclGroupStart());
    const int next = (me.number + 1) % kRanks, before = (me.number + 2) % kRanks;
    me.check(ncclSend(mine.data(), 3, ncclFloat64, next, me.world, me.stream));
    me.check(ncclRecv(received[r].data(), 3, ncclFloat64, before, me.world, me.stream));
    me.check(ncclGroupEnd());
    me.wait();
  });
  CHECK(failed == std::vector<std::string>(kRanks));
  for (std::size_t r = 0; r < kRanks; ++r) {
    const double before = static_cast<double>((r + 2) % kRanks + 1);
    CHECK(sums[r] == Numbers{6, 60, 600});
    CHECK(largest[r] == Numbers{3, 30, 300});
    CHECK(gathered[r] == Numbers{1, 2, 3});
    CHECK(scattered[r] == Numbers{sums[r][r], 0, 0});
    CHECK(cast[r] == Numbers{2, 20, 200});
    CHECK(at_root[r] == (r == 2 ? Numbers{6, 60, 600} : Numbers{0, 0, 0}));
    CHECK(received[r] == Numbers{before, 10 * before, 100 * before});
  }
}

TEST_CASE("two ranks that both send first wait for ever at the first use of their channels, and not later",
          "[machine]") {
  for (const bool opened : {false, true}) {
    const auto failed = on_ranks(
        2,
        [&, opened](Rank& me) {
          cudaStream_t other = nullptr;
          (void)cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
          const int peer = 1 - me.number;
          double a = 0, b = 1;
          if (opened)
            for (const int sender : {0, 1}) {
              me.check(me.number == sender ? ncclSend(&b, 1, ncclFloat64, peer, me.world, me.stream)
                                           : ncclRecv(&a, 1, ncclFloat64, peer, me.world, me.stream));
              me.wait();
            }
          if (me.failed.empty()) me.check(ncclSend(&b, 1, ncclFloat64, peer, me.world, me.stream));
          if (me.failed.empty()) me.check(ncclRecv(&a, 1, ncclFloat64, peer, me.world, other));
          me.wait();
          (void)cudaStreamDestroy(other);
        },
        on_cpu::gpu_with({{"CUDA_MODULE_LOADING", "EAGER"}}));
    for (const std::string& one : failed) CHECK((one.find("first use") == std::string::npos) == opened);
  }
}

TEST_CASE("a send that nobody receives does not end", "[machine]") {
  double x = 1;
  const auto failed = on_ranks(2, [&](Rank& me) {
    for (int i = 0; i < 2 - me.number; ++i)  // The second has no peer.
      me.check(me.number == 0 ? ncclSend(&x, 1, ncclFloat64, 1, me.world, me.stream)
                              : ncclRecv(&x, 1, ncclFloat64, 0, me.world, me.stream));
    me.wait();
  });
  CHECK(failed[0].find("number 1") != std::string::npos);
  CHECK(failed[1].empty());
}

TEST_CASE("ranks that do not call alike are told so", "[machine]") {
  std::array<double, 8> x{};
  const auto said = [&](const std::function<void(Rank&)>& body) {
    std::string all;
    for (const std::string& one : on_ranks(2, [&](Rank& me) {
           body(me);
           me.wait();
         }))
      all += one;
    return all;
  };
  const auto count = [&](Rank& me) {
    const std::size_t n = me.number == 0 ? 1 : 2;
    me.check(ncclAllReduce(x.data(), x.data(), n, ncclFloat64, ncclSum, me.world, me.stream));
  };
  const auto root = [&](Rank& me) {
    me.check(ncclBroadcast(x.data(), x.data(), 1, ncclFloat64, me.number, me.world, me.stream));
  };
  const auto operation = [&](Rank& me) {
    me.check(
        ncclAllReduce(x.data(), x.data(), 1, ncclFloat64, me.number == 0 ? ncclSum : ncclMax, me.world, me.stream));
  };
  const auto size = [&](Rank& me) {
    me.check(me.number == 0 ? ncclSend(x.data(), 2, ncclFloat64, 1, me.world, me.stream)
                            : ncclRecv(x.data(), 1, ncclFloat64, 0, me.world, me.stream));
  };
  CHECK(said(count).find("of 2 elements") != std::string::npos);
  CHECK(said(root).find("root 1") != std::string::npos);
  CHECK(said(operation).find("operation 2") != std::string::npos);
  CHECK(said(size).find("is received as") != std::string::npos);
}

TEST_CASE("a split gives each colour a communicator, in the order of keys", "[machine]") {
  std::array<double, 4> got{};
  const auto failed = on_ranks(4, [&](Rank& me) {
    ncclComm_t part = nullptr;
    me.check(ncclCommSplit(me.world, me.number == 3 ? NCCL_SPLIT_NOCOLOR : me.number % 2, -me.number, &part, nullptr));
    if (part == nullptr) return;
    double x = me.number;
    // Member 0 of colour 0 is rank 2.
    me.check(ncclBroadcast(&x, &got[static_cast<std::size_t>(me.number)], 1, ncclFloat64, 0, part, me.stream));
    me.wait();
    (void)ncclCommDestroy(part);
  });
  CHECK(failed == std::vector<std::string>(4));
  CHECK(got == std::array<double, 4>{2, 1, 2, 0});
}
