#include "core/price/kernels/kernel.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/price/kernels/convolution_traffic.hpp"

namespace rehearse {
namespace {

constexpr std::array<std::string_view, kKernelClasses> kClassNames{
    "gemm",      "grouped_gemm",  "attention_flash", "softmax",        "norm",       "elementwise",
    "embedding", "cross_entropy", "optimizer",       "reduction",      "copy",       "convolution",
    "pool",      "batch_norm",    "quantise_mxfp8",  "quantise_nvfp4", "state_space"};

std::size_t index_of(KernelClass c) { return static_cast<std::size_t>(c); }

bool is_bandwidth_class(KernelClass c) {
  return c != KernelClass::gemm && c != KernelClass::grouped_gemm && c != KernelClass::attention_flash &&
         c != KernelClass::convolution;
}

double fraction(const CalibrationProfile& p, std::string_view group, std::string_view name) {
  const double v = p.value(group, name);
  if (!(v > 0 && v <= 1))
    throw Error(ErrorKind::usage,
                std::string(group) + "." + std::string(name) + " is " + std::to_string(v) + ", outside (0, 1]",
                "calibration profile " + p.generation);
  return v;
}

GemmConstants gemm_group(const CalibrationProfile& p, std::string_view group) {
  GemmConstants c;
  c.formula = parse_gemm_formula(p.find(group) ? p.find(group)->formula : "");
  c.efficiency = fraction(p, group, "efficiency");
  c.bandwidth_fraction = fraction(p, group, "bandwidth_fraction");
  c.fixed = Seconds{p.value(group, "fixed_s")};
  c.overlap_power = std::max(1.0, p.value(group, "overlap_power"));
  c.k_prologue = p.value_or(group, "k_prologue", 0);
  c.tile_penalty = p.value_or(group, "tile_penalty", 0);
  c.wave_quantisation = p.value_or(group, "wave_quantisation", 0);
  c.accumulate_factor = p.value_or(group, "accumulate_factor", 1);
  c.burst_gain = p.value_or(group, "burst_gain", 0);
  c.burst_gain_zeros = p.value_or(group, "burst_gain_zeros", 0);
  c.burst = Seconds{p.value_or(group, "burst_s", 0)};
  return c;
}

FlashConstants flash_group(const CalibrationProfile& p, const std::string& group) {
  FlashConstants c;
  for (int d : {64, 128, 160, 256}) {
    const std::string suffix = "_d" + std::to_string(d);
    if (p.find(group)->constants.contains("efficiency" + suffix))
      c.efficiency[d] = fraction(p, group, "efficiency" + suffix);
    if (p.find(group)->constants.contains("backward_ratio" + suffix))
      c.backward_ratios[d] = p.value(group, "backward_ratio" + suffix);
  }
  if (c.efficiency.empty())
    throw Error(ErrorKind::usage, group + " has no efficiency_d64, _d128, _d160 or _d256",
                "calibration profile " + p.generation);
  if (c.backward_ratios.empty()) c.backward_ratio = p.value(group, "backward_ratio");
  c.start_keys = p.value(group, "start_keys");
  c.start_keys_backward = p.value_or(group, "start_keys_backward", c.start_keys);
  c.causal_tail = p.value_or(group, "causal_tail", 0);
  c.block_queries = p.value_or(group, "block_queries", c.block_queries);
  c.diagonal_keys = p.value(group, "diagonal_keys");
  c.long_slowdown = p.value_or(group, "long_slowdown", 0);
  c.long_after = Seconds{p.value_or(group, "long_s", c.long_after.value())};
  c.sustained = p.value_or(group, "sustained", 0);
  c.fixed = Seconds{p.value(group, "fixed_s")};
  c.bandwidth_fraction = fraction(p, "elementwise", "bandwidth_fraction");
  return c;
}

ConvolutionConstants convolution_group(const CalibrationProfile& p, ConvolutionClass cls) {
  ConvolutionConstants c;
  for (int i = 0; i < kConvolutionParameters; ++i) {
    const auto parameter = static_cast<ConvolutionParameter>(i);
    if (!has(cls, parameter)) continue;
    const std::string_view name = name_of(parameter);
    const bool share = name.starts_with("efficiency") || name.starts_with("bandwidth");
    nth(c.values, i) = share ? fraction(p, group_of(cls), name) : p.value(group_of(cls), name);
  }
  return c;
}

bool is_multiple(double elements, double of) { return elements == of * std::floor(elements / of); }

// Tensor cores' kernels load 16 bytes of a row in one go, slower ones 4: whether rows of all three matrices start on a
// multiple of that.
bool rows_start_on(double bytes, const Kernel& k) {
  if (k.cls != KernelClass::gemm || size_of(k.dtype) > 2) return true;
  const double step = bytes / size_of(k.dtype);
  return is_multiple(k.gemm.n, step) && is_multiple(k.gemm.k, step) && (!k.backward || is_multiple(k.gemm.m, step));
}

}  // namespace

std::string_view name_of(KernelClass c) { return kClassNames[index_of(c)]; }

Kernel make_gemm(GemmShape shape, DType dtype, DType out, bool accumulate, bool backward) {
  Kernel k;
  k.cls = KernelClass::gemm;
  k.dtype = dtype;
  k.out = out;
  k.accumulate = accumulate;
  k.backward = backward;
  k.gemm = shape;
  k.bytes_written = Bytes{shape.batch * shape.m * shape.n * size_of(out)};
  k.bytes_read = gemm_bytes(shape, {size_of(dtype), size_of(out), accumulate}) - k.bytes_written;
  return k;
}

Kernel make_flash_attention(AttentionShape shape, DType dtype, bool backward) {
  Kernel k;
  k.cls = KernelClass::attention_flash;
  k.dtype = k.out = dtype;
  k.backward = backward;
  k.attention = as_computed(shape, dtype);
  const double queries = shape.batch * shape.heads * shape.seq_q * shape.head_dim;
  const double keys = shape.batch * shape.kv_heads * shape.seq_k * shape.head_dim;
  k.bytes_written = Bytes{(backward ? queries + 2 * keys : queries) * size_of(dtype)};
  k.bytes_read = attention_bytes(shape, size_of(dtype), backward) - k.bytes_written;
  return k;
}

Kernel make_convolution(const ConvolutionShape& shape, Bytes read, Bytes written, DType dtype) {
  Kernel k = make_memory_bound(KernelClass::convolution, read, written, dtype);
  k.convolution = shape;
  return k;
}

Kernel make_memory_bound(KernelClass cls, Bytes read, Bytes written, DType dtype, int launches) {
  Kernel k;
  k.cls = cls;
  k.dtype = k.out = dtype;
  k.bytes_read = read;
  k.bytes_written = written;
  k.launches = launches;
  return k;
}

Kernel make_state_space(const StateSpaceShape& s, DType dtype, int launches, bool backward) {
  constexpr double kFp32 = 4, kBackwardWork = 2.5;
  const double inner = s.heads * s.head_dim, shared = s.groups * s.state, states = inner * s.state / s.chunk,
               scores = s.groups * s.chunk;
  const double narrow = backward ? 21 * inner + 23 * shared : 6 * inner + 8 * shared,
               wide = backward ? 10 * states + 6 * scores : 4 * states + 2 * scores;
  const double written = backward ? 2 * inner + 2 * shared : inner;
  const double bytes = size_of(dtype) * narrow + kFp32 * wide;
  Kernel k = make_memory_bound(KernelClass::state_space, Bytes{s.tokens * (bytes - size_of(dtype) * written)},
                               Bytes{s.tokens * size_of(dtype) * written}, dtype, launches);
  k.flops = Flops{(backward ? kBackwardWork : 1.0) * 2 * s.tokens *
                  (scores * s.state + s.heads * (s.chunk * s.head_dim + 2 * s.state * s.head_dim))};
  return k;
}

Flops flops_of(const Kernel& k) {
  switch (k.cls) {
    case KernelClass::gemm:
    case KernelClass::grouped_gemm: return gemm_flops(k.gemm);
    case KernelClass::attention_flash: return attention_flops(k.attention, k.backward);
    case KernelClass::convolution: return convolution_flops(k.convolution);
    default: return k.flops;
  }
}

KernelModel::KernelModel(const GpuSpec& gpu, const CalibrationProfile& profile) : gpu_(gpu) {
  if (!(gpu.memory_bandwidth.value() > 0) || gpu.sm_count < 1)
    throw Error(ErrorKind::usage, "GPU '" + gpu.id + "' states no memory bandwidth or no SM count", "GPU " + gpu.id);
  gemm_ = gemm_group(profile, "gemm");
  gemm_fp8_ = gemm_mxfp8_ = gemm_group(profile, "gemm_fp8");
  gemm_mxfp8_.efficiency *= profile.value_or("gemm_fp8", "block_scaled_factor", 1);
  gemm_fp4_ = gemm_group(profile, "gemm_fp4");
  if (const double factor = profile.value_or("gemm_fp8", "fp4_factor", 0); factor > 0) {
    gemm_fp4_ = gemm_fp8_;
    gemm_fp4_.efficiency =
        std::min(1.0, gemm_fp8_.efficiency * factor * (gpu_.peak(DType::fp8) / gpu_.peak(DType::fp4)));
  }
  flash_ = flash_group(profile, profile.attention);
  if (const std::string group = "fp8_" + profile.attention; profile.find(group))
    flash_fp8_ = flash_group(profile, group);
  if (const std::string group = "mxfp8_" + profile.attention; profile.find(group))
    flash_mxfp8_ = flash_group(profile, group);
  for (int i = 0; i < kKernelClasses; ++i)
    if (const auto c = static_cast<KernelClass>(i); is_bandwidth_class(c))
      bandwidth_[index_of(c)] = {fraction(profile, name_of(c), "bandwidth_fraction"),
                                 profile.value(name_of(c), "fixed_s")};
  for (int i = 0; i < kConvolutionClasses; ++i)
    nth(convolution_, i) = convolution_group(profile, static_cast<ConvolutionClass>(i));
  misaligned_ = profile.value("alignment", "slowdown");
  misaligned_4_bytes_ = profile.value_or("alignment", "slowdown_4_bytes", misaligned_);
  group_share_ = profile.value_or("grouped_gemm", "fixed_share", 0);
  launch_overhead_ = Seconds{profile.value("launch", "overhead_s")};
  operation_overhead_ = Seconds{profile.value_or("launch", "operation_s", launch_overhead_.value())};
  counted_product_overhead_ = Seconds{profile.value_or("launch", "counted_product_s", 0)};
  expert_product_overhead_ = Seconds{profile.value_or("launch", "expert_product_s", 0)};
  divided_update_overhead_ = Seconds{profile.value_or("launch", "divided_update_s", 0)};
  for (const auto& [name, group] : profile.groups)
    if (name != "power" && (name.find("attention_") == std::string::npos || name.ends_with(profile.attention)))
      evidence_.push_back(evidence_of(profile, name));
  // What is priced by another group's constants rests on those, and nobody tested it.
  const auto stand_in = [&](const std::string& name, const std::string& group) {
    std::erase_if(evidence_, [&](const EvidenceItem& e) { return e.what == name; });
    evidence_.push_back(evidence_of(profile, group));
    evidence_.back().what = name;
    evidence_.back().evidence = Evidence::estimate;
    evidence_.back().held_out = {};
  };
  if (profile.value_or("gemm_fp8", "fp4_factor", 0) > 0) stand_in("gemm_fp4", "gemm_fp8");
  if (!flash_fp8_) stand_in("fp8_" + profile.attention, profile.attention);
  if (!flash_mxfp8_) stand_in("mxfp8_" + profile.attention, profile.attention);
}

const GemmConstants& KernelModel::gemm_constants(DType t) const {
  return t == DType::fp8 ? gemm_fp8_ : t == DType::mxfp8 ? gemm_mxfp8_ : t == DType::fp4 ? gemm_fp4_ : gemm_;
}

KernelTime KernelModel::price(const Kernel& kernel) const {
  switch (kernel.cls) {
    case KernelClass::gemm:
    case KernelClass::grouped_gemm: return price_gemm(kernel);
    case KernelClass::attention_flash: return price_flash(kernel);
    case KernelClass::convolution: return price_convolution(kernel);
    default: return price_bytes(kernel);
  }
}

KernelTime KernelModel::price_gemm(const Kernel& k) const {
  const Bytes traffic = gemm_bytes(k.gemm, {size_of(k.dtype), size_of(k.out), k.accumulate});
  KernelTime r;
  r.misaligned = !rows_start_on(16, k);
  const double slowdown = !r.misaligned ? 1.0 : rows_start_on(4, k) ? misaligned_4_bytes_ : misaligned_;
  const GemmTime t =
      gemm_time(k.gemm, traffic, {size_of(k.dtype), size_of(k.out), k.accumulate, k.zeros}, gemm_constants(k.dtype),
                {gpu_.peak(k.dtype), gpu_.memory_bandwidth, gpu_.sm_count}, slowdown);
  r.compute_bound = t.compute;
  r.memory_bound = t.memory;
  const double further = k.launches - 1 + (k.one_by_one ? group_share_ * (k.gemm.batch - 1) : 0);
  r.fixed = t.fixed * (1 + further);
  r.time = t.total + t.fixed * further;
  const double scale = r.time.value() > 0 ? t.total / r.time : 0.0;
  r.sm_sensitivity = t.compute_share * scale;
  r.hbm_sensitivity = t.memory_share * scale;
  return r;
}

KernelTime KernelModel::price_flash(const Kernel& k) const {
  const std::optional<FlashConstants>& narrow = k.dtype == DType::fp8 ? flash_fp8_ : flash_mxfp8_;
  const bool in_fp8 = k.dtype == DType::fp8 || k.dtype == DType::mxfp8;
  // What nobody measured in fp8 is priced as in 16 bits.
  const FlashConstants& constants = in_fp8 && narrow ? *narrow : flash_;
  const FlashTime t =
      flash_time(k.attention, size_of(k.dtype), k.backward, constants,
                 {gpu_.peak(in_fp8 && !narrow ? DType::bf16 : k.dtype), gpu_.memory_bandwidth, gpu_.sm_count});
  KernelTime r;
  r.compute_bound = t.compute;
  r.memory_bound = t.memory;
  r.fixed = t.fixed * k.launches;
  r.time = t.total + t.fixed * (k.launches - 1);
  const double moving = r.time.value() > 0 ? 1.0 - r.fixed / r.time : 0.0;
  (t.compute >= t.memory ? r.sm_sensitivity : r.hbm_sensitivity) = moving;
  return r;
}

/// Arithmetic narrower than fp32 runs on tensor cores where there are any: from compute capability 7.0 on.
bool KernelModel::tensor_cores(DType t) const {
  return gpu_.compute_capability >= 70 && (t == DType::tf32 || size_of(t) < 4);
}

KernelTime KernelModel::price_convolution(const Kernel& k) const {
  const ConvolutionClass cls = class_of(k.convolution, tensor_cores(k.dtype));
  const ConvolutionTime t =
      convolution_time(k.convolution, k.bytes_read + k.bytes_written, nth(convolution_, cls), cls,
                       {gpu_.peak(k.dtype), gpu_.memory_bandwidth, gpu_.sm_count, size_of(k.dtype)});
  KernelTime r;
  r.compute_bound = t.compute;
  r.memory_bound = t.memory;
  r.fixed = t.fixed;
  r.time = t.total;
  r.sm_sensitivity = t.compute_share;
  r.hbm_sensitivity = t.memory_share;
  return r;
}

KernelTime KernelModel::price_bytes(const Kernel& k) const {
  const auto& class_rate = bandwidth_[index_of(k.cls)];
  KernelTime r;
  r.memory_bound = (k.bytes_read + k.bytes_written) / (class_rate.fraction * gpu_.memory_bandwidth);
  if (k.flops.value() > 0) r.compute_bound = k.flops / gpu_.peak(k.dtype);
  r.fixed = Seconds{class_rate.fixed * k.launches};
  const Seconds body = max(r.compute_bound, r.memory_bound);
  r.time = r.fixed + body;
  const double moving = r.time.value() > 0 ? body / r.time : 0.0;
  (r.compute_bound > r.memory_bound ? r.sm_sensitivity : r.hbm_sensitivity) = moving;
  return r;
}

Seconds KernelModel::floor(const Kernel& k) const {
  const Flops work = flops_of(k);
  const double saving = k.cls == KernelClass::convolution ? largest_saving(k.convolution, tensor_cores(k.dtype)) : 1.0;
  const Seconds compute = work.value() > 0 ? work / saving / gpu_.peak(k.dtype) : Seconds{};
  const Bytes cache = gpu_.l2;
  Bytes read = k.bytes_read;
  if (k.cls == KernelClass::convolution)
    read -= unread_input(k.convolution, k.bytes_read + k.bytes_written, tensor_cores(k.dtype), size_of(k.dtype));
  const Bytes from_hbm = max(read - cache, Bytes{}) + max(k.bytes_written - cache, Bytes{});
  return max(compute, from_hbm / gpu_.memory_bandwidth);
}

}  // namespace rehearse
