// A parity test that cannot fail proves nothing: without any one of a plan's communication tasks, or with half of what
// it carries, the result is another.

#include <fmt/format.h>

#include "core/program/body.hpp"
#include "tests/parity/jobs.hpp"
#include "tests/support/catch.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

constexpr int kMutantSteps = 2;

bool communicates(const Task& task) {
  return std::holds_alternative<CollectiveTask>(task.kind) || std::holds_alternative<P2pTask>(task.kind);
}

/// Every communication task of a Program.
struct Site {
  std::size_t body, task;
};
std::vector<Site> sites(const Program& p) {
  std::vector<Site> out;
  for (std::size_t b = 0; b < p.bodies.size(); ++b) {
    const bool called = std::any_of(p.roles.begin(), p.roles.end(), [b](const Role& r) {
      return std::any_of(r.step.begin(), r.step.end(),
                         [b](const Entry& e) { return static_cast<std::size_t>(e.body) == b; });
    });
    for (std::size_t t = 0; called && t < p.bodies[b].graph.size(); ++t)
      if (communicates(p.bodies[b].graph[t])) out.push_back({b, t});
  }
  return out;
}

/// Takes a task away from all its ranks: a collective from every body that makes the same call, a message at both ends.
/// What one rank alone leaves out the others would wait for in vain.
void leave_out(Program& p, const std::string& body, const Task& task) {
  const auto* message = std::get_if<P2pTask>(&task.kind);
  for (Body& b : p.bodies)
    for (const auto t : b.graph.vertices()) {
      const auto* m = std::get_if<P2pTask>(&b.graph[t].kind);
      const bool same = message != nullptr ? m != nullptr && m->edge == message->edge
                                           : b.name == body && b.graph[t].name == task.name;
      if (same) b.graph[t].predicate = ExprPool::kZero;
    }
}

/// In any step of `b`, which may have fewer of them.
bool differs(const Outcome& a, const Outcome& b) {
  for (std::size_t s = 0; s < b.losses.size(); ++s) {
    if (!(std::abs(a.losses[s] - b.losses[s]) <= 1e-9 * std::abs(a.losses[s]))) return true;
    for (std::size_t r = 0; r < a.norms[s].size(); ++r)
      if (!(std::abs(a.norms[s][r] - b.norms[s].at(r)) <= 1e-9 * a.norms[s][r])) return true;
    for (const auto& [name, values] : a.gradients[s])
      if (!b.gradients[s].contains(name) || distance(values, b.gradients[s].at(name)) > 1e-9) return true;
  }
  return false;
}

/// Whether the run fails or computes something else. Most do so in the first step.
bool noticed(const Outcome& expected, const Program& mutant, const Wrap& wrap = {}) {
  try {
    return differs(expected, run(mutant, 1, Numerics::fp64, wrap)) ||
           differs(expected, run(mutant, kMutantSteps, Numerics::fp64, wrap));
  } catch (const std::exception&) {
    return true;
  }
}

/// Loses the second half of what one communication task delivers.
class HalvingTransport final : public Transport {
 public:
  HalvingTransport(Transport& real, std::string victim) : real_(real), victim_(std::move(victim)) {}
  int rank() const override { return real_.rank(); }
  int ranks() const override { return real_.ranks(); }
  std::unique_ptr<Communicator> communicator(const std::string& name, const std::vector<int>& members) override {
    return std::make_unique<Members>(real_.communicator(name, members), victim_);
  }
  std::unique_ptr<Channel> channel(const std::string& name, int from, int to) override {
    auto real = real_.channel(name, from, to);
    return name.find(victim_) == std::string::npos ? std::move(real) : std::make_unique<End>(std::move(real));
  }
  void sum(std::vector<double>& values) override { real_.sum(values); }
  void fail(const std::string& cause) noexcept override { real_.fail(cause); }

