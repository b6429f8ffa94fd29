// What the machine on the CPU promises of late streams: they run no earlier than something waits for them, and what no
// event orders comes in another order than it was issued in.
#include <cuda_runtime_api.h>

#include <string>

#include "tests/support/catch.hpp"

namespace {

/// Two streams that write what they do.
struct Two {
  on_cpu::LateStreams late{on_cpu::GpuSettings{}};
  cudaStream_t a = nullptr, b = nullptr;
  cudaEvent_t event = nullptr;
  std::string log;
  Two() {
    (void)cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking);
    (void)cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
    (void)cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  }
  ~Two() {
    (void)cudaStreamDestroy(a);
    (void)cudaStreamDestroy(b);
    (void)cudaEventDestroy(event);
  }
  Two(const Two&) = delete;
  Two& operator=(const Two&) = delete;
  void say(cudaStream_t s, char c) {
    (void)on_cpu_do(s, [this, c] { log += c; });
  }
};

}  // namespace

TEST_CASE("late streams do nothing before the host waits, and no more than it waits for", "[machine]") {
  Two two;
  two.say(two.a, '1');
  (void)cudaEventRecord(two.event, two.a);
  two.say(two.a, '2');
  CHECK(two.log.empty());
  CHECK(cudaEventQuery(two.event) == cudaErrorNotReady);
  CHECK(cudaEventSynchronize(two.event) == cudaSuccess);
  CHECK(two.log == "1");
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(two.log == "12");
}

TEST_CASE("what no event orders runs in another order than it was issued in; what one orders does not", "[machine]") {
  Two two;
  two.say(two.a, '1');
  two.say(two.b, '2');
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(two.log == "21");
  two.say(two.a, '3');
  (void)cudaEventRecord(two.event, two.a);
  (void)cudaStreamWaitEvent(two.b, two.event, 0);
  two.say(two.b, '4');
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(two.log == "2134");
}

TEST_CASE("a copy from pageable memory is read at once and may arrive after the call returned", "[machine]") {
  Two two;
  int host = 1;
  void* device = nullptr;
  (void)cudaMalloc(&device, sizeof host);
  (void)cudaMemcpy(device, &host, sizeof host, cudaMemcpyHostToDevice);
  host = 2;
  CHECK(*static_cast<int*>(device) != 1);
  CHECK(cudaStreamSynchronize(nullptr) == cudaSuccess);
  CHECK(*static_cast<int*>(device) == 1);
  (void)cudaMemcpyAsync(&host, device, sizeof host, cudaMemcpyDeviceToHost, two.a);
  CHECK(host == 1);
  (void)cudaFree(device);
}

TEST_CASE("a wait that cannot end is an error that says so", "[machine]") {
  Two two;
  two.a->queue->push_back({[] { return false; }, "Godot"});
  CHECK(cudaStreamSynchronize(two.a) == cudaErrorLaunchFailure);
  CHECK(std::string(cudaGetErrorString(cudaErrorLaunchFailure)).find("Godot") != std::string::npos);
}
