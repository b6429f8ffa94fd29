#include "core/base/index.hpp"
#include "core/cluster/topology_matrix.hpp"
#include "core/import/topology/nccl_xml.hpp"
#include "tests/unit/import/imports.hpp"

namespace rehearse {
namespace {

using Kind = MachineSpec::VertexKind;

const char* const kCpu =
    R"(<cpu numaid="0" affinity="0000ffff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="85">)";

/// A host of one CPU with `inside`.
std::string system_of(const std::string& inside) {
  return std::string("<system version=\"1\">") + kCpu + inside + "</cpu></system>";
}
std::string gpu(int dev, const std::string& inside = {}, int sm = 70) {
  return "<pci busid=\"0000:0" + std::to_string(dev) +
         ":00.0\" class=\"0x030200\" link_speed=\"8 GT/s\" link_width=\"16\"><gpu dev=\"" + std::to_string(dev) +
         "\" sm=\"" + std::to_string(sm) + "\">" + inside + "</gpu></pci>";
}
std::string nvlink(int to, int count) {
  return "<nvlink target=\"0000:0" + std::to_string(to) + ":00.0\" count=\"" + std::to_string(count) +
         "\" tclass=\"0x030200\"/>";
}

ImportOptions v100() {
  ImportOptions options;
  options.gpu = "v100_sxm2_16";
  return options;
}

}  // namespace

TEST_CASE("the PCI device id says the model; a contradicting --gpu is refused") {
  const std::string dump = description("ibm_vpc_h100_vm_dump.xml");
  CHECK(imported(dump, {}).gpu == "h100_sxm5_80");
  ImportOptions wrong;
  wrong.gpu = "a100_sxm4_80";
  CHECK(std::string(refused(dump, wrong).what()) == "<gpu>: compute capability 9.0, but a A100 SXM4 80GB has 8.0");
  CHECK(refused(system_of(gpu(0)), {}).hint.find("--gpu") != std::string::npos);
}

TEST_CASE("a dump of eight H100: 18 NVLinks each to four chips, a NIC behind the switch of each, speeds as stated") {
  const MachineSpec m = imported(description("ibm_vpc_h100_vm_dump.xml"), {});
  CHECK(m.nic.rate == BytesPerSecond{25e9});
  CHECK(m.gpudirect_rdma);
  CHECK(m.nvls);
  int chips = 0;
  for (const auto& v : m.vertices)
    if (v.kind == Kind::nvswitch) chips = v.chips;
  CHECK(chips == 4);
  const TopologyMatrix matrix = topology_matrix(m);
  CHECK(matrix.text(0, 7) == "NV18");
  CHECK(matrix.text(0, 8 + 7) == "PIX");  // mlx5_7 is on the first GPU's switch.
  CHECK(matrix.devices[8].device == "mlx5_0");
  CHECK(matrix.devices[0].cores == "0-79");
  for (const auto& link : m.links)
    if (nth(m.vertices, link.a).kind == Kind::pcie_switch)
      CHECK(link.nccl_rate == BytesPerSecond{0.1875e9});  // 2.5 GT/s x1.
}

TEST_CASE("the CPU's family and model give its link as NCCL takes it") {
  auto link_of = [](const std::string& model) {
    std::string text = system_of(gpu(0));
    text = text.substr(0, text.size() - 9) +
           R"(<cpu numaid="1"><nic><net name="eth0" dev="0" speed="25000"/></nic></cpu></system>)";
    text.replace(text.find("modelid=\"85\""), 12, "modelid=\"" + model + "\"");
    const MachineSpec m = imported(text, v100());
    for (const auto& link : m.links)
      if (link.kind == MachineSpec::LinkKind::socket) return link.nccl_rate.value() / 1e9;
    return 0.0;
  };
  CHECK(link_of("79") == 6);
  CHECK(link_of("85") == 10);
  CHECK(link_of("143") == 22);
  CHECK(link_of("207") == 40);
}

TEST_CASE("NVLinks between GPUs are stated by both ends, which must agree") {
  MachineSpec m = imported(system_of(gpu(0, nvlink(1, 2)) + gpu(1, nvlink(0, 2))), v100());
  CHECK(topology_matrix(m).text(0, 1) == "NV2");
  CHECK(topology_matrix(imported(system_of(gpu(0, nvlink(1, 2)) + gpu(1)), v100())).text(0, 1) == "NV2");
  CHECK(std::string(refused(system_of(gpu(0, nvlink(1, 2)) + gpu(1, nvlink(0, 1))), v100()).what()) ==
        "<nvlink>: GPU0 and GPU1 state 2 and 1 NVLinks to each other");
  CHECK(refused(system_of(gpu(0, nvlink(7, 2)) + gpu(1)), v100()).what() ==
        std::string("<nvlink>: an NVLink to '0000:07:00.0', which is no GPU of this file"));
  CHECK(std::string(refused(system_of(gpu(0, nvlink(1, 7)) + gpu(1)), v100()).what()).find("wired with 7 NVLinks") !=
        std::string::npos);
}

