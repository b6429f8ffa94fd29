#pragma once
// TCP, as little of it as the rendezvous needs. Failures throw Error (check_failed) that names the peer.

#include <cstddef>
#include <cstdint>
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
  /// Reads a text_of() at most `longest` bytes. False where the peer has gone, or claims more.
  [[nodiscard]] bool get_text(std::string& text, std::uint64_t longest) const;
  /// Appends what has come, without waiting. False where the peer has gone.
  [[nodiscard]] bool take(std::string& into) const;
  /// Sends what can be sent of `from` without waiting, and takes it off. False where the peer has gone.
  [[nodiscard]] bool give(std::string& from) const;
  /// A peer whose machine has gone is noticed within a minute, even where nothing is said.
  void keep_alive() const;
  /// Own address on this connection, and own port.
  [[nodiscard]] std::string local_address() const;
  [[nodiscard]] int local_port() const;

 private:
  int fd_ = -1;
};

/// `text` with its length before it.
[[nodiscard]] std::string text_of(const std::string& text);

/// Listens on `port` of the address of `host`, of all addresses where that is not one of this machine; port 0 takes a
/// free one.
[[nodiscard]] Socket listen_on(const std::string& host, int port);
/// The next connection; an empty socket (fd -1) where there is none.
[[nodiscard]] Socket accept_from(const Socket& listener);
/// Tries for `seconds`: the other side may still be starting.
[[nodiscard]] Socket connect_to(const std::string& host, int port, double seconds);

}  // namespace rehearse::net
