// A device hears of every call of an operator before the first step, with sizes and without addresses: there it loads
// what must not be loaded while ranks wait for each other.
#include <set>

#include "tests/parity/jobs.hpp"
#include "tests/support/catch.hpp"

using namespace rehearse;
using namespace rehearse::test;

namespace {

/// A CPU that notes what it is told beforehand, and what it is given to do after that.
class NotingDevice final : public ComputeDevice {
 public:
  std::string name() const override { return inner_->name(); }
  Numerics numerics() const override { return inner_->numerics(); }
  std::shared_ptr<Storage> allocate(std::size_t bytes) override { return inner_->allocate(bytes); }
  void write(Storage& to, std::size_t at, std::span<const std::byte> from) override { inner_->write(to, at, from); }
  void read(Storage& from, std::size_t at, std::span<std::byte> to) override { inner_->read(from, at, to); }
  const Operator* find(std::string_view name) const override { return inner_->find(name); }
  void wait(const EventPtr& event) override { inner_->wait(event); }
  std::optional<Interval> times(const EventPtr& event) const override { return inner_->times(event); }
  double now() const override { return inner_->now(); }
  EventPtr submit(int stream, std::span<const EventPtr> after, Work work) override {
    begun = true;
    return inner_->submit(stream, after, std::move(work));
  }
  void prepare(const Operator&, OperatorCall& call) override {
    CHECK_FALSE(begun);
    for (const TensorView& x : call.operands) {
      CHECK(x.data == nullptr);
      CHECK(x.held != nullptr);
    }
    prepared.insert(operator_name(*call.task));
  }
  void execute(const Operator& op, OperatorCall& call) override {
    executed.insert(operator_name(*call.task));
    inner_->execute(op, call);
  }

  bool begun = false;
  std::set<std::string> prepared, executed;

 private:
  std::unique_ptr<ComputeDevice> inner_ = make_cpu_device(Numerics::fp32);
};

}  // namespace

TEST_CASE("a device hears of every operator's calls before the first step") {
  Job job = small_job(Net::gpt);
  job.workload.kernels.attention = AttentionKernel::flash;
  const Program program = job.lower();
  const auto data = synthetic_tokens(program.seed, kVocabulary);
  NotingDevice device;
  LocalWorld world(1);
  const auto transport = world.transport(0);
  Executor executor(program, device, *transport, *data, {});
  (void)executor.step();
  executor.drain();
  CHECK(device.begun);
  CHECK(device.prepared.count("attention_grad.flash") == 1);
  CHECK(device.prepared == device.executed);
}
