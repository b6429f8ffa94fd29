// Steps that are replayed leave the bits that issued ones leave: losses, parameters, moments. What may not be replayed
// says why.
#include "core/config/settings/choices.hpp"
#include "core/strategy/workload.hpp"
#include "gpu_backend/execute/repeats.hpp"
#include "tests/gpu/against_cpu.hpp"
#include "tests/gpu/staged_transport.hpp"
#include "tests/parity/jobs.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/skip.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

#define ON_A_DEVICE() \
  if (const auto none = no_device()) REHEARSE_SKIP(*none)

struct Left {
  std::vector<double> losses, norms;
  std::vector<bool> replayed;
  std::map<std::string, std::vector<std::byte>> tensors;
  std::string because;
  Bytes peak;
};

/// `one_by_one`: the step that is issued although others are replayed.
Left train(const Program& program, int steps, Numerics numerics, bool replay, int one_by_one = -1) {
  Left out;
  const auto data = program.tokens_per_step > 0 ? synthetic_tokens(program.seed, kVocabulary)
                                                : synthetic_images(program.seed, kClasses);
  const auto device = device_under_test(numerics);
  LocalWorld world(1);
  const auto transport = world.transport(0);
  Executor executor(program, *device, *transport, *data, {.replay = replay});
  for (int s = 0; s < steps; ++s) {
    const StepResult r = executor.step(s == one_by_one);
    out.losses.push_back(r.loss);
    out.norms.push_back(r.gradient_norm);
    out.replayed.push_back(r.replayed);
    out.peak = r.peak_bytes;
  }
  executor.drain();
  out.because = executor.not_replayed_because();
  for (const Executor::Persistent& p : executor.persistent()) {
    std::vector<std::byte>& bytes = out.tensors[p.name];
    bytes.resize(static_cast<std::size_t>(p.held->elements()) * size_of(p.type));
    device->read(*p.storage, 0, bytes);
  }
  return out;
}

void check_same_bits(const Left& issued, const Left& replayed) {
  CHECK(replayed.because.empty());
  CHECK(replayed.losses == issued.losses);
  CHECK(replayed.norms == issued.norms);
  CHECK(replayed.peak == issued.peak);
  REQUIRE(replayed.tensors.size() == issued.tensors.size());
  for (const auto& [name, bytes] : issued.tensors) {
    INFO(name);
    CHECK(replayed.tensors.at(name) == bytes);
  }
}

}  // namespace

TEST_CASE("a replayed step leaves the bits of an issued one: dropout, moments and data of its own step", "[graphs]") {
  ON_A_DEVICE();
  for (const Net net : {Net::gpt, Net::llama, Net::mlp, Net::cnn}) {
    INFO("network " << static_cast<int>(net));
    Job job = small_job(net);
    job.microbatches = 2;
    const Program program = job.lower();
    const Left issued = train(program, 5, Numerics::fp32, false), replayed = train(program, 5, Numerics::fp32, true);
    check_same_bits(issued, replayed);
    CHECK(replayed.replayed == std::vector<bool>{false, false, true, true, true});
    CHECK(issued.losses[4] != issued.losses[3]);
  }
}

TEST_CASE("replays go on after a step that was issued to be measured", "[graphs]") {
  ON_A_DEVICE();
  Job job = small_job(Net::gpt);
  job.microbatches = 2;
  job.workload.training.precision = Precision::bf16_mixed;
  job.strategy.recompute = Recompute::full;
  const Program program = job.lower();
  const Left replayed = train(program, 6, Numerics::plan, true, 3);
  check_same_bits(train(program, 6, Numerics::plan, false), replayed);
  CHECK(replayed.replayed == std::vector<bool>{false, false, true, false, true, true});
}

TEST_CASE("every optimizer's numbers of the step are those of the step that is replayed", "[graphs]") {
  ON_A_DEVICE();
  for (const Optimizer optimizer : {Optimizer::adam, Optimizer::sgd, Optimizer::lamb, Optimizer::adafactor}) {
    INFO("optimizer " << static_cast<int>(optimizer));
    const Program program = small_job(Net::mlp, optimizer).lower();
    check_same_bits(train(program, 4, Numerics::fp32, false), train(program, 4, Numerics::fp32, true));
  }
}

TEST_CASE("numbers that change from step to step are as many as a step has", "[graphs]") {
  ON_A_DEVICE();
  OperatorCase adam{task_of(ComputeOp::optimizer, "adamw"),
                    {in({60}), inout({60}), inout({60}), given(inout({60}), whole_numbers(60, 9, 5))}};
  adam.task.scalars = {1e-2, 0.1, 0.9, 0.999, 1e-8};
  adam.step = 6;
  for (const int others : {0, 40'000}) {  // Updates of no tensor: two numbers each.
    INFO(others << " others before it");
    const auto device = device_under_test(Numerics::fp64);
    Laid laid = lay_out(adam, ElementType::real64);
    std::vector<std::shared_ptr<Storage>> memory;
    for (const std::vector<double>& values : laid.values) {
      memory.push_back(device->allocate(values.size() * sizeof(double)));
      device->write(*memory.back(), 0, encoded(values, ElementType::real64));
    }
    laid.call.step = 0;  // The step it is recorded in; it is replayed as another.
    const Operator* op = device->find(operator_name(adam.task));
    REQUIRE(op != nullptr);
    const auto run = [&] {
      OperatorCall none = laid.call;
      none.operands.clear();
      for (int i = 0; i < others; ++i) device->execute(*op, none);
      for (std::size_t i = 0; i < memory.size(); ++i) laid.call.operands[i].data = memory[i]->data();
      device->execute(*op, laid.call);
    };
    const auto recording =
        device->record([&] { (void)device->submit(0, {}, {.run = run, .start = {}, .name = "update"}); });
    device->wait(device->replay(*recording, adam.step));
    std::vector<std::byte> weights(60 * sizeof(double));
    device->read(*memory[1], 0, weights);
    CHECK(relative(decoded(weights, ElementType::real64), on_reference(adam, ElementType::real64).values[1]) < 1e-12);
  }
}

TEST_CASE("what the host has a part in is issued task by task, and says so", "[graphs]") {
  ON_A_DEVICE();
  Job offloads = small_job(Net::gpt);
  offloads.strategy.offload = Offload::activations;
  const Left on_host = train(offloads.lower(), 3, Numerics::fp32, true),
             dropless = train(small_job(Net::mixtral).lower(), 3, Numerics::fp32, true);
  CHECK(on_host.because.find("in host memory") != std::string::npos);
  CHECK(dropless.because.find("sizes that only the data decides") != std::string::npos);
  for (const Left& one : {on_host, dropless}) CHECK(one.replayed == std::vector<bool>{false, false, false});
}
