#include "gpu_backend/communicate/local_world.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <future>
#include <map>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"

namespace rehearse {

namespace {

struct Arrival {
  CollectiveCall call;
  Done done;
};

/// One collective: complete when every member has come.
struct Round {
  std::vector<std::optional<Arrival>> members;
  std::size_t arrived = 0;
};

void exchange(Round& round) {
  auto& m = round.members;
  const std::size_t n = m.size();
  const CollectiveCall& first = m[0]->call;
  const std::size_t size = size_of(first.type);
  const auto bytes = [size](std::int64_t elements) { return static_cast<std::size_t>(elements) * size; };
  const auto offset = [&](const std::vector<std::int64_t>& counts, std::size_t i) {
    std::int64_t sum = 0;
    for (std::size_t k = 0; k < i; ++k) sum += counts[k];
    return bytes(sum);
  };
  switch (first.op) {
    case CollectiveOp::all_reduce:
      for (std::size_t i = 1; i < n; ++i)
        reduce_into(m[0]->call.receive, m[i]->call.receive, first.receive_counts[0], first.type, first.reduce);
      for (std::size_t i = 1; i < n; ++i)
        std::memcpy(m[i]->call.receive, m[0]->call.receive, bytes(first.receive_counts[0]));
      break;
    case CollectiveOp::broadcast:
      for (std::size_t i = 0; i < n; ++i)
        if (i != static_cast<std::size_t>(first.root))
          std::memcpy(m[i]->call.receive, nth(m, first.root)->call.receive, bytes(first.receive_counts[0]));
      break;
    case CollectiveOp::reduce_scatter:
      for (std::size_t i = 0; i < n; ++i) {
        const CollectiveCall& to = m[i]->call;
        std::vector<std::byte> sum;
        for (std::size_t j = 0; j < n; ++j) {
          const std::byte* part = m[j]->call.send + offset(m[j]->call.send_counts, i);
          if (j == 0)
            sum.assign(part, part + bytes(to.receive_counts[0]));
          else
            reduce_into(sum.data(), part, to.receive_counts[0], to.type, to.reduce);
        }
        std::copy(sum.begin(), sum.end(), to.receive);  // Which may lie within what it sends.
      }
      break;
    case CollectiveOp::all_gather:
      for (std::size_t i = 0; i < n; ++i)
        for (std::size_t j = 0; j < n; ++j)
          std::memcpy(m[i]->call.receive + offset(m[i]->call.receive_counts, j), m[j]->call.send,
                      bytes(m[j]->call.send_counts[0]));
      break;
    case CollectiveOp::all_to_all:
      for (std::size_t i = 0; i < n; ++i)
        for (std::size_t j = 0; j < n; ++j)
          std::memcpy(m[i]->call.receive + offset(m[i]->call.receive_counts, j),
                      m[j]->call.send + offset(m[j]->call.send_counts, i), bytes(m[i]->call.receive_counts[j]));
      break;
    default: throw Error(ErrorKind::unavailable, fmt::format("{}: no such collective between threads", first.name));
  }
}

/// `group`: name of the communicator. Members are numbered by their place in it.
void check_alike(const Round& round, const std::string& group) {
  constexpr const char* kHint = "all ranks have to run the same plan: same scenario, same program version";
  const CollectiveCall& a = round.members[0]->call;
  for (std::size_t i = 1; i < round.members.size(); ++i) {
    const CollectiveCall& b = round.members[i]->call;
    if (b.op != a.op || b.name != a.name || b.type != a.type ||
        (a.op == CollectiveOp::all_reduce && b.receive_counts != a.receive_counts))
      throw Error(ErrorKind::check_failed,
                  fmt::format("member 0 calls '{}' ({} of {}), member {} calls '{}' ({} of {})", a.name, name_of(a.op),
                              a.receive_counts.empty() ? 0 : a.receive_counts[0], i, b.name, name_of(b.op),
                              b.receive_counts.empty() ? 0 : b.receive_counts[0]),
                  "group " + group, kHint);
  }
  if (a.op != CollectiveOp::all_to_all) return;
  for (std::size_t i = 0; i < round.members.size(); ++i) {
    for (std::size_t j = 0; j < round.members.size(); ++j) {
      if (const std::int64_t wanted = round.members[i]->call.receive_counts.at(j),
          given = round.members[j]->call.send_counts.at(i);
          wanted != given)
        throw Error(
            ErrorKind::check_failed,
            fmt::format("{}: member {} sends {} elements to member {}, which expects {}", a.name, j, given, i, wanted),
            "group " + group, kHint);
    }
  }
}

struct Group {
  std::map<std::uint64_t, Round> rounds;
};

struct Message {
  std::vector<std::byte> data;
  std::uint64_t label;
};
struct Waiting {
  std::byte* data;
  std::size_t bytes;
  std::uint64_t label;
  Done done;
};
struct Pipe {
  std::deque<Message> sent;
  std::deque<Waiting> wanted;
};

}  // namespace

struct LocalWorld::Shared {
  explicit Shared(int n) : ranks(n) {}
  int ranks;
  std::mutex mutex;
  std::map<std::string, Group> groups;
  std::map<std::string, Pipe> pipes;
  std::string cause;  ///< Of the first failure; empty while there is none.

