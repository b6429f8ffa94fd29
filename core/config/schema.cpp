// The table: one row per key of a scenario file. To add a key, add a member to settings.hpp and a row here.

#include <algorithm>

#include "core/config/field.hpp"

namespace rehearse::schema {
namespace {

constexpr double kMaxSize = 1e7;  // Axes, batches, nodes: beyond anything that will be built.
constexpr double kMaxTokens = 1e15;
constexpr double kMaxSeed = 9007199254740991.0;  // 2^53 - 1: every JSON reader keeps it exact.

template <class T>
void bind(Field& f, auto access) {
  if constexpr (std::is_same_v<T, bool>) {
    f.type = Type::boolean;
    f.read = [access](const Field& self, Scenario& s, ObjectReader& r, bool) { access(s) = r.boolean(self.name()); };
    f.write = [access](const Scenario& s) { return nlohmann::ordered_json(access(s)); };
  } else if constexpr (std::is_same_v<T, double>) {
    f.type = Type::count;
    f.read = [access](const Field& self, Scenario& s, ObjectReader& r, bool) { access(s) = read_count(self, r); };
    f.write = [access](const Scenario& s) { return write_count(access(s)); };
  } else if constexpr (std::is_same_v<T, Bytes>) {
    f.type = Type::size;
    f.read = [access](const Field& self, Scenario& s, ObjectReader& r, bool) { access(s) = read_size(self, r); };
    f.write = [access](const Scenario& s) { return write_size(access(s)); };
  } else if constexpr (std::is_same_v<T, BytesPerSecond>) {
    f.type = Type::rate;
    f.read = [access](const Field& self, Scenario& s, ObjectReader& r, bool) { access(s) = read_rate(self, r); };
    f.write = [access](const Scenario& s) { return write_rate(access(s)); };
  } else if constexpr (std::is_enum_v<T>) {
    f.type = Type::choice;
    f.choices = names_of<T>();
    f.read = [access](const Field& self, Scenario& s, ObjectReader& r, bool) {
      const std::string name = r.choice(self.name(), self.choices);
      access(s) = static_cast<T>(std::find(self.choices.begin(), self.choices.end(), name) - self.choices.begin());
    };
    f.write = [access](const Scenario& s) { return nlohmann::ordered_json(name_of(access(s))); };
  } else if constexpr (std::is_same_v<T, std::string>) {
    f.type = Type::text;
    f.read = [access](const Field& self, Scenario& s, ObjectReader& r, bool) { access(s) = read_text(self, r); };
    f.write = [access](const Scenario& s) {
      return access(s).empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(access(s));
    };
  } else if constexpr (std::is_same_v<T, std::vector<std::int64_t>>) {
    f.type = Type::integers;
    f.read = [access](const Field& self, Scenario& s, ObjectReader& r, bool) { access(s) = read_integers(self, r); };
    f.write = [access](const Scenario& s) { return write_integers(access(s)); };
  } else {
    static_assert(std::is_integral_v<T>);
    f.type = Type::integer;
    f.read = [access](const Field& self, Scenario& s, ObjectReader& r, bool) {
      access(s) = static_cast<T>(read_integer(self, r));
    };
    f.write = [access, key = f.key](const Scenario& s) {
      return write_integer(*find(key), static_cast<std::int64_t>(access(s)));
    };
  }
}

/// A row whose type follows from the member that `access` returns.
Field row(std::string key, auto access, std::string help) {
  Field f{.key = std::move(key), .help = std::move(help)};
  bind<std::remove_cvref_t<decltype(access(std::declval<Scenario&>()))>>(f, access);
  return f;
}

/// The member of a Scenario at the end of a chain of members.
auto at(auto... members) {
  return [=](auto& scenario) -> auto& { return (scenario.*....*members); };
}

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
Field strategy(const std::string& name, auto member, std::string help) {
  return row("strategy." + name, at(&Scenario::strategy, member), std::move(help));
}
Field overlap(const std::string& name, auto member, std::string help) {
  return row("strategy.overlap." + name, at(&Scenario::strategy, &StrategySettings::overlap, member), std::move(help));
}
Field fsdp(const std::string& name, auto member, std::string help) {
  return row("strategy.fsdp." + name, at(&Scenario::strategy, &StrategySettings::fsdp, member), std::move(help));
}
Field zero3(const std::string& name, auto member, std::string help) {
  return row("strategy.zero3." + name, at(&Scenario::strategy, &StrategySettings::zero3, member), std::move(help));
}
Field kernels(const std::string& name, auto member, std::string help) {
  return row("kernels." + name, at(&Scenario::kernels, member), std::move(help));
}

/// A member of `cluster`, which reads its members itself.
Field cluster_member(std::string key, Type type, std::string help) {
  return {.key = std::move(key), .help = std::move(help), .type = type};
}

Field schema_row() {
  Field f = row("schema", at(&Scenario::schema), "Format and version of the file.").must();
  f.type = Type::choice;
  f.choices = {std::string(kScenarioSchema)};
  f.read = [](const Field& self, Scenario& s, ObjectReader& r, bool) {
    s.schema = r.choice(self.name(), self.choices);
  };
  return f;
}

Field model_row() {
  Field f{.key = "model", .help = "What is trained.", .type = Type::model};
  f.read = [](const Field& self, Scenario& s, ObjectReader& r, bool) { s.model = read_model(self, r); };
  f.write = [](const Scenario& s) { return write_model(s.model); };
  return std::move(f)
      .must()
      .like("models/llama3_8b/config.json")
      .more(
          "A Hugging Face config.json by its path (relative to the scenario file; only there unknown keys are "
          "ignored), a registered name "
          "(rehearse list models), or an inline object: the keys of a config.json, or a list of layers.");
}

Field cluster_row() {
  Field f{.key = "cluster", .help = "The machines it is trained on, and what joins them.", .type = Type::cluster};
  f.read = [](const Field& self, Scenario& s, ObjectReader& r, bool complete) {
    s.cluster = read_cluster(self, r, complete);
  };
  f.write = [](const Scenario& s) { return write_cluster(s.cluster); };
  return std::move(f)
      .must()
      .like(R"({"machine": "dgx_h100", "nodes": 16, "network": "rail_optimised"})")
      .more(
          "A registered cluster by name (rehearse list clusters), a cluster file by its path, an object of machine, "
          "nodes and network, or, "
          "for a mixed cluster, an object of parts and network or a bare list of parts.");
}

Field placement_row() {
  Field f{.key = "strategy.placement",
          .help = "Axes from the one whose neighbours are nearest to the one whose are farthest.",
          .type = Type::axes};
  f.choices = {"tp", "cp", "ep", "dp", "pp", "tile_h", "tile_w"};
  f.read = [](const Field& self, Scenario& s, ObjectReader& r, bool) { s.strategy.placement = read_axes(self, r); };
  f.write = [](const Scenario& s) { return write_axes(s.strategy.placement); };
  return std::move(f)
      .like("tp,cp,ep,pp,dp")
      .more(
          "Device numbers count fastest along the first axis. Axes of size one may be left out. The usual order keeps "
          "tensor-parallel "
          "groups "
          "inside a node, where NVLink is. Tiles that are not named are nearest of all.");
}

Field recompute_modules_row() {
  Field f{.key = "strategy.recompute_modules",
          .help = "Modules whose results selective recomputation makes again in backward.",
          .type = Type::axes};
  f.noun = "module", f.nouns = "modules";
  f.choices = {"core_attn",      "layernorm",   "mlp",   "moe_act",           "moe",
               "shared_experts", "mla_up_proj", "layer", "all_but_attention", "every_second_product"};
  f.read = [](const Field& self, Scenario& s, ObjectReader& r, bool) {
    s.strategy.recompute_modules = read_axes(self, r);
  };
  f.write = [](const Scenario& s) { return write_axes(s.strategy.recompute_modules); };
  return std::move(f)
      .like("core_attn,layernorm,mlp")
      .more(
          "Megatron-Core's --recompute-modules. core_attn: scores, softmax and dropout of unfused attention; flash "
          "attention keeps none. layernorm, "
          "moe_act and mla_up_proj drop their results and make them from inputs that are kept; mlp, moe and "
          "shared_experts run again as a whole. layer, "
          "all_but_attention and every_second_product are PyTorch's checkpoints: all of a layer, all but the "
          "attention's result, or that and every "
          "other product, as far as backward reads it.");
}

void add_head(std::vector<Field>& t) {
  t.push_back(schema_row());
  t.push_back(model_row());
  t.push_back(cluster_row());
  t.push_back(cluster_member("cluster.machine", Type::text, "Registered machine, or the path of a machine file.")
                  .must()
                  .like("dgx_a100_80gb"));
  t.push_back(cluster_member("cluster.nodes", Type::integer, "Machines.").in(1, kMaxSize).like("128"));
  t.push_back(cluster_member("cluster.network", Type::text, "Registered network, or the path of a network file.")
                  .like("selene"));
  t.push_back(cluster_member("cluster.gpudirect_rdma", Type::boolean,
                             "NICs read and write GPU memory; false stages messages in host memory.")
                  .like("false")
                  .more("Left out, each machine's own file says."));
  t.push_back(
      cluster_member("cluster.pxn", Type::boolean,
                     "Messages for another rail go over NVLink to the GPU beside that rail's NIC.")
          .like("false")
          .more(
              "false is NCCL_PXN_DISABLE=1. Left out, each machine's own file says. Only fabrics with rails use it."));
  t.push_back(cluster_member("cluster.parts", Type::parts, "Parts of a mixed cluster, each {machine, nodes}.")
                  .like(R"([{"machine": "dgx_a100_80gb", "nodes": 4}, {"machine": "dgx_h100", "nodes": 4}])"));
}

void add_experts(std::vector<Field>& t) {
  t.push_back(experts("capacity_factor", &ExpertSettings::capacity_factor,
                      "Rows that an expert takes of one rank's tokens, over the mean.")
                  .in(0, 1e6)
                  .like("1.25")
                  .more("Tokens beyond it are dropped (Fedus et al. 2021). 0 drops none."));
  t.push_back(
      experts("pad_to_capacity", &ExpertSettings::pad_to_capacity, "Experts' buffers are filled up to their capacity.")
          .more(
              "All sizes are then known beforehand and nothing is counted on the way; needs capacity_factor above 0."));
  t.push_back(experts("imbalance", &ExpertSettings::imbalance, "How unevenly tokens choose experts.")
                  .more("none: evenly. multinomial: independently and uniformly, with the spread expected of that. "
                        "zipf: the j-th most popular "
                        "expert in proportion to 1 / j^zipf_exponent. The fullest expert-parallel rank, coordinate 0, "
                        "sets the pace."));
  t.push_back(
      experts("zipf_exponent", &ExpertSettings::zipf_exponent, "How steeply popularity falls, for imbalance zipf.")
          .in(0, 8)
          .like("0.5"));
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
  t.push_back(lora("rank", &LoraSettings::rank, "Rank of low-rank adapters (LoRA), beside frozen weights.")
                  .in(0, 1 << 16)
                  .like("16")
                  .more("Only adapters are trained (Hu et al. 2021): the model's own weights have neither gradient nor "
                        "optimizer state. 0 trains all weights."));
  t.push_back(
      lora("alpha", &LoraSettings::alpha, "Adapters' results are multiplied by alpha / rank.").in(0, 1e6).like("32"));
  t.push_back(lora("dropout", &LoraSettings::dropout, "Fraction of an adapter's input that dropout zeroes.")
                  .in(0, 0.99)
                  .like("0.1"));
  t.push_back(lora("all_to_all", &LoraSettings::all_to_all,
                   "Second products beside row-parallel ones (proj, fc2) are split by outputs under tp.")
                  .more("As NeMo's a2a_experimental: what they write is exchanged for all features of a rank's tokens "
                        "under sequence parallelism, gathered without. false: they lie "
                        "whole on all ranks, and only what has rank features moves."));
  t.push_back(lora_targets_row());
}

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
                    .more("0 takes the model's own."));
  t.push_back(training("precision", &TrainingSettings::precision,
                       "Arithmetic of the matrix products and storage of the weights.")
                  .like("bf16_mixed")
                  .more("The mixed precisions keep fp32 master weights and optimizer state beside 16-bit working "
                        "weights; bf16 keeps everything "
                        "in bf16; fp8_mixed computes the linear layers between embedding and head in fp8 and leaves "
                        "attention, norms, router, embedding and "
                        "head in bf16; fp4_mixed computes them in NVFP4 and is simulated only; tf32 stores fp32."));
  t.push_back(training("gradient_dtype", &TrainingSettings::gradient_dtype,
                       "Type in which gradients are accumulated and reduced.")
                  .more("fp32 is Megatron's main_grad; model is the type of the working weights, with half the bytes "
                        "on the wire in mixed "
                        "precision."));
  t.push_back(training("optimizer", &TrainingSettings::optimizer, "Update rule; sets the state kept per parameter.")
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
          .more("local: each data-parallel rank by itself. global: all data-parallel ranks, as SyncBatchNorm does."));
  t.push_back(training("seed", &TrainingSettings::seed, "Seed of initialisation, dropout and data.").in(0, kMaxSeed));
  add_experts(t);
  t.push_back(fp8("recipe", &Fp8Settings::recipe, "How numbers are scaled into the range of fp8.")
                  .like("blockwise")
                  .more("delayed: a scale per tensor from the step before (Transformer Engine's default). tensorwise: "
                        "from the tensor itself, one more "
                        "pass. rowwise: a scale per row. blockwise: 1 x 128 and 128 x 128 (DeepSeek-V3). mxfp8: 1 x "
                        "32, on Blackwell."));
  t.push_back(fp8("parameters", &Fp8Settings::parameters, "Working weights are stored and gathered in fp8.")
                  .more("Megatron's --fp8-param-gather, torchao's enable_fsdp_float8_all_gather: half the bytes of "
                        "weights and of their all-gathers. In "
                        "fp4_mixed frozen weights (training.lora) are stored in fp4."));
  t.push_back(fp8("copies", &Fp8Settings::copies, "Copies that a cast with a scale per tensor writes.")
                  .like("two")
                  .more("two: the second along the other dimension, which the weight gradient reads (Hopper). one: "
                        "tensor cores read either dimension (Blackwell). auto: as the GPUs "
                        "need. With other recipes always two."));
  t.push_back(fp8("attention", &Fp8Settings::attention, "The products of fused attention run in fp8 too.")
                  .more("Transformer Engine's fp8_dot_product_attention: queries, keys, values and the output's "
                        "gradient are cast, in mxfp8 or with a scale per tensor. Not where "
                        "context-parallel ranks gather all keys."));
  t.push_back(fp8("rotation", &Fp8Settings::rotation,
                  "In fp4_mixed, operands of weight gradients are rotated before they are cast.")
                  .more("The random Hadamard transform of NVIDIA's recipe (arXiv 2509.25149). A pass of its own then "
                        "finds the largest value; false (NVTE_NVFP4_DISABLE_RHT): norms and "
                        "activations find it on their way."));
  t.push_back(adafactor("relative_step", &AdafactorSettings::relative_step,
                        "Step min(1e-2, 1/sqrt(t)) instead of the learning rate."));
  t.push_back(adafactor("scale_parameter", &AdafactorSettings::scale_parameter,
                        "Steps in proportion to a parameter's root mean square."));
  t.push_back(adafactor("clip_threshold", &AdafactorSettings::clip_threshold, "Largest root mean square of an update.")
                  .in(1e-6, 1e6)
                  .like("1"));
  t.push_back(discriminator("optimizer", &DiscriminatorSettings::optimizer, "Its update rule.")
                  .like("adam")
                  .more("same: training.optimizer."));
  t.push_back(discriminator("learning_rate", &DiscriminatorSettings::learning_rate, "Its step size.")
                  .in(0, 1e3)
                  .like("2e-4")
                  .more("0 takes training.learning_rate."));
  add_lora(t);
}

