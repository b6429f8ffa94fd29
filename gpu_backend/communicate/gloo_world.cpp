#include "gpu_backend/communicate/gloo_world.hpp"

#include <algorithm>
#include <cstring>
#include <future>
#include <numeric>
#include <optional>

#include <fmt/format.h>
#include <gloo/allgatherv.h>
#include <gloo/allreduce.h>
#include <gloo/alltoallv.h>
#include <gloo/broadcast.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/prefix_store.h>
#include <gloo/transport/tcp/device.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "gpu_backend/communicate/local_world.hpp"
#include "gpu_backend/communicate/memory/memory_communicator.hpp"
#include "gpu_backend/communicate/memory/neighbours.hpp"
#include "gpu_backend/communicate/net/rendezvous.hpp"
#include "gpu_backend/execute/caller.hpp"

namespace rehearse {

namespace {

// Deaths are told by the rendezvous; this only bounds a rank that hangs.
constexpr std::chrono::minutes kTimeout{30};

/// Gloo's view of the rendezvous.
class Store final : public gloo::rendezvous::Store {
 public:
  explicit Store(net::RendezvousClient& client) : client_(client) {}
  void set(const std::string& key, const std::vector<char>& data) override {
    client_.set(key, {data.begin(), data.end()});
  }
  std::vector<char> get(const std::string& key) override {
    const std::string value = client_.get(key);
    return {value.begin(), value.end()};
  }
  void wait(const std::vector<std::string>& keys) override {
    for (const std::string& key : keys) (void)client_.get(key);
  }

 private:
  net::RendezvousClient& client_;
};

/// What gloo throws while it connects ranks, as an error of the run.
template <class Connect>
auto connected(Connect connect) {
  try {
    return connect();
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& e) {
    throw Error(ErrorKind::unavailable, fmt::format("ranks cannot be connected: {}", e.what()), "run",
                "see whether the system has files and ports left: ulimit -n");
  }
}

/// What the communicators of a process share.
struct World {
  int rank, ranks;
  net::RendezvousClient client;
  std::shared_ptr<gloo::transport::Device> device;

  World(int r, int n, const MeetingPoint& at, std::function<void(const std::string&)> on_failure)
      : rank(r), ranks(n), client(at.host, at.port, {at.run_id, n}, r, std::move(on_failure)) {
    gloo::transport::tcp::attr attributes;
    attributes.hostname = client.local_address();
    device = connected([&] { return gloo::transport::tcp::CreateDevice(attributes); });
  }
};

/// Some ranks' connections. They are made by the thread that first uses them: ranks make their groups in different
/// orders.
class Connections {
 public:
  Connections(World& world, std::string name, int rank, int size)
      : world_(world), name_(std::move(name)), rank_(rank), size_(size) {}
  const std::shared_ptr<gloo::rendezvous::Context>& get() {
    if (!context_) {
      Store store(world_.client);
      gloo::rendezvous::PrefixStore mine(name_, store);
      context_ = connected([&] {
        auto made = std::make_shared<gloo::rendezvous::Context>(rank_, size_);
        made->setTimeout(kTimeout);
        made->connectFullMesh(mine, world_.device);
        return made;
      });
    }
    return context_;
  }
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }

 private:
  World& world_;
  std::string name_;
  int rank_, size_;
  std::shared_ptr<gloo::rendezvous::Context> context_;
};

std::vector<std::int64_t> in_bytes(std::vector<std::int64_t> counts, ElementType type) {
  for (std::int64_t& c : counts) c *= static_cast<std::int64_t>(size_of(type));
  return counts;
}

class GlooCommunicator final : public Communicator {
 public:
  GlooCommunicator(World& world, const std::string& name, int rank, int size) : connections_(world, name, rank, size) {}
  void start(CollectiveCall call, Done done) override {
    caller_.call([this, call = std::move(call)] { run(call); }, std::move(done));
  }

 private:
  void run(const CollectiveCall& c) {
    switch (c.op) {
      case CollectiveOp::all_reduce: return all_reduce(c);
      case CollectiveOp::broadcast: return broadcast(c);
      case CollectiveOp::all_gather: return all_gather(c);
      case CollectiveOp::all_to_all: return exchange(c, c.send, c.receive);
      case CollectiveOp::reduce_scatter: return reduce_scatter(c);
      default: throw Error(ErrorKind::unavailable, fmt::format("{}: no such collective between CPU ranks", c.name));
    }
  }

