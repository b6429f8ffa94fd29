// Each rule of validate() refuses a Program damaged in that one way.

#include "core/base/index.hpp"
#include "core/program/body.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/program/lowered.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

Program good() {
  Job job(tiny_gpt());
  job.strategy.pp = job.strategy.tp = job.strategy.dp = 2;
  job.strategy.zero_stage = 1;
  return job.lower();
}

/// The message with which the Program is refused after `damage`; empty when it is not.
std::string refusal(const std::function<void(Program&)>& damage) {
  Program p = good();
  damage(p);
  try {
    validate(p);
  } catch (const std::logic_error& e) {
    return e.what();
  }
  return {};
}

using Catch::Matchers::ContainsSubstring;
#define CHECK_REFUSED(text, ...) CHECK_THAT(refusal([](Program & p) __VA_ARGS__), ContainsSubstring(text))

std::vector<Entry>& step(Program& p) { return p.roles[0].step; }
Body& body_of(Program& p, const Entry& e) { return nth(p.bodies, e.body); }
BindingSet& bindings_of(Program& p, const Entry& e) { return nth(p.binding_sets, e.bindings); }

/// First entry of role 0 whose body has this name.
std::size_t find(Program& p, const std::string& body) {
  for (std::size_t i = 0; i < step(p).size(); ++i)
    if (body_of(p, step(p)[i]).name == body) return i;
  throw std::logic_error("no entry calls " + body);
}
Entry& entry(Program& p, const std::string& body) { return step(p)[find(p, body)]; }
/// First task of that entry's body.
Task& task(Program& p, const std::string& body) { return body_of(p, entry(p, body)).graph[0]; }

/// Of the first message to the next stage: for the forward pass it carries.
Wait& first_wait(Program& p) { return nth(p.roles[0].waits, entry(p, "send.activations").first_wait); }

Binding& binding(Program& p, const std::string& body, bool Binding::*flag) {
  for (Binding& b : bindings_of(p, entry(p, body)))
    if (b.*flag) return b;
  throw std::logic_error("no such binding");
}

}  // namespace

TEST_CASE("an undamaged Program is accepted") {
  CHECK(refusal([](Program&) {}) == "");
}

TEST_CASE("indices out of range") {
  CHECK_REFUSED("no such body", { step(p)[3].body = 9999; });
  CHECK_REFUSED("no such binding set", { step(p)[3].bindings = -1; });
  CHECK_REFUSED("binds no such tensor", { bindings_of(p, step(p)[3]).at(0).tensor = 100000; });
  CHECK_REFUSED("no such stream", { step(p)[3].stream = 99; });
  CHECK_REFUSED("no such stream", { task(p, "layer.forward").stream = -2; });
  CHECK_REFUSED("no such formal", { task(p, "layer.forward").operands.at(0).formal = 1000; });
  CHECK_REFUSED("no such group", { std::get<CollectiveTask>(task(p, "gradients.reduce").kind).group = 77; });
  CHECK_REFUSED("no such edge", { std::get<P2pTask>(task(p, "send.activations").kind).edge = 5; });
  CHECK_REFUSED("no such expression",
                { std::get<ComputeTask>(task(p, "layer.forward").kind).dims = {ExprId{123456}}; });
  CHECK_REFUSED("is like no tensor", { body_of(p, entry(p, "layer.forward")).formals.at(0).like = -5; });
  CHECK_REFUSED("no such waits", {
    step(p)[5].first_wait = 1 << 20;
    step(p)[5].wait_count = 1;
  });
  CHECK_REFUSED("no such role", { p.role_of_rank[3] = 2; });
  CHECK_REFUSED("roles are given for", { p.role_of_rank.pop_back(); });
  CHECK_REFUSED("devices are given for", { p.device_of_rank.push_back(8); });
  CHECK_REFUSED("holds no such tensor", { p.roles[0].persistent[0].tensor = -1; });
  CHECK_REFUSED("carries no such tensor", { p.edges[0].tensor = -1; });
  CHECK_REFUSED("outside the group",
                { std::get<P2pTask>(task(p, "send.activations").kind).peer = p.exprs.constant(7); });
}

TEST_CASE("tensors") {
  CHECK_REFUSED("does not stand before it", { p.tensors[2].alias_of = 2; });
  CHECK_REFUSED("dimension it does not have", { p.tensors[0].layout = {{Axis::tp, shard_on(7)}}; });
}

