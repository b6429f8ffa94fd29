#include "gpu_backend/train/checkpoint.hpp"

#include <charconv>
#include <filesystem>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/serialise/serialise.hpp"
#include "gpu_backend/train/gathered_state.hpp"
#include "gpu_backend/train/state.hpp"

namespace rehearse {

namespace {

namespace fs = std::filesystem;

/// 120 of "step-000120"; nothing of a folder that is called otherwise, and so is not one of ours.
std::optional<std::int64_t> step_of(const std::string& folder) {
  constexpr std::string_view kBegin = "step-";
  std::int64_t out = 0;
  if (!folder.starts_with(kBegin)) return std::nullopt;
  const char* const last = folder.data() + folder.size();
  const auto [end, failed] = std::from_chars(folder.data() + kBegin.size(), last, out);
  if (failed != std::errc{} || end != last || out < 0) return std::nullopt;
  return out;
}

std::string rank_file(const std::string& folder, int rank) { return fmt::format("{}/rank-{:04}.bin", folder, rank); }

StoredTensor described(const Executor::Persistent& t) {
  StoredTensor out;
  out.state = is_state(*t.tensor);
  out.name = out.state ? state_name(*t.tensor, t.layer) : StateName{t.name, {}};
  out.dtype = t.tensor->dtype;
  out.held = *t.held;
  out.own = t.own;
  return out;
}

}  // namespace

Checkpoints::Checkpoints(std::string directory, const Program& program, Numerics numerics)
    : directory_(std::move(directory)), program_(program), numerics_(numerics) {}

std::string Checkpoints::folder(std::int64_t step) const { return fmt::format("{}/step-{:06}", directory_, step); }

void Checkpoints::save(Executor& executor, ComputeDevice& device, Transport& transport) const {
  executor.drain();
  const std::string at = folder(executor.next_step());
  std::error_code failed;
  fs::create_directories(at, failed);
  if (failed) cannot_write_checkpoint(at, failed.message());
  const auto tensors = executor.persistent();
  CheckpointHeader header;
  header.plan = program_hash(program_);
  header.numerics = numerics_;
  header.step = executor.next_step();
  header.rank = transport.rank();
  header.ranks = transport.ranks();
  header.optimizers = optimizers_of(program_);
  header.seed = program_.seed;
  header.samples_per_step = program_.samples_per_step;
  header.tokens_per_step = program_.tokens_per_step;
  for (const Executor::Persistent& t : tensors) header.tensors.push_back(described(t));
  CheckpointWriter out(rank_file(at, transport.rank()));
  out.put(header);
  std::vector<std::byte> buffer;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    buffer.resize(header.bytes_of(header.tensors[i]));
    device.read(*tensors[i].storage, 0, buffer);
    out.put(buffer);
  }
  out.close();
  std::vector<double> written{1};
  transport.sum(written);  // Complete only when every rank's file is on disk.
  if (transport.rank() != 0) return;
  CheckpointWriter mark(at + "/complete");
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

CheckpointReader Checkpoints::reader(std::int64_t step, int rank) const {
  const auto older = newest(step);
  CheckpointReader in(rank_file(folder(step), rank),
                      older ? fmt::format("remove {} to go on from step-{:06}", folder(step), *older)
                            : "no older checkpoint is complete: start without --resume");
  if (in.header().rank != rank || in.header().step != step) in.damaged("belongs to another rank or step");
  return in;
}

std::vector<CheckpointReader> Checkpoints::readers_of_all(std::int64_t step) const {
  std::vector<CheckpointReader> out;
  out.push_back(reader(step, 0));
  for (int rank = 1; rank < out.front().header().ranks; ++rank) out.push_back(reader(step, rank));
  return out;
}

bool Checkpoints::wrote(const CheckpointHeader& header, int rank, int ranks) const {
  return header.plan == program_hash(program_) && header.numerics == numerics_ && header.rank == rank &&
         header.ranks == ranks;
}

void Checkpoints::check(std::int64_t step) const {
  const std::vector<CheckpointReader> files = readers_of_all(step);
  check_same_run(headers_of(files), program_, numerics_, folder(step));
}

Resumed Checkpoints::load(std::int64_t step, Executor& executor, ComputeDevice& device,
                          const Transport& transport) const {
  Resumed out{step, transport.ranks(), false};
  // A rank of the plan that wrote it needs no file but its own: folders may be of a machine each.
  const bool has_own = fs::exists(rank_file(folder(step), transport.rank()));
  CheckpointReader own = reader(step, has_own ? transport.rank() : 0);
  if (has_own && wrote(own.header(), transport.rank(), transport.ranks())) {
    load_own(own, executor, device);
  } else {
    std::vector<CheckpointReader> files = readers_of_all(step);
    check_same_run(headers_of(files), program_, numerics_, folder(step));
    load_divided_anew(files, executor, device);
    out.ranks = static_cast<int>(files.size());
    out.divided_anew = true;
  }
  executor.set_next_step(step);
  return out;
}

void Checkpoints::load_own(CheckpointReader& in, Executor& executor, ComputeDevice& device) const {
  const auto tensors = executor.persistent();
  const auto& stored = in.header().tensors;
  if (stored.size() != tensors.size()) in.damaged("holds other tensors");
  std::vector<std::byte> buffer;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const StoredTensor here = described(tensors[i]);
    if (stored[i].name != here.name || stored[i].held.elements() != here.held.elements())
      in.damaged(fmt::format("holds '{}' in place of '{}'", stored[i].name.parameter, here.name.parameter));
    buffer.resize(in.header().bytes_of(stored[i]));
    in.get(stored[i].first, buffer);
    device.write(*tensors[i].storage, 0, buffer);
  }
}

}  // namespace rehearse
