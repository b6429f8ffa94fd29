#include "gpu_backend/cuda/cuda_device.hpp"

#include <cstdlib>
#include <cstring>
#include <map>
#include <stdexcept>

#include <fmt/format.h>
#include <nvtx3/nvToolsExt.h>

#include "gpu_backend/cuda/check.hpp"
#include "gpu_backend/cuda/kernels/kernels.hpp"
#include "gpu_backend/cuda/launch_context.hpp"
#include "gpu_backend/cuda/observed.hpp"
#include "gpu_backend/cuda/ops/fused.hpp"
#include "gpu_backend/cuda/piece_lists.hpp"
#include "gpu_backend/cuda/storage.hpp"
#include "gpu_backend/cuda/stream_of_task.hpp"

namespace rehearse {

namespace {

using cuda::CudaStorage;
using cuda::Item;
using cuda::ItemPtr;
using cuda::Shared;

constexpr std::size_t kWorkspace = std::size_t{32} << 20;  // What NVIDIA recommends to cuBLASLt on Hopper.

/// Ends a profiler's range with its scope.
struct NamedRange {
  explicit NamedRange(std::string_view name) { nvtxRangePushA(std::string(name).c_str()); }
  ~NamedRange() { nvtxRangePop(); }
  NamedRange(const NamedRange&) = delete;
  NamedRange& operator=(const NamedRange&) = delete;
};

class GpuDevice final : public ComputeDevice, public cuda::StreamOfTask {
 public:
  explicit GpuDevice(const CudaOptions& options)
      : numerics_(options.numerics),
        on_task_(options.on_task),
        shared_(std::make_shared<Shared>(options.index, options.memory_limit)),
        gemm_(kWorkspace),
        fused_attention_({}),
        convolution_({}) {
    launch_.gemm = &gemm_;
    launch_.grouped_gemm = &grouped_gemm_;
    launch_.fused_attention = &fused_attention_;
    launch_.convolution = &convolution_;
    launch_.scratch = [this](std::size_t bytes) { return scratch(bytes); };
    launch_.observe = [this](std::function<void(double)> then) { return observe(std::move(then)); };
    launch_.listed = [this](const std::vector<cuda::Piece>& pieces) { return lists_.on_device(pieces); };
    launch_.changing = [this](std::function<std::uint64_t(std::int64_t)> of) -> const void* {
      return shared_->recording != nullptr ? shared_->recording->changing(std::move(of)) : nullptr;
    };
    REHEARSE_CUDA(cudaEventCreate(&zero_));
    set_zero();
  }
  ~GpuDevice() override {
    cudaDeviceSynchronize();
    observed_.forget();
    cudaEventDestroy(zero_);
    for (const auto& [number, stream] : streams_) cudaStreamDestroy(stream);
    if (replays_ != nullptr) cudaStreamDestroy(replays_);
  }
  GpuDevice(const GpuDevice&) = delete;
  GpuDevice& operator=(const GpuDevice&) = delete;

  std::string name() const override { return "cuda"; }
  Numerics numerics() const override { return numerics_; }
  std::shared_ptr<Storage> allocate(std::size_t bytes) override { return allocate(bytes, MemorySpace::device); }
  std::shared_ptr<Storage> allocate(std::size_t bytes, MemorySpace space) override {
    return std::make_shared<CudaStorage>(shared_, bytes, space != MemorySpace::device);
  }

  void write(Storage& to, std::size_t offset, std::span<const std::byte> from) override {
    REHEARSE_CUDA(cudaMemcpyAsync(to.data() + offset, from.data(), from.size(), cudaMemcpyDefault, shared_->own));
    REHEARSE_CUDA(cudaStreamSynchronize(shared_->own));
  }
  void read(Storage& from, std::size_t offset, std::span<std::byte> to) override {
    REHEARSE_CUDA(cudaMemcpyAsync(to.data(), from.data() + offset, to.size(), cudaMemcpyDefault, shared_->own));
    REHEARSE_CUDA(cudaStreamSynchronize(shared_->own));
  }

