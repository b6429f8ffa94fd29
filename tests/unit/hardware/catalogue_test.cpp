#include <filesystem>

#include "core/config/json_file.hpp"
#include "core/price/calibration/calibration.hpp"
#include "tests/unit/hardware/topologies.hpp"

namespace rehearse {

nlohmann::json shipped_json(const std::string& name) {
  return load_json((shipped().root() / (name + ".json")).string());
}

namespace {

bool names_sources(const std::vector<Source>& sources) {
  for (const auto& s : sources)
    if (s.key.empty() || s.text.empty()) return false;
  return !sources.empty();
}

}  // namespace

TEST_CASE("every shipped GPU loads, with plausible figures and sources") {
  for (const auto& id : shipped().names(Catalogue::Kind::gpu)) {
    INFO(id);
    auto gpu = shipped().gpu(id);
    CHECK(gpu->id == id);
    CHECK(names_sources(gpu->sources));
    const bool is_cpu = gpu->device == GpuSpec::Device::cpu;
    const bool is_tpu = gpu->generation == "tpu";
    CHECK((gpu->compute_capability == 0) == (is_cpu || is_tpu));
    CHECK(gpu->memory >= Bytes{5e9});
    if (!is_cpu) CHECK(gpu->memory <= Bytes{300e9});
    CHECK(gpu->memory_bandwidth >= BytesPerSecond{75e9});
    CHECK(gpu->memory_bandwidth <= BytesPerSecond{8e12});
    CHECK(gpu->peak(DType::fp16) >= gpu->peak(DType::fp32));
    if (gpu->compute_capability == 60 || gpu->compute_capability >= 70)
      CHECK(gpu->peak(DType::fp16) >= 1.9 * gpu->peak(DType::fp32));
    if (!is_cpu && !is_tpu) CHECK(gpu->peak(DType::bf16) == gpu->peak(DType::fp16));
    if (gpu->nvlink) {
      CHECK(gpu->nvlink->nccl_per_link < gpu->nvlink->per_link);
      CHECK(gpu->nvlink->nccl_per_link > 0.75 * gpu->nvlink->per_link);
    }
  }
}

TEST_CASE("every shipped machine loads, is wired through and cites sources") {
  for (const auto& id : shipped().names(Catalogue::Kind::machine)) {
    INFO(id);
    auto machine = shipped().machine(id);
    CHECK(names_sources(machine->sources));
    auto gpu = shipped().gpu(machine->gpu);
    int gpus = 0, nics = 0;
    for (int v = 0; v < static_cast<int>(machine->vertices.size()); ++v) {
      const auto& vertex = machine->vertices[v];
      if (vertex.kind == MachineSpec::VertexKind::gpu) {
        ++gpus;
        // A board for SXM modules uses every NVLink; a card may stand without a bridge.
        const int links = nvlinks_at(*machine, v);
        const bool card = gpu->id.find("pcie") != std::string::npos || gpu->id.starts_with("rtx") || gpu->id == "a40";
        CHECK((machine->gpus == 1 || links == (gpu->nvlink ? gpu->nvlink->links : 0) || (card && links == 0)));
      }
      nics += vertex.kind == MachineSpec::VertexKind::nic;
    }
    CHECK(gpus == machine->gpus);
    CHECK(nics == machine->nics);
    CHECK(machine->gpus % machine->trays == 0);
    for (const auto& link : machine->links) {
      CHECK(link.rate > BytesPerSecond{0});
      CHECK(link.nccl_rate > BytesPerSecond{0});
      CHECK(link.nccl_rate <= link.rate);
      CHECK(link.latency > Seconds{0});
    }
  }
}

TEST_CASE("every shipped network and cluster loads and cites sources") {
  for (const auto& id : shipped().names(Catalogue::Kind::network)) {
    INFO(id);
    auto network = shipped().network(id);
    CHECK(names_sources(network->sources));
    CHECK(network->switch_latency > Seconds{0});
    CHECK(network->nic_latency >= Seconds{0.1e-6});
    CHECK(network->nic_latency <= Seconds{10e-6});
  }
  for (const auto& id : shipped().names(Catalogue::Kind::cluster)) {
    INFO(id);
    auto cluster = shipped().cluster(id);
    CHECK(names_sources(cluster->sources));
    CHECK_NOTHROW(shipped().network(cluster->network));
    for (const auto& part : cluster->parts) CHECK_NOTHROW(shipped().machine(part.machine));
  }
}

TEST_CASE("the machines the project promises are shipped") {
  auto machines = shipped().names(Catalogue::Kind::machine);
  for (const char* id : {"dgx1p",
                         "dgx1v",
                         "dgx2",
                         "dgx_a100_40gb",
                         "dgx_a100_80gb",
                         "dgx_h100",
                         "dgx_h200",
                         "dgx_b200",
                         "dgx_b300",
                         "gb200_nvl72",
                         "gb300_nvl72",
                         "pcie8_a100_4sw",
                         "pcie4_k80",
                         "pcie8_titan_x_pascal",
                         "rtx3090_2x",
                         "rtx4090_4x",
                         "rtx5090_8x",
                         "aws_p3_16xlarge",
                         "aws_p3dn_24xlarge",
                         "aws_p5_48xlarge",
                         "aws_p5e_48xlarge",
                         "aws_p6_b200_48xlarge",
                         "aws_g5_48xlarge",
                         "aws_g6_48xlarge",
                         "azure_nd_a100_v4",
                         "azure_nd_h100_v5",
                         "azure_nc_a100_v4",
                         "azure_ndv2",
                         "gcp_a2_highgpu_8g",
                         "gcp_a3_highgpu_8g",
                         "gcp_a3_megagpu_8g",
                         "gcp_a3_ultragpu_8g",
                         "oci_bm_gpu_h100_8",
                         "cpu_2s_epyc_7742"}) {
    INFO(id);
    CHECK(std::find(machines.begin(), machines.end(), id) != machines.end());
  }
}

TEST_CASE("an unknown name suggests the nearest") {
  CHECK(error_of([] { (void)shipped().gpu("h100_smx5_80"); }).hint.find("did you mean 'h100_sxm5_80'") !=
        std::string::npos);
  Error machine = error_of([] { (void)shipped().machine("dgx_h10"); });
  CHECK(machine.kind == ErrorKind::usage);
  CHECK(machine.what() == std::string("unknown machine 'dgx_h10'"));
  CHECK(machine.hint.find("'dgx_h100'") != std::string::npos);
  CHECK(error_of([] { (void)shipped().network("selen"); }).hint.find("'selene'") != std::string::npos);
  CHECK(error_of([] { (void)shipped().cluster("../clusters/eos"); }).kind == ErrorKind::usage);
  CHECK(error_of([] { Catalogue("/nonexistent/topologies"); }).kind == ErrorKind::usage);
}

TEST_CASE("the examples of the README are read as they stand") {
  std::string readme = read_text((shipped().root() / "README.md").string());
  auto example = [&](const std::string& kind) {
    std::string fence = "```json " + kind + "\n";
    auto begin = readme.find(fence);
    REQUIRE(begin != std::string::npos);
    begin += fence.size();
    return parse_json(readme.substr(begin, readme.find("```", begin) - begin), "README.md");
  };
  CHECK(machine_from(example("machine")).links.size() == 2 + 4 + 2 + 2 + 1);
  CHECK(read_network(example("network"), "README.md", "example").parameters.at("core_oversubscription") == 4);
  CHECK(read_cluster(example("cluster"), "README.md", "example").parts.size() == 2);
}

TEST_CASE("no file lies beside the catalogue unread") {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(shipped().root())) {
    if (entry.is_directory()) continue;
    INFO(entry.path().string());
    std::string folder = entry.path().parent_path().filename().string();
    bool known = entry.path().filename() == "interconnects.json" || entry.path().filename() == "README.md";
    // Read by the cost model with the constants of steps, by the scoreboard, by frameworks, by plans, by explain, and
    // by files of weights; and a user's Python.
    if (entry.path().filename() == "steps.json" || entry.path().filename() == "prediction_errors.json" ||
        entry.path().filename() == "row_defaults.json" || entry.path().filename() == "first_errors.json" ||
        folder == "frameworks" || entry.path().stem() == "glossary" || entry.path().stem() == "GLOSSARY" ||
        folder == "prices" || folder == "reliability" || folder == "weights" || folder == "graph")
      continue;
    if (folder == "calibration") {  // Read by the cost model, by GPU generation.
      CHECK_NOTHROW(parse_calibration(read_text(entry.path().string()), entry.path().string()));
      continue;
    }
    // By generation, too: every GPU that loads has read its own.
    if (folder == "collectives") known = entry.path().extension() == ".json";
    for (auto kind :
         {Catalogue::Kind::gpu, Catalogue::Kind::machine, Catalogue::Kind::network, Catalogue::Kind::cluster}) {
      auto ids = shipped().names(kind);
      known = known || (folder == std::string(name_of(kind)) + "s" &&
                        std::find(ids.begin(), ids.end(), entry.path().stem().string()) != ids.end());
    }
    CHECK(known);
  }
}

TEST_CASE("the same id gives the same object") {
  CHECK(shipped().gpu("l4") == shipped().gpu("l4"));
  CHECK(shipped().machine("dgx_h100") == shipped().machine("dgx_h100"));
}

}  // namespace rehearse
