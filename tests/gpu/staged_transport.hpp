#pragma once
// Joins devices with memory of their own through the host: ranks are threads of one process, what they send is copied
// to host memory first and what they receive is copied back. A call returns when it is done, in order of issue, as one
// on a stream does. So plans for several GPUs are tested on one, or on none, without NCCL.

#include <future>
#include <memory>
#include <numeric>
#include <vector>

#include "gpu_backend/communicate/communicator.hpp"
#include "gpu_backend/execute/device.hpp"

namespace rehearse::test {

using Host = std::vector<std::byte>;

/// Waits for what a transport does beside its caller. The promise lives until both threads have left it.
template <class F>
void to_its_end(F f) {
  const auto ended = std::make_shared<std::promise<void>>();
  f([ended](std::exception_ptr failed) { failed ? ended->set_exception(failed) : ended->set_value(); });
  ended->get_future().get();
}

class StagedCommunicator final : public Communicator {
 public:
  StagedCommunicator(std::unique_ptr<Communicator> inner, ComputeDevice& device)
      : inner_(std::move(inner)), device_(device) {}
  void start(CollectiveCall call, Done done) override {
    const bool in_place = call.op == CollectiveOp::all_reduce || call.op == CollectiveOp::broadcast;
    // One part of a reduce-scatter's result and of an all-gather's input.
    const auto elements = [&](const std::vector<std::int64_t>& counts) {
      return static_cast<std::size_t>(std::accumulate(counts.begin(), counts.end(), std::int64_t{0})) *
             size_of(call.type);
    };
    std::byte* to = call.receive;
    Host received(elements(call.receive_counts)), sent(in_place ? 0 : elements(call.send_counts));
    if (!sent.empty()) device_.peek(call.send, sent);
    if (in_place) device_.peek(call.receive, received);
    call.send = sent.data(), call.receive = received.data();
    to_its_end([&](Done ended) { inner_->start(call, std::move(ended)); });
    if (!received.empty()) device_.put(to, received);
    done(nullptr);
  }

 private:
  std::unique_ptr<Communicator> inner_;
  ComputeDevice& device_;
};

class StagedChannel final : public Channel {
 public:
  StagedChannel(std::unique_ptr<Channel> inner, ComputeDevice& device) : inner_(std::move(inner)), device_(device) {}
  void send(const std::byte* data, std::size_t bytes, std::uint64_t label, Done done) override {
    Host host(bytes);
    device_.peek(data, host);
    to_its_end([&](Done ended) { inner_->send(host.data(), bytes, label, std::move(ended)); });
    done(nullptr);
  }
  void receive(std::byte* data, std::size_t bytes, std::uint64_t label, Done done) override {
    Host host(bytes);
    to_its_end([&](Done ended) { inner_->receive(host.data(), bytes, label, std::move(ended)); });
    device_.put(data, host);
    done(nullptr);
  }

 private:
  std::unique_ptr<Channel> inner_;
  ComputeDevice& device_;
};

class StagedTransport final : public Transport {
 public:
  StagedTransport(Transport& inner, ComputeDevice& device) : inner_(inner), device_(device) {}
  int rank() const override { return inner_.rank(); }
  int ranks() const override { return inner_.ranks(); }
  std::unique_ptr<Communicator> communicator(const std::string& name, const std::vector<int>& members) override {
    return std::make_unique<StagedCommunicator>(inner_.communicator(name, members), device_);
  }
  std::unique_ptr<Channel> channel(const std::string& name, int from, int to) override {
    return std::make_unique<StagedChannel>(inner_.channel(name, from, to), device_);
  }
  std::unique_ptr<Communicator> control(const std::string& name) override {
    return std::make_unique<Waited>(inner_.control(name));
  }
  void ready() override { inner_.ready(); }
  void sum(std::vector<double>& values) override { inner_.sum(values); }
  void fail(const std::string& cause) noexcept override { inner_.fail(cause); }

 private:
  /// Numbers that lie in host memory.
  class Waited final : public Communicator {
   public:
    explicit Waited(std::unique_ptr<Communicator> inner) : inner_(std::move(inner)) {}
    void start(CollectiveCall call, Done done) override {
      to_its_end([&](Done ended) { inner_->start(std::move(call), std::move(ended)); });
      done(nullptr);
    }

   private:
    std::unique_ptr<Communicator> inner_;
  };
  Transport& inner_;
  ComputeDevice& device_;
};

}  // namespace rehearse::test