TEST_CASE("a GPU with fewer links to the NVSwitches keeps them") {
  const std::string six = R"(<nvlink target="fffffff:ff:ff.0" count="6" tclass="0x068000"/>)",
                    two = R"(<nvlink target="fffffff:ff:ff.0" count="2" tclass="0x068000"/>)";
  const TopologyMatrix m = topology_matrix(imported(system_of(gpu(0, six) + gpu(1, six) + gpu(2, two)), v100()));
  CHECK(m.text(0, 1) == "NV6");
  CHECK(m.text(0, 2) == "NV2");
}

TEST_CASE("nested switches, a chip link to the CPU, ports of one NIC; slower NICs are left out with a note") {
  const std::string inside =
      R"(<pci busid="a" class="0x060400" link_speed="16 GT/s" link_width="16">
          <pci busid="b" class="0x060400" link_speed="16 GT/s" link_width="16">)" +
      gpu(0, R"(<c2c bw="46875" count="8"/>)") +
      R"(</pci><pci busid="n" class="0x020700" link_speed="16 GT/s" link_width="16"><nic>
          <net name="mlx5_0" dev="0" speed="200000" gdr="1"/>
          <net name="mlx5_1" dev="1" speed="200000" gdr="1"/>)"
      R"(<net name="eth0" dev="2" speed="10000" gdr="0"/></nic></pci></pci>)";
  const ImportedTopology result = import_topology(system_of(inside), "file", v100(), shipped());
  const MachineSpec m = machine_of(result);
  CHECK(m.nics == 2);
  CHECK(m.nic.rate == BytesPerSecond{25e9});
  CHECK(result.notes.size() == 1);
  CHECK(topology_matrix(m).text(0, 1) == "PXB");
  CHECK(topology_matrix(m).text(1, 2) == "PIX");
  double c2c = 0;
  for (const auto& link : m.links)
    if (link.kind == MachineSpec::LinkKind::c2c) c2c = link.rate.value();
  CHECK(c2c == Approx(375e9));
}

TEST_CASE("unknown speeds count as generation 3 and no width as 16 lanes, as NCCL has it") {
  std::string text = gpu(0);
  text.replace(text.find("8 GT/s"), 6, "Unknown");
  text.replace(text.find("\"16\""), 4, "\"0\"");
  const MachineSpec m = imported(system_of(text), v100());
  CHECK(m.links[0].nccl_rate == BytesPerSecond{12e9});
}

TEST_CASE("numbers out of range and twins are refused with their line") {
  CHECK(refused(system_of(gpu(0) + gpu(0)), v100()).what() ==
        std::string("<pci>: two devices have busid '0000:00:00.0'"));
  CHECK(refused(system_of("<nic><net name=\"e\" dev=\"0\" speed=\"-1\"/></nic>" + gpu(0)), v100()).where == "file:1");
  CHECK(refused(system_of(gpu(0, nvlink(1, 99999)) + gpu(1)), v100()).what() ==
        std::string("<nvlink>: count=\"99999\" is no whole number from 1 to 1024"));
  CHECK(refused("<system version=\"1\"><cpu><pci busid=\"a\" class=\"0x030200\"><gpu dev=\"0\"/></pci></cpu></system>",
                v100())
            .what() == std::string("<cpu>: the vendor of the CPU is not stated"));
}

TEST_CASE("graphs: numbers, patterns and ids are checked") {
  auto graphs = [](const std::string& inside) {
    return refused("<graphs version=\"1\">" + inside + "</graphs>", v100()).what();
  };
  const std::string good =
      R"(pattern="4" nchannels="2" speedintra="12" speedinter="12" typeintra="SYS"
         typeinter="PIX" crossnic="0" samechannels="1")";
  CHECK(std::string(graphs("<graph id=\"0\" " + good + "/><graph id=\"0\" " + good + "/>")) ==
        "<graph>: two graphs have id 0");
  CHECK(std::string(graphs(R"(<graph id="0" pattern="9"/>)")) == "<graph>: pattern=\"9\" is no number from 1 to 6");
  CHECK(std::string(graphs("")) == "<graphs>: no graph with channels");
}

}  // namespace rehearse
