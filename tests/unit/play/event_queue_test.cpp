#include "core/play/clocks/event_queue.hpp"

#include <random>

#include "tests/support/catch.hpp"

using rehearse::EventQueue;

namespace {

EventQueue::Id add(EventQueue& queue, double time, std::uint64_t payload) {
  return queue.push({time, queue.next_sequence(), payload, false});
}

std::vector<std::uint64_t> drain(EventQueue& queue) {
  std::vector<std::uint64_t> out;
  while (!queue.empty()) out.push_back(queue.pop().payload);
  return out;
}

}  // namespace

TEST_CASE("events leave by time, and by sequence where times are equal") {
  EventQueue queue;
  add(queue, 2, 20);
  add(queue, 1, 10);
  add(queue, 1, 11);
  add(queue, 0, 1);
  add(queue, 1, 12);
  CHECK(drain(queue) == std::vector<std::uint64_t>{1, 10, 11, 12, 20});
}

TEST_CASE("a sequence number drawn earlier goes before events pushed meanwhile") {
  EventQueue queue;
  const auto early = queue.next_sequence();
  add(queue, 1, 2);
  queue.push({1, early, 1, true});
  CHECK(queue.pop().flow);
  CHECK(drain(queue) == std::vector<std::uint64_t>{2});
}

TEST_CASE("a cancelled event never leaves, and its id names nothing afterwards") {
  EventQueue queue;
  const auto first = add(queue, 1, 1);
  add(queue, 2, 2);
  queue.cancel(first);
  CHECK(queue.next_time() == 2);
  const auto reused = add(queue, 3, 3);
  CHECK(reused != first);
  queue.cancel(first);
  CHECK(drain(queue) == std::vector<std::uint64_t>{2, 3});
  queue.cancel(reused);
  CHECK(queue.empty());
}

TEST_CASE("any mixture of pushes, pops and cancellations leaves in order") {
  std::mt19937 random(7);
  EventQueue queue;
  std::vector<EventQueue::Id> ids;
  std::size_t cancelled = 0, popped = 0;
  double last = 0;
  for (int i = 0; i < 20000; ++i) {
    ids.push_back(add(queue, last + static_cast<double>(random() % 1000), 0));
    if (random() % 2 == 0) {
      const auto before = queue.size();
      queue.cancel(ids[random() % ids.size()]);
      cancelled += before - queue.size();
    }
    if (random() % 4 == 0 && !queue.empty()) {
      const auto event = queue.pop();
      CHECK(event.time >= last);
      last = event.time;
      ++popped;
    }
  }
  CHECK(queue.size() == 20000 - cancelled - popped);
  queue.clear();
  CHECK(queue.empty());
}
