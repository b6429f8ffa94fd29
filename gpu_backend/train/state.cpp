#include "gpu_backend/train/state.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/program/body.hpp"
#include "core/program/parts.hpp"
#include "gpu_backend/train/initial.hpp"

namespace rehearse {

namespace {

const char* name_of(Numerics numerics) {
  switch (numerics) {
    case Numerics::fp32: return "fp32";
    case Numerics::fp64: return "fp64";
    case Numerics::plan: return "plan";
  }
  return "";
}

class RunComparison {
 public:
  RunComparison(std::span<const CheckpointHeader* const> files, const Program& program, std::string where)
      : first_(*files.front()), program_(program), where_(std::move(where)), wanted_(state_of(program)) {
    for (const CheckpointHeader* file : files)
      for (const StoredTensor& t : file->tensors)
        if (t.state) stored_.try_emplace(t.name, StateShape{t.held.shape, t.dtype, {}});
  }

  void check(Numerics numerics) const {
    if (first_.numerics != numerics)
      differs("was written in another precision", name_of(first_.numerics), name_of(numerics),
              fmt::format("--numerics {}", name_of(first_.numerics)));
    check_model();
    if (const auto here = optimizers_of(program_); first_.optimizers != here)
      differs("was written by another optimizer", fmt::format("{}", fmt::join(first_.optimizers, ", ")),
              fmt::format("{}", fmt::join(here, ", ")), "set training.optimizer as it was");
    check_types();
    check_samples();
  }

 private:
  [[noreturn]] void refuse(const std::string& what, const std::string& hint) const {
    throw Error(ErrorKind::usage, "the checkpoint " + what, where_, hint + ", or start without --resume");
  }
  [[noreturn]] void differs(const std::string& what, const std::string& there, const std::string& here,
                            const std::string& hint) const {
    refuse(fmt::format("{}: {} there, {} here", what, there, here), hint);
  }

  /// Shapes of parameters: of their values, or of what stands for those.
  static std::map<std::string, std::vector<std::int64_t>> parameters(const State& state) {
    std::map<std::string, std::vector<std::int64_t>> out;
    for (const auto& [name, shape] : state)
      if (name.part.empty() || name.part == kMasterPart) out.try_emplace(name.parameter, shape.shape);
    return out;
  }
  void check_model() const {
    const std::string hint = "give the model that it was written of";
    const auto there = parameters(stored_), here = parameters(wanted_);
    for (const auto& [name, shape] : here) {
      const auto at = there.find(name);
      if (at == there.end()) refuse(fmt::format("is of another model: it has no '{}'", name), hint);
      if (at->second != shape)
        differs(fmt::format("is of another model: '{}'", name), fmt::format("{}", fmt::join(at->second, " x ")),
                fmt::format("{}", fmt::join(shape, " x ")), hint);
    }
    for (const auto& [name, shape] : there)
      if (!here.contains(name)) refuse(fmt::format("is of another model: it has '{}', this one has not", name), hint);
  }

  void check_types() const {
    const std::string what = "was written in another precision", hint = "set training.precision as it was";
    for (const auto& [name, shape] : wanted_) {
      const std::string called = name.part.empty() ? name.parameter : name.parameter + "." + name.part;
      const auto at = stored_.find(name);
      if (at == stored_.end()) {
        if (name.part.empty() && stored_.contains({name.parameter, kMasterPart})) continue;
        refuse(fmt::format("{}: it has no '{}'", what, called), hint);
      }
      if (at->second.dtype != shape.dtype)
        differs(fmt::format("{}: '{}'", what, called), std::string(rehearse::name_of(at->second.dtype)),
                std::string(rehearse::name_of(shape.dtype)), hint);
      if (at->second.shape != shape.shape)
        refuse(fmt::format("keeps '{}' as {}, which this plan keeps as {}", called, fmt::join(at->second.shape, " x "),
                           fmt::join(shape.shape, " x ")),
               "divide the run as it was");
    }
    for (const auto& [name, shape] : stored_)
      if (!name.part.empty() && !wanted_.contains(name))
        refuse(fmt::format("{}: it has '{}.{}', this run has not", what, name.parameter, name.part), hint);
  }

  void check_samples() const {
    const std::string what = "is of a run with other data";
    if (first_.samples_per_step != program_.samples_per_step)
      differs(what, fmt::format("{} samples a step", first_.samples_per_step),
              fmt::format("{}", program_.samples_per_step),
              fmt::format("--set training.global_batch={}", first_.samples_per_step));
    if (first_.tokens_per_step != program_.tokens_per_step)
      differs(what, fmt::format("{} tokens a step", first_.tokens_per_step),
              fmt::format("{}", program_.tokens_per_step),
              fmt::format("--set training.sequence_length={}", first_.tokens_per_step / first_.samples_per_step));
    if (first_.seed != program_.seed)
      differs(what, fmt::format("seed {}", first_.seed), fmt::format("{}", program_.seed),
              fmt::format("--set training.seed={}", first_.seed));
  }

  const CheckpointHeader& first_;
  const Program& program_;
  std::string where_;
  State wanted_, stored_;
};

}  // namespace

bool is_state(const Tensor& tensor) {
  return tensor.category == MemoryCategory::weights || tensor.category == MemoryCategory::optimizer ||
         tensor.role == TensorRole::fp8_scales;
}

StateName state_name(const Tensor& tensor, int layer) {
  return {instance_name(tensor.initial_key.empty() ? tensor.name : tensor.initial_key, layer), tensor.part};
}

State state_of(const Program& program) {
  State out;
  for (std::size_t role = 0; role < program.roles.size(); ++role) {
    const auto rank = std::find(program.role_of_rank.begin(), program.role_of_rank.end(), static_cast<int>(role)) -
                      program.role_of_rank.begin();
    const ExprContext at = program.mesh.context(static_cast<int>(rank));
    for (const Role::Persistent& p : program.roles[role].persistent) {
      const Tensor& t = nth(program.tensors, p.tensor);
      if (!is_state(t)) continue;
      StateShape& shape = out[state_name(t, p.layer)];
      shape = {{}, t.dtype, t.segments};
      for (const ExprId e : t.shape) shape.shape.push_back(program.exprs.evaluate(e, at));
    }
  }
  return out;
}

std::vector<std::string> optimizers_of(const Program& program) {
  std::set<std::string> out;
  for (const Body& body : program.bodies)
    for (const auto v : body.graph.vertices())
      if (const auto* c = std::get_if<ComputeTask>(&body.graph[v].kind); c != nullptr && c->op == ComputeOp::optimizer)
        out.insert(c->variant);
  return {out.begin(), out.end()};
}

void check_same_run(std::span<const CheckpointHeader* const> files, const Program& program, Numerics numerics,
                    const std::string& where) {
  RunComparison(files, program, where).check(numerics);
}

}  // namespace rehearse
