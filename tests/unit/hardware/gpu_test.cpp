#include "tests/unit/hardware/topologies.hpp"

namespace rehearse {

TEST_CASE("V100 has no bf16 and no tf32: they run as fp16 and fp32") {
  auto v100 = shipped().gpu("v100_sxm2_32");
  CHECK(v100->peak(DType::bf16) == FlopsPerSecond{125e12});
  CHECK(v100->peak(DType::tf32) == FlopsPerSecond{15.7e12});
  Error fp8 = error_of([&] { (void)v100->peak(DType::fp8); });
  CHECK(fp8.kind == ErrorKind::usage);
  CHECK(fp8.hint.find("fp16") != std::string::npos);
}

TEST_CASE("Kepler and Maxwell have no half-precision units: fp16 and bf16 run at the rate of fp32") {
  for (const char* id : {"k20", "k40", "k80", "titan_x_maxwell"}) {
    auto gpu = shipped().gpu(id);
    CHECK(gpu->peak(DType::bf16) == gpu->peak(DType::fp32));
  }
  CHECK(shipped().gpu("k80")->peak(DType::fp32) == FlopsPerSecond{8.74e12 / 2});
}

TEST_CASE("GeForce cards of the 40 and 50 series have no peer-to-peer access, and so have boxes of them") {
  for (const char* id : {"rtx4090", "rtx5090"}) CHECK_FALSE(shipped().gpu(id)->peer_to_peer);
  CHECK(shipped().gpu("l40s")->peer_to_peer);
  CHECK_FALSE(shipped().machine("rtx4090_8x")->peer_to_peer);
  CHECK(shipped().machine("rtx3090_2x_nvlink")->peer_to_peer);
}

TEST_CASE("dense peaks are dense, not the sparse figures of the headlines") {
  CHECK(shipped().gpu("a100_sxm4_80")->peak(DType::bf16) == FlopsPerSecond{312e12});
  CHECK(shipped().gpu("h100_sxm5_80")->peak(DType::bf16) == FlopsPerSecond{989.4e12});
  CHECK(shipped().gpu("b200_sxm")->peak(DType::bf16) == FlopsPerSecond{2250e12});
  CHECK(shipped().gpu("l40s")->peak(DType::fp16) == FlopsPerSecond{362.05e12});
}

TEST_CASE("A100 80GB: 80 GiB at 2039 GB/s and 300 GB/s of NVLink per direction") {
  auto a100 = shipped().gpu("a100_sxm4_80");
  CHECK(a100->memory == Bytes{80.0 * 1024 * 1024 * 1024});
  CHECK(a100->memory_bandwidth == BytesPerSecond{2039e9});
  CHECK(a100->nvlink->links * a100->nvlink->per_link == BytesPerSecond{300e9});
  CHECK(a100->nvlink->nccl_per_link == BytesPerSecond{20e9});
  CHECK(a100->pcie.per_direction == BytesPerSecond{31.5e9});
}

TEST_CASE("H100 reaches 450 GB/s of NVLink per direction, B200 twice that") {
  auto total = [](const char* id) {
    auto nvlink = *shipped().gpu(id)->nvlink;
    return nvlink.links * nvlink.per_link;
  };
  CHECK(total("h100_sxm5_80") == BytesPerSecond{450e9});
  CHECK(total("b200_sxm") == BytesPerSecond{900e9});
}

TEST_CASE("PCIe figures scale with lanes, and NCCL counts three quarters of the wire") {
  const auto& links = shipped().interconnects();
  CHECK(links.pcie(4, 8).raw.value() == Approx(15.75e9));
  CHECK(links.pcie(5, 16).nccl == BytesPerSecond{48e9});
  for (int generation = 2; generation <= 6; ++generation)
    CHECK(links.pcie(generation, 16).nccl == 2 * links.pcie(generation - 1, 16).nccl);
  CHECK(error_of([&] { (void)links.pcie(9, 16); }).kind == ErrorKind::usage);
  CHECK(error_of([&] { (void)links.socket("qpi_brodwell"); }).hint.find("'qpi_broadwell'") != std::string::npos);
}

}  // namespace rehearse
