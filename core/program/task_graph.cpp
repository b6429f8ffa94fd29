#include "core/program/task_graph.hpp"

#include <algorithm>
#include <utility>

namespace rehearse {

TaskGraph::Vertex TaskGraph::add(Task task) {
  tasks_.push_back(std::move(task));
  before_.emplace_back();
  after_.emplace_back();
  return tasks_.size() - 1;
}

void TaskGraph::add_edge(Vertex from, Vertex to) {
  after_.at(from).push_back(to);
  before_.at(to).push_back(from);
  edges_.push_back({from, to});
}

bool TaskGraph::has_edge(Vertex from, Vertex to) const {
  const std::vector<Vertex>& next = after_.at(from);
  return std::find(next.begin(), next.end(), to) != next.end();
}

}  // namespace rehearse
