#include "core/strategy/bodies/split_backward.hpp"

#include <algorithm>
#include <map>
#include <vector>

#include "core/base/index.hpp"
#include "core/program/body.hpp"

namespace rehearse {

namespace {

/// What tasks do with the storage of one formal, views of it included.
struct Uses {
  std::vector<std::size_t> readers, writers;  ///< In issue order; an update is both.
};

class Splitter {
 public:
  Splitter(ProgramFrame& frame, const BodyBuilder::Finished& whole, const std::set<int>& kept,
           const std::set<int>& gradients)
      : frame_(frame),
        whole_(whole),
        kept_(kept),
        gradients_(gradients),
        body_(nth(frame.program.bodies, whole.body)),
        bindings_(nth(frame.program.binding_sets, whole.bindings)),
        late_(body_.graph.size(), false) {
    binding_of_.assign(body_.formals.size(), -1);
    int next = 0;
    for (std::size_t f = 0; f < body_.formals.size(); ++f)
      if (body_.formals[f].bound) binding_of_[f] = next++;
    for (std::size_t f = 0; f < body_.formals.size(); ++f) root_.push_back(root_of(f));
    for (std::size_t v = 0; v < late_.size(); ++v)
      for (const Operand& o : body_.graph[v].operands) {
        Uses& u = uses_[nth(root_, o.formal)];
        if (o.access != Access::write) u.readers.push_back(v);
        if (o.access != Access::read) u.writers.push_back(v);
      }
  }

  SplitBackward run() {
    for (std::size_t v = 0; v < late_.size(); ++v) late_[v] = is_weight_gradient(body_.graph[v]);
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t v = 0; v < late_.size(); ++v)
        if (late_[v] && needed_early(v)) {
          late_[v] = false;
          moved = true;
        }
    }
    for (std::size_t v = late_.size(); v-- > 0;)
      if (!late_[v] && only_for_late(v) && !needed_early(v)) late_[v] = true;
    sort_storage();
    SplitBackward out;
    // The input half is the place of what no task touches, unless it has no task itself.
    Half input = make(false), weight = make(true);
    const bool takes_place = !input.empty();
    if (takes_place) out.input = finish(std::move(input), whole_.body);
    if (!weight.empty()) out.weight = finish(std::move(weight), takes_place ? -1 : whole_.body);
    return out;
  }

 private:
  struct Half {
    Body body;
    std::vector<Binding> bindings;
    [[nodiscard]] bool empty() const {
      return body.graph.size() == 0 &&
             std::none_of(bindings.begin(), bindings.end(), [](const Binding& b) { return b.allocate || b.release; });
    }
  };

  [[nodiscard]] bool is_weight_gradient(const Task& task) const {
    if (task.phase != Phase::weight_grad || !std::holds_alternative<ComputeTask>(task.kind)) return false;
    const auto adds = [this](const Operand& o) {
      return o.access == Access::update && gradients_.contains(nth(body_.formals, o.formal).like);
    };
    return gradients_.empty() || std::any_of(task.operands.begin(), task.operands.end(), adds);
  }

  [[nodiscard]] const Tensor& tensor(int id) const { return nth(frame_.program.tensors, id); }
  [[nodiscard]] const Binding* binding(std::size_t f) const {
    return binding_of_[f] < 0 ? nullptr : &nth(bindings_, binding_of_[f]);
  }

  /// The formal whose storage `f` is a view of; `f` itself where that is none of the body's.
  [[nodiscard]] std::size_t root_of(std::size_t f) const {
    const Tensor& view = tensor(body_.formals[f].like);
    if (view.alias_of < 0) return f;
    for (std::size_t base = 0; base < body_.formals.size(); ++base) {
      if (base == f || body_.formals[base].like != view.alias_of) continue;
      const Binding* b = binding(base);
      InstanceRef at = view.alias_instance;
      if (binding(f) != nullptr) at.layer_delta += binding(f)->instance.layer_delta;
      if (b == nullptr || b->instance == at) return root_of(base);
    }
    return f;
  }