  void clear(Storage& to, std::size_t bytes) override {
    if (static_cast<const CudaStorage&>(to).on_host()) return ComputeDevice::clear(to, bytes);
    REHEARSE_CUDA(cudaMemsetAsync(to.data(), 0, bytes, shared_->own));
    REHEARSE_CUDA(cudaStreamSynchronize(shared_->own));
  }

  const Operator* find(std::string_view name) const override { return cuda_operators().find(name); }

  EventPtr submit(int number, std::span<const EventPtr> after, Work work) override {
    ItemPtr item = item_on(number, stream_of(number));
    item->recorded_by = shared_->recording;
    if (shared_->recording != nullptr) shared_->recording->join(item->stream);
    for (const EventPtr& e : after)
      if (const auto* before = static_cast<const Item*>(e.get());
          before != nullptr && before->stream != item->stream && before->recorded_by == item->recorded_by)
        REHEARSE_CUDA(cudaStreamWaitEvent(item->stream, before->end, 0));
    const NamedRange range(work.name);
    const bool measures = measuring_ && shared_->recording == nullptr;
    if (measures) {
      item->begin = shared_->timed->take();
      REHEARSE_CUDA(cudaEventRecord(item->begin, item->stream));
    }
    const Issuing issuing(*this, item);
    if (on_task_)
      issue_alone(work);
    else
      issue(work);
    item->end = measures ? shared_->timed->take() : shared_->plain->take();
    REHEARSE_CUDA(cudaEventRecord(item->end, item->stream));
    return item;
  }

  std::string records_nothing_because() const override { return {}; }

  std::unique_ptr<Recording> record(const std::function<void()>& issue) override {
    auto out = std::make_unique<cuda::GraphRecording>(shared_->plain);
    if (replays_ == nullptr) REHEARSE_CUDA(cudaStreamCreateWithFlags(&replays_, cudaStreamNonBlocking));
    out->begin(replays_);
    shared_->recording = out.get();
    try {
      issue();
      out->end();
    } catch (...) {
      borrowed_.clear();
      shared_->recording = nullptr;
      out->abandon();
      throw;
    }
    shared_->recording = nullptr;
    shared_->memory.trim();  // What issued steps used is the graph's to take.
    return out;
  }

  EventPtr replay(Recording& recording, std::int64_t step) override {
    auto& graph = static_cast<cuda::GraphRecording&>(recording);
    REHEARSE_CUDA(cudaStreamSynchronize(replays_));
    const NamedRange range("step, replayed");
    ItemPtr item = item_on(-1, replays_);
    for (const cudaStream_t stream : all_streams()) order(stream, replays_);
    if (!graph.launch(replays_, step)) {
      shared_->memory.trim();  // What issued steps left unused is the graph's to take.
      if (!graph.launch(replays_, step)) throw shared_->memory.none_left(0);
    }
    item->end = shared_->plain->take();
    REHEARSE_CUDA(cudaEventRecord(item->end, replays_));
    for (const cudaStream_t stream : all_streams()) REHEARSE_CUDA(cudaStreamWaitEvent(stream, item->end, 0));
    for (const cuda::Observation& o : graph.observations()) observed_.expect(item, o.at, o.then);
    return item;
  }

  void wait(const EventPtr& event) override {
    REHEARSE_CUDA(cudaEventSynchronize(static_cast<const Item&>(*event).end));
    observed_.hand_out();
  }

  bool queues() const override { return true; }
  void measure(bool on) override {
    measuring_ = on;
    if (on) set_zero();
  }
  std::optional<Interval> times(const EventPtr& event) const override {
    const auto* item = static_cast<const Item*>(event.get());
    if (item == nullptr || item->begin == nullptr || cudaEventQuery(item->end) != cudaSuccess) return std::nullopt;
    float begin = 0, end = 0;
    REHEARSE_CUDA(cudaEventElapsedTime(&begin, zero_, item->begin));
    REHEARSE_CUDA(cudaEventElapsedTime(&end, zero_, item->end));
    return Interval{zero_at_ + static_cast<double>(begin) * 1e-3, zero_at_ + static_cast<double>(end) * 1e-3};
  }
  double now() const override { return host_seconds() - created_; }

  // ---- within tasks

