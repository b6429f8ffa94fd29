#include <fmt/format.h>

#include "core/import/job/draft.hpp"

namespace rehearse::job {

namespace {

bool fp8(const Draft& d) {
  if (d.has("job.fp8_on")) return d.flag("job.fp8_on");
  return d.has("job.fp8") || d.flag("job.float8") || d.word("job.mixed") == "fp8" ||
         d.word("job.trainer_precision") == "fp8";
}

/// torchtitan's converters: what they are called says which products are in fp8.
bool take_converters(Draft& d) {
  bool out = false;
  for (const std::string& c : d.list("job.converters")) {
    const bool mx = c == "mx" || c.ends_with(".mx");
    if (!mx && c.find("float8") == std::string::npos) continue;
    if (c.find("grouped_mm") != std::string::npos && d.list("job.converters").size() > 1) continue;
    out = true;
    if (mx) d.replace("training.fp8.recipe", "mxfp8");
  }
  return out;
}

std::string sixteen_bits(const Draft& d, const std::string& framework) {
  if (d.has("job.fp16_type")) return d.flag("job.fp16", true) ? d.word("job.fp16_type") : "fp32";
  if (d.flag("job.bf16")) return "bf16";
  if (d.flag("job.fp16")) return "fp16";
  for (const char* name : {"job.trainer_precision", "job.mixed", "job.parameter_type", "job.recipe"}) {
    const std::string word = d.word(name);
    if (word == "bf16" || word == "fp16" || word == "fp32") return word;
    if (!word.empty()) return "bf16";
  }
  if (framework == "torchtitan" || framework == "megatron-bridge") return "bf16";
  if (framework == "gpt-neox") return "fp16";
  if (framework == "llm.c") return "bf16";
  return "fp32";
}

}  // namespace

void finish_precision(Draft& d, const std::string& framework) {
  const bool converted = take_converters(d);
  const std::string recipe = d.word("job.recipe");
  if (recipe == "fp4" || d.flag("job.fp4")) return d.follow("training.precision", "fp4_mixed");
  if (recipe == "tensorwise" || recipe == "delayed" || recipe == "mxfp8" || recipe == "blockwise")
    d.follow("training.fp8.recipe", recipe);
  const bool eighth = converted || fp8(d) || (!recipe.empty() && recipe != "bf16" && recipe != "fp16");
  const std::string word = sixteen_bits(d, framework);
  std::string precision = word == "bf16"       ? "bf16_mixed"
                          : word == "fp16"     ? "fp16_mixed"
                          : d.flag("job.tf32") ? "tf32"
                                               : "fp32";
  if (framework == "torchtitan" && d.word("job.training_type") == "bf16") precision = "bf16";
  // Without autocast, training runs in the weights' own type.
  if (framework == "huggingface-trainer" && precision == "fp32" && d.word("job.weights_type") == "bf16")
    precision = "bf16";
  if (eighth) precision = "fp8_mixed";
  d.follow("training.precision", precision);
  if (!eighth) {
    for (const char* key : {"training.fp8.recipe", "training.fp8.parameters", "training.fp8.attention"})
      d.facts.erase(key);
  }
  for (const char* name : {"job.gradient_type", "job.wire_type"})
    if (d.has(name)) d.follow("training.gradient_dtype", d.facts.at(name).value);
  if (d.has("job.gradients_fp32"))
    d.follow("training.gradient_dtype",
             d.flag("job.gradients_fp32") || framework != "megatron-bridge" ? "fp32" : "model");
  if (d.flag("job.gradients_bf16")) d.replace("training.gradient_dtype", "model");
}

}  // namespace rehearse::job
