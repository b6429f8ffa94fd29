#include "gpu_backend/communicate/memory/memory_communicator.hpp"

#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "gpu_backend/communicate/local_world.hpp"
#include "gpu_backend/execute/caller.hpp"

namespace rehearse {

namespace {

/// Made by the thread that first uses it: ranks make their groups in different orders.
class LatePipes {
 public:
  LatePipes(MeetingBoard board, std::string name, int member, int members)
      : board_(std::move(board)), name_(std::move(name)), member_(member), members_(members) {}
  Pipes& get() {
    if (!pipes_) pipes_ = std::make_unique<Pipes>(board_, name_, member_, members_);
    return *pipes_;
  }
  [[nodiscard]] int member() const { return member_; }
  [[nodiscard]] int members() const { return members_; }

 private:
  MeetingBoard board_;
  std::string name_;
  int member_, members_;
  std::unique_ptr<Pipes> pipes_;
};

/// Where every member's part of a buffer lies, in bytes.
struct Parts {
  std::vector<std::size_t> first, bytes;
  Parts(const std::vector<std::int64_t>& counts, ElementType type) {
    std::size_t at = 0;
    for (const std::int64_t c : counts) {
      first.push_back(at);
      bytes.push_back(static_cast<std::size_t>(c) * size_of(type));
      at += bytes.back();
    }
  }
};

void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
}

/// `n` elements divided among members as evenly as whole elements allow.
std::vector<std::int64_t> evenly(std::int64_t n, int members) {
  std::vector<std::int64_t> out;
  for (int i = 0; i < members; ++i) out.push_back(n * (i + 1) / members - n * i / members);
  return out;
}

class MemoryCommunicator final : public Communicator {
 public:
  MemoryCommunicator(MeetingBoard board, std::string name, int member, int members)
      : pipes_(std::move(board), std::move(name), member, members) {}
  void start(CollectiveCall call, Done done) override {
    caller_.call([this, call = std::move(call)] { run(call); }, std::move(done));
  }

 private:
  void run(const CollectiveCall& c) {
    switch (c.op) {
      case CollectiveOp::all_reduce: return all_reduce(c);
      case CollectiveOp::broadcast: return broadcast(c);
      case CollectiveOp::all_gather: return all_gather(c.send, Parts(c.receive_counts, c.type), c.receive);
      case CollectiveOp::all_to_all: return all_to_all(c);
      case CollectiveOp::reduce_scatter: return reduce_scatter(c, c.send, Parts(c.send_counts, c.type), c.receive);
      default: throw Error(ErrorKind::unavailable, fmt::format("{}: no such collective between CPU ranks", c.name));
    }
  }
  [[nodiscard]] std::size_t me() const { return static_cast<std::size_t>(pipes_.member()); }
  template <class F>
  void for_others(const F& f) const {
    for (int i = 0; i < pipes_.members(); ++i)
      if (i != pipes_.member()) f(i, static_cast<std::size_t>(i));
  }

  void all_reduce(const CollectiveCall& c) {
    const std::int64_t n = c.receive_counts[0];
    if (n == 0) return;
    // Two members add the other's to their own: as many bytes as in two phases, and one wait less. Both get the same
    // bits, because a + b = b + a.
    if (pipes_.members() == 2) {
      const std::size_t bytes = static_cast<std::size_t>(n) * size_of(c.type);
      const int other = 1 - pipes_.member();
      const Pipes::Sent sent{other, c.receive, bytes};
      const Pipes::Received received{other, c.receive, bytes};
      return pipes_.get().exchange({&sent, 1}, {&received, 1}, Pipes::Reduction{c.type, c.reduce, true});
    }
    const Parts parts(evenly(n, pipes_.members()), c.type);
    std::byte* const mine = c.receive + parts.first[me()];
    reduce_scatter(c, c.receive, parts, mine);
    all_gather(mine, parts, c.receive);
  }

