#include <fmt/format.h>

#include "core/cluster/fabric.hpp"

namespace rehearse {
namespace {

class SingleSwitch final : public SwitchedFabric {
 public:
  using SwitchedFabric::SwitchedFabric;
  [[nodiscard]] int switch_count() const override { return 1; }
  [[nodiscard]] std::string switch_name(int) const override { return "switch"; }
  [[nodiscard]] BytesPerSecond bisection() const override { return half_of_nics(); }
  [[nodiscard]] std::string summary() const override {
    return fmt::format("one non-blocking switch with {} ports", port_count());
  }

 private:
  [[nodiscard]] int leaf_of(const Port&) const override { return 0; }
  [[nodiscard]] int trunk_count() const override { return 0; }
  [[nodiscard]] Trunk trunk(int) const override { return {}; }
  void climb(int, int, std::uint64_t, std::vector<int>&) const override {}
};

[[maybe_unused]] const bool registered_single_switch =
    fabric_registry().add({"single_switch", "every NIC on one non-blocking switch", {}, [](const FabricSite& site) {
                             return std::make_unique<SingleSwitch>(site);
                           }});

}  // namespace
}  // namespace rehearse
