#pragma once
// Every field of a Program's structs by name, once: the writer, the reader and the hash walk these lists. A list calls
// `f(name, pointer to member)` per field. Program itself, its graphs, mesh and expressions are handled by their owners.

#include <array>
#include <string_view>
#include <type_traits>

#include "core/program/body.hpp"
#include "core/program/program.hpp"

namespace rehearse::fields {

template <class T>
using Of = std::type_identity<T>;

template <class F>
void each(Of<Replicate>, F&&) {}
template <class F>
void each(Of<Shard>, F&& f) {
  f("dim", &Shard::dim);
  f("parts", &Shard::parts);
  f("flat", &Shard::flat);
  f("zigzag", &Shard::zigzag);
  f("padded", &Shard::padded);
  f("turned", &Shard::turned);
}
template <class F>
void each(Of<Partial>, F&& f) {
  f("op", &Partial::op);
}
template <class F>
void each(Of<Halo>, F&& f) {
  f("dim", &Halo::dim);
  f("before", &Halo::before);
  f("after", &Halo::after);
  f("parts", &Halo::parts);
}
template <class F>
void each(Of<Ragged>, F&& f) {
  f("dim", &Ragged::dim);
}
template <class F>
void each(Of<DynamicDim>, F&& f) {
  using T = DynamicDim;
  f("name", &T::name);
  f("bound", &T::bound);
  f("expectation", &T::expectation);
  f("draw", &T::draw);
  f("quantile", &T::quantile);
  f("length", &T::length);
  f("source", &T::source);
  f("draw_axes", &T::draw_axes);
  f("transpose_of", &T::transpose_of);
  f("transpose_group", &T::transpose_group);
  f("allocate_true_size", &T::allocate_true_size);
}
template <class F>
void each(Of<InstanceRef>, F&& f) {
  using T = InstanceRef;
  f("layer_delta", &T::layer_delta);
  f("chunk_delta", &T::chunk_delta);
  f("microbatch_delta", &T::microbatch_delta);
  f("pass_delta", &T::pass_delta);
}
template <class F>
void each(Of<Tensor>, F&& f) {
  using T = Tensor;
  f("name", &T::name);
  f("shape", &T::shape);
  f("dtype", &T::dtype);
  f("layout", &T::layout);
  f("lifetime", &T::lifetime);
  f("category", &T::category);
  f("role", &T::role);
  f("space", &T::space);
  f("per_layer", &T::per_layer);
  f("per_chunk", &T::per_chunk);
  f("per_microbatch", &T::per_microbatch);
  f("per_pass", &T::per_pass);
  f("alias_of", &T::alias_of);
  f("alias_instance", &T::alias_instance);
  f("alias_dim", &T::alias_dim);
  f("alias_offset", &T::alias_offset);
  f("initial", &T::initial);
  f("initial_key", &T::initial_key);
  f("part", &T::part);
  f("segments", &T::segments);
}
template <class F>
void each(Of<ComputeTask>, F&& f) {
  using T = ComputeTask;
  f("op", &T::op);
  f("dims", &T::dims);
  f("arithmetic", &T::arithmetic);
  f("accumulate", &T::accumulate);
  f("transpose_a", &T::transpose_a);
  f("transpose_b", &T::transpose_b);
  f("accumulates", &T::accumulates);
  f("accumulate_if", &T::accumulate_if);
  f("causal", &T::causal);
  f("probability", &T::probability);
  f("epsilon", &T::epsilon);
  f("variant", &T::variant);
  f("offsets", &T::offsets);
  f("kernels", &T::kernels);
  f("passes", &T::passes);
  f("random", &T::random);
  f("scalars", &T::scalars);
  f("factor", &T::factor);
  f("group_sizes", &T::group_sizes);
  f("element_ids", &T::element_ids);
  f("scope", &T::scope);
}
template <class F>
void each(Of<CollectiveTask>, F&& f) {
  using T = CollectiveTask;
  f("op", &T::op);
  f("group", &T::group);
  f("reduce", &T::reduce);
  f("divisor", &T::divisor);
  f("root", &T::root);
  f("variable_counts", &T::variable_counts);
  f("packed", &T::packed);
  f("direct", &T::direct);
  f("count_to_peer", &T::count_to_peer);
  f("count_from_peer", &T::count_from_peer);
}
template <class F>
void each(Of<P2pTask>, F&& f) {
  using T = P2pTask;
  f("direction", &T::direction);
  f("group", &T::group);
  f("peer", &T::peer);
  f("edge", &T::edge);
  f("layer_delta", &T::layer_delta);
  f("chunk_delta", &T::chunk_delta);
  f("microbatch_delta", &T::microbatch_delta);
  f("step_delta", &T::step_delta);
  f("tag", &T::tag);
  f("batch", &T::batch);
}
template <class F>
void each(Of<CopyTask>, F&&) {}
template <class F>
void each(Of<HostTask>, F&& f) {
  f("routine", &HostTask::routine);
}
template <class F>
void each(Of<InputTask>, F&& f) {
  f("samples", &InputTask::samples);
  f("first", &InputTask::first);
  f("what", &InputTask::what);
  f("field", &InputTask::field);
}
template <class F>
void each(Of<ScalarTask>, F&& f) {
  f("what", &ScalarTask::what);
  f("dynamic", &ScalarTask::dynamic);
}
template <class F>
void each(Of<Operand>, F&& f) {
  f("formal", &Operand::formal);
  f("access", &Operand::access);
}
template <class F>
void each(Of<Task>, F&& f) {
  using T = Task;
  f("name", &T::name);
  f("kind", &T::kind);
  f("operands", &T::operands);
  f("stream", &T::stream);
  f("phase", &T::phase);
  f("predicate", &T::predicate);
  f("sm_share", &T::sm_share);
  f("host_wait", &T::host_wait);
}
template <class F>
void each(Of<Formal>, F&& f) {
  f("name", &Formal::name);
  f("like", &Formal::like);
  f("bound", &Formal::bound);
}
template <class F>
void each(Of<Body>, F&& f) {
  using T = Body;
  f("name", &T::name);
  f("phase", &T::phase);
  f("formals", &T::formals);
  f("graph", &T::graph);
  f("segments", &T::segments);
}
template <class F>
void each(Of<Binding>, F&& f) {
  using T = Binding;
  f("tensor", &T::tensor);
  f("instance", &T::instance);
  f("allocate", &T::allocate);
  f("release", &T::release);
  f("release_after", &T::release_after);
}
template <class F>
void each(Of<Wait>, F&& f) {
  f("event", &Wait::event);
  f("steps_back", &Wait::steps_back);
  f("task", &Wait::task);
}
template <class F>
void each(Of<Mark>, F&& f) {
  f("event", &Mark::event);
  f("task", &Mark::task);
}
template <class F>
void each(Of<Entry>, F&& f) {
  using T = Entry;
  f("body", &T::body);
  f("bindings", &T::bindings);
  f("layer", &T::layer);
  f("chunk", &T::chunk);
  f("microbatch", &T::microbatch);
  f("copy", &T::copy);
  f("pass", &T::pass);
  f("stream", &T::stream);
  f("predicate", &T::predicate);
  f("first_wait", &T::first_wait);
  f("wait_count", &T::wait_count);
  f("record", &T::record);
  f("first_mark", &T::first_mark);
  f("mark_count", &T::mark_count);
  f("interleave", &T::interleave);
  f("group_call", &T::group_call);
  f("graph", &T::graph);
  f("host_wait", &T::host_wait);
}
template <class F>
void each(Of<Role::Persistent>, F&& f) {
  f("tensor", &Role::Persistent::tensor);
  f("layer", &Role::Persistent::layer);
}
template <class F>
void each(Of<Role>, F&& f) {
  using T = Role;
  f("name", &T::name);
  f("prologue", &T::prologue);
  f("step", &T::step);
  f("epilogue", &T::epilogue);
  f("waits", &T::waits);
  f("marks", &T::marks);
  f("microbatches", &T::microbatches);
  f("events", &T::events);
  f("persistent", &T::persistent);
}
template <class F>
void each(Of<ChunkPlacement>, F&& f) {
  using T = ChunkPlacement;
  f("chunk", &T::chunk);
  f("copy", &T::copy);
  f("stage", &T::stage);
  f("island", &T::island);
  f("first_layer", &T::first_layer);
  f("last_layer", &T::last_layer);
}
template <class F>
void each(Of<MessageEdge>, F&& f) {
  f("name", &MessageEdge::name);
  f("tensor", &MessageEdge::tensor);
  f("per_layer", &MessageEdge::per_layer);
  f("blocking", &MessageEdge::blocking);
  f("kind", &MessageEdge::kind);
}
template <class F>
void each(Of<Stream>, F&& f) {
  f("name", &Stream::name);
  f("role", &Stream::role);
  f("axes", &Stream::axes);
}
template <class F>
void each(Of<GroupSpec>, F&& f) {
  using T = GroupSpec;
  f("name", &T::name);
  f("view", &T::view);
  f("axes", &T::axes);
  f("only", &T::only);
  f("color", &T::color);
  f("across_islands", &T::across_islands);
}
template <class F>
void each(Of<AxisExtent>, F&& f) {
  f("axis", &AxisExtent::axis);
  f("extent", &AxisExtent::extent);
}
template <class F>
void each(Of<Island>, F&& f) {
  using T = Island;
  f("first_rank", &T::first_rank);
  f("order", &T::order);
  f("expert_order", &T::expert_order);
  f("join_first", &T::join_first);
  f("join_total", &T::join_total);
}
template <class F>
void each(Of<Program>, F&& f) {
  using T = Program;
  f("version", &T::version);
  f("name", &T::name);
  f("exprs", &T::exprs);
  f("mesh", &T::mesh);
  f("device_of_rank", &T::device_of_rank);
  f("process_of_rank", &T::process_of_rank);
  f("streams", &T::streams);
  f("tables", &T::tables);
  f("groups", &T::groups);
  f("dynamic_dims", &T::dynamic_dims);
  f("tensors", &T::tensors);
  f("edges", &T::edges);
  f("bodies", &T::bodies);
  f("binding_sets", &T::binding_sets);
  f("roles", &T::roles);
  f("role_of_rank", &T::role_of_rank);
  f("chunks", &T::chunks);
  f("microbatches", &T::microbatches);
  f("first_sample", &T::first_sample);
  f("seed", &T::seed);
  f("tokens_per_step", &T::tokens_per_step);
  f("samples_per_step", &T::samples_per_step);
  f("model_flops_per_step", &T::model_flops_per_step);
}

namespace detail {
struct Ignore {
  template <class M>
  void operator()(std::string_view, M) const {}
};
}  // namespace detail

/// Whether T is one of the structs above.
template <class T>
concept Struct = requires {
  each(Of<T>{}, detail::Ignore{});
};

}  // namespace rehearse::fields
