#pragma once
// Builds one body: formals bound to tensors, tasks in issue order, dependencies from what tasks read and write.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/config/settings/training.hpp"
#include "core/program/program.hpp"
#include "core/strategy/operators/redistribute.hpp"

namespace rehearse {

/// Names and numbers that every body of a Program shares.
struct ProgramFrame {
  Program& program;
  StreamId compute, tp, cp, ep, dp, copies, io, host;
  StreamId send_next, send_prev, receive_prev, receive_next;  ///< Pipeline messages, by neighbour and direction.
  DType activation_dtype = DType::bf16;                       ///< Storage of activations and weights.
  DType arithmetic_dtype = DType::bf16;                       ///< Of matrix products.
  DType gradient_dtype = DType::fp32;
  bool mixed = true;          ///< fp32 master weights beside the model's.
  StreamId copies_out = 0;    ///< Device to host, beside `copies` from host to device.
  StreamId dp_replicate = 0;  ///< Between the copies of hybrid sharding; `dp` where there is one copy.
  /// The same messages in the other direction, where chunks run back along the stages: a V, or a second copy of each
  /// chunk.
  struct {
    bool used = false;
    StreamId send_next = 0, send_prev = 0, receive_prev = 0, receive_next = 0;
  } back = {};
  int chunk_copies = 1;                  ///< Of every chunk of the model, each on a stage of its own (DualPipe).
  StreamId tile = 0;                     ///< Halo exchanges and batch statistics over tiles.
  std::optional<Fp8Settings> fp8 = {};   ///< Products in fp8, or what `narrow` is (fp8.hpp).
  DType narrow = DType::fp8;             ///< Storage of their operands ...
  DType narrow_arithmetic = DType::fp8;  ///< ... and what they are multiplied in.
  bool samples_first = false;            ///< KernelSettings::samples_first.
  /// Tensors that pass between blocks, an instance per block position and microbatch: one edge for all boundaries of
  /// one shape and layout.
  struct Edge {
    int value = -1, grad = -1;
  };
  std::vector<Edge> edges = {};
  bool blocking_messages = false;  ///< Between stages: not StrategySettings::Overlap::pp.

  /// The communicator family that varies along `axes`, all of one view; made on first use. Members have equal values of
  /// `color`.
  int group(const std::string& name, AxisSet axes, ExprId color = ExprPool::kZero);
  int add_tensor(Tensor tensor);
  [[nodiscard]] StreamId stream_of(Axis axis) const;
  ExprId constant(std::int64_t v) { return program.exprs.constant(v); }
  /// Local length of one dimension, halos not counted, as an expression of the coordinates; a constant where all ranks
  /// have the same.
  ExprId local(const Tensor& tensor, int dim);
  /// Local product of dimensions [first, last).
  ExprId local_product(const Tensor& tensor, int first, int last);
  ExprId mul(ExprId a, ExprId b) { return program.exprs.apply(ExprOp::mul, a, b); }
};

/// Binding of a formal that the entry provides.
struct Hold {
  InstanceRef instance;
  bool allocate = false;
  bool release = false;
};

class BodyBuilder {
 public:
  BodyBuilder(ProgramFrame& frame, std::string name, Phase phase);
  ~BodyBuilder();

  /// A formal of the body's own, like `tensor` (lifetime scratch).
  int scratch(const std::string& name, int tensor);
  /// A formal bound to storage; the same (tensor, instance) gives the same formal, whose allocate/release are merged.
  int bound(const std::string& name, int tensor, const Hold& hold = {});
  /// The same of a view of `base`, another formal of the body: what wrote that comes before what reads the view.
  int view(const std::string& name, int base, int tensor);
  [[nodiscard]] const Tensor& tensor(int formal) const;

  /// Neither bound nor a view of anything that is.
  [[nodiscard]] bool is_scratch(int formal) const;
  /// Index into Program::tensors of what the formal is like.
  [[nodiscard]] int tensor_id(int formal) const;
  /// Makes a scratch formal a bound one: what the body computed is what the entry binds.
  void rebind(int formal, int tensor, const Hold& hold);

  /// Appends a task and its dependencies: on the last writer of what it reads or writes, and on the readers of what it
  /// overwrites, wherever those lie on another stream.
  int add(Task task);
  int compute(const std::string& name, ComputeTask work, std::vector<Operand> operands, Phase phase);
  /// Redistributes `formal` to `to`; returns the formal that holds the result, `formal` itself where nothing changes.
  int redistribute(int formal, const Layout& to, const std::string& name, Phase phase);
  /// A buffer like `formal`, of this body alone: `name` in the body, "TENSOR@SUFFIX" in the Program, which counts it as
  /// `category`.
  int buffer_like(int formal, const std::string& name, const std::string& suffix, MemoryCategory category,
                  std::optional<DType> dtype = std::nullopt);
  /// What a scatter along `axis` reads: `formal`, or a copy of it in the order of ranks where samples come first.
  int in_order_of_ranks(int formal, Axis axis, const std::string& name, Phase phase);

  [[nodiscard]] ProgramFrame& frame() { return frame_; }
  [[nodiscard]] ExprId dim(int formal, int d) { return frame_.local(tensor(formal), d); }

  struct Finished {
    int body;
    int bindings;
  };
  Finished finish();

 private:
  struct Use {
    int writer = -1;
    std::vector<int> readers;
  };
  void depend(int from, int to);

  ProgramFrame& frame_;
  std::unique_ptr<Body> body_;
  std::vector<Binding> bindings_;
  std::map<std::pair<int, std::array<int, 3>>, int> bound_;
  std::map<int, std::size_t> binding_of_;
  std::vector<Use> uses_;
};

[[nodiscard]] inline Operand read(int f) { return {f, Access::read}; }
[[nodiscard]] inline Operand write(int f) { return {f, Access::write}; }
[[nodiscard]] inline Operand update(int f) { return {f, Access::update}; }

}  // namespace rehearse
