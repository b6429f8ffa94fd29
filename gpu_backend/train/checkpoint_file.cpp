#include "gpu_backend/train/checkpoint_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"

namespace rehearse {

namespace {

using nlohmann::json;

constexpr std::array<char, 8> kMagic{'R', 'H', 'S', 'C', 'K', 'P', 'T', '2'};
constexpr std::uint64_t kPreamble = 16;  // Bytes before the header.

json text_of(const Run& r) { return json::array({r.first, r.length}); }
Run run_of(const json& j) { return {j.at(0).get<std::int64_t>(), j.at(1).get<std::int64_t>()}; }

json text_of(const StoredTensor& t) {
  json global = json::array();
  for (const Runs& runs : t.held.global) {
    json of_dimension = json::array();
    for (const Run& r : runs) of_dimension.push_back(text_of(r));
    global.push_back(std::move(of_dimension));
  }
  return {{"parameter", t.name.parameter}, {"part", t.name.part},          {"state", t.state},
          {"dtype", name_of(t.dtype)},     {"shape", t.held.shape},        {"extents", t.held.extents},
          {"global", std::move(global)},   {"flat", text_of(t.held.flat)}, {"own", text_of(t.own)}};
}

StoredTensor tensor_of(const json& j) {
  StoredTensor t;
  t.name = {j.at("parameter"), j.at("part")};
  t.state = j.at("state");
  t.dtype = parse_dtype(j.at("dtype").get<std::string>());
  t.held.shape = j.at("shape").get<std::vector<std::int64_t>>();
  t.held.extents = j.at("extents").get<std::vector<std::int64_t>>();
  for (const json& of_dimension : j.at("global")) {
    Runs& runs = t.held.global.emplace_back();
    for (const json& r : of_dimension) runs.push_back(run_of(r));
  }
  for (const std::int64_t n : t.held.extents) t.held.inner.push_back({0, n});
  t.held.flat = run_of(j.at("flat"));
  t.own = run_of(j.at("own"));
  return t;
}

std::string text_of(const CheckpointHeader& h) {
  json j{{"plan", h.plan},
         {"numerics", static_cast<int>(h.numerics)},
         {"step", h.step},
         {"rank", h.rank},
         {"ranks", h.ranks},
         {"optimizers", h.optimizers},
         {"seed", h.seed},
         {"samples_per_step", h.samples_per_step},
         {"tokens_per_step", h.tokens_per_step},
         {"tensors", json::array()}};
  for (const StoredTensor& t : h.tensors) j["tensors"].push_back(text_of(t));
  return j.dump();
}

CheckpointHeader header_of(const std::string& text) {
  const json j = json::parse(text);
  CheckpointHeader h;
  h.plan = j.at("plan");
  h.numerics = static_cast<Numerics>(j.at("numerics").get<int>());
  h.step = j.at("step");
  h.rank = j.at("rank");
  h.ranks = j.at("ranks");
  h.optimizers = j.at("optimizers").get<std::vector<std::string>>();
  h.seed = j.at("seed");
  h.samples_per_step = j.at("samples_per_step");
  h.tokens_per_step = j.at("tokens_per_step");
  std::uint64_t first = kPreamble + text.size();
  for (const json& t : j.at("tensors")) {
    h.tensors.push_back(tensor_of(t));
    h.tensors.back().first = std::exchange(first, first + h.bytes_of(h.tensors.back()));
  }
  return h;
}

}  // namespace

void cannot_write_checkpoint(const std::string& file, const std::string& why) {
  throw Error(ErrorKind::check_failed, fmt::format("cannot write checkpoint: {}", why), file,
              "free space or give another --checkpoint folder; the checkpoint before is intact");
}

CheckpointWriter::CheckpointWriter(std::string file)
    : file_(std::move(file)), fd_(::open(file_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)) {
  if (fd_ < 0) cannot_write_checkpoint(file_, std::strerror(errno));
}

CheckpointWriter::~CheckpointWriter() {
  if (fd_ >= 0) ::close(fd_);
}

void CheckpointWriter::put(const CheckpointHeader& header) {
  const std::string text = text_of(header);
  const std::uint64_t length = text.size();
  put(std::as_bytes(std::span(kMagic)));
  put(std::as_bytes(std::span(&length, 1)));
  put(std::as_bytes(std::span(text)));
}

void CheckpointWriter::put(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) cannot_write_checkpoint(file_, std::strerror(errno));
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
}

void CheckpointWriter::close() {
  if (::fsync(fd_) != 0 || ::close(std::exchange(fd_, -1)) != 0) cannot_write_checkpoint(file_, std::strerror(errno));
}

CheckpointReader::CheckpointReader(const std::string& file, std::string way_out)
    : file_(file), way_out_(std::move(way_out)), in_(file, std::ios::binary) {
  std::error_code failed;
  const std::uint64_t all = std::filesystem::file_size(file, failed);
  if (!in_ || failed) damaged("cannot be read");
  std::array<char, 8> magic{};
  std::uint64_t length = 0;
  get(0, std::as_writable_bytes(std::span(magic)));
  if (magic != kMagic) damaged("is not one of ours, or of an older version");
  get(magic.size(), std::as_writable_bytes(std::span(&length, 1)));
  if (length > all) damaged("is shorter than it says");
  std::string text(length, '\0');
  get(kPreamble, std::as_writable_bytes(std::span(text)));
  try {
    header_ = header_of(text);
  } catch (const json::exception&) {
    damaged("is damaged");
  } catch (const Error&) {
    damaged("is damaged");
  }
  if (!header_.tensors.empty() && header_.tensors.back().first + header_.bytes_of(header_.tensors.back()) > all)
    damaged("is shorter than it says");
}

void CheckpointReader::get(std::uint64_t first, std::span<std::byte> to) {
  in_.seekg(static_cast<std::streamoff>(first));
  if (!in_.read(reinterpret_cast<char*>(to.data()), static_cast<std::streamsize>(to.size())))
    damaged("is shorter than it says");
}

void CheckpointReader::damaged(const std::string& what) const {
  throw Error(ErrorKind::usage, fmt::format("checkpoint {}", what), file_, way_out_);
}

}  // namespace rehearse
