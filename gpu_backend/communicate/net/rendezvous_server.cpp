#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <iterator>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "gpu_backend/communicate/net/rendezvous.hpp"

namespace rehearse::net {

namespace {

using Clock = std::chrono::steady_clock;

/// A connection and what is known of who it is.
struct Peer {
  explicit Peer(Socket at) : socket(std::move(at)) {}
  Socket socket;
  std::string in, out;  ///< Bytes that have come, and those to be sent.
  Clock::time_point since = Clock::now();
  bool known = false;                ///< Has named the run.
  bool leaving = false;              ///< Closed once `out` is sent.
  std::optional<std::string> waits;  ///< For this key.
  std::optional<int> rank;           ///< Whose connection it is for the whole run: its end is the rank's.
  bool watches = false;              ///< Is told of the first failure.
};

/// Wakes the loop from other threads.
class Bell {
 public:
  Bell() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (fd_ < 0) throw Error(ErrorKind::check_failed, "cannot make an event", "rendezvous");
  }
  ~Bell() { ::close(fd_); }
  Bell(const Bell&) = delete;
  Bell& operator=(const Bell&) = delete;
  [[nodiscard]] int fd() const { return fd_; }
  void ring() const {
    const std::uint64_t one = 1;
    (void)!::write(fd_, &one, sizeof one);
  }
  void silence() const {
    std::uint64_t count = 0;
    (void)!::read(fd_, &count, sizeof count);
  }

 private:
  int fd_;
};

}  // namespace

/// One thread that reads and answers all connections, none of which it waits for.
class RendezvousServer::Loop {
 public:
  Loop(Socket listener, RunName run) : listener_(std::move(listener)), run_(std::move(run)) {
    thread_ = std::thread([this] { serve(); });
  }
  ~Loop() {
    {
      const std::lock_guard lock(mutex_);
      closing_ = true;
    }
    bell_.ring();
    thread_.join();
  }
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  [[nodiscard]] int port() const { return listener_.local_port(); }
  void fail_from_outside(std::string cause) {
    {
      const std::lock_guard lock(mutex_);
      if (told_.empty()) told_ = std::move(cause);
    }
    bell_.ring();
  }
  [[nodiscard]] std::size_t connections() const {
    const std::lock_guard lock(mutex_);
    return open_;
  }

 private:
  void serve() {
    while (true) {
      wait();
      bool closing = false;
      std::string told;
      {
        const std::lock_guard lock(mutex_);
        closing = closing_;
        told = told_;
      }
      if (!told.empty()) fail(told);
      if (closing) return close_all();
      for (auto at = peers_.begin(); at != peers_.end();) {
        const bool stays = tend(*at);
        if (!stays) leave(*at);
        at = stays ? std::next(at) : peers_.erase(at);
      }
      drop_strangers();
      const std::lock_guard lock(mutex_);
      open_ = peers_.size();
    }
  }

