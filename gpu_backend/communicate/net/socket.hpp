#pragma once
// TCP, as little of it as the rendezvous needs. Failures throw Error (check_failed) that names the peer.

#include <cstddef>
#include <string>
#include <vector>

namespace rehearse::net {

/// A connected or listening socket; closed with its owner.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket();
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&& other) noexcept;
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  [[nodiscard]] int fd() const { return fd_; }
  /// Unblocks whoever reads it.
  void shut() const;
  /// False where the peer has gone.
  [[nodiscard]] bool put(const void* data, std::size_t bytes) const;
  [[nodiscard]] bool get(void* data, std::size_t bytes) const;
  /// A text with its length before it.
  [[nodiscard]] bool put_text(const std::string& text) const;
  [[nodiscard]] bool get_text(std::string& text) const;
  /// Own address on this connection, and own port.
  [[nodiscard]] std::string local_address() const;
  [[nodiscard]] int local_port() const;

 private:
  int fd_ = -1;
};

/// Listens on `port` of all addresses, or of this machine only; port 0 takes a free one.
[[nodiscard]] Socket listen_on(int port, bool only_here);
/// The next connection; an empty socket (fd -1) once the listener is shut.
[[nodiscard]] Socket accept_from(const Socket& listener);
/// Tries for `seconds`: the other side may still be starting.
[[nodiscard]] Socket connect_to(const std::string& host, int port, double seconds);

}  // namespace rehearse::net
