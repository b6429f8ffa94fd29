#include <set>
#include <span>
#include <unordered_set>

#include "core/base/index.hpp"
#include "core/program/body.hpp"
#include "core/program/validate/validate_checks.hpp"

namespace rehearse::validation {

namespace {

[[noreturn]] void refuse_entry(const Role& role, std::size_t entry, const std::string& rule) {
  throw std::logic_error(fmt::format("program: role '{}', entry {}: {}", role.name, entry, rule));
}

const Body& body_of(const Program& p, const Entry& e) { return nth(p.bodies, e.body); }

void check_binding(const Program& p, const Role& role, std::size_t index, const Entry& e) {
  const Body& body = body_of(p, e);
  const BindingSet& set = nth(p.binding_sets, e.bindings);
  std::size_t next = 0;
  for (const Formal& f : body.formals) {
    if (!f.bound) continue;
    if (next == set.size()) refuse_entry(role, index, "fewer bindings than bound formals");
    const Tensor& actual = nth(p.tensors, set[next].tensor);
    const Tensor& like = nth(p.tensors, f.like);
    if (actual.dtype != like.dtype || actual.shape != like.shape || actual.layout != like.layout)
      refuse_entry(role, index, fmt::format("'{}' is bound to a tensor of another type, shape or layout", f.name));
    if (actual.alias_of >= 0 && (set[next].allocate || set[next].release))
      refuse_entry(role, index, fmt::format("'{}' is a view and cannot be allocated", f.name));
    ++next;
  }
  if (next != set.size()) refuse_entry(role, index, "more bindings than bound formals");
}

/// One instance of a tensor on one rank.
struct Instance {
  int tensor = 0, layer = 0, chunk = 0, microbatch = 0, pass = 0;
  bool operator==(const Instance&) const = default;
};
struct InstanceHash {
  std::size_t operator()(const Instance& i) const {
    std::size_t h = 0;
    for (const int part : {i.tensor, i.layer, i.chunk, i.microbatch, i.pass})
      h = h * 1000003u + static_cast<std::size_t>(part);
    return h;
  }
};

/// Follows the storage of one role through its entries.
class Storage {
 public:
  Storage(const Program& p, const Role& role) : program_(p), role_(role) {
    for (const Role::Persistent& t : role.persistent) live_.insert({t.tensor, t.layer});
    begin_ = live_;
  }

  void apply(std::size_t index, const Entry& e) {
    const BindingSet& set = nth(program_.binding_sets, e.bindings);
    for (const Binding& b : set)
      if (b.allocate && !live_.insert(instance(b, e)).second)
        refuse_entry(role_, index, "allocates " + text(b, e) + ", which is allocated");
    for (const Binding& b : set) {
      if (tensor(b).alias_of >= 0) continue;
      if (live_.count(instance(b, e)) == 0)
        refuse_entry(role_, index, "uses " + text(b, e) + ", which is not allocated");
    }
    for (const Binding& b : set)
      if (b.release && live_.erase(instance(b, e)) == 0)
        refuse_entry(role_, index, "frees " + text(b, e) + ", which is not allocated");
  }

  /// The prologue may leave storage that every step then begins and ends with.
  void begin_step() { begin_ = live_; }
  void end_step() const {
    for (const Instance& i : live_)
      if (begin_.count(i) == 0) differ(i, "holds");
    for (const Instance& i : begin_)
      if (live_.count(i) == 0) differ(i, "has freed");
  }

 private:
  [[noreturn]] void differ(const Instance& i, const char* what) const {
    throw std::logic_error(fmt::format(
        "program: role '{}' {} {} (block {}, microbatch {}) at the end of its step, unlike at its beginning",
        role_.name, what, nth(program_.tensors, i.tensor).name, i.layer, i.microbatch));
  }
  [[nodiscard]] const Tensor& tensor(const Binding& b) const { return nth(program_.tensors, b.tensor); }
  [[nodiscard]] Instance instance(const Binding& b, const Entry& e) const {
    const Tensor& t = tensor(b);
    return {b.tensor, t.per_layer ? e.layer + b.instance.layer_delta : -1,
            t.per_chunk ? e.chunk + b.instance.chunk_delta : 0,
            t.per_microbatch ? e.microbatch + b.instance.microbatch_delta : 0,
            t.per_pass ? e.pass + b.instance.pass_delta : 0};
  }
  [[nodiscard]] std::string text(const Binding& b, const Entry& e) const {
    return fmt::format("{} (block {}, microbatch {})", tensor(b).name, e.layer + b.instance.layer_delta,
                       e.microbatch + b.instance.microbatch_delta);
  }

