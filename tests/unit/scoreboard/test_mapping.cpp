#include <set>
#include <sstream>

#include <fmt/format.h>

#include "core/config/settings/strategy.hpp"
#include "core/config/settings/training.hpp"
#include "core/scoreboard/rows/row_field_help.hpp"
#include "core/strategy/workload.hpp"
#include "tests/unit/scoreboard/rows.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

/// Why the row with one field changed is skipped; "predicted" where it is not. Null removes the field.
std::string with(const std::string& field, const nlohmann::json& value) {
  nlohmann::json row = row_json();
  if (value.is_null())
    row["config"].erase(field);
  else
    row["config"][field] = value;
  const MappedRow m = mapped(row);
  return m.job ? "predicted" : m.skipped;
}

std::string figure(const nlohmann::json& measured) {
  nlohmann::json row = row_json();
  row["measured"] = measured;
  const MappedRow m = mapped(row);
  return m.job ? fmt::format("{:.6g} s", m.job->measured.time.value()) : m.skipped;
}

}  // namespace

TEST_CASE("a row becomes the scenario that it describes") {
  const MappedRow m = mapped(row_json());
  REQUIRE(m.job);
  const RowJob& job = *m.job;
  const StrategySettings& s = job.scenario.strategy;
  CHECK(job.gpu == "h100_sxm5_80");
  CHECK(job.gpus == 8);
  CHECK(s.dp == 4);
  CHECK(s.tp == 2);
  CHECK(s.zero_stage == 1);
  CHECK(s.sequence_parallel);
  CHECK(s.recompute == Recompute::full);
  CHECK(job.scenario.training.global_batch == 16);
  CHECK(job.scenario.training.sequence_length == 8192);
  CHECK(job.scenario.training.precision == Precision::bf16_mixed);
  CHECK(job.scenario.training.optimizer == Optimizer::adamw);
  CHECK(job.strategy == "tp + dp");
  CHECK(job.model_kind == "dense");
  // 16 x 8192 tokens at 8 x 512 a second.
  CHECK(job.measured.time.value() == Approx(32.0));
  CHECK(m.guessed.empty());
}

TEST_CASE("a row that names a shipped model and no sizes is of the kind that the model is") {
  for (const auto& [model, kind] :
       {std::pair{"Kimi_K2", "experts"}, {"Qwen3_30B_a3B", "experts"}, {"LLAMA3_8B", "dense"}}) {
    nlohmann::json row = row_json();
    row["config"]["model"] = model;
    row["config"].erase("hidden");
    const MappedRow m = mapped(row);
    INFO(model << " " << m.skipped);
    REQUIRE(m.job);
    CHECK(m.job->model_kind == kind);
  }
}

TEST_CASE("a row that trains adapters says which") {
  CHECK(mapped(row_json()).job->scenario.training.lora.rank == 0);
  nlohmann::json row = row_json();
  row["config"].update({{"task", "LoRA"}, {"lora_rank", 16}, {"lora_alpha", 32}, {"lora_targets", "qkv,fc2"}});
  const MappedRow m = mapped(row);
  REQUIRE(m.job);
  CHECK(m.job->scenario.training.lora == LoraSettings{16, 32, {"qkv", "fc2"}});
  row["config"].update({{"lora_dropout", 0.1},
                        {"lora_all_to_all", true},
                        {"fused_adapters", true},
                        {"precision", "NVFP4"},
                        {"fp8_attention", true},
                        {"fp4_unrotated", true}});
  const MappedRow all = mapped(row);
  REQUIRE(all.job);
  CHECK(all.job->scenario.training.lora == LoraSettings{16, 32, {"qkv", "fc2"}, 0.1, true});
  CHECK(all.job->scenario.kernels.fused_adapters);
  CHECK((all.job->scenario.training.fp8.attention && !all.job->scenario.training.fp8.rotation));
}

TEST_CASE("the trail says where each field is from") {
  const MappedRow m = mapped(row_json());
  const auto from = [&](const std::string& field) {
    for (const Assumption& a : m.trail)
      if (a.field == field) return a.from;
    return std::string("nowhere");
  };
  CHECK(from("tp") == "row");
  CHECK(from("attention").size() > 10);
  CHECK(from("attention") != "row");
}