  /// Gradients that leave the body: gone when the weight half runs.
  [[nodiscard]] bool leaves(std::size_t root) const {
    const Binding* b = binding(root);
    return b != nullptr && b->allocate && !b->release;
  }

  [[nodiscard]] bool needed_early(std::size_t v) const {
    const auto early_after = [&](const std::vector<std::size_t>& list) {
      return std::any_of(list.begin(), list.end(), [&](std::size_t u) { return u > v && !late_[u]; });
    };
    for (const Operand& o : body_.graph[v].operands) {
      const std::size_t root = nth(root_, o.formal);
      const Uses& u = uses_.at(root);
      if (leaves(root) || early_after(u.writers)) return true;
      if (o.access != Access::read && early_after(u.readers)) return true;
    }
    return false;
  }

  /// Whether a task's results are scratch that only tasks of the weight half read.
  [[nodiscard]] bool only_for_late(std::size_t v) const {
    bool read = false;
    for (const Operand& o : body_.graph[v].operands) {
      if (o.access == Access::read) continue;
      const std::size_t root = nth(root_, o.formal);
      const Binding* b = binding(root);
      if (b != nullptr && !(b->allocate && b->release)) return false;
      const Uses& u = uses_.at(root);
      for (const std::size_t w : u.writers)
        if (w != v && !late_[w]) return false;
      for (const std::size_t r : u.readers) {
        if (r != v && !late_[r]) return false;
        read |= r != v;
      }
    }
    return read;
  }

  /// Decides for every storage in which halves it is used, and gives scratch of both a tensor that lives from one to
  /// the other.
  void sort_storage() {
    used_.assign(body_.formals.size(), {false, false});
    for (std::size_t v = 0; v < late_.size(); ++v)
      for (const int f : formals_of(body_.graph[v])) {
        nth(used_, f)[late_[v]] = true;
        used_[nth(root_, f)][late_[v]] = true;
      }
    const bool input_works = std::find(late_.begin(), late_.end(), false) != late_.end();
    for (std::size_t f = 0; f < body_.formals.size(); ++f) {
      if (binding(f) != nullptr && !used_[f][0] && !used_[f][1]) used_[f][input_works ? 0 : 1] = true;
      if (binding(f) != nullptr && binding(f)->release && kept_.count(binding(f)->tensor) != 0) used_[f][1] = true;
    }
    for (std::size_t f = 0; f < body_.formals.size(); ++f)
      if (root_[f] == f && binding(f) == nullptr && used_[f][0] && used_[f][1] &&
          tensor(body_.formals[f].like).alias_of < 0)
        deferred_[f] = keep(body_.formals[f].like, -1);
    for (std::size_t f = 0; f < body_.formals.size(); ++f) views(f);
  }

  /// Views of what lives on look at its new tensor.
  int views(std::size_t f) {
    if (const auto at = deferred_.find(f); at != deferred_.end()) return at->second;
    if (deferred_.count(root_[f]) == 0) return body_.formals[f].like;
    std::size_t base = f;
    for (std::size_t b = 0; b < body_.formals.size(); ++b)
      if (b != f && body_.formals[b].like == tensor(body_.formals[f].like).alias_of) base = b;
    const int of = views(base);
    return deferred_[f] = keep(body_.formals[f].like, of);
  }

  int keep(int like, int view_of) {
    Tensor t = tensor(like);
    t.name += ".deferred";
    if (view_of >= 0) {
      t.alias_of = view_of;
    } else {
      t.lifetime = Lifetime::saved;
      t.per_layer = t.per_microbatch = true;
    }
    return frame_.add_tensor(std::move(t));
  }

