#include "gpu_backend/communicate/nccl_world.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>

#include <fmt/format.h>
#include <nccl.h>

#include "core/base/index.hpp"
#include "gpu_backend/communicate/net/rendezvous.hpp"
#include "gpu_backend/communicate/split_plan.hpp"
#include "gpu_backend/cuda/check.hpp"
#include "gpu_backend/cuda/load_library.hpp"
#include "gpu_backend/cuda/stream_of_task.hpp"

namespace rehearse {

namespace {

#define NCCL(name) REHEARSE_CALL_OF(nccl_library, name)

void check(ncclResult_t status, const std::string& what) {
  if (status == ncclSuccess || status == ncclInProgress) return;
  const char* last = NCCL(ncclGetLastError)(nullptr);
  throw Error(ErrorKind::check_failed,
              fmt::format("{}: NCCL says: {}{}{}", what, NCCL(ncclGetErrorString)(status),
                          last != nullptr && *last != '\0' ? ": " : "", last != nullptr ? last : ""),
              "nccl", "NCCL_DEBUG=WARN says more; several ranks on one GPU need --share-gpu");
}

ncclDataType_t type_of(ElementType type) {
  switch (type) {
    case ElementType::real32: return ncclFloat32;
    case ElementType::real64: return ncclFloat64;
    case ElementType::real16: return ncclBfloat16;
    case ElementType::int64: return ncclInt64;
    case ElementType::byte: return ncclUint8;
  }
  return ncclUint8;
}
ncclRedOp_t op_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum: return ncclSum;
    case ReduceOp::max: return ncclMax;
    case ReduceOp::min: return ncclMin;
    case ReduceOp::logical_or: return ncclMax;  // Of votes that are 0 or 1.
  }
  return ncclSum;
}

