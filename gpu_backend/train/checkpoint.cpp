#include "gpu_backend/train/checkpoint.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include <fmt/format.h>

#include "core/base/error.hpp"

namespace rehearse {

namespace {

namespace fs = std::filesystem;

constexpr std::array<char, 8> kMagic{'R', 'H', 'S', 'C', 'K', 'P', 'T', '1'};

struct Header {
  std::array<char, 8> magic = kMagic;
  std::uint64_t hash = 0;
  std::uint64_t numerics = 0;
  std::int64_t step = 0;
  std::int64_t rank = 0;
  std::uint64_t tensors = 0;
};

[[noreturn]] void refuse(const std::string& file, const std::string& why) {
  throw Error(ErrorKind::check_failed, fmt::format("cannot write checkpoint: {}", why), file,
              "free space or give another --checkpoint folder; the checkpoint before is intact");
}

/// A file that is on disk once close() returns.
class Writer {
 public:
  explicit Writer(std::string file)
      : file_(std::move(file)), fd_(::open(file_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)) {
    if (fd_ < 0) refuse(file_, std::strerror(errno));
  }
  ~Writer() {
    if (fd_ >= 0) ::close(fd_);
  }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  void put(const void* data, std::size_t bytes) {
    const auto* at = static_cast<const char*>(data);
    while (bytes > 0) {
      const ssize_t n = ::write(fd_, at, bytes);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) refuse(file_, std::strerror(errno));
      at += n;
      bytes -= static_cast<std::size_t>(n);
    }
  }
  void close() {
    if (::fsync(fd_) != 0 || ::close(std::exchange(fd_, -1)) != 0) refuse(file_, std::strerror(errno));
  }

 private:
  std::string file_;
  int fd_;
};

class Reader {
 public:
  /// `way_out`: what to do about a damaged file.
  Reader(const std::string& file, std::string way_out)
      : file_(file), way_out_(std::move(way_out)), in_(file, std::ios::binary) {
    if (!in_) damaged("cannot be read");
  }
  void get(void* data, std::size_t bytes) {
    if (!in_.read(static_cast<char*>(data), static_cast<std::streamsize>(bytes))) damaged("is shorter than it says");
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorKind::usage, fmt::format("checkpoint {}", what), file_,
                "resume the scenario that wrote it, with the same options, or start without --resume");
  }
  [[noreturn]] void damaged(const std::string& what) const {
    throw Error(ErrorKind::usage, fmt::format("checkpoint {}", what), file_, way_out_);
  }

 private:
  std::string file_, way_out_;
  std::ifstream in_;
};

/// 120 of "step-000120"; nothing of a folder that is called otherwise, and so is not one of ours.
std::optional<std::int64_t> step_of(const std::string& name) {
  constexpr std::string_view kBegin = "step-";
  std::int64_t out = 0;
  if (!name.starts_with(kBegin)) return std::nullopt;
  const char* const last = name.data() + name.size();
  const auto [end, failed] = std::from_chars(name.data() + kBegin.size(), last, out);
  if (failed != std::errc{} || end != last || out < 0) return std::nullopt;
  return out;
}

std::string rank_file(const std::string& folder, int rank) { return fmt::format("{}/rank-{:04}.bin", folder, rank); }

}  // namespace

Checkpoints::Checkpoints(std::string directory, std::uint64_t program_hash, Numerics numerics)
    : directory_(std::move(directory)), hash_(program_hash), numerics_(numerics) {}

std::string Checkpoints::folder(std::int64_t step) const { return fmt::format("{}/step-{:06}", directory_, step); }

void Checkpoints::save(Executor& executor, ComputeDevice& device, Transport& transport) const {
  executor.drain();
  const std::string at = folder(executor.next_step());
  std::error_code failed;
  fs::create_directories(at, failed);
  if (failed) refuse(at, failed.message());
  const auto tensors = executor.persistent();
  Header header;
  header.hash = hash_;
  header.numerics = static_cast<std::uint64_t>(numerics_);
  header.step = executor.next_step();
  header.rank = transport.rank();
  header.tensors = tensors.size();
  Writer out(rank_file(at, transport.rank()));
  out.put(&header, sizeof header);
  std::vector<std::byte> buffer;
  for (const Executor::Persistent& t : tensors) {
    buffer.resize(static_cast<std::size_t>(t.held->elements()) * size_of(t.type));
    device.read(*t.storage, 0, buffer);
    const std::array<std::uint64_t, 2> sizes{t.name.size(), buffer.size()};
    out.put(sizes.data(), sizeof sizes);
    out.put(t.name.data(), t.name.size());
    out.put(buffer.data(), buffer.size());
  }
  out.close();
  std::vector<double> written{1};
  transport.sum(written);  // Complete only when every rank's file is on disk.
  if (transport.rank() != 0) return;
  Writer mark(at + "/complete");
  mark.close();
}

std::optional<std::int64_t> Checkpoints::newest(std::optional<std::int64_t> before) const {
  std::optional<std::int64_t> out;
  std::error_code missing;
  for (const auto& entry : fs::directory_iterator(directory_, missing)) {
    const auto numbered = step_of(entry.path().filename().string());
    if (!numbered || !fs::exists(entry.path() / "complete", missing)) continue;
    const std::int64_t step = *numbered;
    if (!before || step < *before) out = std::max(out.value_or(0), step);
  }
  return out;
}

std::int64_t Checkpoints::newest_to_resume() const {
  if (const auto found = newest()) return *found;
  throw Error(ErrorKind::usage, fmt::format("'{}' has no complete checkpoint to go on from", directory_), "--resume",
              "start without --resume");
}

void Checkpoints::load(std::int64_t step, Executor& executor, ComputeDevice& device, int rank) const {
  const auto older = newest(step);
  Reader in(rank_file(folder(step), rank), older
                                               ? fmt::format("remove {} to go on from step-{:06}", folder(step), *older)
                                               : "no older checkpoint is complete: start without --resume");
  Header header;
  in.get(&header, sizeof header);
  if (header.magic != kMagic) in.damaged("is not one of ours");
  if (header.hash != hash_) in.fail("belongs to another plan");
  if (header.numerics != static_cast<std::uint64_t>(numerics_)) in.fail("was written in another precision");
  const auto tensors = executor.persistent();
  if (header.tensors != tensors.size() || header.rank != rank || header.step != step)
    in.fail("belongs to another rank or step");
  std::vector<std::byte> buffer;
  for (const Executor::Persistent& t : tensors) {
    std::array<std::uint64_t, 2> sizes{};
    in.get(sizes.data(), sizeof sizes);
    const std::size_t bytes = static_cast<std::size_t>(t.held->elements()) * size_of(t.type);
    if (sizes[0] != t.name.size() || sizes[1] != bytes) in.fail("holds other tensors");
    std::string name(sizes[0], '\0');
    in.get(name.data(), name.size());
    if (name != t.name) in.fail("holds '" + name + "' in place of '" + t.name + "'");
    buffer.resize(bytes);
    in.get(buffer.data(), bytes);
    device.write(*t.storage, 0, buffer);
  }
  executor.set_next_step(step);
}

}  // namespace rehearse
