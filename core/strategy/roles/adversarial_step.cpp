#include "core/strategy/roles/adversarial_step.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "core/base/index.hpp"
#include "core/config/settings/training.hpp"
#include "core/strategy/roles/skips.hpp"
#include "core/strategy/roles/stage_tail.hpp"
#include "core/strategy/workload.hpp"

namespace rehearse {

namespace {

std::string name_of(Shown shown) { return shown == Shown::real ? "real" : shown == Shown::made ? "made" : "through"; }

/// The job as the discriminator's update sees it.
Workload with_own_update(Workload w) {
  const DiscriminatorSettings& own = w.training.discriminator;
  if (own.optimizer != OwnOptimizer::same)
    w.training.optimizer = static_cast<Optimizer>(static_cast<int>(own.optimizer) - 1);
  if (own.learning_rate > 0) w.training.learning_rate = own.learning_rate;
  return w;
}

bool judges(const BlockSpec& block) {
  for (const OpSpec& op : block.ops)
    if (op.kind == OpKind::adversarial_loss) return true;
  return false;
}

}  // namespace

AdversarialStep::AdversarialStep(ProgramFrame& frame, const AdversarialParts& parts) : frame_(frame), parts_(parts) {
  const Network& net = parts_.workload.network;
  const int second = net.discriminator;
  add_member(generator_, 0, second);
  add_member(discriminator_, second, static_cast<int>(net.blocks.size()));
  discriminator_.own = with_own_update(parts_.workload);
  frame_.program.chunks = {generator_.chunk.front(), discriminator_.chunk.front()};
  link_skips(frame_, net, frame_.program.chunks, parts_.blocks);
  generator_.step.emplace(frame_, parts_.workload, parts_.blocks, parts_.layouts, 0, second);
  discriminator_.step.emplace(frame_, *discriminator_.own, parts_.blocks, parts_.layouts, second);
  make_generator();
  make_discriminator();
}

void AdversarialStep::add_member(Member& member, int first_block, int last_block) {
  const auto end = [this](int block) {
    return block < static_cast<int>(parts_.blocks.size()) ? nth(parts_.blocks, block).position
                                                          : static_cast<int>(parts_.block_at.size());
  };
  member.chunk = {{first_block > 0 ? 1 : 0, 0, 0, 0, end(first_block), end(last_block)}};
  for (auto& bodies : member.bodies) bodies.resize(parts_.blocks.size());
}

AdversarialStep::Made AdversarialStep::pass_of(std::size_t block, bool forward, Shown shown) {
  BlockOptions options = parts_.options;
  options.shown = shown;
  const auto second = static_cast<std::size_t>(parts_.workload.network.discriminator);
  if (block >= second) {
    options.weight_grads = shown != Shown::through;
    options.input_grad = shown == Shown::through || block > second;
  }
  BlockTensors& tensors = parts_.blocks[block];
  const bool same_for_all = block < second || (forward && !judges(*tensors.spec));
  const std::string name = fmt::format("{}.{}{}{}", tensors.spec->name, forward ? "forward" : "backward",
                                       same_for_all ? "" : ".", same_for_all ? "" : name_of(shown));
  BlockBody body(frame_, tensors, options, name, forward ? Phase::forward : Phase::input_grad);
  if (forward)
    body.forward();
  else
    body.backward();
  return body.finish();
}

void AdversarialStep::make_generator() {
  for (std::size_t b = 0; b < static_cast<std::size_t>(parts_.workload.network.discriminator); ++b) {
    BlockBodies made;
    made.forward = pass_of(b, true, Shown::made);
    made.backward = pass_of(b, false, Shown::through);
    std::vector<int> inputs;
    const std::vector<TensorSpec>& tensors = parts_.blocks[b].spec->tensors;
    for (std::size_t t = 0; t < tensors.size(); ++t)
      if (tensors[t].is_input()) inputs.push_back(static_cast<int>(t));
    if (!inputs.empty()) made.input = generator_.step->input(static_cast<int>(b), inputs);
    for (auto& bodies : generator_.bodies) bodies[b] = made;
  }
}

int AdversarialStep::judged_images() const {
  const BlockTensors& first = nth(parts_.blocks, parts_.workload.network.discriminator);
  return nth(frame_.edges, first.in_edge).value;
}

template <class Change>
AdversarialStep::Made AdversarialStep::rebound(Made made, const Change& change) {
  auto& sets = frame_.program.binding_sets;
  const int input = judged_images();
  BindingSet set = nth(sets, made.bindings);
  for (Binding& b : set)
    if (b.tensor == input && b.instance.layer_delta == 0) change(b);
  sets.push_back(std::move(set));
  return {made.body, static_cast<int>(sets.size()) - 1};
}

/// Real images lie in storage of their own, like that of made ones. These are kept until backward has gone through.
void AdversarialStep::make_discriminator() {
  const auto second = static_cast<std::size_t>(parts_.workload.network.discriminator);
  Tensor images = nth(frame_.program.tensors, judged_images());
  images.name = "real";
  images.lifetime = Lifetime::step;
  images.per_layer = false;
  const int real = frame_.add_tensor(std::move(images));
  // A generator that begins with images begins with these: they have been read.
  const std::vector<TensorSpec>& first = parts_.workload.network.blocks.front().tensors;
  const bool has_own =
      std::any_of(first.begin(), first.end(), [](const TensorSpec& t) { return t.field == SampleField::image; });
  real_images_ = discriminator_.step->images(real, !has_own);
  for (std::size_t b = second; b < parts_.blocks.size(); ++b) {
    for (const Shown shown : {Shown::real, Shown::made, Shown::through}) {
      BlockBodies& made = nth(discriminator_.bodies, shown)[b];
      const bool once = shown != Shown::real && !judges(*parts_.blocks[b].spec);
      made.forward = once ? discriminator_.bodies.front()[b].forward : pass_of(b, true, shown);
      made.backward = shown == Shown::made && !judges(*parts_.blocks[b].spec)
                          ? discriminator_.bodies.front()[b].backward
                          : pass_of(b, false, shown);
    }
  }
  for (const Shown shown : {Shown::made, Shown::real}) {
    BlockBodies& made = nth(discriminator_.bodies, shown)[second];
    const auto change = [&](Binding& b) {
      if (shown == Shown::real)
        b.tensor = real;
      else
        b.release = false;
    };
    made.forward = rebound(made.forward, change);
    made.backward = rebound(made.backward, change);
  }
}

RolePlan AdversarialStep::plan_of(const Member& member, int microbatches) const {
  return {parts_.settings, parts_.schedule,       {1, 1, microbatches}, parts_.block_at, parts_.block_at,
          no_groups_,      member.bodies.front(), parts_.blocks,        member.chunk,    no_passing_};
}

/// One member on its way through a role: its passes, its gradients, its update.
class AdversarialStep::Walk {
 public:
  Walk(ProgramFrame& frame, Member& member, const RolePlan& plan, RoleEntries& entries)
      : frame_(frame),
        member_(member),
        plan_(plan),
        entries_(entries),
        units_(*member.step, plan_, 0),
        gradients_(frame, *member.step, plan_, 0, entries, units_) {
    std::vector<Slot> slots(static_cast<std::size_t>(plan_.shape.microbatches));
    for (std::size_t i = 0; i < slots.size(); ++i) slots[i] = slot_of(static_cast<int>(i));
    gradients_.plan(slots);
  }

