#include "gpu_backend/communicate/memory/pipes.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>

#include <fmt/format.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "gpu_backend/communicate/local_world.hpp"

namespace rehearse {

namespace {

constexpr std::size_t kPipesLine = 64;          // Bytes of a cache line: messages begin at one.
constexpr std::size_t kGroupBytes = 1u << 20;   // Of all pipes to a member.
constexpr std::size_t kLeastBytes = 64u << 10;  // Of one pipe.
// Told of at once, so that the other side copies while this one goes on.
constexpr std::size_t kPipesPiece = 64u << 10;
// Two copies of a piece: a member that is at work now answers sooner than sleeping and waking take.
constexpr std::chrono::microseconds kPipesAwake{20};

std::size_t in_lines(std::size_t bytes) { return (bytes + kPipesLine - 1) / kPipesLine * kPipesLine; }
std::size_t pipe_bytes(int members) {
  return std::max(kLeastBytes,
                  kGroupBytes / static_cast<std::size_t>(std::max(1, members - 1)) / kPipesPiece * kPipesPiece);
}

}  // namespace

/// Rung by others when there is something new for a member.
struct alignas(kPipesLine) Pipes::Bell {
  std::atomic<std::uint32_t> rung;
  std::atomic<std::uint32_t> sleeps;
};

/// Counts of bytes since the beginning; what lies between them is in the pipe.
struct Pipes::Pipe {
  struct Counts {
    alignas(kPipesLine) std::atomic<std::uint64_t> written;
    alignas(kPipesLine) std::atomic<std::uint64_t> read;
  };
  Counts* counts;
  std::byte* bytes;
  std::size_t capacity;

  [[nodiscard]] std::uint64_t written() const { return counts->written.load(std::memory_order_acquire); }
  [[nodiscard]] std::uint64_t read() const { return counts->read.load(std::memory_order_acquire); }
  [[nodiscard]] std::byte* at(std::uint64_t position) const { return bytes + position % capacity; }
  /// Bytes from a position on that lie in one piece.
  [[nodiscard]] std::size_t in_one_piece(std::uint64_t position) const { return capacity - position % capacity; }
};

/// One message on its way: a line that says how long it is, then the bytes, filled up to whole lines.
class Pipes::Progress {
 public:
  Progress(Pipe pipe, int peer, std::size_t bytes, std::uint64_t begin)
      : pipe_(pipe), peer_(peer), bytes_(bytes), begin_(begin) {}
  [[nodiscard]] int peer() const { return peer_; }
  [[nodiscard]] std::size_t moved() const { return moved_; }
  [[nodiscard]] bool done() const { return headed_ && moved_ == bytes_; }

  /// Writes a piece, if there is room. Whether there was.
  bool write(const std::byte* data) {
    const std::size_t room = pipe_.capacity - static_cast<std::size_t>(here() - pipe_.read());
    if (room < kPipesLine) return false;
    if (!headed_) {
      const std::uint64_t length = bytes_;
      std::memcpy(pipe_.at(here()), &length, sizeof length);
      headed_ = true;
    } else {
      const std::size_t n = std::min({bytes_ - moved_, room, pipe_.in_one_piece(here()), kPipesPiece});
      std::memcpy(pipe_.at(here()), data + moved_, n);
      moved_ += n;
    }
    pipe_.counts->written.store(here(), std::memory_order_release);
    return true;
  }

  /// Reads a piece, if there is one, but no more than `limit` bytes of the message in all. `take` gets it and where in
  /// the message it lies.
  template <class Take>
  bool read(std::size_t limit, const std::string& name, const Take& take) {
    const auto there = static_cast<std::size_t>(pipe_.written() - here());
    if (there < kPipesLine) return false;
    if (!headed_) {
      std::uint64_t length = 0;
      std::memcpy(&length, pipe_.at(here()), sizeof length);
      if (length != bytes_)
        throw Error(ErrorKind::check_failed,
                    fmt::format("{}: member {} sends {} bytes where {} are expected", name, peer_, length, bytes_),
                    "memory between ranks", "all ranks have to run the same plan: same scenario, same program version");
      headed_ = true;
    } else {
      std::size_t n = std::min({bytes_ - moved_, there, pipe_.in_one_piece(here()), kPipesPiece});
      // Only the last piece ends within a line: no element is cut.
      if (limit - moved_ < n) n = (limit - moved_) / kPipesLine * kPipesLine;
      if (n == 0) return false;
      take(pipe_.at(here()), n, moved_);
      moved_ += n;
    }
    pipe_.counts->read.store(here(), std::memory_order_release);
    return true;
  }