  void all_reduce(const CollectiveCall& c) {
    gloo::AllreduceOptions options(connections_.get());
    const auto n = static_cast<std::size_t>(c.receive_counts[0]);
    if (n == 0) return;
    const auto reduce = [&c](void* to, const void* a, const void* b, std::size_t count) {
      auto* out = static_cast<std::byte*>(to);
      const auto *x = static_cast<const std::byte*>(a), *y = static_cast<const std::byte*>(b);
      if (out == y) std::swap(x, y);
      if (out != x) std::memcpy(out, x, count * size_of(c.type));
      reduce_into(out, y, static_cast<std::int64_t>(count), c.type, c.reduce);
    };
    options.setReduceFunction(reduce);
    switch (c.type) {
      case ElementType::real32: options.setOutput(reinterpret_cast<float*>(c.receive), n); break;
      case ElementType::real64: options.setOutput(reinterpret_cast<double*>(c.receive), n); break;
      case ElementType::int64: options.setOutput(reinterpret_cast<std::int64_t*>(c.receive), n); break;
      case ElementType::byte: options.setOutput(reinterpret_cast<std::uint8_t*>(c.receive), n); break;
      case ElementType::real16:
        throw Error(ErrorKind::unavailable,
                    fmt::format("{}: 16-bit numbers are not reduced between CPU ranks", c.name));
    }
    gloo::allreduce(options);
  }

  void broadcast(const CollectiveCall& c) {
    gloo::BroadcastOptions options(connections_.get());
    options.setRoot(c.root);
    options.setOutput(reinterpret_cast<std::uint8_t*>(c.receive),
                      static_cast<std::size_t>(c.receive_counts[0]) * size_of(c.type));
    gloo::broadcast(options);
  }

  void all_gather(const CollectiveCall& c) {
    gloo::AllgathervOptions options(connections_.get());
    const std::vector<std::int64_t> bytes = in_bytes(c.receive_counts, c.type);
    options.setInput(reinterpret_cast<std::uint8_t*>(const_cast<std::byte*>(c.send)),
                     static_cast<std::size_t>(nth(bytes, connections_.rank())));
    options.setOutput(reinterpret_cast<std::uint8_t*>(c.receive), {bytes.begin(), bytes.end()});
    gloo::allgatherv(options);
  }

  void exchange(const CollectiveCall& c, const std::byte* send, std::byte* receive) {
    gloo::AlltoallvOptions options(connections_.get());
    options.setInput(reinterpret_cast<std::uint8_t*>(const_cast<std::byte*>(send)), in_bytes(c.send_counts, c.type));
    std::vector<std::int64_t> counts = c.receive_counts;
    if (c.op == CollectiveOp::reduce_scatter)
      counts.assign(static_cast<std::size_t>(connections_.size()), c.receive_counts[0]);
    options.setOutput(reinterpret_cast<std::uint8_t*>(receive), in_bytes(counts, c.type));
    gloo::alltoallv(options);
  }

  /// Gloo has none for parts of different sizes: everyone sends everyone its part, (n-1)/n of the data as in a ring,
  /// and adds in order.
  void reduce_scatter(const CollectiveCall& c) {
    const auto n = static_cast<std::size_t>(c.receive_counts[0]) * size_of(c.type);
    std::vector<std::byte> parts(n * static_cast<std::size_t>(connections_.size()));
    exchange(c, c.send, parts.data());
    std::memcpy(c.receive, parts.data(), n);
    for (int i = 1; i < connections_.size(); ++i)
      reduce_into(c.receive, parts.data() + n * static_cast<std::size_t>(i), c.receive_counts[0], c.type, c.reduce);
  }

  Connections connections_;
  Caller caller_;
};

class GlooChannel final : public Channel {
 public:
  GlooChannel(World& world, const std::string& name, bool sends)
      : name_(name), connections_(world, name, sends ? 0 : 1, 2) {}