TEST_CASE("rows are skipped for stated reasons") {
  CHECK(with("hidden", 4096) == "predicted");
  CHECK(with("gpu_type", nullptr) == "field missing: gpu_type");
  CHECK(with("gpu_type", "MI300X") == "GPU unknown");
  CHECK(with("gpus", nullptr) == "field missing: gpus");
  CHECK(with("layers", nullptr) == "field missing: layers");
  CHECK(with("seq_len", nullptr) == "field missing: seq_len");
  CHECK(with("precision", nullptr) == "field missing: precision");
  CHECK(with("task", "LoRA") == "field missing: lora_rank");
  CHECK(with("stage_layers", "4xx2") == "predicted");  // Without a pipeline nobody asks for it.
  CHECK(with("model_family", "mamba") == "model unknown");
  CHECK(with("hidden", "wide") == "malformed row");
  CHECK(with("hidden", -1) == "malformed row");
  CHECK(with("hidden", 1.5) == "malformed row");
  CHECK(with("layers", 1e18) == "malformed row");
  CHECK(with("dp", 3) == "contradiction in the row");
  CHECK(with("global_batch", 15) == "contradiction in the row");
  CHECK(with("zero_stage", 7) == "malformed row");
  CHECK(with("anything else", "x") == "predicted");
}

TEST_CASE("an optimizer or a type of number that no scenario has is said, not replaced") {
  for (const char* name : {"Muon", "Lion", "Lion 8-bit", "4-bit AdamW", "SOAP", "RAdam", "Adamax"}) {
    CAPTURE(name);
    CHECK(with("optimizer", name) == "optimizer unknown");
  }
  for (const char* name : {"Adam", "AdamW", "distributed_fused_adam", "LAMB", "SGD with momentum", "Adafactor",
                           "FusedAdam", "decoupled_adamw (fp32 master)", "8-bit Adam", "paged_adamw_8bit"}) {
    CAPTURE(name);
    CHECK(with("optimizer", name) == "predicted");
  }
  for (const char* type : {"nf4 frozen, bf16", "int8", "QLoRA 4-bit"}) {
    CAPTURE(type);
    CHECK(with("precision", type) == "precision unknown");
  }
}

TEST_CASE("words on an optimizer say in which type it keeps its moments") {
  const auto states = [](const char* words) {
    nlohmann::json row = row_json();
    row["config"]["optimizer"] = words;
    const MappedRow m = mapped(row);
    REQUIRE(m.job);
    return setting(m.job->scenario, "training.optimizer_states");
  };
  for (const char* eight : {"8-bit Adam", "AdamW8bit", "paged_adamw_8bit", "adamw_bnb_8bit"})
    CHECK(states(eight) == "\"int8\"");
  CHECK(states("AdamW, bf16 moments") == "\"bf16\"");
  CHECK(states("decoupled_adamw (fp32 master)") == "\"auto\"");
}

TEST_CASE("bf16 parameters without a master copy are no mixed precision") {
  nlohmann::json row = row_json();
  row["config"]["parameter_dtype"] = "bf16";
  const MappedRow m = mapped(row);
  REQUIRE(m.job);
  CHECK(m.job->scenario.training.precision == Precision::bf16);
}

TEST_CASE("networks of images are known by name, in the variant that is stated") {
  nlohmann::json row = row_json();
  row["config"] = {{"model", "ResNet-50"}, {"batch_per_gpu", 64}, {"gpus", 8},         {"gpus_per_node", 8},
                   {"gpu_type", "P100"},   {"precision", "fp32"}, {"optimizer", "sgd"}};
  row["measured"] = {{"images_per_s", 1734.0}};
  const MappedRow m = mapped(row);
  REQUIRE(m.job);
  CHECK(m.job->model_kind == "images");
  CHECK(m.job->scenario.model.name == "resnet50");
  CHECK(m.job->scenario.strategy.microbatch == 64);
  CHECK(m.job->scenario.training.global_batch == 512);
  CHECK(m.job->measured.time.value() == Approx(512 / 1734.0));
  row["config"]["downsample_in_bottleneck"] = true;
  CHECK(mapped(row).job->scenario.model.inline_json.find("\"downsample_in_bottleneck\":true") != std::string::npos);
}

TEST_CASE("a BERT is built from its sizes") {
  nlohmann::json row = row_json();
  row["config"]["model"] = "an encoder";
  row["config"]["model_family"] = "bert";
  row["config"]["seq_len"] = 128;
  const MappedRow m = mapped(row);
  REQUIRE(m.job);
  CHECK(m.job->scenario.model.inline_json.find("\"model_type\":\"bert\"") != std::string::npos);
}

TEST_CASE("a misspelt field is named, and the row does not count") {
  nlohmann::json row = row_json();
  row["config"]["recomptue"] = "full";
  row["config"].erase("recompute");
  const MappedRow m = mapped(row);
  REQUIRE(m.job);
  CHECK(m.guessed == std::vector<std::string>{"recompute"});
}

TEST_CASE("a step that no such GPU can do is no step of this job") {
  // 8 B parameters, 6 operations each, on 990 TFLOP/s: at most 20,000 tokens a second.
  CHECK(figure({{"tokens_per_s_per_gpu", 15000.0}}) != "above the GPU's peak");
  CHECK(figure({{"tokens_per_s_per_gpu", 25000.0}}) == "above the GPU's peak");
}