  [[nodiscard]] std::exception_ptr failure() const {
    return std::make_exception_ptr(Error(ErrorKind::check_failed, cause));
  }

  void arrive(const std::string& name, std::size_t size, std::size_t index, std::uint64_t number, Arrival arrival) {
    std::unique_lock lock(mutex);
    if (!cause.empty()) return arrival.done(failure());
    Round& round = groups[name].rounds[number];
    round.members.resize(size);
    round.members[index] = std::move(arrival);
    if (++round.arrived < size) return;
    Round complete = std::move(round);
    groups[name].rounds.erase(number);
    lock.unlock();
    std::exception_ptr failed;
    try {
      check_alike(complete, name);
      exchange(complete);
    } catch (...) {
      failed = std::current_exception();
    }
    for (auto& m : complete.members) m->done(failed);
  }

  static void deliver(const std::string& name, const Message& message, const Waiting& to) {
    std::exception_ptr failed;
    if (message.data.size() != to.bytes || message.label != to.label)
      failed = std::make_exception_ptr(
          Error(ErrorKind::check_failed,
                fmt::format("message on {}: sender and receiver disagree about which or how large it is", name)));
    else
      std::memcpy(to.data, message.data.data(), to.bytes);
    to.done(failed);
  }

  /// Ends every call in flight.
  void fail(const std::string& why) {
    std::vector<Done> ended;
    {
      const std::lock_guard lock(mutex);
      if (!cause.empty()) return;
      cause = why;
      for (auto& [name, group] : groups)
        for (auto& [number, round] : group.rounds)
          for (auto& m : round.members)
            if (m) ended.push_back(m->done);
      for (auto& [name, pipe] : pipes)
        for (const Waiting& w : pipe.wanted) ended.push_back(w.done);
      groups.clear();
      pipes.clear();
    }
    for (const Done& done : ended) done(failure());
  }
};

class LocalTransport final : public Transport {
 public:
  LocalTransport(std::shared_ptr<LocalWorld::Shared> shared, int rank) : shared_(std::move(shared)), rank_(rank) {
    std::vector<int> all(static_cast<std::size_t>(shared_->ranks));
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int>(i);
    control_ = communicator("control", all);
  }
  int rank() const override { return rank_; }
  int ranks() const override { return shared_->ranks; }

  std::unique_ptr<Communicator> communicator(const std::string& name, const std::vector<int>& members) override {
    const auto at = std::find(members.begin(), members.end(), rank_);
    return std::make_unique<Members>(shared_, fmt::format("{}:{}", name, fmt::join(members, ",")), members.size(),
                                     static_cast<std::size_t>(at - members.begin()));
  }
  std::unique_ptr<Channel> channel(const std::string& name, int from, int to) override {
    return std::make_unique<Ends>(shared_, fmt::format("{}:{}>{}", name, from, to));
  }

