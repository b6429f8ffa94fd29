// Whether streams and events order all that a rank's tasks do to storage, over two steps: what no chain of them orders
// may run in either order on a GPU.
#include "core/config/settings/choices.hpp"
#include "core/config/settings/strategy.hpp"
#include "core/strategy/workload.hpp"
#include "gpu_backend/execute/plan.hpp"
#include "tests/parity/jobs.hpp"
#include "tests/support/catch.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

constexpr int kSteps = 2;

/// Which instructions of two steps come before which: bit j of row i.
class Before {
 public:
  /// `events`: whether streams wait for each other.
  Before(const RankPlan& plan, bool events)
      : each_(plan.step().size()), words_((each_ * kSteps + 63) / 64), bits_(each_ * kSteps * words_) {
    std::map<int, std::size_t> last;  // Of each stream.
    std::size_t waited = 0;           // The host waits for the last that computes before it issues another step.
    for (std::size_t k = 0; k < each_; ++k)
      if (computes(plan.step()[k])) waited = k;
    for (std::size_t i = 0; i < each_ * kSteps; ++i) {
      const Instruction& in = plan.step()[i % each_];
      const std::size_t step = i / each_;
      if (const auto at = last.find(in.task->stream); at != last.end()) put(i, at->second);
      last[in.task->stream] = i;
      if (step > 0) put(i, (step - 1) * each_ + waited);
      if (!events) continue;
      for (const int a : in.after) put(i, step * each_ + static_cast<std::size_t>(a));
      if (step == 0) continue;
      for (const int a : in.after_previous) put(i, (step - 1) * each_ + static_cast<std::size_t>(a));
    }
  }
  [[nodiscard]] bool ordered(std::size_t a, std::size_t b) const { return a == b || has(a, b) || has(b, a); }
  [[nodiscard]] bool has(std::size_t later, std::size_t earlier) const {
    return (bits_[later * words_ + earlier / 64] >> (earlier % 64) & 1u) != 0;
  }

 private:
  void put(std::size_t later, std::size_t earlier) {
    bits_[later * words_ + earlier / 64] |= std::uint64_t{1} << (earlier % 64);
    for (std::size_t w = 0; w < words_; ++w) bits_[later * words_ + w] |= bits_[earlier * words_ + w];
  }
  std::size_t each_, words_;
  std::vector<std::uint64_t> bits_;
};

struct Use {
  std::size_t at;
  bool writes;
  std::int64_t first, end;  ///< Elements of the slot.
};

/// What tasks do to each slot; those that a step allocates are others in each step.
std::map<std::pair<int, std::size_t>, std::vector<Use>> uses_of(const RankPlan& plan) {
  std::map<std::pair<int, std::size_t>, std::vector<Use>> out;
  const std::size_t each = plan.step().size();
  for (std::size_t i = 0; i < each * kSteps; ++i) {
    const Instruction& in = plan.step()[i % each];
    const auto use = [&](const PlannedOperand& o, bool writes) {
      if (o.slot < 0) return;
      const StorageSlot& slot = nth(plan.slots(), o.slot);
      // What stands inside a halo is no one block: it counts as all of the slot.
      const std::int64_t first = o.within.empty() ? o.first : 0,
                         end = o.within.empty() ? o.first + o.held->elements() : slot.elements;
      out[{o.slot, slot.persistent ? 0 : i / each}].push_back({i, writes, first, end});
    };
    for (const PlannedOperand& o : in.operands) use(o, o.access != Access::read);
    for (const PlannedOperand& v : in.values) use(v, false);
  }
  return out;
}

/// The first two of each slot that are not ordered, in words.
std::vector<std::string> unordered(const RankPlan& plan, bool events) {
  const Before before(plan, events);
  const std::size_t each = plan.step().size();
  std::vector<std::string> out;
  std::map<std::pair<int, std::size_t>, std::size_t> taken;  // Where it was allocated.
  for (std::size_t i = 0; i < each * kSteps; ++i)
    for (const int slot : plan.step()[i % each].allocates) taken[{slot, i / each}] = i;
  const auto said = [&](const Use& a, const Use& b, int slot) {
    const std::string& tensor = nth(plan.program().tensors, nth(plan.slots(), slot).tensor).name;
    return name_of(plan.step()[a.at % each]) + " | " + name_of(plan.step()[b.at % each]) + ": " + tensor;
  };
  const auto clash = [&](const std::vector<Use>& uses, int slot) -> std::optional<std::string> {
    for (std::size_t x = 0; x < uses.size(); ++x)
      for (std::size_t y = x + 1; y < uses.size(); ++y) {
        const Use &a = uses[x], &b = uses[y];
        if ((a.writes || b.writes) && a.first < b.end && b.first < a.end && !before.ordered(a.at, b.at))
          return said(a, b, slot);
      }
    return std::nullopt;
  };
  for (const auto& [slot, uses] : uses_of(plan)) {
    if (const auto found = clash(uses, slot.first)) out.push_back(*found);
    const auto at = taken.find(slot);
    if (at == taken.end()) continue;
    for (const Use& u : uses)
      if (u.at != at->second && !before.has(u.at, at->second))
        out.push_back("before it is there: " + said(u, u, slot.first));
  }
  return out;
}

bool has_streams(const RankPlan& plan) {
  return std::any_of(plan.step().begin(), plan.step().end(), [](const Instruction& in) { return !in.after.empty(); });
}

/// Plans of all ranks; those that would have gone wrong without events.
int check_order(const Program& program) {
  int would_clash = 0;
  for (int rank = 0; rank < program.mesh.ranks(); ++rank) {
    const RankPlan plan(program, rank);
    CHECK(unordered(plan, true) == std::vector<std::string>{});
    if (has_streams(plan) && !unordered(plan, false).empty()) ++would_clash;
  }
  return would_clash;
}

/// Of one network, under each strategy and schedule that may be used for it.
int check_order_of_all(Net net, Precision precision) {
  int would_clash = 0;
  for (const Variation& v : all_variations()) {
    if (!legal(net, {v})) continue;
    INFO("network " << static_cast<int>(net) << ", " << v.name);
    Job job = small_job(net);
    job.workload.training.precision = precision;
    would_clash += check_order(spread(job, {v}));
  }
  return would_clash;
}

}  // namespace

TEST_CASE("every plan orders what its tasks do to storage") {
  CHECK(check_order_of_all(Net::gpt, Precision::bf16_mixed) > 40);
}

TEST_CASE("so it does for networks of every kind", "[.slow]") {
  int would_clash = 0;
  for (const Net net : {Net::gpt, Net::mixtral, Net::deepseek, Net::cnn, Net::segmenter})
    for (const Precision precision : {Precision::fp32, Precision::bf16_mixed})
      would_clash += check_order_of_all(net, precision);
  CHECK(would_clash > 300);
}

TEST_CASE("so do plans with two strategies", "[.slow]") {
  int tested = 0, would_clash = 0;
  for (const Variation& v : all_variations())
    for (const Variation& w : all_variations()) {
      if (v.name >= w.name || v.ranks * w.ranks > 4) continue;
      const auto program = spread_if_legal(Net::gpt, {v, w});
      if (!program) continue;
      INFO(v.name << ", " << w.name);
      would_clash += check_order(*program);
      ++tested;
    }
  CHECK(tested > 400);
  CHECK(would_clash > 1000);
}