void add_axes(std::vector<Field>& t) {
  const auto axis = [&t](const char* name, auto member, const char* help, const char* detail = "") {
    t.push_back(strategy(name, member, help).in(1, kMaxSize).more(detail));
  };
  t.push_back(strategy("dp", &StrategySettings::dp, "Data-parallel replicas.")
                  .in(1, kMaxSize)
                  .or_auto()
                  .like("16")
                  .more("auto divides the GPUs by the product of the other axes. dp * cp * tp * pp * tile_h * tile_w "
                        "is the number of GPUs, and "
                        "dp = dp_replicate * dp_shard."));
  t.push_back(strategy("dp_replicate", &StrategySettings::dp_replicate,
                       "Data-parallel groups that each hold a whole copy of the sharded state.")
                  .in(1, kMaxSize)
                  .or_auto()
                  .more("auto is dp / dp_shard."));
  axis("dp_shard", &StrategySettings::dp_shard, "Data-parallel ranks over which one copy is sharded.",
       "zero_stage 1 divides the optimizer state over all of dp, however it is split.");
  axis("tp", &StrategySettings::tp, "Tensor-parallel ranks: each layer's matrices are split over them.",
       "Costs two all-reduces of the activations per layer and pass, so it belongs inside a node. Must divide the "
       "attention heads.");
  axis("pp", &StrategySettings::pp, "Pipeline stages: the layers are split over them.",
       "Costs a message per microbatch and boundary, and an idle share that the schedule sets.");
  axis("cp", &StrategySettings::cp, "Context-parallel ranks: each sequence is split over them.");
  axis("ep", &StrategySettings::ep, "Expert-parallel ranks: the experts are spread over them.",
       "Experts see the ranks of one stage as etp * ep * edp = dp * cp * tp, so etp * ep must divide that product.");
  axis("etp", &StrategySettings::etp, "Tensor-parallel ranks inside one expert.");
  axis("tile_h", &StrategySettings::tile_h, "Ranks over which the height of an image is tiled.");
  axis("tile_w", &StrategySettings::tile_w, "Ranks over which the width of an image is tiled.");
  axis("microbatch", &StrategySettings::microbatch, "Sequences per microbatch and replica.");
}