  void execute(const Operator& op, OperatorCall& call) override {
    launch_.stream = stream_of_task();
    call.launch = &launch_;
    op(call, numerics_);
  }
  void execute(const Fusion& how, std::span<FusedCall> calls) override {
    launch_.stream = stream_of_task();
    for (FusedCall& one : calls) one.call.launch = &launch_;
    how.run(calls);
  }
  std::span<const Fusion> fusions() const override {
    const char* wish = std::getenv("REHEARSE_FUSE");
    if (wish != nullptr && std::string_view(wish) == "off") return {};
    return cuda::fusions();
  }
  void prepare(const Operator& op, OperatorCall& call) override {
    if (op.prepare == nullptr) return;
    call.launch = &launch_;
    op.prepare(call);
  }
  void put(std::byte* to, std::span<const std::byte> from) override {
    // Pinned memory was last used before the host could issue this; device memory is written in the stream's order,
    // from a copy the driver makes.
    cudaPointerAttributes kind{};
    REHEARSE_CUDA(cudaPointerGetAttributes(&kind, to));
    if (kind.type == cudaMemoryTypeDevice)
      REHEARSE_CUDA(cudaMemcpyAsync(to, from.data(), from.size(), cudaMemcpyHostToDevice, stream_of_task()));
    else
      std::memcpy(to, from.data(), from.size());
  }
  void copy(std::byte* to, const std::byte* from, std::size_t bytes) override {
    if (bytes > 0 && to != from) REHEARSE_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_of_task()));
  }
  std::byte* pack_blocks(const std::byte* from, const ElementRanges& blocks, ElementType type, std::byte* to) override {
    const auto pieces = cuda::packing(blocks, size_of(type));
    move(from, to, pieces);
    return to + cuda::bytes_of(pieces);
  }
  const std::byte* unpack_blocks(const std::byte* from, const ElementRanges& blocks, ElementType type,
                                 std::byte* to) override {
    const auto pieces = cuda::unpacking(blocks, size_of(type));
    move(from, to, pieces);
    return from + cuda::bytes_of(pieces);
  }
  void divide(std::byte* data, std::int64_t n, ElementType type, double by) override {
    cuda::divide(stream_of_task(), {data, type}, n, by);
  }
  void peek(const std::byte* from, std::span<std::byte> to) override {
    REHEARSE_CUDA(cudaMemcpyAsync(to.data(), from, to.size(), cudaMemcpyDefault, stream_of_task()));
    REHEARSE_CUDA(cudaStreamSynchronize(stream_of_task()));
  }

  cudaStream_t stream_of_task() const override { return shared_->current ? shared_->current->stream : shared_->own; }
  [[nodiscard]] CudaMemory memory() const {
    return {shared_->memory.peak(), shared_->memory.used(), shared_->memory.capacity()};
  }
  [[nodiscard]] std::string attention() const { return fused_attention_.description(); }
  [[nodiscard]] std::string convolutions() const { return convolution_.description(); }

 private:
  /// The task at hand, for the time it is issued.
  struct Issuing {
    GpuDevice& device;
    Issuing(GpuDevice& d, const ItemPtr& item) : device(d) { device.shared_->current = item; }
    ~Issuing() { device.shared_->current.reset(); }
    Issuing(const Issuing&) = delete;
    Issuing& operator=(const Issuing&) = delete;
  };
  struct Borrowed {
    void* block;
    std::size_t bytes;
  };

  [[nodiscard]] ItemPtr item_on(int number, cudaStream_t stream) const {
    auto item = std::make_shared<Item>();
    item->plain = shared_->plain, item->timed = shared_->timed;
    item->number = number, item->stream = stream;
    return item;
  }
  /// But that of replays.
  [[nodiscard]] std::vector<cudaStream_t> all_streams() const {
    std::vector<cudaStream_t> out{shared_->own};
    for (const auto& [number, stream] : streams_) out.push_back(stream);
    return out;
  }
  /// What `second` is given from now on waits for all that `first` was given.
  void order(cudaStream_t first, cudaStream_t second) const {
    const cudaEvent_t event = shared_->plain->take();
    REHEARSE_CUDA(cudaEventRecord(event, first));
    REHEARSE_CUDA(cudaStreamWaitEvent(second, event, 0));
    shared_->plain->give_back(event);
  }

