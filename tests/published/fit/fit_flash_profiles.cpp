#include "tests/published/fit/fit_flash_profiles.hpp"

#include <algorithm>
#include <map>

#include "core/base/error.hpp"

namespace rehearse {
namespace {

constexpr double kLossScale = 0.05;
const std::string kTakenOver = "blackwell_slowdown";

/// The first version walks keys in its outer loop, and Triton's kernel follows it; each later one has a pipeline of its
/// own.
std::string base_of(const std::string& implementation) {
  return implementation == "flash_triton" ? "flash1" : implementation;
}

/// Versions before 9.17 were measured on causal attention alone, which shows S0 and B as one: what they take longer is
/// given to B, as steps with context parallelism, most of whose blocks are full, show nothing of it.
std::string diagonal_of(const std::string& implementation) {
  return implementation.starts_with("cudnn_9.") ? implementation : "all";
}

FlashConstants given_by(const KernelCalibration& stated) {
  const auto value = [&](const char* name, double otherwise) {
    const auto at = stated.constants.find(name);
    return at == stated.constants.end() ? otherwise : at->second.value;
  };
  FlashConstants out;
  out.backward_ratio = value("backward_ratio", 0);  // 0: fitted
  out.causal_tail = value("causal_tail", 0);
  out.block_queries = value("block_queries", out.block_queries);
  out.fixed = Seconds{value("fixed_s", 0)};
  out.bandwidth_fraction = 0.85;
  return out;
}

}  // namespace

FlashRecipe::FlashRecipe(std::vector<AttentionRow> rows, const FitGpus& gpu,
                         const std::vector<CalibrationProfile>& stated)
    : gpu_(gpu), rows_(std::move(rows)) {
  std::map<std::string, FlashConstants> older, blackwell;
  for (const AttentionRow& row : rows_) {
    const MeasuredAttention a = prepared(row);
    Family& family = is_blackwell(row.gpu) ? blackwell_ : older_;
    if (in_fit_half(a)) family.fitted.push_back(a);
    const std::string generation = gpu_(row.gpu).generation;
    const auto profile = std::find_if(stated.begin(), stated.end(),
                                      [&](const CalibrationProfile& p) { return p.generation == generation; });
    const auto* group = profile == stated.end() ? nullptr : profile->find(group_of(row.implementation));
    if (group == nullptr)
      throw Error(ErrorKind::usage, "nothing stated of " + group_of(row.implementation), generation + " attention");
    (is_blackwell(row.gpu) ? blackwell : older).emplace(a.group, given_by(*group));
  }
  if (!blackwell_.fitted.empty())
    blackwell_.fit = fit_flash(blackwell_.fitted, blackwell, {.loss_scale = kLossScale, .slowdown = true});
  for (auto& [name, constants] : older) {
    const std::string id = name.substr(name.find(' ') + 1);
    if (gpu_(id).generation != "hopper" || name.starts_with("flash1") || blackwell_.fit.groups.empty()) continue;
    constants.long_slowdown = blackwell_.fit.groups.begin()->second.long_slowdown;
    constants.long_after = blackwell_.fit.groups.begin()->second.long_after;
  }
  if (!older_.fitted.empty()) older_.fit = fit_flash(older_.fitted, older, {.loss_scale = kLossScale});
}

std::string FlashRecipe::group_of(const std::string& implementation) {
  for (const std::string type : {"_mxfp8", "_fp8"})
    if (implementation.ends_with(type))
      return type.substr(1) + "_attention_" + implementation.substr(0, implementation.size() - type.size());
  return "attention_" + implementation;
}

MeasuredAttention FlashRecipe::prepared(const AttentionRow& row) const {
  MeasuredAttention a = row.attention;
  a.shape = as_computed(a.shape, row.type);
  const GpuSpec gpu = gpu_(row.gpu);
  a.rates = {gpu.peak(row.type), gpu.memory_bandwidth, gpu.sm_count};
  a.group = base_of(row.implementation) + " " + row.gpu;
  a.start = start_of(row.implementation, row.gpu);
  a.diagonal = diagonal_of(row.implementation);
  return a;
}

std::string FlashRecipe::start_of(const std::string& implementation, const std::string& gpu) const {
  return is_blackwell(gpu) ? "cudnn on Blackwell" : base_of(implementation);
}

std::vector<const AttentionRow*> FlashRecipe::rows_of(const std::string& implementation, const std::string& gpu) const {
  std::vector<const AttentionRow*> out;
  const bool takes_over =
      !is_blackwell(gpu) && older_.fit.groups.at(base_of(implementation) + " " + gpu).long_slowdown > 0;
  for (const AttentionRow& row : rows_)
    if ((takes_over || is_blackwell(row.gpu) == is_blackwell(gpu)) &&
        (in_fit_half(row.attention) || (row.gpu == gpu && row.implementation == implementation)))
      out.push_back(&row);
  return out;
}

KernelCalibration FlashRecipe::constants(KernelCalibration out, const std::string& implementation,
                                         const std::string& gpu, double clock, const std::string& source) const {
  const Family& family = family_of(gpu);
  const FlashFit& fit = family.fit;
  const std::string name = base_of(implementation) + " " + gpu;
  const FlashConstants& c = fit.groups.at(name);
  const int own = fit.rows.at(name), of_start = fit.rows_of_start.at(start_of(implementation, gpu)),
            all = static_cast<int>(family.fitted.size());
  for (const auto& [d, value] : c.efficiency)
    out.constants["efficiency_d" + std::to_string(d)] = {rounded(value / clock), source, own, -1};
  for (const auto& [d, value] : c.backward_ratios)
    out.constants["backward_ratio_d" + std::to_string(d)] = {rounded(value), source, own, -1};
  out.constants["start_keys"] = {rounded(c.start_keys), source, of_start, rounded(fit.start_sensitivity.at(name))};
  if (c.start_keys_backward != c.start_keys)
    out.constants["start_keys_backward"] = {rounded(c.start_keys_backward), source, of_start, -1};
  out.constants["diagonal_keys"] = {rounded(c.diagonal_keys), source,
                                    fit.rows_of_diagonal.at(diagonal_of(implementation)),
                                    rounded(fit.diagonal_sensitivity.at(name))};
  if (c.long_slowdown > 0) {
    const bool taken_over = !is_blackwell(gpu);
    out.constants["long_slowdown"] = {rounded(c.long_slowdown), taken_over ? kTakenOver : source, taken_over ? 0 : all,
                                      0};
    out.constants["long_s"] = {rounded(c.long_after.value()), taken_over ? kTakenOver : source, taken_over ? 0 : all,
                               0};
  }
  out.measured_on = {gpu};
  std::vector<MeasuredAttention> unseen;
  for (const AttentionRow& row : rows_)
    if (row.gpu == gpu && row.implementation == implementation && !in_fit_half(row.attention))
      unseen.push_back(prepared(row));
  out.held_out = rounded(flash_errors(unseen, c));
  return out;
}

}  // namespace rehearse