void add_sharding(std::vector<Field>& t) {
  t.push_back(
      fsdp("enabled", &FsdpSettings::enabled, "Parameters, gradients and optimizer state are slices over dp_shard.")
          .more("One unit per block and a root unit for embedding and head (fully_shard). dp_shard left at 1 becomes "
                "dp; with "
                "dp_replicate above 1 it is hybrid sharding (HSDP)."));
  t.push_back(fsdp("reshard_after_forward", &FsdpSettings::reshard_after_forward,
                   "Gathered parameters are dropped after forward.")
                  .more("always: gathered again for backward, 3 times the parameters on the wire. never: kept until "
                        "backward, 2 times. auto: always "
                        "without pipeline stages, never with them. The root unit is always kept."));
  t.push_back(fsdp("reshard_after_backward", &FsdpSettings::reshard_after_backward,
                   "Gathered parameters are dropped after backward.")
                  .more("never keeps them whole through all microbatches of a step, and needs reshard_after_forward "
                        "never. auto: always without "
                        "pipeline stages, never with them."));
  t.push_back(
      fsdp("prefetch_forward", &FsdpSettings::prefetch_forward, "Units gathered ahead of the one at work, in forward.")
          .in(0, 1000)
          .more("Each takes the memory of one unit. 0 exposes every gather."));
  t.push_back(fsdp("prefetch_backward", &FsdpSettings::prefetch_backward,
                   "Units gathered ahead of the one at work, in backward.")
                  .in(0, 1000));
  t.push_back(fsdp("limit_all_gathers", &FsdpSettings::limit_all_gathers,
                   "Gathers wait for the memory that earlier units give back.")
                  .more("false: a pass gathers all its units when it begins, and holds them."));
  t.push_back(
      zero3("prefetch_bucket", &Zero3Settings::prefetch_bucket, "Parameters gathered ahead of the block at work.")
          .in(0, 1e15)
          .like("5e8")
          .more("In elements: DeepSpeed's stage3_prefetch_bucket_size. Whole blocks are gathered while they fit."));
  t.push_back(
      zero3("persistence_threshold", &Zero3Settings::persistence_threshold,
            "Parameters with fewer elements stay whole on every rank.")
          .in(0, 1e15)
          .like("1e6")
          .more("DeepSpeed's stage3_param_persistence_threshold: many small gathers become one after the update."));
  t.push_back(zero3("reuse_distance", &Zero3Settings::reuse_distance,
                    "Parameters used again after fewer elements of others are kept whole until then.")
                  .in(0, 1e15)
                  .like("1e9")
                  .more("DeepSpeed's stage3_max_reuse_distance. Where whole layers run again in backward, it decides "
                        "which of their parameters are gathered once more."));
  t.push_back(zero3("lists", &Zero3Settings::lists,
                    "Each parameter is gathered, and its gradient scattered, through a list of tensors, one per rank.")
                  .more("As DeepSpeed did until October 2021: the host waits for the device, makes a view and launches "
                        "a copy for every rank. Thousands of ranks then cost "
                        "more than the wire."));
}