  /// Until something can be read or sent, the bell rings, or a stranger's time may be over; takes a new connection.
  void wait() {
    std::vector<pollfd> on{{bell_.fd(), POLLIN, 0}, {listener_.fd(), POLLIN, 0}};
    bool strangers = false;
    for (const Peer& p : peers_) {
      on.push_back({p.socket.fd(), static_cast<short>(POLLIN | (p.out.empty() ? 0 : POLLOUT)), 0});
      strangers |= !p.known;
    }
    if (::poll(on.data(), on.size(), strangers ? 1000 : -1) <= 0) return;
    bell_.silence();
    if (on[1].revents == 0) return;
    if (Socket next = accept_from(listener_); next.fd() >= 0) {
      peers_.emplace_back(std::move(next));
    } else {
      // No more descriptors, most likely: strangers must make room, and the run's own try again.
      drop_oldest_stranger();
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }

  /// False where the connection is done with.
  bool tend(Peer& p) {
    const bool there = p.leaving || p.socket.take(p.in);
    while (!p.leaving) {
      const Parsed parsed = parse(run_, p.in);
      if (parsed.known == Known::unfinished) break;
      if (parsed.known == Known::garbage) return false;
      if (parsed.known == Known::other_run) {
        refuse(p, fmt::format("this port serves another run, or one with another number of ranks than {}", run_.ranks));
        break;
      }
      p.known = true;
      p.in.erase(0, parsed.bytes);
      answer(p, parsed.frame);
    }
    if (!p.socket.give(p.out)) return false;
    return there && !(p.leaving && p.out.empty());
  }

  void answer(Peer& p, const Frame& frame) {
    switch (frame.ask) {
      case Ask::hello: return belong(p, frame.key);
      case Ask::set: return set(frame.key, frame.value);
      case Ask::get: return get(p, frame.key);
      case Ask::fail: return fail(fmt::format("rank {}: {}", frame.key, frame.value));
      case Ask::watch: return watch(p, frame.key);
      case Ask::goodbye: p.rank.reset(); p.leaving = true;
    }
  }

  void set(const std::string& key, const std::string& value) {
    values_[key] = value;
    for (Peer& p : peers_)
      if (p.waits == key) reply(p, 'y', value);
  }

  void get(Peer& p, const std::string& key) {
    if (const auto at = values_.find(key); at != values_.end())
      reply(p, 'y', at->second);
    else if (!cause_.empty())
      reply(p, 'n', cause_);
    else
      p.waits = key;
  }

  /// What a rank sets is lost with its connection, and others would wait for it for ever.
  void belong(Peer& p, const std::string& text) {
    int rank = -1;
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), rank);
    if (failed != std::errc{} || end != text.data() + text.size() || rank < 0 || rank >= run_.ranks)
      return refuse(p, fmt::format("rank {}: the run has {} ranks", text, run_.ranks));
    p.rank = rank;
  }

  void watch(Peer& p, const std::string& text) {
    belong(p, text);
    if (!p.rank) return;
    const bool twice = std::any_of(peers_.begin(), peers_.end(),
                                   [&](const Peer& q) { return &q != &p && q.watches && q.rank == p.rank; });
    if (twice) {
      const int rank = *std::exchange(p.rank, {});
      return fail(fmt::format("rank {}: two processes have joined with this rank", rank));
    }
    p.watches = true;
    p.socket.keep_alive();
    if (!cause_.empty()) p.out += text_of(cause_);
  }

  /// The first failure is told to all that watch or wait.
  void fail(const std::string& cause) {
    if (!cause_.empty()) return;
    cause_ = cause;
    for (Peer& p : peers_) {
      if (p.watches) p.out += text_of(cause_);
      if (p.waits) reply(p, 'n', cause_);
    }
  }

  static void reply(Peer& p, char found, const std::string& value) {
    p.waits.reset();
    p.out += found + text_of(value);
    p.leaving = true;  // Each get has a connection of its own.
  }
  /// As a watcher reads it.
  static void refuse(Peer& p, const std::string& why) {
    p.out += text_of(why);
    p.leaving = true;
  }

  void leave(const Peer& p) {
    if (p.rank) fail(fmt::format("rank {}: its process or its connection has ended", *p.rank));
  }

  void drop_strangers() {
    const auto now = Clock::now();
    std::erase_if(peers_, [&](const Peer& p) { return !p.known && now - p.since > kPatienceWithStrangers; });
    while (std::count_if(peers_.begin(), peers_.end(), [](const Peer& p) { return !p.known; }) >
           static_cast<std::ptrdiff_t>(kMostStrangers))
      drop_oldest_stranger();
  }
  void drop_oldest_stranger() {
    const auto at = std::find_if(peers_.begin(), peers_.end(), [](const Peer& p) { return !p.known; });
    if (at != peers_.end()) peers_.erase(at);
  }

  /// What has been said is sent, as far as it goes within a second.
  void close_all() {
    for (Peer& p : peers_)
      if (p.waits) reply(p, 'n', cause_);
    const auto until = Clock::now() + std::chrono::seconds(1);
    for (Peer& p : peers_)
      while (p.socket.give(p.out) && !p.out.empty() && Clock::now() < until)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    peers_.clear();
  }

  Socket listener_;
  RunName run_;
  Bell bell_;
  std::list<Peer> peers_;  ///< Oldest first.
  std::map<std::string, std::string> values_;
  std::string cause_;  ///< Of the first failure.
  mutable std::mutex mutex_;
  bool closing_ = false;  ///< This and the next two are others', too.
  std::string told_;
  std::size_t open_ = 0;
  std::thread thread_;
};

RendezvousServer::RendezvousServer(const std::string& host, int port, const RunName& run)
    : loop_(std::make_unique<Loop>(listen_on(host, port), run)) {}
RendezvousServer::~RendezvousServer() = default;
int RendezvousServer::port() const { return loop_->port(); }
void RendezvousServer::fail(int rank, const std::string& cause) {
  loop_->fail_from_outside(fmt::format("rank {}: {}", rank, cause));
}
std::size_t RendezvousServer::connections() const { return loop_->connections(); }

}  // namespace rehearse::net
