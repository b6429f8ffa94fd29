#include "core/price/calibration/calibration.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>

#include "core/base/error.hpp"
#include "core/base/registry.hpp"
#include "core/config/settings/kernels.hpp"

namespace rehearse {
namespace {

constexpr std::string_view kCarriedOver = "carried_over";

Error absent(const CalibrationProfile& p, std::string_view group, std::string_view constant) {
  return Error(ErrorKind::usage, "no constant '" + std::string(group) + "." + std::string(constant) + "'",
               "calibration profile " + p.generation, "fallback.json must hold every constant");
}

const CalibrationConstant* find_constant(const CalibrationProfile& p, std::string_view group,
                                         std::string_view constant) {
  const auto* g = p.find(group);
  if (!g) return nullptr;
  const auto at = g->constants.find(std::string(constant));
  return at == g->constants.end() ? nullptr : &at->second;
}

// A group with a formula of its own replaces the one beneath: its constants were fitted together. Otherwise constants
// are replaced singly.
void overlay(KernelGroups& onto, const KernelGroups& from) {
  for (const auto& [name, group] : from) {
    auto& target = onto[name];
    if (!group.formula.empty()) {
      auto beneath = std::move(target.constants);
      target = group;
      target.constants.insert(beneath.begin(), beneath.end());
      continue;
    }
    for (const auto& [key, constant] : group.constants) target.constants[key] = constant;
    if (!group.measured_on.empty()) target.measured_on = group.measured_on;
    if (group.held_out.rows > 0) target.held_out = group.held_out;
  }
}

void merge_sources(CalibrationProfile& onto, const std::vector<Source>& from) {
  for (const auto& s : from)
    if (std::none_of(onto.sources.begin(), onto.sources.end(), [&](const Source& o) { return o.key == s.key; }))
      onto.sources.push_back(s);
}

bool was_measured(const CalibrationProfile& p, std::string_view group, const std::string& gpu) {
  const auto* g = p.find(group);
  return g && std::find(g->measured_on.begin(), g->measured_on.end(), gpu) != g->measured_on.end();
}

void scale(CalibrationProfile& p, const char* group, double factor, const std::string& source) {
  auto& constant = p.groups.at(group).constants.at("efficiency");
  constant = {std::min(1.0, constant.value * factor), source, 0, 0};
}

constexpr std::array kProducts{"gemm", "gemm_fp8", "gemm_fp4"};

/// Share of its tensor cores' rate that a chip was left by whoever sells it: of the rate per SM of the chip that was
/// measured. 1 where no more than clocks differ.
double rate_left(const CalibrationProfile& p, const GpuSpec& gpu) {
  constexpr double kNoClockDiffersSo = 0.6;
  const auto* reference = find_constant(p, "power", "reference_flops_per_sm");
  if (!reference || gpu.sm_count <= 0) return 1;
  const double share = gpu.peak(DType::bf16).value() / gpu.sm_count / reference->value;
  return share < kNoClockDiffersSo ? share : 1;
}

/// What a kernel loses at its blocks' beginnings, ends and waits takes as long beside slower tensor cores, and is a
/// smaller share.
double with_rate_left(double efficiency, double share) { return 1 / (1 + (1 / efficiency - 1) * share); }

void shorten(CalibrationProfile& p, const std::string& group, const char* constant, double share,
             const std::string& source) {
  if (const auto* c = find_constant(p, group, constant))
    p.groups.at(group).constants[constant] = {c->value * share, source, 0, 0};
}

// The energy of one 16-bit tensor-core operation at full load bounds what the power limit sustains. Narrower types
// follow in proportion: they are limited by the same watts. What was measured on the GPU itself stays.
void cap_by_power(CalibrationProfile& p, const GpuSpec& gpu) {
  const auto* energy = find_constant(p, "power", "joules_per_flop");
  if (!energy || !(gpu.tdp.value() > 0)) return;
  const double before = p.value("gemm", "efficiency");
  const double cap = gpu.tdp.value() / (gpu.peak(DType::bf16).value() * energy->value);
  const auto* uncapped = find_constant(p, "power", "uncapped_efficiency");
  const double share = rate_left(p, gpu), most = uncapped == nullptr ? cap : with_rate_left(uncapped->value, share);
  const bool powered = cap <= most;
  const double factor = std::min(cap, most) / before;
  const std::string source = (powered     ? energy
                              : share < 1 ? find_constant(p, "power", "reference_flops_per_sm")
                                          : uncapped)
                                 ->source;
  for (const char* group : kProducts)
    if (!was_measured(p, group, gpu.id)) scale(p, group, factor, source);
}

// Training keeps a chip at its power limit, which benchmarks of one product after a pause do not reach: no kernel is
// too short for it then. What an operation in fp8 takes beyond half the energy of one in bf16 comes off the share of
// its peak.
void cap_sustained(CalibrationProfile& p, const GpuSpec& gpu) {
  const auto* energy = find_constant(p, "power", "sustained_joules_per_flop");
  const auto* reference = find_constant(p, "power", "reference_joules_per_flop");
  if (!energy || !reference) return;
  const double cap = reference->value / energy->value * power_clock(p, gpu), before = p.value("gemm", "efficiency");
  const double alone = p.value("gemm_fp8", "efficiency");
  if (cap < before) {
    for (const char* group : kProducts) scale(p, group, cap / before, energy->source);
    for (const char* gain : {"burst_gain", "burst_gain_zeros"})
      p.groups.at("gemm").constants[gain] = {0, energy->source, 0, 0};
  }
  const auto* narrow = find_constant(p, "power", "sustained_joules_per_fp8_flop");
  if (!narrow) return;
  const double fp8 = std::min(alone, p.value("gemm", "efficiency") * energy->value / (2 * narrow->value));
  scale(p, "gemm_fp8", fp8 / p.value("gemm_fp8", "efficiency"), narrow->source);
}

/// Where the rate is left whole, the clock that the power limit allows; else what with_rate_left() says, with starts
/// that are told in keys or in k.
void clock_attention(CalibrationProfile& p, const GpuSpec& gpu) {
  const double share = rate_left(p, gpu), clock = share < 1 ? 1 : power_clock(p, gpu);
  if (clock == 1 && share == 1) return;
  const std::string source =
      find_constant(p, "power", share < 1 ? "reference_flops_per_sm" : "reference_joules_per_flop")->source;
  for (auto& [name, group] : p.groups) {
    if (name.find("attention_") == std::string::npos) continue;
    for (auto& [key, constant] : group.constants)
      if (key.starts_with("efficiency_"))
        constant = {with_rate_left(std::min(1.0, constant.value * clock), share), source, 0, 0};
    for (const char* start : {"start_keys", "start_keys_backward"}) shorten(p, name, start, share, source);
  }
}

/// Starts of products, convolutions on tensor cores; and how much of the peak they reach where the generation states no
/// energy, else cap_by_power() has said that.
void quicken_products(CalibrationProfile& p, const GpuSpec& gpu) {
  const double share = rate_left(p, gpu);
  if (share == 1) return;
  const std::string source = find_constant(p, "power", "reference_flops_per_sm")->source;
  const bool stated = find_constant(p, "power", "joules_per_flop") != nullptr;
  for (const char* group : kProducts) {
    if (was_measured(p, group, gpu.id)) continue;
    if (const auto* e = find_constant(p, group, "efficiency"); e && !stated)
      scale(p, group, with_rate_left(e->value, share) / e->value, source);
    shorten(p, group, "k_prologue", share, source);
  }
  if (const auto layers = p.groups.find("convolution_tensor"); layers != p.groups.end())
    for (auto& [key, constant] : layers->second.constants)
      if (key.starts_with("efficiency_")) constant = {with_rate_left(constant.value, share), source, 0, 0};
}

std::vector<std::string> implementations(const CalibrationProfile& p) {
  std::vector<std::string> names;
  for (const auto& [name, group] : p.groups)
    if (name.starts_with("attention_")) names.push_back(name.substr(std::string_view("attention_").size()));
  return names;
}

void choose_attention(CalibrationProfile& p, const std::string& wanted, bool or_default) {
  if (wanted.empty()) return;
  const auto valid = implementations(p);
  // Versions of a library that nobody measured apart on this generation are all alike.
  const std::string newest = wanted.substr(0, wanted.find("_9."));
  if (newest != wanted && !p.find("attention_" + wanted) && p.find("attention_" + newest))
    return choose_attention(p, newest, or_default);
  const bool measured = std::find(valid.begin(), valid.end(), wanted) != valid.end();
  if (!measured && or_default) return;
  if (!measured) throw unknown_name("attention implementation", wanted, valid);
  p.attention = "attention_" + wanted;
}

void choose_host(CalibrationProfile& p, const std::string& wanted) {
  if (wanted.empty()) return;
  // Megatron-DeepSpeed is Megatron beneath.
  if (wanted == name_of(HostCode::megatron_deepspeed)) choose_host(p, name_of(HostCode::megatron));
  // What nobody measured is as in eager code.
  if (const auto at = p.groups.find("launch_" + wanted); at != p.groups.end())
    for (const auto& [name, constant] : at->second.constants) p.groups["launch"].constants[name] = constant;
}

void choose_products(CalibrationProfile& p, const std::string& wanted) {
  const auto own = p.groups.find("power_" + wanted);
  if (!wanted.empty() && own != p.groups.end())
    for (const auto& [name, constant] : own->second.constants) p.groups["power"].constants[name] = constant;
  std::erase_if(p.groups, [](const auto& g) { return g.first.starts_with("power_"); });
}

}  // namespace

const KernelCalibration* CalibrationProfile::find(std::string_view group) const {
  const auto at = groups.find(group);
  return at == groups.end() ? nullptr : &at->second;
}

double CalibrationProfile::value(std::string_view group, std::string_view constant) const {
  if (const auto* c = find_constant(*this, group, constant)) return c->value;
  throw absent(*this, group, constant);
}

double CalibrationProfile::value_or(std::string_view group, std::string_view constant, double otherwise) const {
  const auto* c = find_constant(*this, group, constant);
  return c ? c->value : otherwise;
}

const Source& CalibrationProfile::source(std::string_view key) const {
  for (const auto& s : sources)
    if (s.key == key) return s;
  throw Error(ErrorKind::usage, "unknown source '" + std::string(key) + "'", "calibration profile " + generation);
}

CalibrationOptions calibration_options(const KernelSettings& kernels) {
  CalibrationOptions out;
  if (kernels.attention == AttentionKernel::flash && kernels.flash != FlashKernel::automatic)
    out.attention = name_of(kernels.flash);
  if (kernels.host != HostCode::eager) out.host = name_of(kernels.host);
  if (kernels.products != ProductCalls::transformer_engine) out.products = name_of(kernels.products);
  return out;
}

CalibrationProfile resolve_calibration(const CalibrationProfile& fallback, const CalibrationProfile* generation,
                                       const GpuSpec& gpu, const CalibrationOptions& options) {
  CalibrationProfile p = fallback;
  if (generation) {
    p.generation = generation->generation;
    if (!generation->attention.empty()) p.attention = generation->attention;
    p.errors = generation->errors;
    p.fitted_on = generation->fitted_on;
    merge_sources(p, generation->sources);
    overlay(p.groups, generation->groups);
    if (const auto at = generation->gpus.find(gpu.id); at != generation->gpus.end()) overlay(p.groups, at->second);
  }
  p.gpus.clear();
  p.sources.push_back(
      {std::string(kCarriedOver), "carried over from another GPU of the generation", Evidence::estimate});
  choose_products(p, options.products);
  cap_by_power(p, gpu);
  quicken_products(p, gpu);
  cap_sustained(p, gpu);
  clock_attention(p, gpu);
  choose_attention(p, options.attention, options.attention_or_default);
  choose_host(p, options.host);
  std::erase_if(p.groups, [](const auto& g) { return g.first.starts_with("launch_"); });
  for (auto& [name, group] : p.groups)
    if (!group.measured_on.empty() && !was_measured(p, name, gpu.id)) group.held_out = {};
  return p;
}

double power_clock(const CalibrationProfile& p, const GpuSpec& gpu) {
  const auto* reference = find_constant(p, "power", "reference_joules_per_flop");
  if (!reference || !(gpu.tdp.value() > 0)) return 1;
  return std::cbrt(gpu.tdp.value() / (gpu.peak(DType::bf16).value() * reference->value));
}

EvidenceItem evidence_of(const CalibrationProfile& p, std::string_view group) {
  const auto* g = p.find(group);
  if (!g) throw absent(p, group, "*");
  EvidenceItem item{std::string(group), Evidence::measured_here, "", g->held_out};
  std::set<std::string> cited;
  for (const auto& [name, constant] : g->constants) {
    const Source& s = p.source(constant.source);
    item.evidence = std::max(item.evidence, s.evidence);
    if (cited.insert(s.key).second) item.source += (item.source.empty() ? "" : "; ") + s.text;
  }
  if (!g->measured_on.empty() && g->held_out.rows == 0) {
    item.evidence = Evidence::estimate;
    item.source += "; measured on " + g->measured_on.front();
  }
  return item;
}

}  // namespace rehearse
