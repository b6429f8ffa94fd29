#include "gpu_backend/train/weights.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/program/parts.hpp"
#include "gpu_backend/train/initial.hpp"
#include "gpu_backend/train/state.hpp"

namespace rehearse {

namespace {

constexpr const char* kOwnNames = "rehearse";

WeightNames own_names() {
  WeightNames out;
  out.name = kOwnNames;
  return out;
}

std::optional<WeightPieces> pieces_under(const WeightNames& scheme, const std::vector<NamedParameter>& parameters) {
  return scheme.name == kOwnNames ? own_pieces(parameters) : scheme.pieces_of(parameters);
}

/// [out, in] from [in, out].
std::vector<double> turned(const std::vector<double>& values, std::int64_t rows) {
  std::vector<double> out(values.size());
  const std::int64_t columns = static_cast<std::int64_t>(values.size()) / std::max<std::int64_t>(1, rows);
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c) nth(out, c * rows + r) = nth(values, r * columns + c);
  return out;
}

}  // namespace

std::vector<NamedParameter> named_parameters(const Program& program) {
  std::map<std::string, NamedParameter> out;
  for (const auto& [name, state] : state_of(program))
    if (name.part.empty() || name.part == kMasterPart)
      out.try_emplace(name.parameter, NamedParameter{name.parameter, state.shape, state.segments});
  std::vector<NamedParameter> list;
  for (auto& [name, parameter] : out) list.push_back(std::move(parameter));
  return list;
}

/// How well files go with a scheme.
struct GivenWeights::Fit {
  WeightPieces pieces;          ///< By the spelling that the files have.
  std::size_t found = 0;        ///< Pieces that are there in their shape.
  std::string wrong;            ///< What is said of the first that is not.
  std::set<std::string> names;  ///< Of the tensors that are.
};

GivenWeights::Fit GivenWeights::fit(const WeightNames& scheme, WeightPieces pieces) {
  Fit out;
  for (auto& [parameter, list] : pieces) {
    for (WeightPiece& piece : list) {
      std::optional<WeightFiles::Found> found;
      for (const std::string& spelling : scheme.spellings(piece.name))
        if (!found && (found = files_.find(spelling))) piece.name = spelling;
      if (found && found->tensor->shape == piece.shape) {
        ++out.found;
        out.names.insert(piece.name);
      } else if (out.wrong.empty()) {
        out.wrong = found ? fmt::format("'{}' is [{}], where '{}' takes [{}]", piece.name,
                                        fmt::join(found->tensor->shape, ", "), parameter, fmt::join(piece.shape, ", "))
                          : fmt::format("there is no '{}' [{}], which '{}' takes", piece.name,
                                        fmt::join(piece.shape, ", "), parameter);
      }
    }
  }
  out.pieces = std::move(pieces);
  return out;
}

GivenWeights::GivenWeights(const std::string& path, const Program& program, const std::vector<WeightNames>& schemes)
    : files_(path) {
  const std::vector<NamedParameter> parameters = named_parameters(program);
  std::vector<WeightNames> all = schemes;
  all.push_back(own_names());
  std::optional<Fit> best;
  const WeightNames* taken = nullptr;
  for (const WeightNames& scheme : all) {
    auto pieces = pieces_under(scheme, parameters);
    if (!pieces) continue;
    Fit here = fit(scheme, std::move(*pieces));
    if (best && (best->wrong.empty() || (!here.wrong.empty() && here.found <= best->found))) continue;
    best = std::move(here);
    taken = &scheme;
  }
  if (!best->wrong.empty())
    throw Error(ErrorKind::usage, fmt::format("weights of another model: {} (names of {})", best->wrong, taken->name),
                files_.path(), "give the model that they are of; 'rehearse run --help' says which names are known");
  for (const std::string& name : files_.names())
    if (!best->names.contains(name) && !taken->passes_over(name)) unused_.push_back(name);
  pieces_ = std::move(best->pieces);
  scheme_ = taken->name;
}

void GivenWeights::read_piece(const WeightPiece& piece, std::int64_t first, std::span<double> to) {
  const WeightFiles::Found found = *files_.find(piece.name);
  if (!piece.transposed || piece.shape.size() != 2) {
    found.file->read(*found.tensor, first, to);
    return;
  }
  if (turned_name_ != piece.name) {
    std::vector<double> whole(static_cast<std::size_t>(piece.elements()));
    found.file->read(*found.tensor, 0, whole);
    turned_ = turned(whole, piece.shape[0]);
    turned_name_ = piece.name;
  }
  std::copy_n(turned_.begin() + first, to.size(), to.begin());
}

void GivenWeights::read(const std::string& parameter, std::int64_t first, std::span<double> to) {
  std::int64_t begins = 0;
  for (const WeightPiece& piece : pieces_.at(parameter)) {
    const std::int64_t n = piece.elements(), from = std::max(first, begins),
                       end = std::min(first + static_cast<std::int64_t>(to.size()), begins + n);
    if (from < end)
      read_piece(piece, from - begins,
                 to.subspan(static_cast<std::size_t>(from - first), static_cast<std::size_t>(end - from)));
    begins += n;
  }
}

void GivenWeights::load(Executor& executor, ComputeDevice& device) {
  for (const Executor::Persistent& t : executor.persistent()) {
    if (!is_state(*t.tensor)) continue;
    const StateName name = state_name(*t.tensor, t.layer);
    if ((!name.part.empty() && name.part != kMasterPart) || !pieces_.contains(name.parameter)) continue;
    std::vector<double> values(static_cast<std::size_t>(t.held->elements()));
    for (const Stretch& s : stretches_of(*t.held))
      read(name.parameter, s.global,
           std::span(values).subspan(static_cast<std::size_t>(s.local), static_cast<std::size_t>(s.length)));
    device.write(*t.storage, 0, encoded(values, t.type));
  }
}

