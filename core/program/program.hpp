#pragma once
// The Program: what is done, on which rank and stream, after what, on which tensors. It contains no times: the cost
// model prices it, back ends play or execute it. See README.md in this folder for worked examples.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/index.hpp"
#include "core/program/task.hpp"

namespace rehearse {

struct Body;  // body.hpp

/// Bumped when the meaning of any field changes; part of the hash that ranks compare. 2: streams, messages, tensors and
/// inputs say what they are for, which their names said before.
inline constexpr int kProgramVersion = 2;

/// Actual tensor for one formal. `allocate` and `release` are the storage events: before the body's first task, after
/// its last (or after event `release_after`, where another stream still reads). A freed instance is allocated again by
/// its next writer. Where the entry's predicate is zero nothing is allocated or freed.
struct Binding {
  int tensor = 0;
  InstanceRef instance;
  bool allocate = false;
  bool release = false;
  std::int32_t release_after = -1;
  bool operator==(const Binding&) const = default;
};
/// One binding per formal that is not scratch, in formal order. Shared by all entries that bind alike.
using BindingSet = std::vector<Binding>;

using EventId = std::int32_t;
/// An entry starts after the named event of its own rank. `steps_back` > 0 is the event of an earlier step.
struct Wait {
  EventId event;
  std::int32_t steps_back = 0;  ///< Satisfied where no such step was.
  std::int32_t task = -1;       ///< Only this task of the body waits; -1: its first task on every stream.
};
/// An event that completes with one task of an entry's body, earlier than the whole.
struct Mark {
  EventId event;
  std::int32_t task;
};

/// One call of a body. Entries of a role are in host issue order; those of one stream run in that order. The tasks of a
/// body that lie on other streams than `stream` queue there at the entry's place in issue order.
struct Entry {
  std::int32_t body = 0;
  std::int32_t bindings = 0;  ///< Index into Program::binding_sets.
  std::int32_t layer = 0;     ///< Block position: 0 embedding, 1..L layers, L+1 head.
  std::int32_t chunk = 0;
  std::int32_t microbatch = 0;
  std::int32_t copy = 0;  ///< Which copy of the chunk.
  /// Distinguishes several passes of one microbatch through one layer (several networks).
  std::int32_t pass = 0;
  StreamId stream = 0;
  ExprId predicate = ExprPool::kOne;
  std::int32_t first_wait = 0;  ///< Range in Role::waits.
  std::int32_t wait_count = 0;
  EventId record = -1;          ///< Event that completes with the entry's last task; -1 for none.
  std::int32_t first_mark = 0;  ///< Range in Role::marks.
  std::int32_t mark_count = 0;
  /// The neighbouring entry whose segments alternate with this one's, from the earlier one's place and the later one's
  /// first, or -1.
  std::int32_t interleave = -1;
  /// Neighbouring entries of one number issue their messages as one grouped call, or -1.
  std::int32_t group_call = -1;
  std::int32_t graph = -1;  ///< Region captured as one launch (CUDA graph), or -1.
  bool host_wait = false;   ///< The host issues nothing later before this entry is done.
};

/// The in-order program of one kind of rank.
struct Role {
  std::string name;             ///< "stage 3"
  std::vector<Entry> prologue;  ///< Once before the first step.
  std::vector<Entry> step;
  std::vector<Entry> epilogue;  ///< Once after the last step.
  std::vector<Wait> waits;
  std::vector<Mark> marks;
  std::int32_t microbatches = 0;  ///< Of this role; 0: the Program's.
  std::int32_t events = 0;        ///< Events are 0 .. events-1.
  /// Persistent tensors that ranks of this role hold, with the layers they hold them for (layer -1: not per layer).
  struct Persistent {
    int tensor;
    int layer;
  };
  std::vector<Persistent> persistent;
};

/// Where a chunk of the model runs: pipeline coordinate and order among the chunks of that coordinate. A chunk may have
/// several copies (DualPipe).
struct ChunkPlacement {
  int chunk;
  int copy;
  int stage;  ///< pp coordinate.
  int island;
  int first_layer;  ///< Block positions [first_layer, last_layer).
  int last_layer;
};

/// What messages carry.
enum class MessageKind : std::uint8_t {
  activations,           ///< From a pipeline stage to the next, with the skip connections that ride along.
  activation_gradients,  ///< The way back.
  parameters,            ///< From the rank that keeps them to one that computes with them.
  gradients,             ///< Of parameters, to the rank that keeps them.
  inputs,                ///< Samples, from the rank that reads them.
  outputs,               ///< Of the network, to the rank that takes the loss.
  output_gradients       ///< The way back.
};
[[nodiscard]] std::string_view name_of(MessageKind kind);  ///< "activation gradients", for people.

/// A kind of messages between two bodies: both ends of every P2pTask with this edge carry tensors like `tensor`.
struct MessageEdge {
  std::string name;  ///< "activations forward", for people.
  int tensor;        ///< Size is evaluated at the sender.
  bool per_layer = false;
  bool blocking = false;  ///< Either end's host stands still until the message is there.
  MessageKind kind = MessageKind::activations;
};

/// What a stream is a queue of.
enum class StreamRole : std::uint8_t {
  compute,        ///< Kernels of the model.
  communication,  ///< Collectives and messages along `Stream::axes`.
  copy,           ///< Copies between device and host: to the device alone where another stream is for copies out.
  copy_out,       ///< Copies from the device.
  host,           ///< Work of the CPU: a compute task there is priced by it.
  storage         ///< Reads of samples.
};

/// A FIFO queue of each rank.
struct Stream {
  std::string name;  ///< "compute", "pp.send_next": for people.
  StreamRole role = StreamRole::compute;
  AxisSet axes = {};  ///< Of communication: the axes of the groups that it talks along.
  bool operator==(const Stream&) const = default;
};

struct Program {
  int version = kProgramVersion;
  std::string name;
  ExprPool exprs;
  Mesh mesh;
  std::vector<int> device_of_rank;
  std::vector<int> process_of_rank;  ///< Empty: one process per rank. Ranks of one process share its host threads.
  std::vector<Stream> streams;
  std::vector<std::vector<std::int64_t>> tables;  ///< For ExprOp::lookup: uneven layers, bucket offsets.
  std::vector<GroupSpec> groups;
  std::vector<DynamicDim> dynamic_dims;
  std::vector<Tensor> tensors;
  std::vector<MessageEdge> edges;
  std::vector<Body> bodies;
  std::vector<BindingSet> binding_sets;
  std::vector<Role> roles;
  std::vector<std::int32_t> role_of_rank;
  std::vector<ChunkPlacement> chunks;
  int microbatches = 1;  ///< Per replica and step.
  /// Global index, in the step, of a microbatch's first sequence: randomness is a function of it, not of the
  /// microbatch.
  ExprId first_sample = ExprPool::kZero;
  std::uint64_t seed = 1;
  double tokens_per_step = 0;  ///< 0 where samples are not sequences.
  double samples_per_step = 0;
  double model_flops_per_step = 0;  ///< Matmul FLOPs of the mathematics, without recomputation, whole job.

  Program();
  Program(const Program&);
  Program(Program&&) noexcept;
  Program& operator=(const Program&);
  Program& operator=(Program&&) noexcept;
  ~Program();

  [[nodiscard]] StreamRole role_of(StreamId stream) const { return nth(streams, stream).role; }
  /// The first stream for communication along the axis; -1 where there is none.
  [[nodiscard]] StreamId stream_along(Axis axis) const;
  [[nodiscard]] std::vector<std::string> stream_names() const;
  /// Elements a rank holds of one instance: the layout applied to the global shape.
  [[nodiscard]] std::int64_t local_elements(const Tensor& tensor, const ExprContext& at) const;
  [[nodiscard]] double local_bytes(const Tensor& tensor, const ExprContext& at) const {
    return static_cast<double>(local_elements(tensor, at)) * size_of(tensor.dtype);
  }
  /// Length of dimension `dim` on one rank.
  [[nodiscard]] std::int64_t local_extent(const Tensor& tensor, int dim, const ExprContext& at) const;
};

}  // namespace rehearse
