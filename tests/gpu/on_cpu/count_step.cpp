// What a step of a scenario launches and moves on a GPU, counted without one: the product issues it on the machine on
// the CPU, which computes nothing. Beside it stands the least that any such step moves.
//
//   count_step SCENARIO [--most-launches N] [--most-bytes R] [KEY=VALUE...]
//
// Exit status 1 where a step has more launches than N, or moves more than R times the least. REHEARSE_FUSE=off in the
// environment counts tasks that are done one by one.
//
// Bytes. A product moves each operand once, as cuBLASLt was told of it, with what its epilogue reads and writes. Other
// launches move what their tasks read and write, each once, and once more where a kernel reads it again (kReadAgain).
// The least: tasks that work element by element cost nothing beyond values that others read; cross-entropy is one pass,
// and the gradients of a norm are another; whatever reads a value reads it once; zeros are nobody's.
#include <cstdlib>
#include <iostream>
#include <map>
#include <set>

#include <fmt/format.h>

#include "core/api/session/session.hpp"
#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/strategy/lower.hpp"
#include "gpu_backend/communicate/local_world.hpp"
#include "gpu_backend/cuda/cuda_device.hpp"
#include "gpu_backend/execute/executor.hpp"
#include "gpu_backend/execute/fuse/onto_zeros.hpp"
#include "gpu_backend/execute/plan.hpp"
#include "streams.hpp"

namespace {

using namespace rehearse;

/// Operands that the kernels of an operator read from memory again: a second pass goes over them.
const std::map<std::string, std::vector<std::size_t>> kReadAgain{
    {"attention_grad.flash", {0, 0, 1, 2, 3}},         // dout for delta, and q, k, v, dout for both passes.
    {"attention_grad.flash_window", {0, 0, 1, 2, 3}},  //
    {"norm_grad.layer_norm+accumulate", {0}},          // The moments again.
    {"norm_grad.rms_norm+accumulate", {0}}};

const ComputeTask* compute_of(const Instruction& in) { return std::get_if<ComputeTask>(&in.task->kind); }
std::string named(const Instruction& in) {
  const ComputeTask* task = compute_of(in);
  if (task == nullptr) return "input and copies";
  return operator_name(*task) + (task->accumulates ? "+accumulate" : "");
}

/// Elements of a tensor, in the types of the plan.
struct Place {
  int slot;
  std::int64_t first, elements;
  auto operator<=>(const Place&) const = default;
};
Place place_of(const PlannedOperand& o) { return {o.slot, o.first, o.held->elements()}; }

class OperandBytes {
 public:
  explicit OperandBytes(const Program& program) : program_(program) {}

  /// Of an operand, once. Of a table those rows that tokens name.
  [[nodiscard]] double of(const Instruction& in, std::size_t i) const {
    const PlannedOperand& o = in.operands[i];
    const double each = static_cast<double>(size_of(stored_as(nth(program_.tensors, o.tensor).dtype, Numerics::plan)));
    const auto elements = static_cast<double>(o.held->elements());
    const ComputeTask* task = compute_of(in);
    const bool looks_up =
        task != nullptr && task->variant.empty() &&
        ((task->op == ComputeOp::embedding && i == 1) || (task->op == ComputeOp::embedding_grad && i == 2));
    if (!looks_up) return each * elements;
    const auto named_rows = static_cast<double>(in.operands[0].held->elements() * o.held->extents.back());
    return each * std::min(elements, named_rows);
  }

 private:
  const Program& program_;
};

/// What one call of the device did.
struct Unit {
  std::vector<int> members;
  on_cpu::Issued issued;
};

/// Passes everything on, and looks at what each task puts on streams.
class CountingDevice final : public ComputeDevice {
 public:
  explicit CountingDevice(std::unique_ptr<ComputeDevice> real) : real_(std::move(real)) {}
  std::vector<on_cpu::Issued> done;