TEST_CASE("every field that is looked for is explained") {
  std::set<std::string> explained;
  for (const RowFieldHelp& f : row_field_help()) {
    std::stringstream names(f.names);
    for (std::string name; std::getline(names, name, ',');) explained.insert(name.substr(name.find_first_not_of(' ')));
  }
  nlohmann::json lora = row_json();
  lora["config"]["task"] = "LoRA";
  lora["config"]["lora_rank"] = 8;
  lora["config"]["lora_alpha"] = 16;
  lora["config"]["lora_targets"] = "qkv";
  for (const nlohmann::json& row : {row_json(), lora})
    for (const std::string& field : mapped(row).asked) {
      CAPTURE(field);
      CHECK(explained.contains(field));
    }
}

TEST_CASE("a row says how many layers of a known model have experts") {
  nlohmann::json row = row_json();
  auto& config = row["config"];
  for (const char* size : {"model_family", "hidden", "heads", "kv_heads", "ffn", "vocab"}) config.erase(size);
  config.update({{"model", "DeepSeek-V3"},
                 {"layers", 4},
                 {"tp", 1},
                 {"sequence_parallel", false},
                 {"dp", 8},
                 {"ep", 8},
                 {"global_batch", 32}});
  const auto dense = [&] {
    return nlohmann::json::parse(mapped(row).job->scenario.model.inline_json).at("first_k_dense_replace").get<int>();
  };
  CHECK(dense() == 3);
  config["moe_layers"] = 3;
  CHECK(dense() == 1);
  config["moe_layers"] = 5;
  CHECK(mapped(row).skipped == "contradiction in the row");
  config["layers"] = 61;
  config["moe_layers"] = 58;
  config["seq_len"] = 4096;
  CHECK(mapped(row).job->scenario.model.name == "deepseek_v3");  // As shipped.
}

TEST_CASE("what recipes say of pipelines, experts and modules becomes settings") {
  nlohmann::json row = row_json();
  nlohmann::json& config = row["config"];
  config.update({{"tp", 1},
                 {"sequence_parallel", false},
                 {"pp", 2},
                 {"dp", 4},
                 {"global_batch", 32},
                 {"vpp", 2},
                 {"stage_layers", "9x3,5"},
                 {"schedule", "paired_1f1b"},
                 {"recompute", "modules:core_attn,mlp"},
                 {"gpu_type", "B200"},
                 {"precision", "NVFP4"}});
  row["measured"] = {{"tokens_per_s_per_gpu", 512.0}};
  const MappedRow m = mapped(row);
  INFO(m.skipped << ": " << m.detail);
  REQUIRE(m.job);
  const StrategySettings& s = m.job->scenario.strategy;
  CHECK(s.layers_per_stage == std::vector<std::int64_t>{9, 9, 9, 5});
  CHECK_FALSE(s.uneven_layers);
  CHECK(s.schedule == "paired_1f1b");
  CHECK(s.virtual_stages == 2);
  CHECK(s.recompute == Recompute::selective);
  CHECK(s.recompute_modules == std::vector<std::string>{"core_attn", "mlp"});
  CHECK(m.job->scenario.training.precision == Precision::fp4_mixed);
  config["stage_layers"] = "9,x";
  CHECK(mapped(row).skipped == "malformed row");
}

TEST_CASE("copies of tokens go to ranks inside an NVLink domain, and to domains beyond it") {
  nlohmann::json row = row_json();
  nlohmann::json& config = row["config"];
  config.update({{"model_family", "mixtral"},
                 {"experts", 16},
                 {"experts_per_token", 2},
                 {"tp", 1},
                 {"sequence_parallel", false},
                 {"dp", 8},
                 {"ep", 8},
                 {"dispatch", "per_rank"}});
  CHECK(mapped(row).job->scenario.strategy.dispatch_node == 1);
  config.update({{"gpus", 16}, {"dp", 16}, {"ep", 16}});
  CHECK(mapped(row).job->scenario.strategy.dispatch_node == 8);
  config["dispatch"] = "alltoall";
  CHECK(mapped(row).job->scenario.strategy.dispatch == Dispatch::all_to_all);
}

