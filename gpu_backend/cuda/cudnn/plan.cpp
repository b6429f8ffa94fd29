#include "gpu_backend/cuda/cudnn/plan.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace rehearse::cuda {

namespace {

/// Engines with their settings, the one that cuDNN believes to be fastest first.
std::vector<CudnnDescriptor> proposals(cudnnBackendHeurMode_t mode, const CudnnDescriptor& graph) {
  CudnnDescriptor question(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  question.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  question.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
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

bool repeats(const CudnnDescriptor& engine) {
  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes{};
  std::int64_t count = 0;
  check(REHEARSE_CUDNN_CALL(cudnnBackendGetAttribute)(engine.get(), CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                                      CUDNN_TYPE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT,
                                                      &count, notes.data()),
        "cudnnBackendGetAttribute");
  return std::find(notes.begin(), notes.begin() + count, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) ==
         notes.begin() + count;
}

}  // namespace

CudnnPlan::CudnnPlan(cudnnHandle_t handle, std::unique_ptr<CudnnGraph> graph, bool deterministic)
    : graph_(std::move(graph)) {
  const CudnnDescriptor& operations = graph_->finalise(handle);
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    for (CudnnDescriptor& settings : proposals(mode, operations)) {
      if (decide(handle, std::move(settings), deterministic)) return;
    }
  }
  throw CudnnFailure(CUDNN_STATUS_NOT_SUPPORTED, "no engine of cuDNN's takes this graph");
}

bool CudnnPlan::decide(cudnnHandle_t handle, CudnnDescriptor settings, bool deterministic) {
  try {
    const CudnnDescriptor engine = settings.inner(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    if (deterministic && !repeats(engine)) return false;
    CudnnDescriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, settings);
    plan.finalise();
    workspace_bytes_ = static_cast<std::size_t>(plan.integer(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE));
    engine_ = std::move(settings);
    plan_ = std::move(plan);
    return true;
  } catch (const CudnnFailure&) {
    return false;
  }
}

void CudnnPlan::run(cudnnHandle_t handle, std::span<const CudnnPlace> places, void* workspace) const {
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