  [[nodiscard]] static std::vector<int> formals_of(const Task& task) {
    std::vector<int> out;
    for (const Operand& o : task.operands) out.push_back(o.formal);
    if (const auto* c = std::get_if<ComputeTask>(&task.kind))
      for (const int f : {c->factor, c->group_sizes, c->element_ids})
        if (f >= 0) out.push_back(f);
    return out;
  }

  Half make(bool weight) {
    Half out;
    out.body.name = body_.name + (weight ? "_weight" : "_input");
    out.body.phase = weight ? Phase::weight_grad : body_.phase;
    std::vector<int> formal(body_.formals.size(), -1);
    for (std::size_t f = 0; f < body_.formals.size(); ++f)
      if (used_[f][weight]) formal[f] = add_formal(out, f, weight);
    std::vector<std::size_t> vertex(late_.size(), 0);
    for (std::size_t v = 0; v < late_.size(); ++v)
      if (late_[v] == weight) vertex[v] = out.body.graph.add(renamed(body_.graph[v], formal));
    for (const TaskGraph::Edge& e : body_.graph.edges()) {
      const std::size_t from = e.from, to = e.to;
      if (late_[from] == weight && late_[to] == weight) out.body.graph.add_edge(vertex[from], vertex[to]);
    }
    return out;
  }

  int add_formal(Half& half, std::size_t f, bool weight) {
    Formal made = body_.formals[f];
    const auto lives = deferred_.find(f);
    if (lives != deferred_.end()) made.like = lives->second;
    if (lives != deferred_.end() && root_[f] == f) {
      made.bound = true;
      half.bindings.push_back({made.like, {}, !weight, weight});
    } else if (const Binding* b = binding(f)) {
      Binding mine = *b;
      mine.allocate = b->allocate && (!weight || !used_[f][0]);
      mine.release = b->release && (weight || !used_[f][1]);
      half.bindings.push_back(mine);
    }
    half.body.formals.push_back(std::move(made));
    return static_cast<int>(half.body.formals.size()) - 1;
  }

  static Task renamed(Task task, const std::vector<int>& formal) {
    for (Operand& o : task.operands) o.formal = nth(formal, o.formal);
    if (auto* c = std::get_if<ComputeTask>(&task.kind))
      for (int* f : {&c->factor, &c->group_sizes, &c->element_ids})
        if (*f >= 0) *f = nth(formal, *f);
    return task;
  }

  BodyBuilder::Finished finish(Half half, int place) {
    Program& p = frame_.program;
    const auto same = std::find(p.binding_sets.begin(), p.binding_sets.end(), half.bindings);
    const auto set = static_cast<int>(same - p.binding_sets.begin());
    if (same == p.binding_sets.end()) p.binding_sets.push_back(std::move(half.bindings));
    if (place >= 0) {
      nth(p.bodies, place) = std::move(half.body);
      return {place, set};
    }
    p.bodies.push_back(std::move(half.body));
    return {static_cast<int>(p.bodies.size()) - 1, set};
  }

  ProgramFrame& frame_;
  BodyBuilder::Finished whole_;
  const std::set<int>& kept_;
  const std::set<int>& gradients_;
  const Body body_;
  const BindingSet bindings_;
  std::vector<int> binding_of_;            ///< By formal: index into bindings_, or -1.
  std::vector<std::size_t> root_;          ///< By formal: whose storage it is.
  std::map<std::size_t, Uses> uses_;       ///< By root.
  std::vector<bool> late_;                 ///< By task: belongs to the weight half.
  std::vector<std::array<bool, 2>> used_;  ///< By formal: in the input half, in the weight half.
  std::map<std::size_t, int> deferred_;    ///< By formal: the tensor it is from now on.
};

}  // namespace

SplitBackward split_backward(ProgramFrame& frame, const BodyBuilder::Finished& whole, const std::set<int>& kept,
                             const std::set<int>& gradients) {
  return Splitter(frame, whole, kept, gradients).run();
}

}  // namespace rehearse