TEST_CASE("capacities and what is kept in host memory are fields of a row") {
  nlohmann::json row = row_json();
  nlohmann::json& config = row["config"];
  CHECK(mapped(row).job->scenario.strategy.offload == Offload::none);
  config.update({{"offload", "activations"}, {"offload_layers", 20}, {"capacity_factor", 1.25}});
  CHECK(mapped(row).job->scenario.strategy.offload == Offload::activations);
  CHECK(mapped(row).job->scenario.strategy.offload_layers == 20);
  CHECK(mapped(row).job->scenario.training.experts.capacity_factor == 0);  // of a dense model
  config["offload"] = "optimizer states, activations";
  CHECK(mapped(row).job->scenario.strategy.offload == Offload::all);
  config["offload"] = "the kitchen sink";
  CHECK(mapped(row).guessed == std::vector<std::string>{"offload"});
  config["offload"] = "none";
  config.update({{"model_family", "mixtral"},
                 {"experts", 16},
                 {"experts_per_token", 2},
                 {"tp", 1},
                 {"sequence_parallel", false},
                 {"dp", 8},
                 {"ep", 8},
                 {"pad_to_capacity", true}});
  CHECK(mapped(row).job->scenario.training.experts.capacity_factor == 1.25);
  CHECK(mapped(row).job->scenario.training.experts.pad_to_capacity);
  config["capacity_factor"] = -1;
  CHECK(mapped(row).skipped == "malformed row");
}

TEST_CASE("a row from memory is no evidence") {
  nlohmann::json row = row_json();
  row["from_memory"] = true;
  CHECK(mapped(row).skipped == "from memory");
}

TEST_CASE("an unstated microbatch is guessed, and the row not counted") {
  nlohmann::json row = row_json();
  row["config"].erase("micro_batch");
  const MappedRow m = mapped(row);
  REQUIRE(m.job);
  CHECK(m.guessed == std::vector<std::string>{"micro_batch"});
  // Unless it follows from what is stated.
  row["config"]["microbatches"] = 2;
  CHECK(mapped(row).guessed.empty());
  CHECK(mapped(row).job->scenario.strategy.microbatch == 2);
}

TEST_CASE("what evades an answer is no answer") {
  nlohmann::json row = row_json();
  row["config"]["recompute"] = "see the recipe (not in table)";
  CHECK(mapped(row).guessed == std::vector<std::string>{"recompute"});
}

TEST_CASE("operations per second become a time, of a row that is listed and doesn't count") {
  const auto time = [](const char* name, double value, const char* recompute = "none") {
    nlohmann::json row = row_json();
    row["config"]["recompute"] = recompute;
    row["measured"] = {{name, value}};
    const MappedRow m = mapped(row);
    REQUIRE(m.job);
    CHECK(m.guessed == std::vector<std::string>{"step time"});
    return m.job->measured.time.value();
  };
  // 6 operations per weight of a product and token, and 12 * layers * width * keys of attention, for 16 x 8192 tokens
  // on 8 GPUs.
  const double weights = 32 * (4096.0 * 4096 * 2 + 2 * 4096.0 * 1024 + 3 * 4096.0 * 14336) + 4096.0 * 128256;
  const double expected = (6 * weights + 12.0 * 32 * 4096 * 8192) * 16 * 8192 / 8 / 400e12;
  CHECK(time("model_tflops_per_gpu", 400) == Approx(expected));
  CHECK(time("mfu", 0.5) == Approx(expected * 400e12 / (0.5 * 989.4e12)).epsilon(1e-3));
  CHECK(time("mfu", 50) == Approx(time("mfu", 0.5)));
  CHECK(time("mfu", 0.5, "full") == Approx(time("mfu", 0.5)));
  CHECK(time("tflops_per_gpu", 400) == Approx(expected));
  CHECK(time("tflops_per_gpu", 400, "full") == Approx(4 * expected / 3));
  CHECK(time("tflops_per_gpu", 400, "full:8") == Approx((1 + 8.0 / 32 / 3) * expected));
  CHECK(time("mfu_pct", 0.5) == Approx(100 * time("mfu", 0.5)));
  CHECK(figure({{"tflops_per_gpu", 4000}}) == "malformed row");
  CHECK(figure({{"mfu", 400}}) == "malformed row");
  CHECK(figure({{"mfu", 0.4}, {"iteration_time_s", 2.0}}) == "2 s");
}

TEST_CASE("times, rates per second and rates per GPU are the same figure") {
  CHECK(figure({{"iteration_time_s", 2.0}}) == "2 s");
  CHECK(figure({{"iteration_time_ms", 2000}}) == "2 s");
  CHECK(figure({{"tokens_per_s", 65536}}) == "2 s");
  CHECK(figure({{"samples_per_s", 8}}) == "2 s");
  CHECK(figure({{"iteration_time_s_derived", 3.0}, {"tokens_per_s_per_gpu", 8192}}) == "2 s");
  CHECK(figure({{"speedup", 1.4}}) == "no step time or throughput among the figures");
  CHECK(figure({{"iteration_time_s", 0}}) == "malformed row");
  CHECK(figure({{"iteration_time_s", "fast"}}) == "malformed row");
  CHECK(figure({{"statement", "faster"}, {"iteration_time_s", 1}}) == "a statement, no figure");
}
