#include "gpu_backend/communicate/net/rendezvous.hpp"

#include <condition_variable>
#include <list>
#include <map>
#include <mutex>
#include <thread>

#include <fmt/format.h>

#include "core/base/error.hpp"

namespace rehearse::net {

namespace {

// A request is one of these bytes, a key and a value; `watch` and `goodbye` name their rank by the key.
constexpr char kSet = 's', kGet = 'g', kFail = 'f', kWatch = 'w', kGoodbye = 'b';

bool put_request(const Socket& to, char what, const std::string& key, const std::string& value) {
  return to.put(&what, 1) && to.put_text(key) && to.put_text(value);
}

}  // namespace

struct RendezvousServer::Shared {
  Socket listener;
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, std::string> values;
  std::string cause;  ///< Of the first failure.
  bool closing = false;
  std::list<Socket> connections;
  std::list<std::thread> threads;
  std::thread acceptor;

  explicit Shared(Socket at) : listener(std::move(at)) {
    acceptor = std::thread([this] {
      while (true) {
        Socket next = accept_from(listener);
        const std::lock_guard lock(mutex);
        if (next.fd() < 0 || closing) return;
        connections.push_back(std::move(next));
        threads.emplace_back([this, &connection = connections.back()] { serve(connection); });
      }
    });
  }
  ~Shared() {
    {
      const std::lock_guard lock(mutex);
      closing = true;
      changed.notify_all();
      listener.shut();
      for (const Socket& c : connections) c.shut();
    }
    acceptor.join();
    for (std::thread& t : threads) t.join();
  }

  void fail(const std::string& why) {
    const std::lock_guard lock(mutex);
    if (cause.empty()) cause = why;
    changed.notify_all();
  }

  void serve(const Socket& connection) {
    char what = 0;
    std::string key, value;
    while (connection.get(&what, 1) && connection.get_text(key) && connection.get_text(value)) {
      if (what == kSet)
        set(key, value);
      else if (what == kFail)
        fail(fmt::format("rank {}: {}", key, value));
      else if (what == kWatch)
        return watch(connection, key);
      else if (what != kGet || !answer(connection, key))
        return;
    }
  }
  void set(const std::string& key, const std::string& value) {
    const std::lock_guard lock(mutex);
    values[key] = value;
    changed.notify_all();
  }
  bool answer(const Socket& connection, const std::string& key) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return closing || !cause.empty() || values.contains(key); });
    const bool found = values.contains(key);
    const std::string value = found ? values[key] : cause;
    lock.unlock();
    return connection.put(found ? "y" : "n", 1) && connection.put_text(value);
  }
  /// A connection of its own per rank: its end without a goodbye is the rank's death, and what is sent over it is
  /// another's.
  void watch(const Socket& connection, const std::string& rank) {
    std::thread teller([this, &connection] {
      std::unique_lock lock(mutex);
      changed.wait(lock, [this] { return closing || !cause.empty(); });
      const std::string why = cause;
      lock.unlock();
      if (!why.empty()) (void)connection.put_text(why);
    });
    char what = 0;
    std::string key, value;
    const bool goodbye = connection.get(&what, 1) && what == kGoodbye;
    {
      const std::lock_guard lock(mutex);
      if (!goodbye && !closing && cause.empty()) cause = fmt::format("rank {}: its process has ended", rank);
      changed.notify_all();
    }
    teller.join();  // With the server, or with the first failure.
  }
};

RendezvousServer::RendezvousServer(int port, bool only_here)
    : shared_(std::make_unique<Shared>(listen_on(port, only_here))) {}
RendezvousServer::~RendezvousServer() = default;
int RendezvousServer::port() const { return shared_->listener.local_port(); }
void RendezvousServer::fail(int rank, const std::string& cause) {
  shared_->fail(fmt::format("rank {}: {}", rank, cause));
}

struct RendezvousClient::Shared {
  std::string host;
  int port = 0;
  Socket requests, watched;
  std::string rank;
  std::mutex mutex;
  std::thread watcher;
  bool leaving = false;
  bool failed_here = false;
};

RendezvousClient::RendezvousClient(const std::string& host, int port, int rank, OnFailure on_failure)
    : shared_(std::make_unique<Shared>()) {
  constexpr double kPatience = 60;
  Shared& s = *shared_;
  s.host = host;
  s.port = port;
  s.rank = std::to_string(rank);
  s.requests = connect_to(host, port, kPatience);
  s.watched = connect_to(host, port, kPatience);
  if (!put_request(s.watched, kWatch, s.rank, ""))
    throw Error(ErrorKind::check_failed, "the rendezvous closed the connection", fmt::format("{}:{}", host, port));
  s.watcher = std::thread([&s, on_failure = std::move(on_failure)] {
    std::string cause;
    const bool told = s.watched.get_text(cause);
    {
      const std::lock_guard lock(s.mutex);
      if (s.leaving || s.failed_here) return;
    }
    on_failure(told ? cause : "the process that serves the rendezvous has ended");
  });
}

RendezvousClient::~RendezvousClient() {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->leaving = true;
  }
  (void)shared_->watched.put(&kGoodbye, 1);
  shared_->watched.shut();
  shared_->watcher.join();
}

void RendezvousClient::set(const std::string& key, const std::string& value) {
  const std::lock_guard lock(shared_->mutex);
  if (!put_request(shared_->requests, kSet, key, value))
    throw Error(ErrorKind::check_failed, "the process that serves the rendezvous has ended");
}

std::string RendezvousClient::get(const std::string& key) {
  // Threads of one rank wait for keys at the same time as others set them, so that each wait has a connection of its
  // own.
  const Socket connection = connect_to(shared_->host, shared_->port, 10);
  char found = 0;
  std::string value;
  if (!put_request(connection, kGet, key, "") || !connection.get(&found, 1) || !connection.get_text(value))
    throw Error(ErrorKind::check_failed, "the process that serves the rendezvous has ended");
  if (found != 'y') throw Error(ErrorKind::check_failed, value.empty() ? "the rendezvous was closed" : value);
  return value;
}

void RendezvousClient::fail(const std::string& cause) noexcept {
  const std::lock_guard lock(shared_->mutex);
  shared_->failed_here = true;
  (void)put_request(shared_->requests, kFail, shared_->rank, cause);
}

std::string RendezvousClient::local_address() const { return shared_->watched.local_address(); }

}  // namespace rehearse::net