 private:
  /// A message ends where the next one's line begins.
  [[nodiscard]] std::uint64_t here() const {
    return begin_ + (headed_ ? kPipesLine : 0) + (moved_ == bytes_ ? in_lines(moved_) : moved_);
  }

  Pipe pipe_;
  int peer_;
  std::size_t bytes_;
  std::uint64_t begin_;
  std::size_t moved_ = 0;
  bool headed_ = false;
};

std::size_t Pipes::shared_bytes(int members) {
  return sizeof(Bell) + static_cast<std::size_t>(members) * (sizeof(Pipe::Counts) + pipe_bytes(members));
}

Pipes::Pipes(const MeetingBoard& board, const std::string& name, int member, int members)
    : name_(name), member_(member), members_(members), capacity_(pipe_bytes(members)) {
  const auto key = [&](int of) { return fmt::format("memory {} {}", name, of); };
  auto mine = std::make_unique<SharedBlock>(shared_bytes(members));
  board.set(key(member), mine->address());
  for (int i = 0; i < members; ++i)
    blocks_.push_back(i == member ? std::move(mine) : std::make_unique<SharedBlock>(board.get(key(i))));
  // A block can be opened as long as its maker has it: nobody leaves before all have opened all, however soon its last
  // message is on its way.
  const auto opened = [&](int by) { return fmt::format("memory {} opened by {}", name, by); };
  board.set(opened(member), "");
  for (int i = 0; i < members; ++i) (void)board.get(opened(i));
}
Pipes::~Pipes() = default;

Pipes::Bell& Pipes::bell_of(int member) const { return *reinterpret_cast<Bell*>(nth(blocks_, member)->data()); }

Pipes::Pipe Pipes::pipe(int from, int to) const {
  std::byte* const first = nth(blocks_, to)->data() + sizeof(Bell);
  std::byte* const bytes = first + static_cast<std::size_t>(members_) * sizeof(Pipe::Counts);
  return {reinterpret_cast<Pipe::Counts*>(first) + from, bytes + static_cast<std::size_t>(from) * capacity_, capacity_};
}

void Pipes::ring(int member) const {
  Bell& bell = bell_of(member);
  bell.rung.fetch_add(1);
  if (bell.sleeps.load() != 0) syscall(SYS_futex, &bell.rung, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

void Pipes::wait(std::uint32_t seen) const {
  Bell& bell = bell_of(member_);
  for (const auto until = std::chrono::steady_clock::now() + kPipesAwake; std::chrono::steady_clock::now() < until;)
    if (bell.rung.load() != seen) return;
  bell.sleeps.store(1);
  if (bell.rung.load() == seen) syscall(SYS_futex, &bell.rung, FUTEX_WAIT, seen, nullptr, nullptr, 0);
  bell.sleeps.store(0);
}

void Pipes::exchange(std::span<const Sent> sent, std::span<const Received> received,
                     const std::optional<Reduction>& reduction) {
  std::vector<Progress> out, in;
  for (const Sent& s : sent) {
    const Pipe p = pipe(member_, s.to);
    out.emplace_back(p, s.to, s.bytes, p.written());
  }
  for (const Received& r : received) {
    const Pipe p = pipe(r.from, member_);
    in.emplace_back(p, r.from, r.bytes, p.read());
  }
  const auto open = [](const std::vector<Progress>& all) {
    return std::any_of(all.begin(), all.end(), [](const Progress& p) { return !p.done(); });
  };
  while (open(out) || open(in)) {
    const std::uint32_t seen = bell_of(member_).rung.load();
    bool any = false;
    for (std::size_t i = 0; i < out.size(); ++i)
      if (!out[i].done() && out[i].write(sent[i].data)) ring(out[i].peer()), any = true;
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (in[i].done()) continue;
      const std::size_t limit =
          reduction && reduction->behind_sent && !out.empty() ? out[0].moved() : received[i].bytes;
      const auto take = [&](const std::byte* from, std::size_t n, std::size_t at) {
        if (reduction)
          reduce_into(received[i].data + at, from, static_cast<std::int64_t>(n / size_of(reduction->type)),
                      reduction->type, reduction->op);
        else
          std::memcpy(received[i].data + at, from, n);
      };
      if (in[i].read(limit, name_, take)) ring(in[i].peer()), any = true;
      if (reduction && !in[i].done()) break;  // In their order.
    }
    if (!any) wait(seen);
  }
}

}  // namespace rehearse
