// Softplus, log(1 + exp x): an operator that OpKind does not list, and the layer that makes it.

#include "core/model/images/image_builder.hpp"
#include "core/model/images/layer_list.hpp"
#include "core/model/op_table.hpp"

namespace rehearse {
namespace {

const OpKind kToySoftplus = add_operator({.kind = {},
                                          .name = "toy_softplus",
                                          .summary = "log(1 + exp x)",
                                          .inputs = 1,
                                          .min_params = 0,
                                          .max_params = 0,
                                          .matmul_flops = nullptr,
                                          .traffic = nullptr});

void add_toy_softplus(ImageBuilder& net, const std::string& name, ObjectReader&, const std::vector<int>&) {
  net.unary(kToySoftplus, name);
}

[[maybe_unused]] const bool registered_toy_softplus =
    layer_kinds().add({"toy_softplus", "log(1 + exp x)", {}, {add_toy_softplus, true}});

}  // namespace
}  // namespace rehearse