void add_strategy(std::vector<Field>& t) {
  add_axes(t);
  t.push_back(
      strategy("context", &StrategySettings::context, "How context-parallel ranks attend to one another's keys.")
          .like("ulysses")
          .more("For cp > 1. ring: keys and values go around, block by block, under the attention of the block at "
                "hand. ulysses: all-to-all "
                "between slices of the sequence and slices of the heads. allgather: every rank gathers all keys and "
                "values."));
  t.push_back(strategy("dispatch", &StrategySettings::dispatch, "How tokens reach the ranks of their experts.")
                  .like("hierarchical")
                  .more("all_to_all: one exchange, a row for each expert chosen. hierarchical: one copy of a token for "
                        "each node, handed on inside "
                        "it (DeepSeek-V3, section 3.2.2): fewer bytes between nodes, the more so where routing is "
                        "limited to few nodes."));
  t.push_back(strategy("dispatch_node", &StrategySettings::dispatch_node,
                       "Neighbouring expert-parallel ranks that one copy of a token serves.")
                  .in(0, kMaxSize)
                  .like("8")
                  .more("For hierarchical dispatch. 0 takes the ranks that hold one of the model's groups of experts; "
                        "1 sends a copy to each rank that a token visits, as "
                        "DeepEP does."));
  t.push_back(strategy("schedule", &StrategySettings::schedule, "Order of the microbatches in the pipeline.")
                  .like("interleaved_1f1b")
                  .more("One of: rehearse list schedules."));
  t.push_back(strategy("virtual_stages", &StrategySettings::virtual_stages, "Model chunks per pipeline rank.")
                  .in(1, kMaxSize)
                  .like("3")
                  .more("Above 1 only with a schedule that interleaves chunks."));
  t.push_back(strategy("uneven_layers", &StrategySettings::uneven_layers, "Stages may differ by one layer.")
                  .more("Where pp * virtual_stages does not divide the layers, the extra ones are spread from the "
                        "first stage on; the last, which has the head, "
                        "has none. false refuses such a pp."));
  t.push_back(strategy("layers_per_stage", &StrategySettings::layers_per_stage, "Layers of each pipeline stage.")
                  .in(1, kMaxSize)
                  .like("20,24,24,20")
                  .more("One number for each of the pp * virtual_stages chunks, in the order of the model; they add up "
                        "to its layers. Left out, shares are equal."));
  t.push_back(strategy("batch_per_replica", &StrategySettings::batch_per_replica, "Sequences of each replica per step.")
                  .in(1, kMaxSize)
                  .like("48,16")
                  .more("One number for each of the dp replicas, a multiple of microbatch; they add up to the global "
                        "batch. Left out, shares are equal."));
  t.push_back(strategy("balance", &StrategySettings::balance, "Which shares follow the speed of the devices.")
                  .like("auto")
                  .more("layers chooses layers_per_stage, batch chooses batch_per_replica, auto each where devices "
                        "differ along its axis. What is given stays."));
  t.push_back(strategy("sequence_parallel", &StrategySettings::sequence_parallel,
                       "Split norms and dropout over the sequence inside the tensor-parallel group.")
                  .more("Replaces each all-reduce by a reduce-scatter and an all-gather (Korthikanti et al. 2022): the "
                        "same bytes, less "
                        "memory. No effect with tp = 1."));
  t.push_back(strategy("recompute", &StrategySettings::recompute,
                       "Activations dropped in forward and computed again in backward.")
                  .like("selective")
                  .more("selective drops those of recompute_modules; full keeps only each layer's input, or that of "
                        "each group of recompute_layers."));
  t.push_back(recompute_modules_row());
  t.push_back(
      strategy("recompute_method", &StrategySettings::recompute_method, "Which layers full recomputation is for.")
          .like("block")
          .more("uniform: all layers, in groups of recompute_layers of which the first one's input is kept. block: the "
                "first recompute_layers "
                "of each chunk; the others keep everything (Megatron's --recompute-method)."));
  t.push_back(strategy("recompute_layers", &StrategySettings::recompute_layers,
                       "Layers of a group (uniform) or of a chunk (block) that full recomputation runs again.")
                  .in(1, kMaxSize)
                  .like("4"));
  t.push_back(strategy("zero_stage", &StrategySettings::zero_stage, "What is sharded over data-parallel ranks.")
                  .in(0, 3)
                  .like("1")
                  .more("0 nothing, 1 optimizer state, 2 and gradients, 3 and parameters (Rajbhandari et al. 2020)."));
  t.push_back(strategy("bucket", &StrategySettings::bucket, "Gradients are reduced in buckets of this size.")
                  .in(1, 1e15)
                  .more("Larger buckets use the wire better, smaller ones start earlier."));
  t.push_back(strategy("first_bucket", &StrategySettings::first_bucket, "Size of the bucket that is full first.")
                  .in(0, 1e15)
                  .like("1MiB")
                  .more("0: as the others. DistributedDataParallel makes it 1 MiB, so that the wire starts early."));
  t.push_back(
      strategy("data_parallel", &StrategySettings::data_parallel, "Where replicas find parameters and leave gradients.")
          .like("funnel")
          .more("replicas: each has a copy (DistributedDataParallel). funnel: all through GPU 0 of one machine "
                "(torch.nn.DataParallel). "
                "parameter_server: dealt to the first ranks, pulled and pushed every step."));
  t.push_back(
      strategy("servers", &StrategySettings::servers, "Ranks to which a parameter server's variables are dealt.")
          .in(1, kMaxSize)
          .like("4"));
  t.push_back(
      strategy("grad_sync", &StrategySettings::grad_sync, "When gradients of accumulated microbatches are reduced.")
          .more("last: once per step (no_sync before the last microbatch), which keeps whole gradients meanwhile. "
                "every: after each "
                "microbatch. auto: every for FSDP without pipeline stages and for ZeRO 2 and 3, else last. Whole "
                "gradients can be reduced again only where they are means: "
                "not over cp or tiles, nor of experts where tp is not ep * etp."));
  t.push_back(placement_row());
  t.push_back(strategy("devices", &StrategySettings::devices, "File that says which device each rank runs on.")
                  .like("ranks.json")
                  .more("A JSON array of device numbers or {\"node\", \"gpu\"} objects in rank order, lines "
                        "'node3/GPU5' in rank order, or a "
                        "host file of lines 'node3 slots=8'. Left out, rank i runs on device i. Devices that no rank "
                        "runs on stay idle."));
  t.push_back(strategy("scatter_gather", &StrategySettings::scatter_gather,
                       "Split pipeline messages over tensor-parallel ranks and gather them over NVLink.")
                  .more("Narayanan et al. 2021, section 4.1."));
  t.push_back(strategy("deferred_head_gradients", &StrategySettings::deferred_head_gradients,
                       "Microbatches whose weight gradient of the output layer waits for the last backward pass.")
                  .in(0, kMaxSize)
                  .like("22")
                  .more("The first so many of a step. The last stage, which has the output layer besides its own, then "
                        "computes them while the others drain; what they read "
                        "is kept until then, gathered where sequences were split. As Megatron-Core's "
                        "defer_embedding_wgrad_compute, which gathers again. Plans that 'search' finds have none."));
  t.push_back(strategy("offload", &StrategySettings::offload, "State kept in host memory and copied over PCIe.")
                  .more("optimizer: updated on CPU cores (ZeRO-Offload). activations: what a layer keeps for backward "
                        "is copied out after its forward "
                        "and brought back before its backward, beside the compute of its neighbours."));
  t.push_back(strategy("offload_layers", &StrategySettings::offload_layers,
                       "Layers of a chunk whose activations are offloaded, from its first on.")
                  .in(0, kMaxSize)
                  .like("16")
                  .more("0: all but its last, whose backward follows at once."));
  add_sharding(t);
  t.push_back(
      overlap("grad_reduce", &OverlapSettings::grad_reduce, "Gradient buckets are reduced while backward still runs."));
  t.push_back(
      overlap("param_gather", &OverlapSettings::param_gather, "Sharded parameters arrive during the next forward."));
  t.push_back(
      overlap("tp", &OverlapSettings::tp, "Tensor-parallel collectives are hidden under split matrix products."));
  t.push_back(overlap("tp_backward", &OverlapSettings::tp_backward,
                      "The input gradient's reduction runs under the weight gradient's product.")
                  .more("What Megatron does since autumn 2021. false: the product comes first and nothing runs beside "
                        "the reduction."));
  t.push_back(overlap("pp", &OverlapSettings::pp, "Pipeline messages don't block the compute stream."));
}