namespace {

/// What this rank has updated of one parameter.
struct OwnPiece {
  std::vector<double> values;  ///< Of the storage.
  std::vector<Stretch> stretches;
};

/// The elements of parameters, part by part, on all ranks together.
class GatheredParameters {
 public:
  GatheredParameters(const Program& program, Executor& executor, ComputeDevice& device, Transport& transport)
      : state_(state_of(program)), device_(device), transport_(transport), tensors_(executor.persistent()) {}

  /// From here on elements of this one are asked for.
  void choose(const std::string& parameter) {
    // A plan that keeps weights in full precision beside narrow ones: those are what it has learned.
    const StateName wanted{parameter, state_.contains({parameter, kMasterPart}) ? kMasterPart : ""};
    own_.clear();
    for (const Executor::Persistent& t : tensors_) {
      if (!is_state(*t.tensor) || state_name(*t.tensor, t.layer) != wanted) continue;
      std::vector<std::byte> bytes(static_cast<std::size_t>(t.held->elements()) * size_of(t.type));
      device_.read(*t.storage, 0, bytes);
      OwnPiece piece{decoded(bytes, t.type), {}};
      for (const Stretch& s : stretches_of(*t.held)) {
        const std::int64_t from = std::max(s.local, t.own.first),
                           to = std::min(s.local + s.length, t.own.first + t.own.length);
        if (from < to) piece.stretches.push_back({from, s.global + from - s.local, to - from});
      }
      own_.push_back(std::move(piece));
    }
  }

  /// Elements [first, first + n). Ranks that have the same count once: a sum of equal numbers is divided again.
  std::vector<double> elements(std::int64_t first, std::int64_t n) {
    std::vector<double> sums(static_cast<std::size_t>(2 * n));
    for (const OwnPiece& piece : own_)
      for (const Stretch& s : piece.stretches)
        for (std::int64_t g = std::max(first, s.global); g < std::min(first + n, s.global + s.length); ++g) {
          nth(sums, g - first) = nth(piece.values, s.local + g - s.global);
          nth(sums, n + g - first) = 1;
        }
    if (transport_.ranks() > 1) transport_.sum(sums);
    for (std::int64_t i = 0; i < n; ++i) {
      if (nth(sums, n + i) == 0) throw std::logic_error("an element that no rank has updated");
      nth(sums, i) /= nth(sums, n + i);
    }
    sums.resize(static_cast<std::size_t>(n));
    return sums;
  }

 private:
  State state_;
  ComputeDevice& device_;
  Transport& transport_;
  std::vector<Executor::Persistent> tensors_;
  std::vector<OwnPiece> own_;
};

constexpr std::int64_t kGathered = std::int64_t{1} << 20;  // Elements at a time.

void write_piece(const WeightPiece& piece, std::int64_t begins, GatheredParameters& from, SafetensorsWriter* out) {
  const bool turns = piece.transposed && piece.shape.size() == 2;
  std::vector<double> whole;
  for (std::int64_t done = 0; done < piece.elements(); done += kGathered) {
    const std::vector<double> part = from.elements(begins + done, std::min(kGathered, piece.elements() - done));
    if (out == nullptr) continue;
    if (turns)
      whole.insert(whole.end(), part.begin(), part.end());
    else
      out->put(part);
  }
  if (turns && out != nullptr) out->put(turned(whole, piece.shape[1]));
}

/// Of the schemes that name all parameters the one with the fewest names beside them, or the one that was asked for.
std::pair<std::string, WeightPieces> chosen(const std::string& name, const std::vector<WeightNames>& schemes,
                                            const std::vector<NamedParameter>& parameters) {
  const WeightNames* best = nullptr;
  for (const WeightNames& scheme : schemes) {
    if (name == kOwnNames) break;
    if (!name.empty() && scheme.name != name) continue;
    if (scheme.pieces_of(parameters)) {
      if (best == nullptr || scheme.entries.size() < best->entries.size()) best = &scheme;
    } else if (!name.empty()) {
      throw Error(ErrorKind::usage, fmt::format("names of {} have none for some parameter of this model", name),
                  "--save-weights", "leave the names out: those that fit are found");
    }
  }
  if (best != nullptr) return {best->name, *best->pieces_of(parameters)};
  return {kOwnNames, own_pieces(parameters)};
}

}  // namespace

std::string save_weights(const std::string& path, const std::string& scheme, const std::vector<WeightNames>& schemes,
                         const Program& program, Executor& executor, ComputeDevice& device, Transport& transport) {
  executor.drain();
  const auto [name, pieces] = chosen(scheme, schemes, named_parameters(program));
  std::vector<WeightsToWrite> tensors;
  for (const auto& [parameter, list] : pieces)
    for (const WeightPiece& piece : list) tensors.push_back({piece.name, piece.shape});
  std::unique_ptr<SafetensorsWriter> out;
  if (transport.rank() == 0)
    out = std::make_unique<SafetensorsWriter>(
        path, device.numerics() == Numerics::fp64 ? WeightsType::real64 : WeightsType::real32, tensors,
        std::map<std::string, std::string>{{"format", "pt"}, {"step", std::to_string(executor.next_step())}});
  GatheredParameters from(program, executor, device, transport);
  for (const auto& [parameter, list] : pieces) {
    from.choose(parameter);
    std::int64_t begins = 0;
    for (const WeightPiece& piece : list) {
      write_piece(piece, begins, from, out.get());
      begins += piece.elements();
    }
  }
  if (out) out->close();
  return name;
}

}  // namespace rehearse