  void sum(std::vector<double>& values) override {
    CollectiveCall call;
    call.type = ElementType::real64;
    call.receive = reinterpret_cast<std::byte*>(values.data());
    call.receive_counts = {static_cast<std::int64_t>(values.size())};
    call.name = "control";
    const auto ended = std::make_shared<std::promise<void>>();  // Lives until the thread that ends it has left it.
    control_->start(call, [ended](const std::exception_ptr& failed) {
      failed ? ended->set_exception(failed) : ended->set_value();
    });
    ended->get_future().get();
  }
  void fail(const std::string& cause) noexcept override { shared_->fail(cause); }

 private:
  class Members final : public Communicator {
   public:
    Members(std::shared_ptr<LocalWorld::Shared> shared, std::string name, std::size_t size, std::size_t index)
        : shared_(std::move(shared)), name_(std::move(name)), size_(size), index_(index) {}
    void start(CollectiveCall call, Done done) override {
      shared_->arrive(name_, size_, index_, next_++, {std::move(call), std::move(done)});
    }

   private:
    std::shared_ptr<LocalWorld::Shared> shared_;
    std::string name_;
    std::size_t size_, index_;
    std::uint64_t next_ = 0;
  };

  class Ends final : public Channel {
   public:
    Ends(std::shared_ptr<LocalWorld::Shared> shared, std::string name)
        : shared_(std::move(shared)), name_(std::move(name)) {}
    void send(const std::byte* data, std::size_t bytes, std::uint64_t label, Done done) override {
      Message message{{data, data + bytes}, label};
      std::optional<Waiting> to;
      {
        const std::lock_guard lock(shared_->mutex);
        if (!shared_->cause.empty()) return done(shared_->failure());
        Pipe& pipe = shared_->pipes[name_];
        if (pipe.wanted.empty()) {
          pipe.sent.push_back(std::move(message));
        } else {
          to = std::move(pipe.wanted.front());
          pipe.wanted.pop_front();
        }
      }
      // NOLINTNEXTLINE(bugprone-use-after-move): it is moved where nobody waits for it, and `to` is empty then.
      if (to) LocalWorld::Shared::deliver(name_, message, *to);
      done(nullptr);
    }
    void receive(std::byte* data, std::size_t bytes, std::uint64_t label, Done done) override {
      std::optional<Message> message;
      Waiting to{data, bytes, label, std::move(done)};
      {
        const std::lock_guard lock(shared_->mutex);
        if (!shared_->cause.empty()) return to.done(shared_->failure());
        Pipe& pipe = shared_->pipes[name_];
        if (pipe.sent.empty()) {
          pipe.wanted.push_back(std::move(to));
          return;
        }
        message = std::move(pipe.sent.front());
        pipe.sent.pop_front();
      }
      LocalWorld::Shared::deliver(name_, *message, to);
    }

   private:
    std::shared_ptr<LocalWorld::Shared> shared_;
    std::string name_;
  };

  std::shared_ptr<LocalWorld::Shared> shared_;
  int rank_;
  std::unique_ptr<Communicator> control_;
};

LocalWorld::LocalWorld(int ranks) : shared_(std::make_shared<Shared>(ranks)) {}
LocalWorld::~LocalWorld() = default;
std::unique_ptr<Transport> LocalWorld::transport(int rank) { return std::make_unique<LocalTransport>(shared_, rank); }

void run_locally(int ranks, const std::function<void(Transport&)>& body) {
  LocalWorld world(ranks);
  std::mutex mutex;
  std::exception_ptr first;
  const auto run = [&](int rank) {
    const auto transport = world.transport(rank);
    try {
      body(*transport);
    } catch (const std::exception& e) {
      {
        const std::lock_guard lock(mutex);
        if (!first) first = std::current_exception();
      }
      transport->fail(fmt::format("rank {}: {}", rank, e.what()));
    }
  };
  std::vector<std::thread> threads;
  for (int r = 1; r < ranks; ++r) {
    try {
      threads.emplace_back(run, r);
    } catch (const std::system_error& e) {
      {
        const std::lock_guard lock(mutex);
        first = std::make_exception_ptr(
            Error(ErrorKind::check_failed, fmt::format("cannot start the thread of rank {}: {}", r, e.what())));
      }
      world.transport(r)->fail("it could not be started");  // Those that run must not wait for it.
      break;
    }
  }
  run(0);
  for (std::thread& t : threads) t.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace rehearse
