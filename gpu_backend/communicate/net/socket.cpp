#include "gpu_backend/communicate/net/socket.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "core/base/error.hpp"

namespace rehearse::net {

namespace {

[[noreturn]] void fail(const std::string& what) {
  throw Error(ErrorKind::check_failed, fmt::format("{}: {}", what, std::strerror(errno)), "rendezvous",
              "check MASTER_ADDR and MASTER_PORT");
}

void no_delay(int fd) {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

sockaddr_storage own_name(int fd) {
  sockaddr_storage name{};
  socklen_t size = sizeof name;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&name), &size) != 0) fail("cannot read the address of a socket");
  return name;
}

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Addresses look_up(const std::string& host, int port) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found); error != 0)
    throw Error(ErrorKind::usage, fmt::format("cannot find host '{}': {}", host, ::gai_strerror(error)), "MASTER_ADDR",
                "give the address of rank 0's machine");
  return {found, ::freeaddrinfo};
}

}  // namespace

Socket::~Socket() {
  if (fd_ >= 0) ::close(fd_);
}
Socket::Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

void Socket::shut() const {
  if (fd_ >= 0) ::shutdown(fd_, SHUT_RDWR);
}

bool Socket::put(const void* data, std::size_t bytes) const {
  const auto* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = ::send(fd_, at, bytes, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    bytes -= static_cast<std::size_t>(n);
  }
  return true;
}

bool Socket::get(void* data, std::size_t bytes) const {
  auto* at = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t n = ::recv(fd_, at, bytes, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    bytes -= static_cast<std::size_t>(n);
  }
  return true;
}

bool Socket::get_text(std::string& text, std::uint64_t longest) const {
  constexpr std::uint64_t kPart = 1 << 16;
  std::array<unsigned char, 8> head{};
  if (!get(head.data(), head.size())) return false;
  std::uint64_t size = 0;
  for (std::size_t i = 0; i < head.size(); ++i) size |= std::uint64_t{head[i]} << 8 * i;
  if (size > longest) return false;
  text.clear();
  // Room is made for what has come, not for what is claimed.
  while (text.size() < size) {
    const std::size_t had = text.size(), part = std::min<std::uint64_t>(size - had, kPart);
    text.resize(had + part);
    if (!get(text.data() + had, part)) return false;
  }
  return true;
}

bool Socket::take(std::string& into) const {
  constexpr std::size_t kMost = 1 << 20;  // At once, so that no peer keeps others waiting.
  std::array<char, 1 << 14> part{};
  for (std::size_t taken = 0; taken < kMost;) {
    const ssize_t n = ::recv(fd_, part.data(), part.size(), MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
    if (n == 0) return false;
    into.append(part.data(), static_cast<std::size_t>(n));
    taken += static_cast<std::size_t>(n);
  }
  return true;
}

bool Socket::give(std::string& from) const {
  std::size_t sent = 0;
  while (sent < from.size()) {
    const ssize_t n = ::send(fd_, from.data() + sent, from.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (n <= 0) return false;
    sent += static_cast<std::size_t>(n);
  }
  from.erase(0, sent);
  return true;
}

void Socket::keep_alive() const {
  const int on = 1, idle = 30, every = 5, times = 5;  // Seconds, and probes.
  ::setsockopt(fd_, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  ::setsockopt(fd_, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  ::setsockopt(fd_, IPPROTO_TCP, TCP_KEEPINTVL, &every, sizeof every);
  ::setsockopt(fd_, IPPROTO_TCP, TCP_KEEPCNT, &times, sizeof times);
}

std::string text_of(const std::string& text) {
  std::string out;
  const std::uint64_t size = text.size();
  for (int shift = 0; shift < 64; shift += 8) out += static_cast<char>(size >> shift & 0xFF);
  return out + text;
}

std::string Socket::local_address() const {
  const sockaddr_storage name = own_name(fd_);
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* address = name.ss_family == AF_INET
                            ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in&>(name).sin_addr)
                            : static_cast<const void*>(&reinterpret_cast<const sockaddr_in6&>(name).sin6_addr);
  if (::inet_ntop(name.ss_family, address, text.data(), text.size()) == nullptr) fail("cannot print an address");
  return text.data();
}

int Socket::local_port() const {
  const sockaddr_storage name = own_name(fd_);
  return ntohs(name.ss_family == AF_INET ? reinterpret_cast<const sockaddr_in&>(name).sin_port
                                         : reinterpret_cast<const sockaddr_in6&>(name).sin6_port);
}

Socket listen_on(const std::string& host, int port) {
  const Addresses found = look_up(host, port);
  sockaddr_in everywhere{};
  everywhere.sin_family = AF_INET;
  everywhere.sin_port = htons(static_cast<std::uint16_t>(port));
  everywhere.sin_addr.s_addr = htonl(INADDR_ANY);
  const auto try_at = [](const sockaddr* at, socklen_t size) {
    Socket out(::socket(at->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (out.fd() < 0) fail("cannot make a socket");
    const int on = 1;
    ::setsockopt(out.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    return ::bind(out.fd(), at, size) == 0 && ::listen(out.fd(), SOMAXCONN) == 0 ? std::move(out) : Socket();
  };
  for (const addrinfo* a = found.get(); a != nullptr; a = a->ai_next)
    if (Socket out = try_at(a->ai_addr, a->ai_addrlen); out.fd() >= 0) return out;
  if (errno == EADDRNOTAVAIL)
    if (Socket out = try_at(reinterpret_cast<const sockaddr*>(&everywhere), sizeof everywhere); out.fd() >= 0)
      return out;
  fail(fmt::format("cannot listen on port {} of {}", port, host));
}

Socket accept_from(const Socket& listener) {
  int fd = -1;
  do fd = ::accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC);
  while (fd < 0 && errno == EINTR);
  if (fd >= 0) no_delay(fd);
  return Socket(fd);
}

Socket connect_to(const std::string& host, int port, double seconds) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (true) {
    const Addresses all = look_up(host, port);
    for (const addrinfo* a = all.get(); a != nullptr; a = a->ai_next) {
      Socket out(::socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol));
      if (out.fd() >= 0 && ::connect(out.fd(), a->ai_addr, a->ai_addrlen) == 0) {
        no_delay(out.fd());
        return out;
      }
    }
    if (std::chrono::steady_clock::now() > until) fail(fmt::format("cannot reach {}:{}", host, port));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

}  // namespace rehearse::net