TEST_CASE("events and issue order") {
  CHECK_REFUSED("nothing before it records", { first_wait(p).event = p.roles[0].events - 1; });
  CHECK_REFUSED("an event that does not exist", { first_wait(p).event = p.roles[0].events; });
  CHECK_REFUSED("records an event that does not exist", { step(p)[4].record = p.roles[0].events; });
  CHECK_REFUSED("recorded already", {
    const Entry& first = entry(p, "input");
    for (Entry& e : step(p))
      if (&e != &first && e.record >= 0) {
        e.record = first.record;
        break;
      }
  });
  CHECK_REFUSED("no entry records", {
    ++p.roles[0].events;
    for (Wait& w : p.roles[0].waits)
      if (w.steps_back == 1) w.event = p.roles[0].events - 1;
  });
  CHECK_REFUSED("a step or a task that does not exist", { first_wait(p).task = 500; });
  CHECK_REFUSED("marks a task", {
    p.roles[0].marks = {{0, 999}};
    step(p)[0].mark_count = 1;
  });
  CHECK_REFUSED("depends against its issue order", { body_of(p, entry(p, "layer.forward")).graph.add_edge(1, 0); });
}

TEST_CASE("a binding that is unlike its formal") {
  CHECK_REFUSED("another type, shape or layout", {
    Tensor other = nth(p.tensors, bindings_of(p, entry(p, "layer.forward")).at(0).tensor);
    other.dtype = DType::fp8;
    p.tensors.push_back(other);
    bindings_of(p, entry(p, "layer.forward")).at(0).tensor = static_cast<int>(p.tensors.size()) - 1;
  });
  CHECK_REFUSED("fewer bindings", { bindings_of(p, entry(p, "layer.forward")).pop_back(); });
  CHECK_REFUSED("more bindings", { bindings_of(p, entry(p, "layer.forward")).push_back({}); });
  CHECK_REFUSED("is a view and cannot be allocated", {
    for (Binding& b : bindings_of(p, entry(p, "gradients.reduce")))
      if (nth(p.tensors, b.tensor).alias_of >= 0) b.release = true;
  });
}

TEST_CASE("storage") {
  CHECK_REFUSED("which is not allocated", { binding(p, "layer.forward", &Binding::allocate).allocate = false; });
  CHECK_REFUSED("which is allocated", {
    for (Binding& b : bindings_of(p, entry(p, "layer.backward")))
      if (b.release) b.allocate = true;
  });
  CHECK_REFUSED("which is not allocated", { binding(p, "layer.forward", &Binding::allocate).release = true; });
  CHECK_REFUSED("at the end of its step", {
    // The gradient of the last layer's output is received and never freed.
    for (Binding& b : bindings_of(p, entry(p, "embedding.backward")))
      if (b.release) {
        b.release = false;
        break;
      }
  });
  CHECK_REFUSED("which is not allocated", {
    std::erase_if(p.roles[0].persistent,
                  [&](const Role::Persistent& t) { return nth(p.tensors, t.tensor).name == "gradient_norm"; });
  });
}

TEST_CASE("traffic") {
  CHECK_REFUSED("in different orders", {
    // The gradient norm's all-reduce joins all stages; stage 0 now calls it something else.
    Body other = body_of(p, entry(p, "gradient_norm"));
    for (const auto v : other.graph.vertices()) other.graph[v].name += " again";
    p.bodies.push_back(other);
    entry(p, "gradient_norm").body = static_cast<int>(p.bodies.size()) - 1;
  });
  CHECK_REFUSED("sends to rank", {
    // Two messages change places on the sender only.
    std::vector<std::size_t> sends;
    for (std::size_t i = 0; i < step(p).size(); ++i)
      if (body_of(p, step(p)[i]).name == "send.gradients" || body_of(p, step(p)[i]).name == "send.activations")
        sends.push_back(i);
    REQUIRE(sends.size() > 1);
    Entry& e = step(p)[sends[0]];
    Body other = body_of(p, e);
    std::get<P2pTask>(other.graph[0].kind).microbatch_delta = 1;
    p.bodies.push_back(other);
    e.body = static_cast<int>(p.bodies.size()) - 1;
  });
  CHECK_REFUSED("is not what that receives", {
    // A send disappears: the receiver would wait for ever.
    Entry& e = entry(p, "send.activations");
    Body silent = body_of(p, e);
    silent.graph[0].kind = HostTask{"nothing"};
    for (Entry& other : step(p))
      if (other.body == e.body && &other != &e) other.body = static_cast<int>(p.bodies.size());
    p.bodies.push_back(silent);
    e.body = static_cast<int>(p.bodies.size()) - 1;
  });
}
