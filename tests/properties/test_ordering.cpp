// No race inside a rank: whoever reads or overwrites storage starts after those who wrote or read it before, by the
// order of streams, the dependencies of bodies and the events between entries.

#include <array>
#include <map>
#include <tuple>

#include "core/base/index.hpp"
#include "core/program/body.hpp"
#include "tests/properties/any_job.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

/// How far each stream has come, in tasks, when something happens.
using Clock = std::vector<int>;

void join(Clock& a, const Clock& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = std::max(a[i], b[i]);
}

struct Use {
  StreamId stream;
  int number;
  std::string task;
};
struct History {
  std::vector<Use> writes, reads;
};

class Ordering {
 public:
  Ordering(const Program& p, const Role& role)
      : p_(p), role_(role), now_(p.streams.size(), Clock(p.streams.size(), 0)), issued_(p.streams.size(), 0) {}

  /// Issues one step; returns the first race, or nothing.
  std::string step() {
    earlier_ = events_;
    for (std::size_t i = 0; i < role_.step.size() && race_.empty(); ++i) entry(role_.step[i], static_cast<int>(i));
    ++steps_;
    return race_;
  }

 private:
  void entry(const Entry& e, int index) {
    const Body& body = nth(p_.bodies, e.body);
    const BindingSet& set = nth(p_.binding_sets, e.bindings);
    std::vector<const Binding*> binding(body.formals.size(), nullptr);
    std::size_t next = 0;
    for (std::size_t f = 0; f < body.formals.size(); ++f)
      if (body.formals[f].bound) binding[f] = &set[next++];
    for (std::size_t f = 0; f < body.formals.size(); ++f)
      if (binding[f] != nullptr && binding[f]->allocate) forget(storage(body, binding, f, e, index));
    Clock start(p_.streams.size(), 0);
    for (std::int32_t w = 0; w < e.wait_count; ++w) {
      const Wait& wait = nth(role_.waits, e.first_wait + w);
      const auto& done = wait.steps_back > 0 ? earlier_ : events_;
      if (const auto at = done.find(wait.event); at != done.end()) join(start, at->second);
    }
    std::vector<Clock> finished(body.graph.size());
    Clock all(p_.streams.size(), 0);
    for (const auto v : body.graph.vertices()) {
      const Task& task = body.graph[v];
      const auto s = static_cast<std::size_t>(task.stream);
      Clock clock = now_[s];
      join(clock, start);
      for (const std::size_t before : body.graph.before(v)) join(clock, finished[before]);
      const int number = ++issued_[s];
      for (const Operand& o : task.operands)
        touch(storage(body, binding, static_cast<std::size_t>(o.formal), e, index), o.access, clock,
              {task.stream, number, body.name + "/" + task.name});
      clock[s] = number;
      now_[s] = finished[v] = clock;
      join(all, clock);
    }
    if (e.record >= 0) events_[e.record] = all;
  }

  using Storage = std::tuple<int, int, int, int, int>;  // tensor, layer, microbatch, entry (scratch only), piece
  static constexpr int kWhole = -1;

  /// What a formal's elements lie in: views lead to what they look at. Views that begin at different places along a
  /// dimension are different pieces of it.
  Storage storage(const Body& body, const std::vector<const Binding*>& binding, std::size_t f, const Entry& e,
                  int index) const {
    InstanceRef at = binding[f] != nullptr ? binding[f]->instance : InstanceRef{};
    int id = binding[f] != nullptr ? binding[f]->tensor : body.formals[f].like, piece = kWhole;
    while (nth(p_.tensors, id).alias_of >= 0) {
      const Tensor& view = nth(p_.tensors, id);
      at.layer_delta += view.alias_instance.layer_delta;
      at.microbatch_delta += view.alias_instance.microbatch_delta;
      if (view.alias_dim >= 0) piece = static_cast<int>(view.alias_offset.index);
      id = view.alias_of;
    }
    const Tensor& t = nth(p_.tensors, id);
    if (t.lifetime == Lifetime::scratch) return {id, steps_, 0, index, piece};
    return {id, t.per_layer ? e.layer + at.layer_delta : -1, t.per_microbatch ? e.microbatch + at.microbatch_delta : -1,
            -1, piece};
  }

  void forget(Storage where) {
    std::get<4>(where) = kWhole;
    history_.erase(where);
  }

  void touch(const Storage& where, Access access, const Clock& clock, const Use& me) {
    const auto ordered = [&](const std::vector<Use>& before, const char* what) {
      for (const Use& b : before)
        if (b.number != me.number && nth(clock, b.stream) < b.number && b.stream != me.stream && race_.empty())
          race_ = fmt::format("{} of {} by {} is not ordered after {}", what, nth(p_.tensors, std::get<0>(where)).name,
                              me.task, b.task);
    };
    Storage first = where;
    std::get<4>(first) = kWhole;
    const auto same_storage = [&](const Storage& s) {
      return std::tie(std::get<0>(s), std::get<1>(s), std::get<2>(s), std::get<3>(s)) ==
             std::tie(std::get<0>(first), std::get<1>(first), std::get<2>(first), std::get<3>(first));
    };
    // Pieces overlap the whole, not each other.
    for (auto at = history_.lower_bound(first); at != history_.end() && same_storage(at->first); ++at) {
      const bool overlap = at->first == where || std::get<4>(where) == kWhole || std::get<4>(at->first) == kWhole;
      if (!overlap) continue;
      ordered(at->second.writes, access == Access::read ? "a read" : "a write");
      if (access != Access::read) ordered(at->second.reads, "an overwrite");
    }
    History& h = history_[where];
    if (access == Access::read) {
      h.reads.push_back(me);
      return;
    }
    h.writes = {me};
    h.reads.clear();
  }

  const Program& p_;
  const Role& role_;
  std::vector<Clock> now_;
  std::vector<int> issued_;
  std::map<EventId, Clock> events_, earlier_;
  std::map<Storage, History> history_;
  std::string race_;
  int steps_ = 0;
};

}  // namespace

TEST_CASE("tasks that share storage are ordered, across three steps") {
  check_property("no two tasks of a rank race", [] {
    Job job(tiny_gpt());
    const Program p = coin() ? any_program(job) : coin() ? any_image_program(job) : any_adversarial_program(job);
    for (const Role& role : p.roles) {
      Ordering ordering(p, role);
      for (int step = 0; step < 3; ++step) {
        const std::string race = ordering.step();
        RC_LOG(race);
        RC_ASSERT(race.empty());
      }
    }
  });
}
