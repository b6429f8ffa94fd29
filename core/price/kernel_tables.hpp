#pragma once
// Tables of measured kernels, by shape: what constants are fitted on and predictions are held to. A reader remembers
// what was read: nothing reaches a fit but through TableReader, so a test can show that a held-out file was never
// opened.

#include <cstdint>
#include <filesystem>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/dtype.hpp"
#include "core/price/kernels/kernel.hpp"
#include "core/price/kernels/kernel_attention.hpp"
#include "core/price/kernels/kernel_gemm.hpp"

namespace rehearse {

/// One file as it was read, and the rows of it that took part in a fit or in its error figures.
struct TableRead {
  std::string file;       ///< Relative to the reader's root, with forward slashes.
  std::string file_hash;  ///< FNV-1a, 64 bits, 16 hex digits.
  std::set<std::string> rows;
};

class TableReader {
 public:
  explicit TableReader(std::filesystem::path root) : root_(std::move(root)) {}

  /// The whole file. Throws Error (usage) when it cannot be read, or is larger than 64 MB.
  [[nodiscard]] std::string text(const std::string& file);
  /// Notes that a row of a file already read is used. Throws Error (usage) for a file that was not read.
  void use(const std::string& file, const std::string& row);
  [[nodiscard]] const std::vector<TableRead>& reads() const { return reads_; }

 private:
  std::filesystem::path root_;
  std::vector<TableRead> reads_;
};

/// FNV-1a over the bytes, 64 bits.
[[nodiscard]] std::uint64_t fnv1a(std::string_view text, std::uint64_t seed = 0xcbf29ce484222325ULL);
[[nodiscard]] std::string hex_digits(std::uint64_t hash);

/// One measured product. `id` names the row in its file, `rates` are those of the GPU that it ran on.
struct MeasuredGemm {
  std::string id;
  GemmShape shape;
  GemmStorage storage;
  Seconds time;
  double weight = 1;
  GemmRates rates;
};

/// One measured flash attention; a row may be the forward pass or forward and backward together.
struct MeasuredAttention {
  std::string id;
  /// What shares efficiencies and, where they are fitted, backward ratios: "flash2 a100_sxm4_80".
  std::string group;
  std::string start;     ///< What shares S0: "flash2".
  std::string diagonal;  ///< What shares B.
  AttentionShape shape;
  bool with_backward = false;
  Seconds time;
  GemmRates rates;
};

/// A measured product with the GPU and the source it came from.
struct GemmRow {
  std::string gpu;
  std::string source;
  /// `batch` products of one shape that a library is called for one after another, as for experts ("grouped_..." of
  /// `operator`).
  bool one_by_one = false;
  MeasuredGemm gemm;
};

/// Operands of vidur's second MLP product are zeros: its weights lie within 1e-3 (sarathi-serve
/// `initialize_dummy_weights`), so that what the gated activation makes of them, below 1e-9, is nothing in fp16. CSV
/// with the header
/// `gpu,source,operator,batch,m,n,k,in_bytes_per_element,out_bytes_per_element,accumulate,layout,time_us`, and
/// `host_us` where a benchmark's times hold the host's launch and wait: the kernel's time is what is left. Rates of
/// rows are for the caller to fill in. Row ids are "file:line". Throws Error (usage) with file and line on a missing
/// column, a number that is none, or a time that leaves the kernel none.
[[nodiscard]] std::vector<GemmRow> read_gemms(TableReader& reader, const std::string& file);
/// What a row measured.
[[nodiscard]] Kernel kernel_of(const GemmRow& row);

/// CSV with the header `id,gpu,implementation,pass,causal,batch,heads,seq,head_dim,tflops`; `pass` is "fwd" or
/// "fwd+bwd" and tflops follows the FlashAttention papers: causal counts half, backward 2.5 times the forward. With
/// `time_ms` instead where that is printed, and with `kv_heads` and `window` where they are not the heads and none.
/// Peaks are left to the caller.
struct AttentionRow {
  std::string file;  ///< As it was read.
  std::string gpu;
  std::string implementation;  ///< As in the file: with "_fp8" or "_mxfp8" at its end where operands are.
  DType type = DType::fp16;    ///< Of operands.
  MeasuredAttention attention;

  /// The name without what `type` says.
  [[nodiscard]] std::string kernel() const;
};
[[nodiscard]] std::vector<AttentionRow> read_attention(TableReader& reader, const std::string& file);

/// One pass of one measured layer, images in 16 or 32 bits. `layer` names its sizes, for sums and for the split.
struct ConvolutionRow {
  std::string id, gpu, layer;
  DType type = DType::fp32;
  ConvolutionShape shape;
  Bytes traffic;  ///< Of every operand once.
  Seconds time;
};
/// CSV with the header `gpu,precision,batch,height,width,in_channels,out_channels,kernel_h,kernel_w,pad_h,pad_w,
/// stride_h,stride_w,forward_us,input_grad_us,weight_grad_us,forward_algorithm`; a pass without a time was not
/// measured. `precision` is fp32, fp16_tensor (on tensor cores) or fp16_storage (without any).
[[nodiscard]] std::vector<ConvolutionRow> read_convolutions(TableReader& reader, const std::string& file);
/// What a row measured.
[[nodiscard]] Kernel kernel_of(const ConvolutionRow& row);

/// Rows are split by a hash of the shape alone, so that one shape measured twice is never on both sides.
[[nodiscard]] bool in_fit_half(const GemmShape& shape);
[[nodiscard]] bool in_fit_half(const MeasuredAttention& row);
[[nodiscard]] bool in_fit_half(const ConvolutionRow& row);

}  // namespace rehearse
