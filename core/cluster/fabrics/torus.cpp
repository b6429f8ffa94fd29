// A torus: every node has a router, joined to its neighbours along two or three rings. Routes go along x, then y, then
// z, each the shorter way round (dimension-ordered routing; W. Dally and C. Seitz, IEEE Trans. Computers C-36, 1987).

#include <array>

#include <fmt/format.h>

#include "core/cluster/fabric.hpp"

namespace rehearse {
namespace {

constexpr std::size_t kDimensions = 3;
constexpr std::array<const char*, kDimensions> kNames{"x", "y", "z"};
using Place = std::array<int, kDimensions>;

class Torus final : public SwitchedFabric {
 public:
  explicit Torus(const FabricSite& site) : SwitchedFabric(site) {
    long long routers = 1;
    for (std::size_t d = 0; d < kDimensions; ++d) {
      if (d < 2 && !site.parameters.contains(kNames[d]))
        throw Error(ErrorKind::usage, fmt::format("a torus needs the parameter '{}'", kNames[d]), "network.parameters");
      size_[d] = integer_parameter(site, kNames[d], 1);
      routers *= size_[d];
      first_link_[d] = links_per_router_;
      links_per_router_ += ring_links(d);
    }
    if (routers != node_count())
      throw Error(ErrorKind::usage,
                  fmt::format("a torus of {} x {} x {} joins {} nodes, not {}", size_[0], size_[1], size_[2], routers,
                              node_count()),
                  "network.parameters", "x * y * z is the number of nodes");
    BytesPerSecond widest;
    for (const auto& p : site.parts) widest = max(widest, p.nics * p.rate);
    link_rate_ = widest * ratio_parameter(site, "link_width", 1);
  }

  [[nodiscard]] int switch_count() const override { return node_count(); }
  [[nodiscard]] std::string switch_name(int index) const override {
    Place at = place(index);
    return size_[2] == 1 ? fmt::format("router{}.{}", at[0], at[1])
                         : fmt::format("router{}.{}.{}", at[0], at[1], at[2]);
  }

  /// The cut through the middle of the last dimension longer than 1 crosses each of its rings twice (once where the
  /// ring is two nodes).
  [[nodiscard]] BytesPerSecond bisection() const override {
    std::size_t last = kDimensions - 1;
    while (last > 0 && size_[last] == 1) --last;
    if (size_[last] == 1) return {};
    double rings = static_cast<double>(node_count()) / size_[last];
    return min(half_of_nics(), link_rate_ * (rings * ring_links(last)));
  }

  [[nodiscard]] std::string summary() const override {
    std::string sizes = fmt::format("{} x {}", size_[0], size_[1]);
    if (size_[2] > 1) sizes += fmt::format(" x {}", size_[2]);
    return fmt::format("torus of {} routers, {} to each neighbour, dimension-ordered", sizes, to_string(link_rate_));
  }

 private:
  /// Links out of a router along one dimension: both neighbours, which are the same one in a ring of two.
  [[nodiscard]] int ring_links(std::size_t d) const { return size_[d] > 2 ? 2 : size_[d] - 1; }

  [[nodiscard]] Place place(int router) const {
    return {router % size_[0], router / size_[0] % size_[1], router / (size_[0] * size_[1])};
  }
  [[nodiscard]] int router(const Place& at) const { return at[0] + size_[0] * (at[1] + size_[1] * at[2]); }
  [[nodiscard]] int neighbour(int from, std::size_t d, bool forward) const {
    Place at = place(from);
    at[d] = (at[d] + (forward ? 1 : size_[d] - 1)) % size_[d];
    return router(at);
  }

  [[nodiscard]] int leaf_of(const Port& port) const override { return port.node; }
  [[nodiscard]] int trunk_count() const override { return node_count() * links_per_router_; }
  [[nodiscard]] Trunk trunk(int index) const override {
    int from = index / links_per_router_;
    int within = index % links_per_router_;
    std::size_t d = 0;
    while (within >= first_link_[d] + ring_links(d)) ++d;
    return {from, neighbour(from, d, within == first_link_[d]), link_rate_};
  }

  void climb(int from, int to, std::uint64_t, std::vector<int>& trunks) const override {
    Place goal = place(to);
    for (std::size_t d = 0; d < kDimensions; ++d) {
      int ahead = (goal[d] - place(from)[d] + size_[d]) % size_[d];
      bool forward = 2 * ahead <= size_[d];
      for (int left = forward ? ahead : size_[d] - ahead; left > 0; --left) {
        trunks.push_back(from * links_per_router_ + first_link_[d] + (forward ? 0 : 1));
        from = neighbour(from, d, forward);
      }
    }
  }

  Place size_{}, first_link_{};
  int links_per_router_ = 0;
  BytesPerSecond link_rate_;
};

std::vector<ParameterHelp> help_torus() {
  return {{"x", "nodes along the first dimension, in node order", ""},
          {"y", "along the second", ""},
          {"z", "along the third; 1 makes it two-dimensional", "1"},
          {"link_width", "a link to a neighbour over all NICs of a node", "1"}};
}

[[maybe_unused]] const bool registered_torus =
    fabric_registry().add({"torus", "a router per node, rings in two or three dimensions, dimension-ordered routes",
                           help_torus(), [](const FabricSite& site) { return std::make_unique<Torus>(site); }});

}  // namespace
}  // namespace rehearse