  const Program& program_;
  const Role& role_;
  std::unordered_set<Instance, InstanceHash> live_, begin_;
};

void check_entry(const Program& p, const Role& role, std::size_t i, const Entry& e) {
  if (!has(p.bodies, e.body)) refuse_entry(role, i, "no such body");
  if (!has(p.binding_sets, e.bindings)) refuse_entry(role, i, "no such binding set");
  for (const Binding& b : nth(p.binding_sets, e.bindings))
    if (!has(p.tensors, b.tensor)) refuse_entry(role, i, "binds no such tensor");
  if (!has(p.streams, e.stream)) refuse_entry(role, i, "no such stream");
  if (!has_expr(p, e.predicate)) refuse_entry(role, i, "no such expression");
  if (e.first_wait < 0 || e.wait_count < 0 || e.first_wait + e.wait_count > static_cast<int>(role.waits.size()))
    refuse_entry(role, i, "no such waits");
  if (e.first_mark < 0 || e.mark_count < 0 || e.first_mark + e.mark_count > static_cast<int>(role.marks.size()))
    refuse_entry(role, i, "no such marks");
  if (e.record >= role.events) refuse_entry(role, i, "records an event that does not exist");
}

/// Events of one list of entries: recorded once each, waited for only after.
class Events {
 public:
  Events(const Role& role, const std::vector<Entry>& entries)
      : role_(role), recorded_(static_cast<std::size_t>(role.events), false), ever_(recorded_) {
    for (const Entry& e : entries) {
      if (e.record >= 0) nth(ever_, e.record) = true;
      for (const Mark& m : marks(e))
        if (has(ever_, m.event)) nth(ever_, m.event) = true;
    }
  }

  void apply(std::size_t i, const Entry& e, std::size_t tasks) {
    for (std::int32_t w = 0; w < e.wait_count; ++w) {
      const Wait& wait = nth(role_.waits, e.first_wait + w);
      if (!has(recorded_, wait.event)) refuse_entry(role_, i, "waits for an event that does not exist");
      if (wait.steps_back < 0 || wait.task >= static_cast<int>(tasks))
        refuse_entry(role_, i, "waits with a step or a task that does not exist");
      const auto& done = wait.steps_back == 0 ? recorded_ : ever_;
      if (!nth(done, wait.event))
        refuse_entry(role_, i,
                     wait.steps_back == 0 ? "waits for an event that nothing before it records"
                                          : "waits for an event of an earlier step that no entry records");
    }
    for (const Mark& m : marks(e)) {
      if (m.task < 0 || m.task >= static_cast<int>(tasks)) refuse_entry(role_, i, "marks a task that does not exist");
      record(i, m.event);
    }
    if (e.record >= 0) record(i, e.record);
  }

 private:
  [[nodiscard]] std::span<const Mark> marks(const Entry& e) const {
    return std::span(role_.marks)
        .subspan(static_cast<std::size_t>(e.first_mark), static_cast<std::size_t>(e.mark_count));
  }
  void record(std::size_t i, EventId event) {
    if (!has(recorded_, event)) refuse_entry(role_, i, "records an event that does not exist");
    if (nth(recorded_, event)) refuse_entry(role_, i, "records an event that is recorded already");
    nth(recorded_, event) = true;
  }

  const Role& role_;
  std::vector<bool> recorded_, ever_;
};

}  // namespace

void check_role(const Program& p, const Role& role) {
  for (const Role::Persistent& t : role.persistent)
    if (!has(p.tensors, t.tensor))
      throw std::logic_error(fmt::format("program: role '{}' holds no such tensor", role.name));
  Storage storage(p, role);
  std::set<std::pair<int, int>> seen;
  const auto check = [&](const std::vector<Entry>& entries) {
    for (std::size_t i = 0; i < entries.size(); ++i) check_entry(p, role, i, entries[i]);
    Events events(role, entries);
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const Entry& e = entries[i];
      if (seen.insert({e.body, e.bindings}).second) check_binding(p, role, i, e);
      events.apply(i, e, body_of(p, e).graph.size());
      storage.apply(i, e);
    }
  };
  check(role.prologue);
  storage.begin_step();
  check(role.step);
  storage.end_step();
  check(role.epilogue);
}

}  // namespace rehearse::validation
