// Memory that ranks share: whatever the sizes and whoever comes first, what is sent arrives.

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <future>
#include <map>
#include <mutex>
#include <numeric>
#include <thread>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "gpu_backend/communicate/memory/memory_communicator.hpp"
#include "gpu_backend/communicate/memory/neighbours.hpp"
#include "gpu_backend/execute/random.hpp"
#include "tests/support/catch.hpp"

using namespace rehearse;

namespace {

/// Keys and values of ranks that are threads. After a failure nobody waits.
class Board {
 public:
  MeetingBoard view() {
    return {[this](const std::string& key, const std::string& value) {
              const std::lock_guard lock(mutex_);
              values_[key] = value;
              changed_.notify_all();
            },
            [this](const std::string& key) {
              std::unique_lock lock(mutex_);
              changed_.wait(lock, [&] { return failed_ || values_.contains(key); });
              if (!values_.contains(key)) throw Error(ErrorKind::check_failed, "another member has failed");
              return values_.at(key);
            }};
  }
  void fail() {
    const std::lock_guard lock(mutex_);
    failed_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
  bool failed_ = false;
};

/// `body(member, board)` as each of `members`, a thread each. Throws what the first one to fail has thrown.
template <class F>
void as_members(int members, const F& body) {
  Board board;
  std::mutex mutex;
  std::exception_ptr first;
  std::vector<std::thread> all;
  for (int m = 0; m < members; ++m)
    all.emplace_back([&, m] {
      try {
        body(m, board.view());
      } catch (...) {
        {
          const std::lock_guard lock(mutex);
          if (!first) first = std::current_exception();
        }
        board.fail();
      }
    });
  for (std::thread& one : all) one.join();
  if (first) std::rethrow_exception(first);
}

void complete(Communicator& who, const CollectiveCall& call) {
  std::promise<void> ended;
  who.start(call, [&](std::exception_ptr failed) { failed ? ended.set_exception(failed) : ended.set_value(); });
  ended.get_future().get();
}

/// Of either sign and all sizes, so that another order of additions gives other bits.
std::vector<float> numbers(std::size_t n, int member) {
  std::vector<float> out(n);
  const RandomKey key(static_cast<std::uint64_t>(member) + 1);
  for (std::size_t i = 0; i < n; ++i)
    out[i] = static_cast<float>((key.uniform(2 * i) - 0.5) * std::exp2(20 * key.uniform(2 * i + 1)));
  return out;
}

std::vector<float> all_reduced(Communicator& who, std::vector<float> x) {
  CollectiveCall call;
  call.receive = reinterpret_cast<std::byte*>(x.data());
  call.receive_counts = {static_cast<std::int64_t>(x.size())};
  call.name = "sum";
  complete(who, call);
  return x;
}

}  // namespace

TEST_CASE("shared memory is the same for all that open it, and begins as zeros") {
  SharedBlock made(5000);
  SharedBlock opened(made.address());
  CHECK(opened.bytes() == 5000);
  CHECK(std::all_of(opened.data(), opened.data() + 5000, [](std::byte b) { return b == std::byte{0}; }));
  made.data()[4999] = std::byte{7};
  CHECK(opened.data()[4999] == std::byte{7});
  CHECK_THROWS_AS(SharedBlock("/proc/self/fd/no such file"), Error);
}

TEST_CASE("ranks of one machine find that they share memory") {
  as_members(3, [](int rank, const MeetingBoard& board) {
    const Neighbours neighbours(board, rank, 3);
    CHECK(neighbours.share_memory({0, 1, 2}));
  });
}

TEST_CASE("a rank of another machine shares no memory, and all know it") {
  as_members(3, [](int rank, MeetingBoard board) {
    if (rank == 2) {
      const auto set = board.set;
      board.set = [set](const std::string& key, const std::string& value) {
        set(key, value.find('\n') != std::string::npos ? "elsewhere" + value : value);
      };
    }
    const Neighbours neighbours(board, rank, 3);
    CHECK(neighbours.share_memory({0, 1}));
    CHECK_FALSE(neighbours.share_memory({0, 2}));
    CHECK_FALSE(neighbours.share_memory({0, 1, 2}));
  });
}

TEST_CASE("a sum through memory is the sum, with the same bits for all members") {
  for (const int members : {2, 3, 4})
    for (const std::size_t n : {std::size_t{1}, std::size_t{17}, std::size_t{50'000},
                                std::size_t{1'000'003}}) {  // Up to several times what a pipe holds.
      CAPTURE(members, n);
      std::vector<std::vector<float>> sums(static_cast<std::size_t>(members));
      as_members(members, [&](int m, const MeetingBoard& board) {
        nth(sums, m) = all_reduced(*memory_communicator(board, "sum", m, members), numbers(n, m));
      });
      std::vector<double> wanted(n, 0), size(n, 0);
      for (int m = 0; m < members; ++m) {
        const auto x = numbers(n, m);
        for (std::size_t i = 0; i < n; ++i) wanted[i] += x[i], size[i] += std::abs(x[i]);
      }
      bool right = true;
      // Some roundings to fp32.
      for (std::size_t i = 0; i < n; ++i) right = right && std::abs(sums[0][i] - wanted[i]) <= 4e-7 * size[i];
      CHECK(right);
      for (const auto& other : sums) CHECK(std::memcmp(other.data(), sums[0].data(), n * sizeof(float)) == 0);
    }
}

TEST_CASE("calls of all sizes follow each other in one group") {
  constexpr int kMembers = 2, kCalls = 200;
  as_members(kMembers, [](int m, const MeetingBoard& board) {
    const auto who = memory_communicator(board, "mixed", m, kMembers);
    for (int k = 0; k < kCalls; ++k) {
      const auto n = static_cast<std::size_t>(RandomKey(3).uniform(static_cast<std::uint64_t>(k)) * 70'000);
      const auto byte = [&](int from) { return static_cast<std::byte>(k + 100 * from); };
      std::vector<std::byte> mine(n + static_cast<std::size_t>(m), byte(m)), all(2 * n + 1);
      CollectiveCall call;
      call.op = CollectiveOp::all_gather;
      call.type = ElementType::byte;
      call.send = mine.data();
      call.receive = all.data();
      const auto length = static_cast<std::int64_t>(n);
      call.send_counts = {length + m};
      call.receive_counts = {length, length + 1};
      complete(*who, call);
      REQUIRE(std::all_of(all.begin(), all.begin() + length, [&](std::byte b) { return b == byte(0); }));
      REQUIRE(std::all_of(all.begin() + length, all.end(), [&](std::byte b) { return b == byte(1); }));
    }
  });
}

TEST_CASE("a sender whose last message is on its way may leave, however late the receiver comes") {
  std::vector<double> received(3);
  as_members(2, [&](int m, MeetingBoard board) {
    const auto get = board.get;
    if (m == 1)
      board.get = [get](const std::string& key) {
        const std::string value = get(key);
        std::this_thread::sleep_for(std::chrono::milliseconds(30));  // Longer than a sender needs that does not wait.
        return value;
      };
    std::vector<double> sent{1, 2, 3};
    const auto channel = memory_channel(board, "edge", m == 0);
    std::promise<void> ended;
    const Done done = [&](std::exception_ptr failed) { failed ? ended.set_exception(failed) : ended.set_value(); };
    if (m == 0)
      channel->send(reinterpret_cast<std::byte*>(sent.data()), 24, 0, done);
    else
      channel->receive(reinterpret_cast<std::byte*>(received.data()), 24, 0, done);
    ended.get_future().get();
  });
  CHECK(received == std::vector<double>{1, 2, 3});
}

TEST_CASE("members that disagree about a size are told") {
  CHECK_THROWS_WITH(as_members(2,
                               [](int m, const MeetingBoard& board) {
                                 const auto who = memory_communicator(board, "unlike", m, 2);
                                 (void)all_reduced(*who, numbers(m == 0 ? 5 : 4, m));
                               }),
                    Catch::Matchers::ContainsSubstring("20 bytes where 16 are expected") ||
                        Catch::Matchers::ContainsSubstring("16 bytes where 20 are expected"));
}
