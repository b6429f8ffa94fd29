// A decoder whose facts stand in keys: what 'import graph' makes of a transformer that no other family is.

#include <string>
#include <vector>

#include "core/model/families/family_keys.hpp"

namespace rehearse {
namespace {

using namespace family;
using D = FamilyDraft;

FamilyKey norm_key() {
  return with("norm", "layer_norm or rms_norm", "layer_norm", [](ObjectReader& in, const std::string& name, D& d) {
    static const std::vector<std::string> kNorms{"layer_norm", "rms_norm"};
    d.norm = in.choice(name, kNorms, kNorms[0]) == "rms_norm" ? OpKind::rms_norm : OpKind::layer_norm;
  });
}

FamilyKey positions_key() {
  return with("positions", "learned rows, rotary, or none", "learned",
              [](ObjectReader& in, const std::string& name, D& d) {
                static const std::vector<std::string> kPositions{"learned", "rotary", "none"};
                const std::string chosen = in.choice(name, kPositions, kPositions[0]);
                d.rotary_share = chosen == "rotary" ? 1 : 0;
                d.positions = chosen != "none";
              });
}

FamilyKey residual_key() {
  return with("residual", "branches one after the other (sequential), or side by side from one norm (parallel)",
              "sequential", [](ObjectReader& in, const std::string& name, D& d) {
                static const std::vector<std::string> kResiduals{"sequential", "parallel"};
                d.residual = in.choice(name, kResiduals, kResiduals[0]) == "parallel" ? Residual::parallel_shared
                                                                                      : Residual::sequential;
              });
}

[[maybe_unused]] const bool kAnyDecoder = enter_family(
    "decoder", "any decoder, by its facts: norms, positions, biases, activation, gate", gpt_start(),
    llama_like({norm_key(), positions_key(), residual_key(), flag("gated", {&D::gated}, "the MLP has a gate"),
                flag("qkv_bias", {&D::qkv_bias}, "biases on q, k and v"),
                flag("attention_output_bias", {&D::attention_output_bias}, "a bias behind attention"),
                flag("mlp_bias", {&D::mlp_bias}, "biases in the MLP"),
                flag("head_bias", {&D::head_bias}, "the output projection has a bias"),
                flag("embedding_norm", {&D::embedding_norm}, "a norm behind the embedding"),
                number("embedding_dropout", &D::embedding_dropout, kDropout, "dropout after the embedding"),
                number("hidden_dropout", &D::hidden_dropout, kDropout, "dropout on each branch")}));

}  // namespace
}  // namespace rehearse