  /// `receive` may lie within `send`, where the member's own part is: nobody else wants that.
  void reduce_scatter(const CollectiveCall& c, const std::byte* send, const Parts& parts, std::byte* receive) {
    std::vector<Pipes::Sent> sent;
    std::vector<Pipes::Received> received;
    const bool in_place = receive == send + parts.first[me()];
    std::vector<std::byte> sum;
    if (!in_place) sum.assign(send + parts.first[me()], send + parts.first[me()] + parts.bytes[me()]);
    std::byte* const into = in_place ? receive : sum.data();
    for_others([&](int i, std::size_t at) {
      sent.push_back({i, send + parts.first[at], parts.bytes[at]});
      received.push_back({i, into, parts.bytes[me()]});
    });
    pipes_.get().exchange(sent, received, Pipes::Reduction{c.type, c.reduce, false});
    if (!in_place) copy_bytes(receive, sum.data(), sum.size());
  }

  void all_gather(const std::byte* send, const Parts& parts, std::byte* receive) {
    std::vector<Pipes::Sent> sent;
    std::vector<Pipes::Received> received;
    for_others([&](int i, std::size_t at) {
      sent.push_back({i, send, parts.bytes[me()]});
      received.push_back({i, receive + parts.first[at], parts.bytes[at]});
    });
    copy_bytes(receive + parts.first[me()], send, parts.bytes[me()]);
    pipes_.get().exchange(sent, received);
  }

  void all_to_all(const CollectiveCall& c) {
    const Parts from(c.send_counts, c.type), to(c.receive_counts, c.type);
    std::vector<Pipes::Sent> sent;
    std::vector<Pipes::Received> received;
    for_others([&](int i, std::size_t at) {
      sent.push_back({i, c.send + from.first[at], from.bytes[at]});
      received.push_back({i, c.receive + to.first[at], to.bytes[at]});
    });
    copy_bytes(c.receive + to.first[me()], c.send + from.first[me()], to.bytes[me()]);
    pipes_.get().exchange(sent, received);
  }

  void broadcast(const CollectiveCall& c) {
    const std::size_t bytes = static_cast<std::size_t>(c.receive_counts[0]) * size_of(c.type);
    std::vector<Pipes::Sent> sent;
    std::vector<Pipes::Received> received;
    if (pipes_.member() == c.root)
      for_others([&](int i, std::size_t) { sent.push_back({i, c.receive, bytes}); });
    else
      received.push_back({c.root, c.receive, bytes});
    pipes_.get().exchange(sent, received);
  }

  LatePipes pipes_;
  Caller caller_;
};

/// A message is its label, then itself.
class MemoryChannel final : public Channel {
 public:
  MemoryChannel(MeetingBoard board, std::string name, bool sends)
      : name_(name), pipes_(std::move(board), std::move(name), sends ? 0 : 1, 2) {}
  void send(const std::byte* data, std::size_t bytes, std::uint64_t label, Done done) override {
    caller_.call(
        [this, data, bytes, label] {
          put(reinterpret_cast<const std::byte*>(&label), sizeof label);
          put(data, bytes);
        },
        std::move(done));
  }
  void receive(std::byte* data, std::size_t bytes, std::uint64_t label, Done done) override {
    caller_.call(
        [this, data, bytes, label] {
          std::uint64_t given = 0;
          take(reinterpret_cast<std::byte*>(&given), sizeof given);
          if (given != label)
            throw Error(ErrorKind::check_failed,
                        fmt::format("message on {}: sender and receiver disagree about which it is", name_));
          take(data, bytes);
        },
        std::move(done));
  }

 private:
  void put(const std::byte* data, std::size_t bytes) {
    const Pipes::Sent sent{1, data, bytes};
    pipes_.get().exchange({&sent, 1}, {});
  }
  void take(std::byte* data, std::size_t bytes) {
    const Pipes::Received received{0, data, bytes};
    pipes_.get().exchange({}, {&received, 1});
  }

  std::string name_;
  LatePipes pipes_;
  Caller caller_;
};

}  // namespace

std::unique_ptr<Communicator> memory_communicator(MeetingBoard board, std::string name, int member, int members) {
  return std::make_unique<MemoryCommunicator>(std::move(board), std::move(name), member, members);
}
std::unique_ptr<Channel> memory_channel(MeetingBoard board, std::string name, bool sends) {
  return std::make_unique<MemoryChannel>(std::move(board), std::move(name), sends);
}

}  // namespace rehearse
