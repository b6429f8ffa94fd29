#include "core/base/dtype.hpp"

#include <array>
#include <string>
#include <vector>

#include "core/base/registry.hpp"

namespace rehearse {
namespace {

struct Named {
  DType type;
  std::string_view name;
};
constexpr std::array<Named, 11> kTypes{{{DType::fp64, "fp64"},
                                        {DType::fp32, "fp32"},
                                        {DType::tf32, "tf32"},
                                        {DType::bf16, "bf16"},
                                        {DType::fp16, "fp16"},
                                        {DType::fp8, "fp8"},
                                        {DType::mxfp8, "mxfp8"},
                                        {DType::fp4, "fp4"},
                                        {DType::int64, "int64"},
                                        {DType::int32, "int32"},
                                        {DType::uint8, "uint8"}}};

}  // namespace

std::string_view name_of(DType t) {
  for (const Named& n : kTypes)
    if (n.type == t) return n.name;
  throw std::logic_error("element type without a name");
}

DType parse_dtype(std::string_view name) {
  std::vector<std::string> valid;
  for (const Named& n : kTypes) {
    if (n.name == name) return n.type;
    valid.emplace_back(n.name);
  }
  throw unknown_name("element type", name, valid);
}

}  // namespace rehearse
