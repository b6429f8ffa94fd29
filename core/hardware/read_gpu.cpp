#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/hardware/read_specs.hpp"
#include "core/hardware/source_table.hpp"

namespace rehearse {
namespace {

std::map<DType, FlopsPerSecond> read_peaks(ObjectReader peaks) {
  std::map<DType, FlopsPerSecond> out;
  for (const auto& name : peaks.keys()) {
    auto rate = peaks.quantity<FlopsPerSecond>(name);
    try {
      out[parse_dtype(name)] = rate;
    } catch (const Error& e) {
      peaks.fail(name, e.what(), e.hint);
    }
  }
  if (out.empty()) peaks.fail("", "no peak rate is stated");
  return out;
}

NvlinkSpec read_nvlink(ObjectReader& group) {
  NvlinkSpec nvlink;
  nvlink.generation = static_cast<int>(group.integer("generation", {1, 20}));
  nvlink.links = static_cast<int>(group.integer("links", {1, 1024}));
  nvlink.per_link = group.quantity<BytesPerSecond>("per_link");
  nvlink.nccl_per_link = group.quantity<BytesPerSecond>("nccl_per_link");
  return nvlink;
}

}  // namespace

GpuSpec read_gpu(const nlohmann::json& json, const std::string& origin, const std::string& id,
                 const Interconnects& interconnects) {
  ObjectReader file(json, origin);
  read_header(file, "gpu");
  SourceTable sources(file);
  GpuSpec gpu;
  gpu.id = id;
  gpu.name = file.string("name");
  gpu.vendor = file.string("vendor");
  gpu.generation = file.string("generation");
  gpu.compute_capability = static_cast<int>(file.integer("compute_capability", {0, 1000}, 0));
  static const std::array<std::string, 2> kDevices{"gpu", "cpu"};
  gpu.device = file.choice("device", kDevices, "gpu") == "cpu" ? GpuSpec::Device::cpu : GpuSpec::Device::gpu;
  gpu.peer_to_peer = file.boolean("peer_to_peer", true);

  ObjectReader memory = file.object("memory");
  sources.cite(memory);
  gpu.memory = memory.quantity<Bytes>("capacity");
  // Of GPUs whose figure is stated, those without error correction in DRAM show processes 97.9 to 99.1 %.
  constexpr double kUsable = 0.985;
  gpu.usable_memory =
      memory.quantity<Bytes>("usable", gpu.device == GpuSpec::Device::gpu ? gpu.memory * kUsable : gpu.memory);
  gpu.memory_bandwidth = memory.quantity<BytesPerSecond>("bandwidth");
  memory.finish();

  ObjectReader compute = file.object("compute");
  sources.cite(compute);
  gpu.peak_dense = read_peaks(compute.object("peak_dense"));
  gpu.sm_count = static_cast<int>(compute.integer("sm_count", {1, 100000}));
  gpu.l2 = compute.quantity<Bytes>("l2");
  gpu.tdp = compute.quantity<Watts>("tdp");
  compute.finish();

  if (auto group = file.optional_object("nvlink")) {
    sources.cite(*group);
    gpu.nvlink = read_nvlink(*group);
    group->finish();
  }
  ObjectReader pcie = file.object("pcie");
  sources.cite(pcie);
  gpu.pcie.generation = static_cast<int>(pcie.integer("generation", {1, 10}));
  gpu.pcie.lanes = static_cast<int>(pcie.integer("lanes", {1, 16}, 16));
  gpu.pcie.per_direction = interconnects.pcie(gpu.pcie.generation, gpu.pcie.lanes).raw;
  if (pcie.has("device_ids")) gpu.pci_devices = pcie.strings("device_ids");
  pcie.expect("device_ids");
  pcie.finish();
  file.finish();
  gpu.sources = sources.finish();
  return gpu;
}

}  // namespace rehearse
