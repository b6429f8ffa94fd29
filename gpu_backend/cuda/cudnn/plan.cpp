#include "gpu_backend/cuda/cudnn/plan.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace rehearse::cuda {

namespace {

/// Engines with their settings, the one that cuDNN believes to be fastest first.
std::vector<CudnnDescriptor> proposals(cudnnBackendHeurMode_t mode, const CudnnDescriptor& graph,
                                       const CudnnTarget& target) {
  CudnnDescriptor question(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  question.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  question.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  if (target.properties() != nullptr) question.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *target.properties());
  question.finalise();
  std::int64_t count = 0;
  const auto ask = [&](std::int64_t room, void* to) {
    check(REHEARSE_CUDNN_CALL(cudnnBackendGetAttribute)(question.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                        CUDNN_TYPE_BACKEND_DESCRIPTOR, room, &count, to),
          "cudnnBackendGetAttribute");
  };
  ask(0, nullptr);
  std::vector<CudnnDescriptor> out;
  std::vector<cudnnBackendDescriptor_t> handles;
  for (std::int64_t i = 0; i < count; ++i) {
    out.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    handles.push_back(out.back().get());
  }
  if (!handles.empty()) ask(count, handles.data());
  out.resize(static_cast<std::size_t>(count));
  return out;
}

/// Whether an engine may be used: none that adds up in 16 bits; where results must repeat, none that does not.
bool allowed(const CudnnDescriptor& engine, bool deterministic) {
  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes{};
  std::int64_t count = 0;
  check(REHEARSE_CUDNN_CALL(cudnnBackendGetAttribute)(engine.get(), CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                                      CUDNN_TYPE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT,
                                                      &count, notes.data()),
        "cudnnBackendGetAttribute");
  return std::none_of(notes.begin(), notes.begin() + count, [&](cudnnBackendNumericalNote_t note) {
    return note == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION ||
           (deterministic && note == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
  });
}

}  // namespace

CudnnTarget::CudnnTarget(std::string_view properties) : properties_(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR) {
  properties_.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                  static_cast<std::int64_t>(properties.size()), properties.data());
  properties_.finalise();
}

CudnnPlan::CudnnPlan(const CudnnTarget& target, std::unique_ptr<CudnnGraph> graph, const CudnnWish& wish)
    : graph_(std::move(graph)) {
  const CudnnDescriptor& operations = graph_->finalise(target.handle());
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    for (CudnnDescriptor& settings : proposals(mode, operations, target)) {
      if (decide(target, std::move(settings), wish)) return;
    }
  }
  throw CudnnFailure(CUDNN_STATUS_NOT_SUPPORTED, "no engine of cuDNN's takes this graph");
}

bool CudnnPlan::decide(const CudnnTarget& target, CudnnDescriptor settings, const CudnnWish& wish) {
  try {
    const CudnnDescriptor engine = settings.inner(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    if (!allowed(engine, wish.deterministic)) return false;
    CudnnDescriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    cudnnHandle_t handle = target.handle();
    if (target.properties() != nullptr)
      plan.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *target.properties());
    else
      plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, settings);
    plan.finalise();
    workspace_bytes_ = static_cast<std::size_t>(plan.integer(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE));
    if (workspace_bytes_ > wish.most_workspace) return false;
    engine_ = std::move(settings);
    plan_ = std::move(plan);
    return true;
  } catch (const CudnnFailure&) {
    return false;
  }
}

void CudnnPlan::run(cudnnHandle_t handle, cudaStream_t stream, std::span<const CudnnPlace> places,
                    void* workspace) const {
  check(REHEARSE_CUDNN_CALL(cudnnSetStream)(handle, stream), "cudnnSetStream");
  std::vector<std::int64_t> ids;
  std::vector<const void*> pointers;
  for (const CudnnPlace& p : places) {
    ids.push_back(p.id);
    pointers.push_back(p.at);
  }
  CudnnDescriptor call(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  call.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids);
  call.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, static_cast<std::int64_t>(pointers.size()),
           pointers.data());
  call.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
  call.finalise();
  check(REHEARSE_CUDNN_CALL(cudnnBackendExecute)(handle, plan_.get(), call.get()), "cudnnBackendExecute");
}

}  // namespace rehearse::cuda
