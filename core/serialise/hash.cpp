#include <bit>

#include "core/program/body.hpp"
#include "core/serialise/fields.hpp"
#include "core/serialise/serialise.hpp"

namespace rehearse {

namespace {

/// FNV-1a by words of 64 bits, whose high half is folded into the low one; strings and lists are preceded by their
/// length, so that no two sequences of fields run together.
class Hasher {
 public:
  [[nodiscard]] std::uint64_t value() const { return state_; }

  template <class T>
  void add(const T& x) {
    if constexpr (fields::Struct<T>) {
      fields::each(fields::Of<T>{}, [&](std::string_view, auto member) { add(x.*member); });
    } else if constexpr (std::is_floating_point_v<T>) {
      word(std::bit_cast<std::uint64_t>(x));
    } else {
      static_assert(std::is_integral_v<T> || std::is_enum_v<T>);
      word(static_cast<std::uint64_t>(x));
    }
  }
  void add(const std::string& s) {
    word(s.size());
    for (const char c : s) word(static_cast<std::uint8_t>(c));
  }
  template <class T>
  void add(const std::vector<T>& list) {
    word(list.size());
    for (const T& x : list) add(x);
  }
  template <class A, class B>
  void add(const std::pair<A, B>& p) {
    add(p.first);
    add(p.second);
  }
  template <class... T>
  void add(const std::variant<T...>& v) {
    word(v.index());
    std::visit([this](const auto& x) { this->add(x); }, v);
  }
  void add(const ExprId& id) { word(id.index); }
  void add(const AxisSet& axes) { word(axes.bits()); }
  void add(const ExprPool& pool) {
    word(pool.nodes().size());
    for (const ExprPool::Node& n : pool.nodes()) {
      add(n.op);
      add(n.var);
      add(n.value);
      for (const ExprId a : n.args) add(a);
    }
  }
  void add(const Mesh& mesh) {
    add(mesh.islands());
    add(mesh.join());
  }
  void add(const TaskGraph& graph) {
    word(graph.size());
    for (const auto v : graph.vertices()) add(graph[v]);
    word(graph.edges().size());
    for (const TaskGraph::Edge& e : graph.edges()) {
      word(e.from);
      word(e.to);
    }
  }

 private:
  void word(std::uint64_t x) {
    state_ = (state_ ^ x) * 1099511628211ull;
    state_ ^= state_ >> 32;
  }

  std::uint64_t state_ = 14695981039346656037ull;
};

}  // namespace

std::uint64_t program_hash(const Program& program) {
  Hasher hasher;
  hasher.add(program);
  return hasher.value();
}

}  // namespace rehearse