/// A communicator of NCCL's, once it is made.
struct Comm {
  ncclComm_t handle = nullptr;
  int rank = 0, size = 0;
  bool is_channel = false;  ///< Messages go from its member 0 to its member 1.
  Comm() = default;
  ~Comm() {
    if (handle != nullptr) NCCL(ncclCommDestroy)(handle);
  }
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;
};
using CommPtr = std::shared_ptr<Comm>;

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(CommPtr comm, const cuda::StreamOfTask& streams) : comm_(std::move(comm)), streams_(streams) {}

  /// Enqueues on the stream of the task that is issued.
  void start(CollectiveCall call, Done done) override {
    check(enqueue(call), call.name);
    done(nullptr);
  }

 private:
  static bool equal(const std::vector<std::int64_t>& counts) {
    return std::adjacent_find(counts.begin(), counts.end(), std::not_equal_to<>()) == counts.end();
  }

  ncclResult_t enqueue(const CollectiveCall& c) const {
    const ncclDataType_t type = type_of(c.type);
    const cudaStream_t stream = streams_.stream_of_task();
    const auto count = [](std::int64_t n) { return static_cast<std::size_t>(n); };
    switch (c.op) {
      case CollectiveOp::all_reduce:
        return NCCL(ncclAllReduce)(c.receive, c.receive, count(c.receive_counts[0]), type, op_of(c.reduce),
                                   comm_->handle, stream);
      case CollectiveOp::broadcast:
        return NCCL(ncclBroadcast)(c.receive, c.receive, count(c.receive_counts[0]), type, c.root, comm_->handle,
                                   stream);
      case CollectiveOp::all_gather:
        if (equal(c.receive_counts))
          return NCCL(ncclAllGather)(c.send, c.receive, count(c.receive_counts[0]), type, comm_->handle, stream);
        return each_member(c, c.receive_counts, [&](int m, std::size_t offset) {
          return NCCL(ncclBroadcast)(c.send, c.receive + offset, count(nth(c.receive_counts, m)), type, m,
                                     comm_->handle, stream);
        });
      case CollectiveOp::reduce_scatter:
        if (equal(c.send_counts))
          return NCCL(ncclReduceScatter)(c.send, c.receive, count(c.send_counts[0]), type, op_of(c.reduce),
                                         comm_->handle, stream);
        return each_member(c, c.send_counts, [&](int m, std::size_t offset) {
          return NCCL(ncclReduce)(c.send + offset, c.receive, count(nth(c.send_counts, m)), type, op_of(c.reduce), m,
                                  comm_->handle, stream);
        });
      case CollectiveOp::all_to_all: return exchange(c, type, stream);
      default: throw Error(ErrorKind::unavailable, fmt::format("{}: no such collective between GPUs", c.name));
    }
  }

  /// One call per member, as one group: parts of different sizes.
  template <class F>
  ncclResult_t each_member(const CollectiveCall& c, const std::vector<std::int64_t>& counts, F call) const {
    ncclResult_t out = NCCL(ncclGroupStart)();
    std::size_t offset = 0;
    for (int m = 0; m < comm_->size && out == ncclSuccess; ++m) {
      if (nth(counts, m) > 0) out = call(m, offset);
      offset += static_cast<std::size_t>(nth(counts, m)) * size_of(c.type);
    }
    const ncclResult_t ended = NCCL(ncclGroupEnd)();
    return out != ncclSuccess ? out : ended;
  }

  ncclResult_t exchange(const CollectiveCall& c, ncclDataType_t type, cudaStream_t stream) const {
    ncclResult_t out = NCCL(ncclGroupStart)();
    std::size_t sent = 0, received = 0;
    for (int m = 0; m < comm_->size && out == ncclSuccess; ++m) {
      const auto i = static_cast<std::size_t>(m);
      if (c.send_counts[i] > 0)
        out = NCCL(ncclSend)(c.send + sent, static_cast<std::size_t>(c.send_counts[i]), type, m, comm_->handle, stream);
      if (c.receive_counts[i] > 0 && out == ncclSuccess)
        out = NCCL(ncclRecv)(c.receive + received, static_cast<std::size_t>(c.receive_counts[i]), type, m,
                             comm_->handle, stream);
      sent += static_cast<std::size_t>(c.send_counts[i]) * size_of(c.type);
      received += static_cast<std::size_t>(c.receive_counts[i]) * size_of(c.type);
    }
    const ncclResult_t ended = NCCL(ncclGroupEnd)();
    return out != ncclSuccess ? out : ended;
  }

  CommPtr comm_;
  const cuda::StreamOfTask& streams_;
};

/// Messages between the two members of a communicator of their own; NCCL gives them the order they are sent in. Labels
/// are not compared: that would take a message more per message; the CPU's transports do it.
class NcclChannel final : public Channel {
 public:
  NcclChannel(CommPtr comm, const cuda::StreamOfTask& streams, std::string name)
      : comm_(std::move(comm)), streams_(streams), name_(std::move(name)) {}
  void send(const std::byte* data, std::size_t bytes, std::uint64_t, Done done) override {
    check(NCCL(ncclSend)(data, bytes, ncclUint8, 1, comm_->handle, streams_.stream_of_task()), name_);
    done(nullptr);
  }
  void receive(std::byte* data, std::size_t bytes, std::uint64_t, Done done) override {
    check(NCCL(ncclRecv)(data, bytes, ncclUint8, 0, comm_->handle, streams_.stream_of_task()), name_);
    done(nullptr);
  }

 private:
  CommPtr comm_;
  const cuda::StreamOfTask& streams_;
  std::string name_;
};