 private:
  class Members final : public Communicator {
   public:
    Members(std::unique_ptr<Communicator> real, std::string victim)
        : real_(std::move(real)), victim_(std::move(victim)) {}
    void start(CollectiveCall call, Done done) override {
      if (call.name != victim_) return real_->start(std::move(call), std::move(done));
      std::size_t bytes = 0;
      for (const std::int64_t n : call.receive_counts) bytes += static_cast<std::size_t>(n) * size_of(call.type);
      std::byte* second = call.receive + bytes / 2;
      // What is not received is what was there where that is reduced in place, else nothing: fresh memory may hold the
      // right numbers by chance.
      const bool in_place = call.op == CollectiveOp::all_reduce || call.op == CollectiveOp::broadcast;
      const auto before = std::make_shared<std::vector<std::byte>>(bytes - bytes / 2);
      if (in_place) std::copy(second, call.receive + bytes, before->begin());
      real_->start(std::move(call), [second, before, done = std::move(done)](std::exception_ptr failed) {
        std::copy(before->begin(), before->end(), second);
        done(failed);
      });
    }

   private:
    std::unique_ptr<Communicator> real_;
    std::string victim_;
  };
  class End final : public Channel {
   public:
    explicit End(std::unique_ptr<Channel> real) : real_(std::move(real)) {}
    void send(const std::byte* data, std::size_t bytes, std::uint64_t label, Done done) override {
      real_->send(data, bytes, label, std::move(done));
    }
    void receive(std::byte* data, std::size_t bytes, std::uint64_t label, Done done) override {
      real_->receive(data, bytes, label, [data, bytes, done = std::move(done)](std::exception_ptr failed) {
        std::memset(data + bytes / 2, 0, bytes - bytes / 2);
        done(failed);
      });
    }

   private:
    std::unique_ptr<Channel> real_;
  };
  Transport& real_;
  std::string victim_;
};

/// What a communicator or channel is called by the task at a site.
std::string victim_of(const Program& p, const Site& site) {
  const Task& task = p.bodies[site.body].graph[site.task];
  if (const auto* m = std::get_if<P2pTask>(&task.kind)) return fmt::format("#{}.{}:", m->group, m->edge);
  return p.bodies[site.body].name + "/" + task.name;
}

/// Every variation on the first network it is for; and two networks, with reductions and updates of their own.
struct Mutated {
  Net net;
  Variation variation;
};
std::vector<Mutated> mutated() {
  std::vector<Mutated> out;
  for (const Variation& v : all_variations())
    if (v.ranks > 1) out.push_back({net_of(v), v});
  for (const char* strategy : {"data_parallel", "zero1"})
    for (const Variation& v : variations().at(strategy))
      if (legal(Net::gan, {v})) out.push_back({Net::gan, v});
  return out;
}

}  // namespace

TEST_CASE("no communication task can be left out", "[parity]") {
  for (const auto& [net, v] : mutated()) {
    const Program p = spread(small_job(net), {v});
    const Outcome expected = run(p, kMutantSteps, Numerics::fp64);  // Held to one rank in test_parity.cpp.
    CHECK_FALSE(sites(p).empty());
    for (const Site& site : sites(p)) {
      Program mutant = p;
      Task& task = mutant.bodies[site.body].graph[site.task];
      INFO(v.name << ": without " << p.bodies[site.body].name << "/" << task.name);
      leave_out(mutant, mutant.bodies[site.body].name, Task(task));
      CHECK(noticed(expected, mutant));
    }
  }
}

TEST_CASE("no communication task can lose half of what it carries", "[parity]") {
  for (const auto& [net, v] : mutated()) {
    const Program p = spread(small_job(net), {v});
    const Outcome expected = run(p, kMutantSteps, Numerics::fp64);  // Held to one rank in test_parity.cpp.
    std::set<std::string> victims;
    for (const Site& site : sites(p)) victims.insert(victim_of(p, site));
    // A scalar has no half; the world's sum is covered by leaving it out.
    victims.erase("gradient_norm/gradient_norm");
    for (const std::string& victim : victims) {
      INFO(v.name << ": half of " << victim);
      CHECK(noticed(expected, p, [&](Transport& real) { return std::make_unique<HalvingTransport>(real, victim); }));
    }
  }
}
