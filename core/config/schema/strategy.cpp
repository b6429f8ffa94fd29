// Rows of `strategy`: how the work is split over the GPUs.

#include "core/config/settings/strategy.hpp"
#include "core/config/schema/rows.hpp"

namespace rehearse::schema {
namespace {

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

Field placement_row() {
  Field f{.key = "strategy.placement", .help = "Axes, that of the nearest ranks first.", .type = Type::axes};
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
  Field f{.key = "strategy.recompute_modules", .help = "What selective recomputation makes again.", .type = Type::axes};
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

void add_axes(std::vector<Field>& t) {
  const auto axis = [&t](const char* name, auto member, const char* help, const char* detail = "") {
    t.push_back(strategy(name, member, help).in(1, kMaxSize).more(detail));
    return &t.back();
  };
  t.push_back(strategy("dp", &StrategySettings::dp, "Data-parallel replicas.")
                  .in(1, kMaxSize)
                  .or_auto()
                  .like("16")
                  .more("auto divides the GPUs by the product of the other axes. dp * cp * tp * pp * tile_h * tile_w "
                        "is the number of GPUs, and "
                        "dp = dp_replicate * dp_shard."));
  t.push_back(strategy("dp_replicate", &StrategySettings::dp_replicate, "Whole copies of the sharded state.")
                  .in(1, kMaxSize)
                  .or_auto()
                  .more("Data-parallel groups that each hold a whole copy; auto is dp / dp_shard."));
  axis("dp_shard", &StrategySettings::dp_shard, "Ranks over which one copy is sharded.",
       "Above 1, zero_stage 1 divides the optimizer state over so many replicas, and the gradients' sums are then "
       "reduced between such groups; 2 and 3 divide over all of dp, however it is split.");
  axis("tp", &StrategySettings::tp, "Tensor-parallel ranks share each matrix.",
       "Costs two all-reduces of the activations per layer and pass, so it belongs inside a node. Must divide the "
       "attention heads.");
  axis("pp", &StrategySettings::pp, "Pipeline stages share the layers.",
       "Costs a message per microbatch and boundary, and an idle share that the schedule sets.");
  axis("cp", &StrategySettings::cp, "Context-parallel ranks share a sequence.");
  axis("ep", &StrategySettings::ep, "Expert-parallel ranks share the experts.",
       "Experts see the ranks of one stage as etp * ep * edp = dp * cp * tp, so etp * ep must divide that product.");
  axis("etp", &StrategySettings::etp, "Tensor-parallel ranks inside one expert.")->few_set_it = true;
  axis("tile_h", &StrategySettings::tile_h, "Ranks over which the height of an image is tiled.")->few_set_it = true;
  axis("tile_w", &StrategySettings::tile_w, "Ranks over which the width of an image is tiled.")->few_set_it = true;
  axis("microbatch", &StrategySettings::microbatch, "Sequences per microbatch and replica.");
}

void add_sharding(std::vector<Field>& t) {
  t.push_back(
      fsdp("enabled", &FsdpSettings::enabled, "All state is sliced over dp_shard (FSDP).")
          .more("One unit per block and a root unit for embedding and head (fully_shard). dp_shard left at 1 becomes "
                "dp; with "
                "dp_replicate above 1 it is hybrid sharding (HSDP)."));
  t.push_back(fsdp("reshard_after_forward", &FsdpSettings::reshard_after_forward, "Forward drops gathered parameters.")
                  .more("always: gathered again for backward, 3 times the parameters on the wire. never: kept until "
                        "backward, 2 times. auto: always "
                        "without pipeline stages, never with them. The root unit is always kept."));
  t.push_back(fsdp("reshard_after_backward", &FsdpSettings::reshard_after_backward,
                   "Gathered parameters are dropped after backward.")
                  .more("never keeps them whole through all microbatches of a step, and needs reshard_after_forward "
                        "never. auto: always without "
                        "pipeline stages, never with them.")
                  .seldom());
  t.push_back(
      fsdp("prefetch_forward", &FsdpSettings::prefetch_forward, "Units gathered ahead of the one at work, in forward.")
          .in(0, 1000)
          .more("Each takes the memory of one unit. 0 exposes every gather.")
          .seldom());
  t.push_back(fsdp("prefetch_backward", &FsdpSettings::prefetch_backward,
                   "Units gathered ahead of the one at work, in backward.")
                  .in(0, 1000)
                  .seldom());
  t.push_back(fsdp("limit_all_gathers", &FsdpSettings::limit_all_gathers,
                   "Gathers wait for the memory that earlier units give back.")
                  .more("false: a pass gathers all its units when it begins, and holds them.")
                  .seldom());
  t.push_back(
      zero3("prefetch_bucket", &Zero3Settings::prefetch_bucket, "Parameters gathered ahead of the block at work.")
          .in(0, 1e15)
          .like("5e8")
          .more("In elements: DeepSpeed's stage3_prefetch_bucket_size. Whole blocks are gathered while they fit.")
          .seldom());
  t.push_back(
      zero3("persistence_threshold", &Zero3Settings::persistence_threshold,
            "Parameters with fewer elements stay whole on every rank.")
          .in(0, 1e15)
          .like("1e6")
          .more("DeepSpeed's stage3_param_persistence_threshold: many small gathers become one after the update.")
          .seldom());
  t.push_back(zero3("reuse_distance", &Zero3Settings::reuse_distance,
                    "Parameters used again after fewer elements of others are kept whole until then.")
                  .in(0, 1e15)
                  .like("1e9")
                  .more("DeepSpeed's stage3_max_reuse_distance. Where whole layers run again in backward, it decides "
                        "which of their parameters are gathered once more.")
                  .seldom());
}

}  // namespace

void add_strategy(std::vector<Field>& t) {
  add_axes(t);
  t.push_back(
      strategy("context", &StrategySettings::context, "How cp ranks attend to each other's keys.")
          .like("ulysses")
          .more("For cp > 1. ring: keys and values go around, block by block, under the attention of the block at "
                "hand. ulysses: all-to-all "
                "between slices of the sequence and slices of the heads. allgather: every rank gathers all keys and "
                "values."));
  t.push_back(strategy("dispatch", &StrategySettings::dispatch, "How tokens reach their experts' ranks.")
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
                        "DeepEP does.")
                  .seldom());
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
                        "has none. false refuses such a pp.")
                  .seldom());
  t.push_back(strategy("layers_per_stage", &StrategySettings::layers_per_stage, "Layers of each pipeline stage.")
                  .in(0, kMaxSize)
                  .like("20,24,24,20")
                  .more("One number for each of the pp * virtual_stages chunks, in the order of the model; they add up "
                        "to its layers. A chunk may have none beside the embedding or the head. Left out, shares are "
                        "equal."));
  t.push_back(strategy("batch_per_replica", &StrategySettings::batch_per_replica, "Sequences of each replica per step.")
                  .in(1, kMaxSize)
                  .like("48,16")
                  .more("One number for each of the dp replicas, a multiple of microbatch; they add up to the global "
                        "batch. Left out, shares are equal.")
                  .seldom());
  t.push_back(strategy("balance", &StrategySettings::balance, "Which shares follow the devices' speed.")
                  .like("auto")
                  .more("layers chooses layers_per_stage, batch chooses batch_per_replica, auto each where devices "
                        "differ along its axis. What is given stays."));
  t.push_back(
      strategy("sequence_parallel", &StrategySettings::sequence_parallel, "Norms and dropout are split over tp ranks.")
          .more("Replaces each all-reduce by a reduce-scatter and an all-gather (Korthikanti et al. 2022): the "
                "same bytes, less "
                "memory. No effect with tp = 1."));
  t.push_back(strategy("recompute", &StrategySettings::recompute, "Activations that backward computes again.")
                  .like("selective")
                  .more("selective drops those of recompute_modules; full keeps only each layer's input, or that of "
                        "each group of recompute_layers."));
  t.push_back(recompute_modules_row());
  t.push_back(
      strategy("recompute_method", &StrategySettings::recompute_method, "Which layers full recomputation is for.")
          .like("block")
          .more("uniform: all layers, in groups of recompute_layers of which the first one's input is kept. block: the "
                "first recompute_layers "
                "of each chunk; the others keep everything (Megatron's --recompute-method).")
          .seldom());
  t.push_back(
      strategy("recompute_layers", &StrategySettings::recompute_layers, "Layers per group or chunk that run again.")
          .in(1, kMaxSize)
          .like("4")
          .more("Of full recomputation: layers of a group (uniform) or of a chunk (block)."));
  t.push_back(strategy("zero_stage", &StrategySettings::zero_stage, "What is sharded over data-parallel ranks.")
                  .in(0, 3)
                  .like("1")
                  .more("0 nothing, 1 optimizer state, 2 and gradients, 3 and parameters (Rajbhandari et al. 2020)."));
  t.push_back(strategy("bucket", &StrategySettings::bucket, "Size of a bucket of reduced gradients.")
                  .in(1, 1e15)
                  .more("Larger buckets use the wire better, smaller ones start earlier."));
  t.push_back(
      strategy("data_parallel", &StrategySettings::data_parallel, "Where replicas find parameters and leave gradients.")
          .like("funnel")
          .more("replicas: each has a copy (DistributedDataParallel). funnel: all through GPU 0 of one machine "
                "(torch.nn.DataParallel). "
                "parameter_server: dealt to the first ranks, pulled and pushed every step.")
          .seldom());
  t.push_back(
      strategy("servers", &StrategySettings::servers, "Ranks to which a parameter server's variables are dealt.")
          .in(1, kMaxSize)
          .like("4")
          .seldom());
  t.push_back(
      strategy("grad_sync", &StrategySettings::grad_sync, "When gradients of accumulated microbatches are reduced.")
          .more("last: once per step (no_sync before the last microbatch), which keeps whole gradients meanwhile. "
                "every: after each "
                "microbatch. auto: every for FSDP without pipeline stages and for ZeRO 2 and 3, else last. Whole "
                "gradients can be reduced again only where they are means: "
                "not over cp or tiles, nor of experts where tp is not ep * etp.")
          .seldom());
  t.push_back(placement_row());
  t.push_back(strategy("devices", &StrategySettings::devices, "File that says which device each rank runs on.")
                  .like("ranks.json")
                  .more("A JSON array of device numbers or {\"node\", \"gpu\"} objects in rank order, lines "
                        "'node3/GPU5' in rank order, or a "
                        "host file of lines 'node3 slots=8'. Left out, rank i runs on device i. Devices that no rank "
                        "runs on stay idle.")
                  .seldom());
  t.push_back(strategy("offload", &StrategySettings::offload, "State kept in host memory, over PCIe.")
                  .more("optimizer: updated on CPU cores (ZeRO-Offload). activations: what a layer keeps for backward "
                        "is copied out after its forward "
                        "and brought back before its backward, beside the compute of its neighbours."));
  t.push_back(strategy("offload_layers", &StrategySettings::offload_layers,
                       "Layers of a chunk whose activations are offloaded, from its first on.")
                  .in(0, kMaxSize)
                  .like("16")
                  .more("0: all but its last, whose backward follows at once.")
                  .seldom());
  add_sharding(t);
  t.push_back(overlap("grad_reduce", &OverlapSettings::grad_reduce, "Gradients are reduced during backward."));
  t.push_back(overlap("param_gather", &OverlapSettings::param_gather, "Parameters arrive during the next forward."));
  t.push_back(overlap("tp", &OverlapSettings::tp, "tp collectives hide under split products."));
  t.push_back(overlap("pp", &OverlapSettings::pp, "Pipeline messages leave compute free."));
}

}  // namespace rehearse::schema
