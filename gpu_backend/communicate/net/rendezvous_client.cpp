#include <mutex>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "gpu_backend/communicate/net/rendezvous.hpp"

namespace rehearse::net {

namespace {

[[noreturn]] void fail_at(const std::string& what, const std::string& host, int port) {
  throw Error(ErrorKind::check_failed, what, fmt::format("{}:{}", host, port));
}

}  // namespace

struct RendezvousClient::Shared {
  std::string host;
  int port = 0;
  RunName run;
  Socket requests, watched;
  std::string rank;
  std::mutex mutex;
  std::thread watcher;
  bool leaving = false;
  bool failed_here = false;

  [[nodiscard]] bool ask(const Socket& to, const Frame& frame) const {
    const std::string bytes = encode(run, frame);
    return to.put(bytes.data(), bytes.size());
  }
};

RendezvousClient::RendezvousClient(const std::string& host, int port, RunName run, int rank, OnFailure on_failure)
    : shared_(std::make_unique<Shared>()) {
  constexpr double kPatience = 60;
  Shared& s = *shared_;
  s.host = host;
  s.port = port;
  s.run = std::move(run);
  s.rank = std::to_string(rank);
  s.requests = connect_to(host, port, kPatience);
  s.watched = connect_to(host, port, kPatience);
  s.watched.keep_alive();
  if (!s.ask(s.requests, {Ask::hello, s.rank, {}}) || !s.ask(s.watched, {Ask::watch, s.rank, {}}))
    fail_at("the rendezvous closed the connection", host, port);
  s.watcher = std::thread([&s, on_failure = std::move(on_failure)] {
    std::string cause;
    const bool told = s.watched.get_text(cause, kLongestValue);
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
  for (const Socket* s : {&shared_->requests, &shared_->watched})
    (void)shared_->ask(*s, {Ask::goodbye, shared_->rank, {}});
  shared_->watched.shut();
  shared_->watcher.join();
}

void RendezvousClient::set(const std::string& key, const std::string& value) {
  const std::lock_guard lock(shared_->mutex);
  if (!shared_->ask(shared_->requests, {Ask::set, key, value}))
    fail_at("the process that serves the rendezvous has ended", shared_->host, shared_->port);
}

std::string RendezvousClient::get(const std::string& key) {
  // Threads of one rank wait for keys at the same time as others set them, so that each wait has a connection of its
  // own.
  const Socket connection = connect_to(shared_->host, shared_->port, 10);
  char found = 0;
  std::string value;
  if (!shared_->ask(connection, {Ask::get, key, {}}) || !connection.get(&found, 1) ||
      !connection.get_text(value, kLongestValue))
    fail_at("the process that serves the rendezvous has ended", shared_->host, shared_->port);
  if (found != 'y') fail_at(value.empty() ? "the rendezvous was closed" : value, shared_->host, shared_->port);
  return value;
}

void RendezvousClient::fail(const std::string& cause) noexcept {
  const std::lock_guard lock(shared_->mutex);
  shared_->failed_here = true;
  try {
    (void)shared_->ask(shared_->requests, {Ask::fail, shared_->rank, cause.substr(0, kLongestValue)});
  } catch (...) {  // No memory for the frame: the end of the process says it.
  }
}

std::string RendezvousClient::local_address() const { return shared_->watched.local_address(); }

}  // namespace rehearse::net