  /// Stream 0 computes; what others do is short and waited for, so it goes first.
  cudaStream_t stream_of(int number) {
    cudaStream_t& out = streams_[number];
    if (out == nullptr) {
      int least = 0, greatest = 0;
      REHEARSE_CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
      REHEARSE_CUDA(cudaStreamCreateWithPriority(&out, cudaStreamNonBlocking, number == 0 ? least : greatest));
    }
    return out;
  }

  void issue(const Work& work) {
    if (work.run)
      work.run();
    else
      start(work);
    give_back_scratch();
  }
  void issue_alone(const Work& work) {
    on_task_(work.name);
    try {
      issue(work);
      if (shared_->recording == nullptr) REHEARSE_CUDA(cudaStreamSynchronize(stream_of_task()));
    } catch (const OutOfMemory&) {
      throw;
    } catch (Error& e) {
      e.where = fmt::format("task '{}'{}{}", work.name, e.where.empty() ? "" : ", ", e.where);
      throw;
    }
  }
  static void start(const Work& work) {
    bool ended = false;
    std::exception_ptr failed;
    work.start([&](const std::exception_ptr& e) { ended = true, failed = e; });
    if (failed) std::rethrow_exception(failed);
    if (!ended) throw std::logic_error("a transport that works beside the streams cannot serve a GPU");
  }

  void* scratch(std::size_t bytes) {
    borrowed_.push_back({shared_->memory.take(bytes, stream_of_task()), bytes});
    return borrowed_.back().block;
  }
  void give_back_scratch() {
    for (const Borrowed& b : borrowed_) shared_->memory.give_back(b.block, b.bytes, stream_of_task());
    borrowed_.clear();
  }

  /// A place for a number that a kernel writes.
  double* observe(std::function<void(double)> then) {
    if (shared_->recording != nullptr) return shared_->recording->observe(std::move(then));
    return observed_.place(shared_->current, std::move(then));
  }

  void move(const std::byte* from, std::byte* to, const std::vector<cuda::Piece>& pieces) {
    if (pieces.size() == 1)
      return copy(to + pieces[0].to, from + pieces[0].from, static_cast<std::size_t>(pieces[0].bytes));
    lists_.move(stream_of_task(), from, to, pieces);
  }

  void set_zero() {
    REHEARSE_CUDA(cudaEventRecord(zero_, shared_->own));
    REHEARSE_CUDA(cudaEventSynchronize(zero_));
    zero_at_ = now();
  }

  Numerics numerics_;
  std::function<void(std::string_view)> on_task_;
  double created_ = host_seconds();
  std::shared_ptr<Shared> shared_;
  cuda::Gemm gemm_;
  cuda::GroupedGemm grouped_gemm_;
  cuda::FusedAttention fused_attention_;
  cuda::LibraryConvolution convolution_;
  LaunchContext launch_;
  std::map<int, cudaStream_t> streams_;
  cudaStream_t replays_ = nullptr;
  std::vector<Borrowed> borrowed_;
  cuda::PieceLists lists_;
  cuda::ObservedNumbers observed_;
  cudaEvent_t zero_ = nullptr;
  double zero_at_ = 0;
  bool measuring_ = false;
};

}  // namespace

Registry<Operator>& cuda_operators() {
  static Registry<Operator> registry("CUDA operator");
  return registry;
}

std::unique_ptr<ComputeDevice> open_cuda_device(const CudaOptions& options) {
  REHEARSE_CUDA(cudaSetDevice(options.index));
  return std::make_unique<GpuDevice>(options);
}

namespace {

const GpuDevice& gpu(const ComputeDevice& device) {
  const auto* out = dynamic_cast<const GpuDevice*>(&device);
  if (out == nullptr) throw std::logic_error("device '" + device.name() + "' is no GPU");
  return *out;
}

}  // namespace

CudaMemory cuda_memory(const ComputeDevice& device) { return gpu(device).memory(); }
std::string cuda_attention(const ComputeDevice& device) { return gpu(device).attention(); }
std::string cuda_convolutions(const ComputeDevice& device) { return gpu(device).convolutions(); }

}  // namespace rehearse
