// Rows of `training`: what one step and the whole run train.

#include "core/config/settings/training.hpp"
#include "core/config/schema/rows.hpp"

namespace rehearse::schema {
namespace {

constexpr double kMaxTokens = 1e15;
constexpr double kMaxSeed = 9007199254740991.0;  // 2^53 - 1: every JSON reader keeps it exact.

Field training(const std::string& name, auto member, std::string help) {
  return row("training." + name, at(&Scenario::training, member), std::move(help));
}
Field experts(const std::string& name, auto member, std::string help) {
  return row("training.experts." + name, at(&Scenario::training, &TrainingSettings::experts, member), std::move(help));
}
Field fp8(const std::string& name, auto member, std::string help) {
  return row("training.fp8." + name, at(&Scenario::training, &TrainingSettings::fp8, member), std::move(help));
}
Field lora(const std::string& name, auto member, std::string help) {
  return row("training.lora." + name, at(&Scenario::training, &TrainingSettings::lora, member), std::move(help));
}
Field adafactor(const std::string& name, auto member, std::string help) {
  return row("training.adafactor." + name, at(&Scenario::training, &TrainingSettings::adafactor, member),
             std::move(help));
}
Field discriminator(const std::string& name, auto member, std::string help) {
  return row("training.discriminator." + name, at(&Scenario::training, &TrainingSettings::discriminator, member),
             std::move(help));
}

void add_experts(std::vector<Field>& t) {
  t.push_back(experts("capacity_factor", &ExpertSettings::capacity_factor, "Rows that an expert takes, over the mean.")
                  .in(0, 1e6)
                  .like("1.25")
                  .more("Tokens beyond it are dropped (Fedus et al. 2021). 0 drops none."));
  t.push_back(
      experts("pad_to_capacity", &ExpertSettings::pad_to_capacity, "Experts' buffers are filled up to their capacity.")
          .more("All sizes are then known beforehand and nothing is counted on the way; needs capacity_factor above 0.")
          .seldom());
  t.push_back(experts("imbalance", &ExpertSettings::imbalance, "How unevenly tokens choose experts.")
                  .more("none: evenly. multinomial: independently and uniformly, with the spread expected of that. "
                        "zipf: the j-th most popular "
                        "expert in proportion to 1 / j^zipf_exponent. The fullest expert-parallel rank, coordinate 0, "
                        "sets the pace."));
  t.push_back(
      experts("zipf_exponent", &ExpertSettings::zipf_exponent, "How steeply popularity falls, for imbalance zipf.")
          .in(0, 8)
          .like("0.5")
          .seldom());
}

Field lora_targets_row() {
  Field f{.key = "training.lora.targets", .help = "Products of a layer that have an adapter.", .type = Type::axes};
  f.noun = "product", f.nouns = "products";
  f.choices = {"qkv", "proj", "fc1", "fc2"};
  f.read = [](const Field& self, Scenario& s, ObjectReader& r, bool) { s.training.lora.targets = read_axes(self, r); };
  f.write = [](const Scenario& s) { return write_axes(s.training.lora.targets); };
  return std::move(f)
      .like("qkv,proj")
      .more(
          "Megatron-Bridge's linear_qkv, linear_proj, linear_fc1 and linear_fc2: those of attention's queries, keys "
          "and values and of its output, and "
          "the first (with the gate) and the last of the MLP. Read where rank is above 0.");
}

void add_lora(std::vector<Field>& t) {
  t.push_back(lora("rank", &LoraSettings::rank, "Rank of LoRA adapters on frozen weights.")
                  .in(0, 1 << 16)
                  .like("16")
                  .more("Only adapters are trained (Hu et al. 2021): the model's own weights have neither gradient nor "
                        "optimizer state. 0 trains all weights."));
  t.push_back(lora("alpha", &LoraSettings::alpha, "Adapters' results are multiplied by alpha / rank.")
                  .in(0, 1e6)
                  .like("32")
                  .seldom());
  t.push_back(lora("dropout", &LoraSettings::dropout, "Fraction of an adapter's input that dropout zeroes.")
                  .in(0, 0.99)
                  .like("0.1")
                  .seldom());
  t.push_back(lora_targets_row());
}

}  // namespace

void add_training(std::vector<Field>& t) {
  t.push_back(training("global_batch", &TrainingSettings::global_batch, "Sequences per optimizer step.")
                  .in(1, kMaxSize)
                  .must()
                  .like("1536")
                  .more("Must be a multiple of dp * microbatch; global_batch / (dp * microbatch) microbatches are "
                        "accumulated per step."));
  t.push_back(training("sequence_length", &TrainingSettings::sequence_length, "Tokens per sequence.")
                  .in(0, kMaxSize)
                  .like("2048")
                  .more("0 takes the longest sequence that the model allows. Models of images and vectors have none."));
  for (const auto& [name, member] :
       {std::pair{"image_height", &TrainingSettings::image_height}, {"image_width", &TrainingSettings::image_width}})
    t.push_back(training(name, member, "Pixels of an image along this side.")
                    .in(0, kMaxSize)
                    .like("512")
                    .more("0 takes the model's own.")
                    .seldom());
  t.push_back(training("precision", &TrainingSettings::precision, "Types of products and of stored weights.")
                  .like("bf16_mixed")
                  .more("The mixed precisions keep fp32 master weights and optimizer state beside 16-bit working "
                        "weights; bf16 keeps everything "
                        "in bf16; fp8_mixed computes the linear layers between embedding and head in fp8 and leaves "
                        "attention, norms, router, embedding and "
                        "head in bf16; fp4_mixed computes them in NVFP4 and is simulated only; tf32 stores fp32."));
  t.push_back(
      training("gradient_dtype", &TrainingSettings::gradient_dtype, "Type of accumulated and reduced gradients.")
          .more("fp32 is Megatron's main_grad; model is the type of the working weights, with half the bytes "
                "on the wire in mixed "
                "precision."));
  t.push_back(training("optimizer", &TrainingSettings::optimizer, "Update rule, and with it the state kept.")
                  .more("adam, adamw and lamb keep two fp32 moments per parameter, sgd with momentum one, adafactor "
                        "one number per row and column "
                        "of a matrix. lamb scales each parameter's step by the ratio of its norm to the update's."));
  t.push_back(training("learning_rate", &TrainingSettings::learning_rate, "Step size of the update.")
                  .in(0, 1e3)
                  .like("6e-4")
                  .more("Read by a real run; a simulated step takes the same time with any."));
  t.push_back(training("weight_decay", &TrainingSettings::weight_decay, "Pull of the update towards zero.")
                  .in(0, 1e3)
                  .like("0.1")
                  .more("Of weights with two dimensions or more. adamw subtracts it from the weights, adam and sgd add "
                        "it to the gradient."));
  t.push_back(training("clip_gradients", &TrainingSettings::clip_gradients, "Clip by the global gradient norm.")
                  .more("Adds a norm over all gradients and an all-reduce over every rank before the update."));
  t.push_back(
      training("tokens", &TrainingSettings::tokens, "Tokens of the whole run.")
          .in(0, kMaxTokens)
          .like("300e9")
          .more("A number or a text such as \"300e9\". Gives the length and cost of the run; 0 leaves them out."));
  t.push_back(
      training("statistics", &TrainingSettings::statistics,
               "Ranks over which batch statistics, expert capacity and auxiliary loss are taken.")
          .more("local: each data-parallel rank by itself. global: all data-parallel ranks, as SyncBatchNorm does.")
          .seldom());
  t.push_back(
      training("seed", &TrainingSettings::seed, "Seed of initialisation, dropout and data.").in(0, kMaxSeed).seldom());
  add_experts(t);
  t.push_back(fp8("recipe", &Fp8Settings::recipe, "How numbers are scaled into fp8's range.")
                  .like("blockwise")
                  .more("delayed: a scale per tensor from the step before (Transformer Engine's default). tensorwise: "
                        "from the tensor itself, one more "
                        "pass. rowwise: a scale per row. blockwise: 1 x 128 and 128 x 128 (DeepSeek-V3). mxfp8: 1 x "
                        "32, on Blackwell."));
  t.push_back(fp8("parameters", &Fp8Settings::parameters, "Working weights are stored and gathered in fp8.")
                  .more("Megatron's --fp8-param-gather, torchao's enable_fsdp_float8_all_gather: half the bytes of "
                        "weights and of their all-gathers. In "
                        "fp4_mixed frozen weights (training.lora) are stored in fp4.")
                  .seldom());
  t.push_back(fp8("attention", &Fp8Settings::attention, "The products of fused attention run in fp8 too.")
                  .more("Transformer Engine's fp8_dot_product_attention: queries, keys, values and the output's "
                        "gradient are cast, in mxfp8 or with a scale per tensor. Not where "
                        "context-parallel ranks gather all keys.")
                  .seldom());
  t.push_back(adafactor("relative_step", &AdafactorSettings::relative_step,
                        "Step min(1e-2, 1/sqrt(t)) instead of the learning rate.")
                  .seldom());
  t.push_back(adafactor("scale_parameter", &AdafactorSettings::scale_parameter,
                        "Steps in proportion to a parameter's root mean square.")
                  .seldom());
  t.push_back(adafactor("clip_threshold", &AdafactorSettings::clip_threshold, "Largest root mean square of an update.")
                  .in(1e-6, 1e6)
                  .like("1")
                  .seldom());
  t.push_back(discriminator("optimizer", &DiscriminatorSettings::optimizer, "Its update rule.")
                  .like("adam")
                  .more("same: training.optimizer.")
                  .seldom());
  t.push_back(discriminator("learning_rate", &DiscriminatorSettings::learning_rate, "Its step size.")
                  .in(0, 1e3)
                  .like("2e-4")
                  .more("0 takes training.learning_rate.")
                  .seldom());
  add_lora(t);
}

}  // namespace rehearse::schema
