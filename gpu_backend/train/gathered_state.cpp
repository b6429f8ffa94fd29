#include "gpu_backend/train/gathered_state.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/program/parts.hpp"
#include "gpu_backend/train/initial.hpp"
#include "gpu_backend/train/state.hpp"

namespace rehearse {

namespace {

/// Global elements [global, global + length), as they stand in a file from a byte on.
struct StoredPiece {
  std::int64_t global = 0, length = 0;
  CheckpointReader* file = nullptr;
  std::uint64_t first = 0;
};

/// Where the elements of one piece of state are: disjoint, ascending.
struct StoredPieces {
  std::vector<StoredPiece> pieces;
  ElementType type = ElementType::real32;
};

/// What a rank had updated itself, of one stored tensor. The rest of a parameter may be stale there, where it is
/// gathered at the beginning of a step only.
void add_pieces(CheckpointReader& file, const StoredTensor& t, StoredPieces& out) {
  out.type = stored_as(t.dtype, file.header().numerics);
  for (const Stretch& s : stretches_of(t.held)) {
    const std::int64_t from = std::max(s.local, t.own.first),
                       to = std::min(s.local + s.length, t.own.first + t.own.length);
    if (from < to)
      out.pieces.push_back({s.global + from - s.local, to - from, &file,
                            t.first + static_cast<std::uint64_t>(from) * size_of(out.type)});
  }
}

/// Of elements that several files have, one is left.
void make_disjoint(StoredPieces& sources) {
  std::sort(sources.pieces.begin(), sources.pieces.end(),
            [](const StoredPiece& a, const StoredPiece& b) { return a.global < b.global; });
  std::vector<StoredPiece> out;
  std::int64_t covered = 0;
  for (StoredPiece s : sources.pieces) {
    const std::int64_t known = std::clamp<std::int64_t>(covered - s.global, 0, s.length);
    if (known == s.length) continue;
    s.global += known;
    s.first += static_cast<std::uint64_t>(known) * size_of(sources.type);
    s.length -= known;
    covered = s.global + s.length;
    out.push_back(s);
  }
  sources.pieces = std::move(out);
}

StoredPieces sources_of(std::vector<CheckpointReader>& files, const StateName& name) {
  StoredPieces out;
  std::vector<const StoredTensor*> seen;  // Replicas hold the same: one is enough.
  for (CheckpointReader& file : files) {
    for (const StoredTensor& t : file.header().tensors) {
      if (!t.state || t.name != name) continue;
      if (std::any_of(seen.begin(), seen.end(), [&](const auto* s) { return s->held == t.held && s->own == t.own; }))
        continue;
      seen.push_back(&t);
      add_pieces(file, t, out);
    }
  }
  make_disjoint(out);
  return out;
}

/// Elements in the order of the storage, in the type of the files; 0 where there is padding. `name` is for the error.
std::vector<std::byte> gathered(const StoredPieces& sources, const Held& held, const std::string& name) {
  const std::size_t size = size_of(sources.type);
  std::vector<std::byte> out(static_cast<std::size_t>(held.elements()) * size);
  for (const Stretch& wanted : stretches_of(held)) {
    auto piece = std::upper_bound(sources.pieces.begin(), sources.pieces.end(), wanted.global,
                                  [](std::int64_t at, const StoredPiece& s) { return at < s.global + s.length; });
    for (std::int64_t done = 0; done < wanted.length; ++piece) {
      const std::int64_t at = wanted.global + done;
      if (piece == sources.pieces.end() || piece->global > at)
        throw Error(ErrorKind::usage, fmt::format("the checkpoint lacks element {} of '{}'", at, name), "--resume",
                    "go on from an older checkpoint, or start without --resume");
      const std::int64_t skipped = at - piece->global, n = std::min(piece->length - skipped, wanted.length - done);
      piece->file->get(piece->first + static_cast<std::uint64_t>(skipped) * size,
                       std::span(out).subspan(static_cast<std::size_t>(wanted.local + done) * size,
                                              static_cast<std::size_t>(n) * size));
      done += n;
    }
  }
  return out;
}

/// Weights of a master copy, rounded as the update rounds them.
std::vector<std::byte> in_type(std::vector<std::byte> values, ElementType from, ElementType to) {
  if (from == to) return values;
  return encoded(decoded(values, from), to);
}

}  // namespace

std::vector<const CheckpointHeader*> headers_of(const std::vector<CheckpointReader>& files) {
  std::vector<const CheckpointHeader*> out;
  for (const CheckpointReader& file : files) out.push_back(&file.header());
  return out;
}

void load_divided_anew(std::vector<CheckpointReader>& files, Executor& executor, ComputeDevice& device) {
  for (const Executor::Persistent& t : executor.persistent()) {
    if (!is_state(*t.tensor)) continue;
    const StateName name = state_name(*t.tensor, t.layer);
    StoredPieces sources = sources_of(files, name);
    if (sources.pieces.empty() && name.part.empty()) sources = sources_of(files, {name.parameter, kMasterPart});
    const auto values = in_type(gathered(sources, *t.held, name.parameter), sources.type, t.type);
    device.write(*t.storage, 0, values);
  }
}

}  // namespace rehearse
