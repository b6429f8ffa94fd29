// Every way a network can be broken is found.

#include <functional>

#include "core/model/network_check.hpp"
#include "models.hpp"

namespace rehearse::test {
namespace {

struct Damage {
  const char* what;
  std::function<void(Network&)> apply;
};

BlockSpec& layer(Network& n) { return n.blocks[1]; }
OpSpec& op(Network& n, std::string_view name) { return const_cast<OpSpec&>(*find(layer(n).ops, name)); }
ParamSpec& param(Network& n, std::string_view name) { return const_cast<ParamSpec&>(*find(layer(n).params, name)); }

const Damage kDamages[] = {
    {"two tensors of one name", [](Network& n) { layer(n).tensors[1].name = layer(n).tensors[2].name; }},
    {"two ops of one name", [](Network& n) { layer(n).ops[1].name = layer(n).ops[2].name; }},
    {"two parameters of one name", [](Network& n) { layer(n).params[1].name = layer(n).params[2].name; }},
    {"two blocks of one name", [](Network& n) { n.blocks[2].name = "layer"; }},
    {"ops out of order", [](Network& n) { std::swap(layer(n).ops[0], layer(n).ops[1]); }},
    {"an op twice",
     [](Network& n) {
       layer(n).ops.push_back(layer(n).ops.back());
       layer(n).ops.back().name = "again";
     }},
    {"input index out of range", [](Network& n) { op(n, "ln1").inputs[0] = 99; }},
    {"negative output index", [](Network& n) { op(n, "ln1").outputs[0] = -1; }},
    {"parameter index out of range", [](Network& n) { op(n, "ln1").params[0] = 99; }},
    {"no output", [](Network& n) { op(n, "mlp.gelu").outputs.clear(); }},
    {"add with one input", [](Network& n) { op(n, "mlp.add").inputs.pop_back(); }},
    {"norm without its bias", [](Network& n) { op(n, "ln1").params.pop_back(); }},
    {"linear without a weight", [](Network& n) { op(n, "mlp.fc1").params.clear(); }},
    {"weight of another input size", [](Network& n) { param(n, "mlp.fc1.weight").shape[1].size += 1; }},
    {"weight of another output size", [](Network& n) { param(n, "mlp.fc1.weight").shape[0].size += 1; }},
    {"bias of another size", [](Network& n) { param(n, "mlp.fc1.bias").shape[0].size += 1; }},
    {"segments that are no outputs", [](Network& n) { param(n, "attention.qkv.weight").segments[0] += 1; }},
    {"fused weight without segments", [](Network& n) { param(n, "attention.qkv.weight").segments.clear(); }},
    {"norm of another size", [](Network& n) { param(n, "ln2.weight").shape[0].size = 3; }},
    {"attention without v", [](Network& n) { op(n, "attention.core").inputs.pop_back(); }},
    {"v where q belongs", [](Network& n) { op(n, "attention.core").inputs[0] = 0; }},
    {"unused parameter",
     [](Network& n) {
       layer(n).params.push_back({.name = "spare", .shape = {{DimTag::fixed, 1}}});
     }},
    {"tie to nothing", [](Network& n) { n.blocks[2].params.back().tied_to = "embedding.words.weight"; }},
    {"tie of another shape", [](Network& n) { n.blocks[2].params.back().tied_to = "embedding.position.weight"; }},
    {"tie to itself", [](Network& n) { n.blocks[2].params.back().tied_to = "head.logits.weight"; }},
    {"layer that hands on another shape", [](Network& n) { layer(n).output = op(n, "mlp.fc1").outputs[0]; }},
    {"embedding that hands nothing on", [](Network& n) { n.blocks[0].output = -1; }},
    {"layer that stands zero times", [](Network& n) { n.repeat[1] = 0; }},
    {"a block without a repeat", [](Network& n) { n.repeat.pop_back(); }},
    {"no blocks",
     [](Network& n) {
       n.blocks.clear();
       n.repeat.clear();
     }},
    {"labels that are no integers",
     [](Network& n) { n.blocks[2].ops.back().inputs[1] = n.blocks[2].ops.back().inputs[0]; }},
    {"word rows of another size", [](Network& n) { n.blocks[0].params[0].shape[1].size = 3; }},
    {"position rows of another size", [](Network& n) { n.blocks[0].params[1].shape[1].size = 3; }},
};

TEST_CASE("shipped networks pass the check") {
  for (const auto& name : library().names()) CHECK_NOTHROW(validate(shipped(name)));
}

TEST_CASE("a damaged network is refused") {
  const auto whole = shipped("gpt2");
  for (const auto& damage : kDamages) {
    INFO(damage.what);
    auto n = whole;
    damage.apply(n);
    try {
      validate(n);
      FAIL_CHECK("accepted");
    } catch (const Error& e) {
      CHECK(e.kind == ErrorKind::usage);
      CHECK(e.where.starts_with("gpt2"));
    }
  }
}

}  // namespace
}  // namespace rehearse::test
