// Model types whose layers need an operation that no operator here is.

#include "core/model/families/family_keys.hpp"

namespace rehearse {
namespace {

constexpr const char *kSelectiveScan = "the selective scan of Mamba-1, whose state has a decay for each feature",
                     *kDeltaRule = "the gated delta rule of linear attention",
                     *kLightning = "lightning attention (linear, with a decay for each head)",
                     *kCross = "attention of a decoder to an encoder, and biases by relative position",
                     *kPatches = "an embedding of image patches with a token for the class",
                     *kDisentangled = "attention to positions apart from words (DeBERTa)",
                     *kByLayer = "a table of words for each layer (Gemma 3n)",
                     *kTwoHeads = "attention with heads of two sizes, whose keys may be its values (Gemma 4)",
                     *kBlocks = "a layer of its own at every place (NAS)", *kRwkv = "the time mixing of RWKV",
                     *kCompressed = "attention to compressed tokens",
                     *kRecurrent = "the gated linear recurrence of Griffin";

struct Refused {
  const char *model_type, *needs;
};
constexpr Refused kRefused[] = {{"mamba", kSelectiveScan},
                                {"falcon_mamba", kSelectiveScan},
                                {"jamba", kSelectiveScan},
                                {"qwen3_next", kDeltaRule},
                                {"qwen3_5_text", kDeltaRule},
                                {"qwen3_5_moe_text", kDeltaRule},
                                {"kimi_linear", kDeltaRule},
                                {"minimax", kLightning},
                                {"minimax_text_01", kLightning},
                                {"t5", kCross},
                                {"mt5", kCross},
                                {"umt5", kCross},
                                {"bart", kCross},
                                {"mbart", kCross},
                                {"pegasus", kCross},
                                {"whisper", kCross},
                                {"marian", kCross},
                                {"vit", kPatches},
                                {"clip", kPatches},
                                {"siglip", kPatches},
                                {"dinov2", kPatches},
                                {"deberta", kDisentangled},
                                {"deberta-v2", kDisentangled},
                                {"gemma3n_text", kByLayer},
                                {"gemma4_text", kTwoHeads},
                                {"nemotron-nas", kBlocks},
                                {"rwkv", kRwkv},
                                {"deepseek_v4", kCompressed},
                                {"recurrent_gemma", kRecurrent}};

bool refuse_all() {
  for (const Refused& r : kRefused) refuse_family(r.model_type, r.needs);
  return true;
}
[[maybe_unused]] const bool kAllRefused = refuse_all();

}  // namespace
}  // namespace rehearse
