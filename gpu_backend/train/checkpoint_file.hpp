#pragma once
// One rank's file of a checkpoint. It says what it holds in words that any plan understands, so that a run that is
// divided otherwise finds its own part in the files of all ranks:
//
//   8 bytes "RHSCKPT2", 8 bytes length of the header, the header (JSON), then the elements of its tensors

#include <cstdint>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "core/program/held.hpp"
#include "gpu_backend/execute/numerics.hpp"

namespace rehearse {

/// What a persistent tensor is, whichever plan holds it.
struct StateName {
  std::string parameter;  ///< Global name, "layer.3.attention.qkv.weight"; a tied copy has its owner's.
  std::string part;       ///< Empty: the value itself; else what an optimizer keeps beside it (Tensor::part).
  auto operator<=>(const StateName&) const = default;
};

/// A tensor of one rank in a checkpoint.
struct StoredTensor {
  StateName name;
  bool state = false;         ///< Whether a step finds in it what the steps before have learned (state.hpp).
  DType dtype = DType::fp32;  ///< As the plan says.
  Held held;
  Run own;                  ///< Of the stored elements, those that the rank itself had updated.
  std::uint64_t first = 0;  ///< Byte of the file.
};

struct CheckpointHeader {
  std::uint64_t plan = 0;  ///< Hash of the Program.
  Numerics numerics = Numerics::fp32;
  std::int64_t step = 0;  ///< The next one.
  int rank = 0, ranks = 1;
  // What a run that goes on must share with it.
  std::vector<std::string> optimizers;  ///< Update rules.
  std::uint64_t seed = 0;
  double samples_per_step = 0, tokens_per_step = 0;
  std::vector<StoredTensor> tensors;

  /// Bytes of a tensor.
  [[nodiscard]] std::size_t bytes_of(const StoredTensor& t) const {
    return static_cast<std::size_t>(t.held.elements()) * size_of(stored_as(t.dtype, numerics));
  }
};

/// Writes a file that is on disk once close() returns. Throws Error (check_failed) with file and cause.
class CheckpointWriter {
 public:
  explicit CheckpointWriter(std::string file);
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  /// Before all else. The elements of the tensors follow, in order.
  void put(const CheckpointHeader& header);
  void put(std::span<const std::byte> bytes);
  void close();

 private:
  std::string file_;
  int fd_;
};

/// Throws Error (usage) where the file is damaged: `way_out` is the hint then.
class CheckpointReader {
 public:
  CheckpointReader(const std::string& file, std::string way_out);

  [[nodiscard]] const CheckpointHeader& header() const { return header_; }
  [[nodiscard]] const std::string& file() const { return file_; }
  /// Bytes from the file's byte `first` on.
  void get(std::uint64_t first, std::span<std::byte> to);
  [[noreturn]] void damaged(const std::string& what) const;

 private:
  std::string file_, way_out_;
  std::ifstream in_;
  CheckpointHeader header_;
};

[[noreturn]] void cannot_write_checkpoint(const std::string& file, const std::string& why);

}  // namespace rehearse