/// Sums of doubles in host memory, on the world and on a stream of their own: nothing of the Program waits for them.
class Control {
 public:
  explicit Control(ncclComm_t world) : world_(world) {
    REHEARSE_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  }
  ~Control() {
    cudaStreamDestroy(stream_);
    cudaFree(buffer_);
  }
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  void reduce(void* data, std::int64_t n, ElementType type, ReduceOp op) {
    const std::size_t bytes = static_cast<std::size_t>(n) * size_of(type);
    if (bytes > room_) {
      REHEARSE_CUDA(cudaFree(buffer_));
      REHEARSE_CUDA(cudaMalloc(&buffer_, bytes));
      room_ = bytes;
    }
    REHEARSE_CUDA(cudaMemcpyAsync(buffer_, data, bytes, cudaMemcpyHostToDevice, stream_));
    check(NCCL(ncclAllReduce)(buffer_, buffer_, static_cast<std::size_t>(n), type_of(type), op_of(op), world_, stream_),
          "control");
    REHEARSE_CUDA(cudaMemcpyAsync(data, buffer_, bytes, cudaMemcpyDeviceToHost, stream_));
    REHEARSE_CUDA(cudaStreamSynchronize(stream_));
  }

  /// Moves a byte over a channel, or sums one over a group, and waits for it.
  void connect(const Comm& comm, const std::string& name) {
    if (buffer_ == nullptr) {
      REHEARSE_CUDA(cudaMalloc(&buffer_, sizeof(double)));
      room_ = sizeof(double);
    }
    if (!comm.is_channel)
      check(NCCL(ncclAllReduce)(buffer_, buffer_, 1, ncclUint8, ncclSum, comm.handle, stream_), name);
    else if (comm.rank == 0)
      check(NCCL(ncclSend)(buffer_, 1, ncclUint8, 1, comm.handle, stream_), name);
    else
      check(NCCL(ncclRecv)(buffer_, 1, ncclUint8, 0, comm.handle, stream_), name);
    REHEARSE_CUDA(cudaStreamSynchronize(stream_));
  }

 private:
  ncclComm_t world_;
  cudaStream_t stream_ = nullptr;
  void* buffer_ = nullptr;
  std::size_t room_ = 0;
};

class ControlCommunicator final : public Communicator {
 public:
  explicit ControlCommunicator(std::shared_ptr<Control> control) : control_(std::move(control)) {}
  void start(CollectiveCall c, Done done) override {
    if (c.op != CollectiveOp::all_reduce) throw std::logic_error("control numbers are reduced");
    control_->reduce(c.receive, c.receive_counts[0], c.type, c.reduce);
    done(nullptr);
  }

 private:
  std::shared_ptr<Control> control_;
};