void add_input(std::vector<Field>& t) {
  const auto input = [](const std::string& name, auto member, std::string help) {
    return row("input." + name, at(&Scenario::input, member), std::move(help));
  };
  t.push_back(input("sample", &InputSettings::sample, "Stored size of one sample.")
                  .in(0, 1e15)
                  .like("110kB")
                  .more("0 leaves storage and decoding out: only the copy to the device is counted."));
  t.push_back(input("storage", &InputSettings::storage, "Rate at which one node reads samples.")
                  .in(0, 1e15)
                  .like("2GB/s")
                  .more("Shared by the GPUs of the node. 0 is no limit."));
  t.push_back(input("decode_per_core", &InputSettings::decode_per_core, "Samples per second that one CPU core decodes.")
                  .in(0, 1e15)
                  .like("100")
                  .more("0 is nothing to decode."));
  t.push_back(
      input("workers", &InputSettings::workers, "Loader processes per GPU, a core each.").in(1, 100000).like("8"));
  t.push_back(input("gpudirect_storage", &InputSettings::gpudirect_storage,
                    "Samples go from storage to GPU memory, past the CPU.")
                  .more("No decoding on cores and no copy from host memory."));
}

void add_kernels(std::vector<Field>& t) {
  t.push_back(kernels("attention", &KernelSettings::attention, "How attention is computed.")
                  .more("unfused writes the s * s scores to memory; flash keeps them on the chip (Dao et al. 2022)."));
  t.push_back(kernels("flash", &KernelSettings::flash, "Which flash attention runs.")
                  .like("flash2")
                  .more("auto: what frameworks prefer on the GPU's generation. flash1, flash2, flash3: Dao-AILab's; "
                        "flash_triton: its first version in Triton; cudnn: NVIDIA's, which Transformer "
                        "Engine prefers from Hopper on; cudnn_9.13: its versions up to 9.13, slower on Blackwell. "
                        "Without effect where attention is unfused."));
  t.push_back(
      kernels("fused_norm", &KernelSettings::fused_norm,
              "Norm, bias, dropout, residual, rotation and gated activation run as fused kernels.")
          .more("Norms and activations then also find the largest values that fp8 scales are made of. false: RMSNorm, "
                "rotation and gated activation move the "
                "bytes of PyTorch's eager operators, and attention that is unfused runs operator by operator."));
  t.push_back(kernels("fused_activation", &KernelSettings::fused_activation,
                      "Gated and squared activations are one kernel each.")
                  .more("Of experts they always are, but for GPT-OSS's bounds, which fused_experts alone takes in. "
                        "false: they move the bytes of PyTorch's eager operators, as in Megatron without "
                        "bias_activation_fusion; so they do without fused_norm."));
  t.push_back(kernels("fused_cross_entropy", &KernelSettings::fused_cross_entropy,
                      "The loss is computed without storing its probabilities."));
  t.push_back(
      kernels("fused_gradient_accumulation", &KernelSettings::fused_gradient_accumulation,
              "Products of weight gradients add to the sum over microbatches.")
          .more("As in Megatron-LM since autumn 2021 with APEX (gradient_accumulation_fusion). false: they write a "
                "gradient that a kernel adds, as PyTorch's autograd does; without effect "
                "where a step has one microbatch, or where each microbatch's gradients are reduced into shards. Holds "
                "for linear layers, convolutions, experts and routers; embeddings, norms and biases always add."));
  t.push_back(kernels("cuda_graphs", &KernelSettings::cuda_graphs,
                      "Kernels are launched as captured graphs: less launch overhead."));
  t.push_back(kernels("launch_blocking", &KernelSettings::launch_blocking,
                      "The host waits for every kernel before it launches the next: CUDA_LAUNCH_BLOCKING=1.")
                  .more("The host's time (kernels.host) then adds to the device's, and nothing runs beside a kernel: "
                        "what overlaps is refused. For predictions; a run on this machine "
                        "does as its environment says."));
  t.push_back(kernels("clip_on_device", &KernelSettings::clip_on_device,
                      "The norm by which gradients are clipped stays on the device.")
                  .more("false: the host reads it, as in Megatron. Where ranks divide the optimizer's state "
                        "(zero_stage 1 and 2) the GPU then waits for the host, which updates tensor by tensor. "
                        "Without effect elsewhere, and without clip_gradients."));
  t.push_back(kernels("fused_casts", &KernelSettings::fused_casts,
                      "Norms and activations, forward and backward, write in fp8 what products read of them.")
                  .more("As Transformer Engine's operation fuser: such casts move no bytes of their own. Not with "
                        "scales from the tensor itself (tensorwise), nor in fp4: those look at all of it first."));
  t.push_back(kernels("fused_adapters", &KernelSettings::fused_adapters,
                      "Products of low-rank adapters (training.lora) scale and add inside themselves, where tp is 1.")
                  .more("As Transformer Engine's operation fuser in NeMo: each adapter's result is added by its second "
                        "product, its input's gradient by its first. false: a product with "
                        "alpha / rank, then a sum, each a kernel."));
  t.push_back(
      kernels("fused_experts", &KernelSettings::fused_experts,
              "Experts' gated activation, and the casts to fp8 around it, run inside their products.")
          .more("As cuDNN's fused grouped MLP in Transformer Engine: the activation moves no bytes of its own."));
  t.push_back(kernels("samples_first", &KernelSettings::samples_first,
                      "Samples are the first dimension of activations, as in PyTorch's DTensor.")
                  .more("Tensor parallelism then puts pieces of several samples in order by a copy after a gather and "
                        "before a scatter of sequences, adds gradients of products that "
                        "read one value before it reduces them, and in fp8 does as torchao: what several products read "
                        "is cast once, operands that were gathered are turned for the "
                        "weight gradient, scales of a tensor are agreed on by all ranks before each cast, scales of "
                        "rows are found after a gather in bf16. A context-parallel ring then "
                        "sends keys and values of every query head and gradients in fp32, and waits for them. false: "
                        "sequences come first, as in Megatron."));
  t.push_back(kernels("gather_per_product", &KernelSettings::gather_per_product,
                      "Each product of sequence parallelism gathers its tokens by itself.")
                  .more("What PyTorch's ColwiseParallel does where every projection is given slices of the sequence as "
                        "its input: query, key, value, gate and up gather the same "
                        "tokens, and each scatters its term of their gradient. false: they are gathered once, as "
                        "torchtitan's PrepareModuleInput and Megatron do. Not for products in fp8."));
  t.push_back(kernels("host", &KernelSettings::host, "Whose code launches kernels on the CPU.")
                  .more("Small layers take as long as their launches, and what a launch costs depends on the Python "
                        "around it: groups 'launch' of "
                        "topologies/calibration. eager counts bare launches and no Python around them."));
  t.push_back(kernels("products", &KernelSettings::products, "Whose calls of the library multiply matrices.")
                  .more("On Hopper, whole training steps of Megatron-LM and NeMo sustain faster products than those of "
                        "FSDP frameworks on torch.nn.Linear: groups 'power' "
                        "and 'power_pytorch' of topologies/calibration. PyTorch on cuBLAS 12.8 came out with the "
                        "former, on three rows. Without effect where a generation has no such "
                        "constants."));
}