  std::string name() const override { return real_->name(); }
  Numerics numerics() const override { return real_->numerics(); }
  std::shared_ptr<Storage> allocate(std::size_t bytes) override { return real_->allocate(bytes); }
  std::shared_ptr<Storage> allocate(std::size_t bytes, MemorySpace space) override {
    return real_->allocate(bytes, space);
  }
  void write(Storage& to, std::size_t offset, std::span<const std::byte> from) override {
    real_->write(to, offset, from);
  }
  void read(Storage& from, std::size_t offset, std::span<std::byte> to) override { real_->read(from, offset, to); }
  void clear(Storage& to, std::size_t bytes) override { real_->clear(to, bytes); }
  void execute(const Operator& op, OperatorCall& call) override { real_->execute(op, call); }
  void execute(const Fusion& how, std::span<FusedCall> calls) override { real_->execute(how, calls); }
  void put(std::byte* to, std::span<const std::byte> from) override { real_->put(to, from); }
  void copy(std::byte* to, const std::byte* from, std::size_t bytes) override { real_->copy(to, from, bytes); }
  const Operator* find(std::string_view name) const override { return real_->find(name); }
  std::span<const Fusion> fusions() const override { return real_->fusions(); }
  EventPtr submit(int stream, std::span<const EventPtr> after, Work work) override {
    on_cpu::issued = {};
    EventPtr out = real_->submit(stream, after, std::move(work));
    done.push_back(on_cpu::issued);
    return out;
  }
  void wait(const EventPtr& event) override { real_->wait(event); }
  bool queues() const override { return true; }
  std::optional<Interval> times(const EventPtr&) const override { return std::nullopt; }
  double now() const override { return real_->now(); }