class NcclTransport final : public Transport {
 public:
  NcclTransport(int rank, int ranks, const MeetingPoint& at, const cuda::StreamOfTask& streams,
                std::function<void(const std::string&)> on_failure)
      : rank_(rank),
        ranks_(ranks),
        streams_(streams),
        client_(at.host, at.port, {at.run_id, ranks}, rank, std::move(on_failure)) {
    // Memory of graphs is not there yet when they are captured: NCCL would look it up to register it.
    (void)::setenv("NCCL_GRAPH_REGISTER", "0", 0);
    ncclUniqueId id{};
    if (rank == 0) {
      check(NCCL(ncclGetUniqueId)(&id), "meeting");
      client_.set("nccl", std::string(id.internal, sizeof id.internal));
    } else {
      const std::string text = client_.get("nccl");
      if (text.size() != sizeof id.internal)
        throw Error(ErrorKind::check_failed, "ranks were built with NCCLs that do not go together", "nccl");
      std::memcpy(id.internal, text.data(), text.size());
    }
    world_.rank = rank, world_.size = ranks;
    check(NCCL(ncclCommInitRank)(&world_.handle, ranks, id, rank), fmt::format("rank {} joins {} ranks", rank, ranks));
    control_ = std::make_shared<Control>(world_.handle);
  }

  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }
  bool enqueues() const override { return true; }
  std::unique_ptr<Communicator> communicator(const std::string& name, const std::vector<int>& members) override {
    return std::make_unique<NcclCommunicator>(want({name, members}), streams_);
  }
  std::unique_ptr<Channel> channel(const std::string& name, int from, int to) override {
    const CommPtr comm = want({name, {from, to}});
    comm->is_channel = true;
    return std::make_unique<NcclChannel>(comm, streams_, name);
  }
  std::unique_ptr<Communicator> control(const std::string&) override {
    return std::make_unique<ControlCommunicator>(control_);
  }
  void sum(std::vector<double>& values) override {
    control_->reduce(values.data(), static_cast<std::int64_t>(values.size()), ElementType::real64, ReduceOp::sum);
  }
  void fail(const std::string& cause) noexcept override { client_.fail(cause); }

  /// All ranks tell what they want, and split the world by the same calls.
  void ready() override {
    std::vector<Wanted> mine;
    for (const auto& [wanted, comm] : wanted_)
      if (comm->handle == nullptr) mine.push_back(wanted);
    const int number = readies_++;
    const auto key = [number](int r) { return fmt::format("communicators.{}.{}", number, r); };
    client_.set(key(rank_), to_text(mine));
    std::vector<std::vector<Wanted>> of_rank;
    for (int r = 0; r < ranks_; ++r) of_rank.push_back(wanted_from(client_.get(key(r))));
    const auto rounds = rounds_of(of_rank);
    for (const auto& round : rounds) split(round);
    for (const auto& round : rounds) connect(round);
  }

 private:
  /// A first call on a communicator blocks the host until all its members come: made here, in an order that all ranks
  /// share, no order of a schedule's own can hang on it.
  void connect(const std::vector<Wanted>& round) {
    const auto own = std::find_if(round.begin(), round.end(), [&](const Wanted& w) {
      return std::find(w.members.begin(), w.members.end(), rank_) != w.members.end();
    });
    if (own != round.end()) control_->connect(*want(*own), own->name);
  }

  CommPtr want(Wanted wanted) {
    CommPtr& out = wanted_[std::move(wanted)];
    if (!out) out = std::make_shared<Comm>();
    return out;
  }

  void split(const std::vector<Wanted>& round) {
    int color = NCCL_SPLIT_NOCOLOR, place = 0;
    const Wanted* own = nullptr;
    for (std::size_t i = 0; i < round.size(); ++i) {
      const auto at = std::find(round[i].members.begin(), round[i].members.end(), rank_);
      if (at == round[i].members.end()) continue;
      color = static_cast<int>(i), place = static_cast<int>(at - round[i].members.begin());
      own = &round[i];
    }
    ncclComm_t made = nullptr;
    check(NCCL(ncclCommSplit)(world_.handle, color, place, &made, nullptr),
          own != nullptr ? own->name : "communicator of others");
    if (own == nullptr) return;
    const CommPtr comm = want(*own);
    comm->handle = made, comm->rank = place, comm->size = static_cast<int>(own->members.size());
  }

  int rank_, ranks_;
  const cuda::StreamOfTask& streams_;
  net::RendezvousClient client_;
  Comm world_;
  std::shared_ptr<Control> control_;
  std::map<Wanted, CommPtr> wanted_;
  int readies_ = 0;
};

}  // namespace

std::unique_ptr<Transport> join_nccl(int rank, int ranks, const MeetingPoint& at, ComputeDevice& device,
                                     std::function<void(const std::string& cause)> on_failure) {
  const auto* streams = dynamic_cast<const cuda::StreamOfTask*>(&device);
  if (streams == nullptr) throw std::logic_error("device '" + device.name() + "' has no CUDA streams");
  return std::make_unique<NcclTransport>(rank, ranks, at, *streams, std::move(on_failure));
}

std::string nccl_version() {
  int v = 0;
  try {
    if (NCCL(ncclGetVersion)(&v) != ncclSuccess) return {};
  } catch (const Error&) {
    return {};  // It is not installed here.
  }
  return fmt::format("{}.{}.{}", v / 10000, v / 100 % 100, v % 100);
}

}  // namespace rehearse
