// Programs that cannot end and results that break physics are named.

#include "core/base/index.hpp"
#include "core/play/clocks/event_queue.hpp"
#include "tests/conformance/scenes.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/hand_made.hpp"

using namespace rehearse;
using namespace rehearse::testing;

namespace {

constexpr auto kSend = P2pTask::Direction::send;
constexpr auto kReceive = P2pTask::Direction::receive;

std::string complaint(const Testbed& bed, const Program& p) {
  try {
    (void)bed.analytic(p);
  } catch (const std::logic_error& e) {
    return e.what();
  }
  return {};
}

/// A clock whose flows take no time, and which says that each crossed its links a million times.
class WirelessClock final : public PlayClock {
 public:
  explicit WirelessClock(const Cluster& cluster)
      : cluster_(cluster), bytes_(static_cast<std::size_t>(cluster.link_count())) {}
  [[nodiscard]] Seconds now() const override { return Seconds{now_}; }
  TimerId set_timer(Seconds at, Token token) override {
    return events_.push({at.value(), events_.next_sequence(), token, false});
  }
  void cancel_timer(TimerId id) override { events_.cancel(id); }
  BundleId prepare(std::span<const Flow> flows, int, int) override {
    bundles_.emplace_back(flows.begin(), flows.end());
    return static_cast<BundleId>(bundles_.size() - 1);
  }
  void start(BundleId bundle, Token token) override {
    for (const Flow& flow : bundles_[bundle])
      for (const LinkId l : cluster_.route(flow.src, flow.dst).links) nth(bytes_, l) += 1e6 * flow.bytes.value();
    events_.push({now_, events_.next_sequence(), token, true});
  }
  void run(Handler& handler) override {
    while (!events_.empty()) {
      const auto e = events_.pop();
      now_ = e.time;
      if (e.flow)
        handler.on_flow(e.payload);
      else
        handler.on_timer(e.payload);
    }
  }
  [[nodiscard]] std::vector<double> link_bytes(const std::vector<bool>&) const override { return bytes_; }

 private:
  const Cluster& cluster_;
  EventQueue events_;
  std::vector<std::vector<Flow>> bundles_;
  std::vector<double> bytes_;
  double now_ = 0;
};

int count(const RunResult& run, const std::string& rule) {
  return static_cast<int>(
      std::count_if(run.breaches.begin(), run.breaches.end(), [&](const Breach& b) { return b.rule == rule; }));
}

}  // namespace

TEST_CASE("two ranks that both send before they receive are named, with what they wait in") {
  const Testbed bed(1);
  for (const bool crossed : {true, false}) {
    HandMade made(Axis::pp, 2, {talks(Axis::pp)});
    const int data = made.tensor(1000);
    for (int r = 0; r < 2; ++r) {
      const bool sends_first = crossed || r == 0;
      const int send = made.body("handing over", {made.message(kSend, 1 - r, data, 1)}),
                receive = made.body("taking", {made.message(kReceive, 1 - r, data, 1)});
      made.call(r, sends_first ? send : receive);
      made.call(r, sends_first ? receive : send);
    }
    const std::string text = complaint(bed, made.program);
    INFO(text);
    CHECK(text.empty() != crossed);
    if (!crossed) continue;
    CHECK(text.find("4 of 4 operations never ran") != std::string::npos);
    CHECK(text.find("rank 0 waits in handing over/send") != std::string::npos);
    CHECK(text.find("rank 1 waits in handing over/send") != std::string::npos);
    CHECK(text.find("stream pp") != std::string::npos);
  }
}

TEST_CASE("a collective that one member never calls is named") {
  const Testbed bed(1);
  HandMade made(Axis::dp_replicate, 3, {talks(Axis::dp_shard)});
  const int body = made.body("sum", {HandMade::all_reduce(made.tensor(1000), 1)});
  for (int r = 0; r < 2; ++r) made.call(r, body);
  const std::string text = complaint(bed, made.program);
  CHECK(text.find("2 of 2 operations never ran") != std::string::npos);
  CHECK(text.find("rank 1 waits in sum/all_reduce") != std::string::npos);
}

TEST_CASE("a message that nobody takes is named") {
  const Testbed bed(1);
  HandMade made(Axis::pp, 2, {talks(Axis::pp)});
  const int data = made.tensor(1000);
  made.call(0, made.body("handing over", {made.message(kSend, 1, data, 1)}));
  made.call(1, made.body("idle", {HandMade::copies(data)}));
  CHECK(complaint(bed, made.program).find("rank 0 waits in handing over/send") != std::string::npos);
}

TEST_CASE("messages faster than their wires and links over their rate are breaches") {
  const Scene s = scene("1f1b", 1, 8, 2);
  const Testbed bed(s.nodes);
  const Program p = s.job.lower();
  CHECK(bed.analytic(p).breaches.empty());
  WirelessClock clock(bed.cluster);
  const RunResult run = bed.play_on(clock, p);
  CHECK(count(run, "wire") > 0);
  CHECK(count(run, "link") > 0);
  CHECK(run.breaches.front().detail.find("device") != std::string::npos);
}

TEST_CASE("a kernel priced below its roofline is a breach") {
  const Scene s = scene("one node", 8, 1, 1);
  Testbed honest(1);
  CostModel::Profiles profiles = honest.profiles;
  // Misaligned products a thousand times as fast.
  profiles.begin()->second.groups.at("alignment").constants.at("slowdown_4_bytes").value = 1e-3;
  const CostModel dishonest(honest.cluster, profiles, {});
  test::Job job(test::changed("tiny_gpt2", {{"n_embd", 1036}, {"n_inner", 4100}, {"n_head", 4}}), 128);
  job.strategy.dp = job.strategy.dp_replicate = 8;
  job.strategy.microbatch = 16;
  const Program p = job.lower();
  CHECK(honest.analytic(p).breaches.empty());
  AnalyticClock clock(honest.cluster);
  Trace nothing({});
  const RunResult run = play(p, honest.cluster, dishonest, {}, nothing, clock, "test");
  REQUIRE(count(run, "roofline") > 0);
  CHECK(run.breaches.front().detail.find("layer.") != std::string::npos);
}