 private:
  std::unique_ptr<ComputeDevice> real_;
};

/// A step's calls of the device, in order.
std::vector<Unit> issued_step(const Program& program, const RankPlan& plan) {
  const on_cpu::LateStreams late({.computes = false, .moves = false});
  CountingDevice device(open_cuda_device({.numerics = Numerics::plan}));
  LocalWorld world(1);
  const auto transport = world.transport(0);
  const auto data = synthetic_tokens(program.seed, 256);
  Executor executor(program, device, *transport, *data, {});
  device.done.clear();
  (void)executor.step();
  executor.drain();
  std::map<int, const FusedGroup*> last;
  std::set<int> grouped;
  for (const FusedGroup& g : executor.groups()) {
    last[g.members.back()] = &g;
    grouped.insert(g.members.begin(), g.members.end());
  }
  std::vector<Unit> out;
  for (int i = 0; i < static_cast<int>(plan.step().size()); ++i) {
    if (grouped.count(i) > 0 && last.count(i) == 0) continue;
    out.push_back({last.count(i) > 0 ? last[i]->members : std::vector<int>{i}, nth(device.done, out.size())});
  }
  return out;
}

/// What of its operands only its group sees lies where the other one does.
bool turns_in_place(const ComputeTask* task) {
  return task != nullptr && (task->op == ComputeOp::rope || task->op == ComputeOp::rope_grad);
}

/// What a call reads and writes besides its products.
double moved_by(const std::vector<int>& members, const RankPlan& plan, const OperandBytes& bytes, bool products_too) {
  double out = 0;
  std::set<Place> read, written, own;
  std::map<int, std::set<int>> users;
  for (std::size_t i = 0; i < plan.step().size(); ++i)
    for (const PlannedOperand& o : nth(plan.step(), i).operands) users[o.slot].insert(static_cast<int>(i));
  const auto unseen = [&](int slot) {
    return !nth(plan.slots(), slot).persistent && std::all_of(users[slot].begin(), users[slot].end(), [&](int user) {
      return std::find(members.begin(), members.end(), user) != members.end();
    });
  };
  for (const int m : members) {
    const Instruction& in = nth(plan.step(), m);
    const ComputeTask* task = compute_of(in);
    if (!products_too && task != nullptr && task->op == ComputeOp::matmul) continue;
    for (std::size_t i = 0; i < in.operands.size(); ++i) {
      const PlannedOperand& o = in.operands[i];
      if (members.size() > 1 && unseen(o.slot) && !turns_in_place(task)) continue;
      const bool reads = o.access != Access::write && written.count(place_of(o)) == 0;
      if (reads && read.insert(place_of(o)).second) out += bytes.of(in, i);
      if (o.access != Access::read && written.insert(place_of(o)).second) out += bytes.of(in, i);
    }
    if (members.size() == 1)
      if (const auto again = kReadAgain.find(named(in)); again != kReadAgain.end())
        for (const std::size_t i : again->second) out += bytes.of(in, i);
  }
  return out;
}

// ---- the least

bool element_by_element(const ComputeTask& task) {
  switch (task.op) {
    case ComputeOp::activation:
    case ComputeOp::activation_grad:
    case ComputeOp::add:
    case ComputeOp::cast:
    case ComputeOp::dropout:
    case ComputeOp::dropout_add:
    case ComputeOp::dropout_grad:
    case ComputeOp::dropout_add_grad:
    case ComputeOp::rope:
    case ComputeOp::rope_grad: return true;
    default: return false;
  }
}
/// Scales or clears gradients in place: whoever reads or makes them can do it.
bool costs_nothing(const ComputeTask& task) { return task.op == ComputeOp::scale || task.op == ComputeOp::fill; }
bool of_loss(const ComputeTask& task) {
  return task.op == ComputeOp::cross_entropy || task.op == ComputeOp::cross_entropy_grad;
}

/// Tasks that could be one pass, by the task that each such pass begins with.
std::map<int, std::vector<int>> passes_of(const RankPlan& plan) {
  std::map<int, std::vector<int>> out;
  std::map<Place, int> maker;  // The pass that made a value last.
  int loss = -1, norm = -1;
  for (int i = 0; i < static_cast<int>(plan.step().size()); ++i) {
    const Instruction& in = nth(plan.step(), i);
    const ComputeTask* task = compute_of(in);
    if (task == nullptr || costs_nothing(*task)) continue;
    int pass = i;
    if (of_loss(*task)) {
      if (loss < 0) loss = i;
      pass = loss;
    } else if (task->op == ComputeOp::norm_grad && norm >= 0 && in.operands.size() > 1 &&
               place_of(in.operands[0]) == place_of(nth(plan.step(), norm).operands[0]) &&
               place_of(in.operands[1]) == place_of(nth(plan.step(), norm).operands[1])) {
      pass = norm;
    } else if (task->op == ComputeOp::norm_grad) {
      norm = i;
    } else if (element_by_element(*task)) {
      int made = -1;
      for (const PlannedOperand& o : in.operands)
        if (const auto by = maker.find(place_of(o)); o.access != Access::write && by != maker.end())
          made = std::max(made, by->second);
      if (made >= 0) pass = made;
    }
    if (!of_loss(*task)) loss = -1;
    out[pass].push_back(i);
    for (const PlannedOperand& o : in.operands)
      if (o.access != Access::read) maker[place_of(o)] = pass;
  }
  return out;
}

/// By the operator that each pass begins with.
std::map<std::string, double> least(const RankPlan& plan, const OperandBytes& bytes,
                                    const std::vector<bool>& onto_zeros) {
  std::map<int, int> pass_of;
  const auto passes = passes_of(plan);
  for (const auto& [first, members] : passes)
    for (const int m : members) pass_of[m] = first;
  std::map<int, std::set<int>> readers;  // Passes that read a slot.
  for (int i = 0; i < static_cast<int>(plan.step().size()); ++i)
    for (const PlannedOperand& o : nth(plan.step(), i).operands)
      if (o.access != Access::write && pass_of.count(i) > 0) readers[o.slot].insert(pass_of[i]);
  std::map<std::string, double> out;
  for (const auto& [first, members] : passes) {
    double& sum = out[named(nth(plan.step(), first))];
    std::set<Place> read, written;
    for (const int m : members) {
      const Instruction& in = nth(plan.step(), m);
      for (std::size_t i = 0; i < in.operands.size(); ++i) {
        const PlannedOperand& o = in.operands[i];
        const bool fresh = o.access == Access::update && nth(onto_zeros, m);
        if (o.access != Access::write && !fresh && written.count(place_of(o)) == 0 && read.insert(place_of(o)).second)
          sum += bytes.of(in, i);
        if (o.access == Access::read || !written.insert(place_of(o)).second) continue;
        const std::set<int>& by = readers[o.slot];
        const bool elsewhere = std::any_of(by.begin(), by.end(), [&, f = first](int p) { return p != f; });
        if (elsewhere || nth(plan.slots(), o.slot).persistent) sum += bytes.of(in, i);
      }
    }
  }
  return out;
}

// ---- printed

struct Row {
  std::int64_t calls = 0, launches = 0;
  double bytes = 0;
};

int count(const std::string& scenario, const std::vector<std::string>& overrides, double most_launches,
          double most_bytes) {
  const Session session = open_session(scenario, overrides);
  const Program program = lower(session.workload, session.scenario.strategy, 1);
  const RankPlan plan(program, 0);
  const OperandBytes bytes(program);
  std::map<std::string, Row> rows;
  Row all;
  std::int64_t kernels = 0;
  for (const Unit& u : issued_step(program, plan)) {
    std::string name;
    for (const int m : u.members) name += (name.empty() ? "" : " & ") + named(nth(plan.step(), m));
    const bool multiplies = u.issued.products > 0, others = u.issued.kernels > 0;
    const bool computes = compute_of(nth(plan.step(), u.members.front())) != nullptr;
    double moved = multiplies ? u.issued.product_bytes : 0;
    if (computes && (!multiplies || others)) moved += moved_by(u.members, plan, bytes, !multiplies);
    for (Row* row : {&rows[name], &all}) {
      ++row->calls;
      row->launches += u.issued.products + u.issued.kernels + u.issued.copies + u.issued.fills;
      row->bytes += moved;
    }
    kernels += u.issued.products + u.issued.kernels;
  }
  std::vector<std::pair<std::string, Row>> sorted(rows.begin(), rows.end());
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second.bytes > b.second.bytes; });
  std::cout << "| tasks of a call | calls | launches | GB |\n|---|---|---|---|\n";
  for (const auto& [name, row] : sorted)
    std::cout << fmt::format("| {} | {} | {} | {:.3f} |\n", name, row.calls, row.launches, row.bytes / 1e9);
  std::cout << fmt::format("| all | {} | {}, {} of them kernels | {:.2f} |\n\n", all.calls, all.launches, kernels,
                           all.bytes / 1e9);
  std::cout << "| least: a pass that begins with | GB |\n|---|---|\n";
  double sum = 0;
  for (const auto& [name, part] : least(plan, bytes, adds_to_zeros(plan))) {
    std::cout << fmt::format("| {} | {:.3f} |\n", name, part / 1e9);
    sum += part;
  }
  std::cout << fmt::format("| all | {:.2f} |\n\n{} launches, {:.2f} GB: {:.3f} times the least\n", sum / 1e9,
                           all.launches, all.bytes / 1e9, all.bytes / sum);
  return static_cast<double>(all.launches) <= most_launches && all.bytes <= most_bytes * sum ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> overrides;
  double most_launches = 1e9, most_bytes = 1e9;
  if (argc < 2) return 2;
  for (int i = 2; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--most-launches" && i + 1 < argc)
      most_launches = std::stod(argv[++i]);
    else if (word == "--most-bytes" && i + 1 < argc)
      most_bytes = std::stod(argv[++i]);
    else
      overrides.push_back(word);
  }
  try {
    return count(argv[1], overrides, most_launches, most_bytes);
  } catch (const std::exception& e) {
    std::cerr << e.what() << "\n";
    return 1;
  }
}