std::vector<Field> build() {
  std::vector<Field> t;
  add_head(t);
  add_training(t);
  add_strategy(t);
  add_kernels(t);
  add_input(t);
  t.push_back(row("calibration", at(&Scenario::calibration), "Calibration profile, by name or path.")
                  .like("profiles/my_h100.json")
                  .more("Left out, the profile that belongs to the cluster's GPU is taken."));
  t.push_back(row("collective_table", at(&Scenario::collective_table), "Measured times of collectives, by path.")
                  .like("tables/our_pods.json")
                  .more("They go before the model's where they speak of a call's operation, ranks and nodes "
                        "(core/collective/README.md)."));
  return t;
}

}  // namespace

const std::vector<Field>& fields() {
  static const std::vector<Field> table = build();
  return table;
}

const std::vector<Group>& groups() {
  static const std::vector<Group> table{
      {"training", "What one step and the whole run train."},
      {"training.experts", "How many tokens each expert takes."},
      {"training.fp8", "Products in fp8, for precision fp8_mixed."},
      {"training.adafactor", "The Adafactor update."},
      {"training.discriminator", "The discriminator's update, in networks that have one."},
      {"training.lora", "Low-rank adapters, trained in place of the model's weights."},
      {"strategy", "How the work is split over the GPUs."},
      {"strategy.fsdp", "Fully sharded data parallelism."},
      {"strategy.zero3", "ZeRO stage 3."},
      {"strategy.overlap", "Which communication runs beside computation."},
      {"kernels", "Which kernels the framework uses."},
      {"input", "Where samples come from."}};
  return table;
}

}  // namespace rehearse::schema
