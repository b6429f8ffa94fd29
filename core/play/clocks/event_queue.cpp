#include "core/play/clocks/event_queue.hpp"

#include <algorithm>

namespace rehearse {

EventQueue::Id EventQueue::push(const Event& event) {
  std::uint32_t index = 0;
  if (free_.empty()) {
    index = static_cast<std::uint32_t>(slots_.size());
    slots_.push_back({0, 0, false, false});
  } else {
    index = free_.back();
    free_.pop_back();
  }
  Slot& slot = slots_[index];
  slot = {event.payload, slot.generation + 1, event.flow, true};
  heap_.push_back({event.time, event.sequence, index});
  std::push_heap(heap_.begin(), heap_.end(), Later{});
  ++live_;
  return std::uint64_t{slot.generation} << 32 | index;
}

void EventQueue::cancel(Id id) {
  const auto index = static_cast<std::uint32_t>(id);
  if (index >= slots_.size()) return;
  Slot& slot = slots_[index];
  if (!slot.live || slot.generation != id >> 32) return;
  slot.live = false;
  --live_;
  if (heap_.size() > 2 * live_ + 64)
    compact();
  else
    drop_dead_top();
}

EventQueue::Event EventQueue::pop() {
  const Node node = heap_.front();
  Slot& slot = slots_[node.slot];
  slot.live = false;
  --live_;
  pop_node();
  drop_dead_top();
  return {node.time, node.sequence, slot.payload, slot.flow};
}

void EventQueue::clear() {
  for (const Node& node : heap_) {
    slots_[node.slot].live = false;
    free_.push_back(node.slot);
  }
  heap_.clear();
  live_ = 0;
}

void EventQueue::pop_node() {
  std::pop_heap(heap_.begin(), heap_.end(), Later{});
  free_.push_back(heap_.back().slot);
  heap_.pop_back();
}

void EventQueue::drop_dead_top() {
  while (!heap_.empty() && !slots_[heap_.front().slot].live) pop_node();
}

void EventQueue::compact() {
  std::erase_if(heap_, [this](const Node& node) {
    if (slots_[node.slot].live) return false;
    free_.push_back(node.slot);
    return true;
  });
  std::make_heap(heap_.begin(), heap_.end(), Later{});
}

}  // namespace rehearse