  void send(const std::byte* data, std::size_t bytes, std::uint64_t label, Done done) override {
    caller_.call(
        [this, data, bytes, label] {
          const auto& context = connections_.get();
          const std::uint64_t head[2] = {label, bytes};
          auto header = context->createUnboundBuffer(const_cast<std::uint64_t*>(head), sizeof head);
          auto body = context->createUnboundBuffer(const_cast<std::byte*>(data), bytes);
          header->send(1, next_++);
          body->send(1, next_++);
          header->waitSend(kTimeout);
          body->waitSend(kTimeout);
        },
        std::move(done));
  }
  void receive(std::byte* data, std::size_t bytes, std::uint64_t label, Done done) override {
    caller_.call(
        [this, data, bytes, label] {
          const auto& context = connections_.get();
          std::uint64_t head[2] = {};
          auto header = context->createUnboundBuffer(head, sizeof head);
          header->recv(0, next_++);
          header->waitRecv(kTimeout);
          if (head[0] != label || head[1] != bytes)
            throw Error(
                ErrorKind::check_failed,
                fmt::format("message on {}: sender and receiver disagree about which or how large it is", name_));
          auto body = context->createUnboundBuffer(data, bytes);
          body->recv(0, next_++);
          body->waitRecv(kTimeout);
        },
        std::move(done));
  }

 private:
  std::string name_;
  Connections connections_;
  std::uint64_t next_ = 0;
  Caller caller_;
};

class GlooTransport final : public Transport {
 public:
  GlooTransport(int rank, int ranks, const MeetingPoint& at, std::function<void(const std::string&)> on_failure,
                Neighbourhood neighbourhood)
      : world_(rank, ranks, at, std::move(on_failure)) {
    if (neighbourhood == Neighbourhood::through_memory) neighbours_.emplace(board(), rank, ranks);
    std::vector<int> all(static_cast<std::size_t>(ranks));
    std::iota(all.begin(), all.end(), 0);
    control_ = communicator("control", all);
  }
  int rank() const override { return world_.rank; }
  int ranks() const override { return world_.ranks; }
  std::unique_ptr<Communicator> communicator(const std::string& name, const std::vector<int>& members) override {
    const auto at = std::find(members.begin(), members.end(), world_.rank);
    const int member = static_cast<int>(at - members.begin()), size = static_cast<int>(members.size());
    const std::string unique = fmt::format("{}:{}", name, fmt::join(members, ","));
    if (neighbours_ && neighbours_->share_memory(members)) return memory_communicator(board(), unique, member, size);
    return std::make_unique<GlooCommunicator>(world_, unique, member, size);
  }
  std::unique_ptr<Channel> channel(const std::string& name, int from, int to) override {
    const bool sends = from == world_.rank;
    const std::string unique = fmt::format("{}:{}>{}", name, from, to);
    if (neighbours_ && neighbours_->share_memory({from, to})) return memory_channel(board(), unique, sends);
    return std::make_unique<GlooChannel>(world_, unique, sends);
  }
  void sum(std::vector<double>& values) override {
    CollectiveCall call;
    call.type = ElementType::real64;
    call.receive = reinterpret_cast<std::byte*>(values.data());
    call.receive_counts = {static_cast<std::int64_t>(values.size())};
    call.name = "control";
    std::promise<void> ended;
    control_->start(
        call, [&ended](const std::exception_ptr& failed) { failed ? ended.set_exception(failed) : ended.set_value(); });
    ended.get_future().get();
  }
  void fail(const std::string& cause) noexcept override { world_.client.fail(cause); }

 private:
  MeetingBoard board() {
    return {[this](const std::string& key, const std::string& value) { world_.client.set(key, value); },
            [this](const std::string& key) { return world_.client.get(key); }};
  }

  World world_;
  std::optional<Neighbours> neighbours_;
  std::unique_ptr<Communicator> control_;
};

}  // namespace

std::unique_ptr<Transport> join_gloo(int rank, int ranks, const MeetingPoint& at,
                                     std::function<void(const std::string& cause)> on_failure,
                                     Neighbourhood neighbourhood) {
  return std::make_unique<GlooTransport>(rank, ranks, at, std::move(on_failure), neighbourhood);
}

}  // namespace rehearse
