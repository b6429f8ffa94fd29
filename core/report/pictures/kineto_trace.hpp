#pragma once
// Traces in the form of PyTorch's profiler (Kineto), which is Chrome's trace event format with agreed names: Perfetto,
// chrome://tracing and PyTorch's trace tools open it.
//
// pid is the rank, tid the stream. Kernels and collectives are complete events of category "kernel"; collectives carry
// Kineto's fields ("Collective name", "In msg nelems", "Out msg nelems", "Group size", "dtype", "Process Group Name",
// "Process Group Ranks"), other kernels "class", the kind of work, where the span tells it. Messages are tied by flow
// events. Times are microseconds with three decimals.

#include "core/cluster/cluster.hpp"
#include "core/program/program.hpp"
#include "core/report/formats/text_output.hpp"
#include "core/trace/trace.hpp"

namespace rehearse {

/// Writes every span of `trace`, which comes from a run of `program` on `cluster`, track by track in order of time.
/// `name` becomes traceName. `device` is what computed where that was not the cluster's GPUs; empty: those. Does not
/// close `out`.
void write_kineto(const Trace& trace, const Program& program, const Cluster& cluster, const std::string& name,
                  TextOutput& out, const std::string& device = {});

}  // namespace rehearse
