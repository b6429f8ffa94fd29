#pragma once
// The tasks of one body and what each waits for: an acyclic graph that is built once and walked often.
//
//   TaskGraph graph;
//   const auto product = graph.add(task), sum = graph.add(other);
//   graph.add_edge(product, sum);
//   for (const TaskGraph::Vertex v : graph.vertices()) visit(graph[v], graph.before(v));

#include <cstddef>
#include <iterator>
#include <vector>

#include "core/program/task.hpp"

namespace rehearse {

/// Vertices are numbered from 0 in the order in which they are added, which is issue order: tasks of one stream run in
/// ascending number. Edges are dependencies between streams or through data; tasks of one stream need none between
/// them. A validated Program has edges from lower to higher numbers only (validate.hpp).
class TaskGraph {
 public:
  using Vertex = std::size_t;
  struct Edge {
    Vertex from, to;
  };

  /// A range of them. (Clang 14 does not compile GCC 12's std::views::iota.)
  struct Vertices {
    struct Iterator {
      using iterator_category = std::forward_iterator_tag;
      using value_type = Vertex;
      using difference_type = std::ptrdiff_t;
      using pointer = const Vertex*;
      using reference = Vertex;
      Vertex at = 0;
      Vertex operator*() const { return at; }
      Iterator& operator++() {
        ++at;
        return *this;
      }
      Iterator operator++(int) { return {at++}; }
      bool operator==(const Iterator&) const = default;
    };
    Iterator first, last;
    [[nodiscard]] Iterator begin() const { return first; }
    [[nodiscard]] Iterator end() const { return last; }
  };

  /// The new vertex.
  Vertex add(Task task);
  /// Throws std::out_of_range where either is no vertex. Edges that are there already are added again.
  void add_edge(Vertex from, Vertex to);
  [[nodiscard]] bool has_edge(Vertex from, Vertex to) const;

  [[nodiscard]] std::size_t size() const { return tasks_.size(); }
  /// 0, 1, ..., size() - 1.
  [[nodiscard]] Vertices vertices() const { return {{0}, {size()}}; }
  [[nodiscard]] Task& operator[](Vertex v) { return tasks_[v]; }
  [[nodiscard]] const Task& operator[](Vertex v) const { return tasks_[v]; }
  /// In the order in which they were added.
  [[nodiscard]] const std::vector<Edge>& edges() const { return edges_; }
  /// Vertices with an edge to `v`, in the order in which those edges were added.
  [[nodiscard]] const std::vector<Vertex>& before(Vertex v) const { return before_[v]; }
  /// Vertices with an edge from `v`, in the order in which those edges were added.
  [[nodiscard]] const std::vector<Vertex>& after(Vertex v) const { return after_[v]; }

 private:
  std::vector<Task> tasks_;
  std::vector<Edge> edges_;
  std::vector<std::vector<Vertex>> before_, after_;
};

}  // namespace rehearse
