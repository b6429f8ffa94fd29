#include "core/hardware/specs.hpp"

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/registry.hpp"

namespace rehearse {
namespace {

constexpr std::array<std::pair<Evidence, std::string_view>, 4> kEvidence{{{Evidence::measured_here, "measured_here"},
                                                                          {Evidence::published, "published"},
                                                                          {Evidence::datasheet, "datasheet"},
                                                                          {Evidence::estimate, "estimate"}}};

DType fallback_of(DType t) {
  if (t == DType::mxfp8) return DType::fp8;
  if (t == DType::bf16) return DType::fp16;
  if (t == DType::fp16 || t == DType::tf32) return DType::fp32;
  return t;
}

}  // namespace

std::string_view name_of(Evidence e) {
  for (const auto& [value, name] : kEvidence)
    if (value == e) return name;
  return "";
}

Evidence parse_evidence(std::string_view name) {
  std::vector<std::string> valid;
  for (const auto& [value, known] : kEvidence) {
    if (known == name) return value;
    valid.emplace_back(known);
  }
  throw unknown_name("evidence", name, valid);
}

FlopsPerSecond GpuSpec::peak(DType t) const {
  for (DType wanted : {t, fallback_of(t), fallback_of(fallback_of(t))})
    if (auto it = peak_dense.find(wanted); it != peak_dense.end()) return it->second;
  std::string known;
  for (const auto& [type, rate] : peak_dense)
    known += fmt::format("{}{}", known.empty() ? "" : ", ", rehearse::name_of(type));
  throw Error(ErrorKind::usage, fmt::format("{} has no {} arithmetic", this->name, rehearse::name_of(t)), "gpu " + id,
              "it has: " + known);
}

}  // namespace rehearse