  /// `arrived` is the event of what the pass reads, or -1.
  void forward(Shown shown, int microbatch, EventId arrived = -1) {
    std::vector<Wait> waits = entries_.take_held_back();
    if (arrived >= 0) waits.push_back({arrived});
    for (int position = chunk().first_layer; position < chunk().last_layer; ++position) {
      if (const Made& input = bodies(shown, position).input; input.body >= 0)
        waits.push_back({load(input, shown, position, microbatch)});
      add(bodies(shown, position).forward, shown, position, microbatch, std::exchange(waits, {}), false);
    }
  }

  /// `trains` is set where the pass is the last of its microbatch to add to the member's gradients.
  void backward(Shown shown, int microbatch, bool trains) {
    for (int position = chunk().last_layer; position-- > chunk().first_layer;) {
      const bool closes = trains && gradients_.closes(slot_of(microbatch), position),
                 last = position == chunk().first_layer;
      const EventId done = add(bodies(shown, position).backward, shown, position, microbatch, {}, closes || last);
      if (done >= 0) last_ = done;
      if (trains) gradients_.finished(slot_of(microbatch), position, done);
    }
  }

  EventId load(const Made& made, Shown shown, int position, int microbatch) {
    RoleCall call{made, frame_.io, position, chunk().chunk, microbatch};
    call.pass = static_cast<int>(shown);
    call.record = true;
    return entries_.add(call);
  }

  void update() { add_tail(frame_, *member_.step, plan_, gradients_, entries_, last_, -1); }
  [[nodiscard]] int first_position() const { return chunk().first_layer; }

 private:
  static Slot slot_of(int microbatch) { return {Pass::backward, 0, microbatch}; }
  [[nodiscard]] const ChunkPlacement& chunk() const { return member_.chunk.front(); }
  [[nodiscard]] const BlockBodies& bodies(Shown shown, int position) const {
    return nth(member_.bodies, shown)[static_cast<std::size_t>(nth(plan_.block_at, position))];
  }
  EventId add(const Made& made, Shown shown, int position, int microbatch, std::vector<Wait> waits, bool record) {
    RoleCall call{made, frame_.compute, position, chunk().chunk, microbatch, 0, std::move(waits), record};
    call.pass = static_cast<int>(shown);
    return entries_.add_pass(std::move(call));
  }

  ProgramFrame& frame_;
  Member& member_;
  const RolePlan plan_;
  RoleEntries& entries_;
  UnitPlan units_;
  StageGradients gradients_;
  EventId last_ = -1;  ///< End of the last backward.
};

Role AdversarialStep::role(int microbatches) {
  RoleEntries entries(frame_, "generator and discriminator");
  Walk generator(frame_, generator_, plan_of(generator_, microbatches), entries);
  Walk discriminator(frame_, discriminator_, plan_of(discriminator_, microbatches), entries);
  for (int i = 0; i < microbatches; ++i) {
    discriminator.forward(Shown::real, i,
                          discriminator.load(real_images_, Shown::real, discriminator.first_position(), i));
    discriminator.backward(Shown::real, i, false);
    generator.forward(Shown::made, i);
    discriminator.forward(Shown::made, i);
    discriminator.backward(Shown::made, i, true);
  }
  discriminator.update();
  for (int i = 0; i < microbatches; ++i) {
    discriminator.forward(Shown::through, i);
    discriminator.backward(Shown::through, i, false);
    generator.backward(Shown::through, i, true);
  }
  generator.update();
  return entries.take();
}

}  // namespace rehearse
