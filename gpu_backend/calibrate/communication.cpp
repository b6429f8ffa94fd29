#include "gpu_backend/calibrate/communication.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "gpu_backend/calibrate/calibrate.hpp"
#include "gpu_backend/calibrate/kernel_cases.hpp"
#include "gpu_backend/calibrate/kernel_run.hpp"

namespace rehearse {

namespace {

/// Elements of the larger side. GPUs go on to sizes at which links, not latency, decide.
std::vector<std::int64_t> sizes_on(const ComputeDevice& device) {
  std::vector<std::int64_t> out{64, 1024, 16384, 131072, 1048576, 4194304};
  if (device.queues()) out.insert(out.end(), {16777216, 67108864});
  return out;
}
constexpr std::int64_t kCommunicationSide = 256;  // Of a product between calls.
constexpr int kStream = 1, kNextStream = 2, kCommunicationLeast = 3, kCommunicationMost = 40;
constexpr int kCommunicationPasses = 2;
// Seconds of computing before a call: tasks between the collectives of a step take about as long.
constexpr double kBetween = 2e-3;

/// One call of one member, packed and unpacked on the device as tasks do it.
class Call {
 public:
  Call(ComputeDevice& device, CollectiveOp op, std::int64_t elements, int members)
      : device_(device), part_(std::max<std::int64_t>(1, elements / members)) {
    call_.op = op;
    call_.name = "calibration";
    const std::int64_t all = part_ * members;
    const auto parts = [&] { return std::vector<std::int64_t>(static_cast<std::size_t>(members), part_); };
    in_place_ = op == CollectiveOp::all_reduce || op == CollectiveOp::broadcast;
    if (in_place_) call_.receive_counts = {all};
    if (op == CollectiveOp::reduce_scatter) call_.send_counts = parts(), call_.receive_counts = {part_};
    if (op == CollectiveOp::all_gather) call_.send_counts = {part_}, call_.receive_counts = parts();
    if (op == CollectiveOp::all_to_all) call_.send_counts = call_.receive_counts = parts();
    sent_ = bytes_of(in_place_ ? call_.receive_counts : call_.send_counts), received_ = bytes_of(call_.receive_counts);
    in_ = filled(sent_, 1.0f), out_ = filled(received_, 0.0f);
    bytes_ = Bytes{4.0 * static_cast<double>(all)};
  }
  /// As CollectiveModel counts them.
  [[nodiscard]] Bytes bytes() const { return bytes_; }

  /// Within the work of a task.
  void start(Communicator& communicator, const Done& done) {
    const std::shared_ptr<Storage> receive = device_.allocate(received_),
                                   send = in_place_ ? nullptr : device_.allocate(sent_);
    CollectiveCall call = call_;
    call.receive = receive->data();
    device_.copy(in_place_ ? receive->data() : send->data(), in_->data(), sent_);
    if (send) call.send = send->data();
    communicator.start(std::move(call), [this, send, receive, done](std::exception_ptr failed) {
      device_.copy(out_->data(), receive->data(), received_);
      done(std::move(failed));
    });
  }

 private:
  static std::size_t bytes_of(const std::vector<std::int64_t>& counts) {
    return static_cast<std::size_t>(std::accumulate(counts.begin(), counts.end(), std::int64_t{0})) * sizeof(float);
  }
  [[nodiscard]] std::shared_ptr<Storage> filled(std::size_t bytes, float value) const {
    const std::vector<float> values(bytes / sizeof(float), value);
    std::shared_ptr<Storage> out = device_.allocate(bytes);
    device_.write(*out, 0, std::as_bytes(std::span(values)));
    return out;
  }

  ComputeDevice& device_;
  CollectiveCall call_;
  std::int64_t part_;
  bool in_place_ = false;
  std::size_t sent_ = 0, received_ = 0;
  std::shared_ptr<Storage> in_, out_;
  Bytes bytes_;
};

/// Wall time of one piece of communication, from being asked for to the moment at which the next task could begin.
double timed(ComputeDevice& device, const std::function<void(Done)>& start) {
  const double begin = device.now();
  device.wait(device.submit(kStream, {}, {.run = {}, .start = start}));
  return device.now() - begin;
}

/// Mean of repetitions, as many as fit, and over the team, whose ranks agree on how many. Not the median: a step has
/// many of them one after the other, and the few that the system held up count in their sum.
double mean_over_team(Team& team, double seconds, const std::function<double()>& once) {
  (void)once();
  const double begin = team.device().now();
  (void)once();
  std::vector<double> first{team.device().now() - begin};
  team.sum(first);
  const double each = first[0] / team.ranks();
  const int repetitions =
      std::clamp(static_cast<int>(seconds / std::max(1e-7, each)), kCommunicationLeast, kCommunicationMost);
  std::vector<double> sum{0};
  for (int i = 0; i < repetitions; ++i) sum[0] += once();
  team.sum(sum);
  return sum[0] / repetitions / team.ranks();
}

/// What else a machine does lasts longer than a case: a pass that it fell into does not count.
void keep_shorter(std::vector<DeviceProfile::Collective>& all, std::vector<DeviceProfile::Collective> pass) {
  if (all.empty()) {
    all = std::move(pass);
    return;
  }
  for (std::size_t i = 0; i < all.size(); ++i)
    for (std::size_t k = 0; k < all[i].rows.size(); ++k)
      all[i].rows[k].second = min(all[i].rows[k].second, pass[i].rows[k].second);
}

std::vector<int> group_sizes(int ranks) {
  std::vector<int> out;
  for (const int k : calibrated_ranks(ranks))
    if (k > 1 && ranks % k == 0) out.push_back(k);
  return out;
}

/// `compute` gets a call's bytes and comes before it, as in a step: calls back to back would find threads that have
/// just been at work, which the system lets wait.
DeviceProfile::Collective measure_collective(Team& team, Transport& transport, CollectiveOp op, int group, int pass,
                                             double seconds, const std::function<void(Bytes)>& compute) {
  std::vector<int> members(static_cast<std::size_t>(group));
  std::iota(members.begin(), members.end(), team.rank() / group * group);
  const auto communicator =
      transport.communicator(fmt::format("calibrate {} {} {}", name_of(op), group, pass), members);
  transport.ready();
  DeviceProfile::Collective out{op, group, {}};
  for (const std::int64_t elements : sizes_on(team.device())) {
    Call call(team.device(), op, elements, group);
    team.meet();
    const auto once = [&] {
      compute(call.bytes());
      return timed(team.device(), [&](const Done& done) { call.start(*communicator, done); });
    };
    const double t = mean_over_team(team, seconds / static_cast<double>(sizes_on(team.device()).size()), once);
    out.rows.emplace_back(call.bytes(), Seconds{t});
  }
  return out;
}

/// There and back between neighbours, halved.
DeviceProfile::Collective measure_messages(Team& team, Transport& transport, int pass, double seconds) {
  DeviceProfile::Collective out{CollectiveOp::send_recv, 2, {}};
  const int partner = team.rank() ^ 1;
  const bool plays = partner < team.ranks();
  std::unique_ptr<Channel> there, back;
  if (plays) {
    const auto name = [pass](int from, int to) { return fmt::format("calibrate {}>{} {}", from, to, pass); };
    there = transport.channel(name(team.rank(), partner), team.rank(), partner);
    back = transport.channel(name(partner, team.rank()), partner, team.rank());
  }
  transport.ready();
  for (const std::int64_t elements : sizes_on(team.device())) {
    const std::size_t bytes = static_cast<std::size_t>(elements) * sizeof(float);
    const std::shared_ptr<Storage> data = team.device().allocate(bytes);
    team.device().write(*data, 0, std::vector<std::byte>(bytes));
    const auto send = [&] {
      timed(team.device(), [&](Done done) { there->send(data->data(), bytes, 1, std::move(done)); });
    };
    const auto receive = [&] {
      timed(team.device(), [&](Done done) { back->receive(data->data(), bytes, 1, std::move(done)); });
    };
    const auto once = [&] {
      const double begin = team.device().now();
      if (plays && team.rank() % 2 == 0)
        send(), receive();
      else if (plays)
        receive(), send();
      return (team.device().now() - begin) / 2;
    };
    team.meet();
    const int pairs = team.ranks() / 2;
    const double players = 2.0 * pairs,
                 mean = mean_over_team(team, seconds / static_cast<double>(sizes_on(team.device()).size()), once) *
                        team.ranks() / players;
    out.rows.emplace_back(Bytes{static_cast<double>(bytes)}, Seconds{mean});
  }
  return out;
}

}  // namespace

std::vector<DeviceProfile::Collective> measure_communication(Team& team, Transport& transport, double seconds) {
  const auto groups = group_sizes(team.ranks());
  const std::vector<CollectiveOp> ops{CollectiveOp::all_reduce, CollectiveOp::all_gather, CollectiveOp::reduce_scatter,
                                      CollectiveOp::broadcast, CollectiveOp::all_to_all};
  const double each = seconds / kCommunicationPasses / static_cast<double>(groups.size() * ops.size() + 1);
  std::vector<DeviceProfile::Collective> out;
  const KernelCase product =
      product_case(team.device(), "linear", kCommunicationSide, kCommunicationSide, kCommunicationSide);
  KernelRun kernel(team.device(), product);
  const bool computes = !team.device().queues() && product.op != nullptr;
  const int products =
      computes ? 1 + static_cast<int>(kBetween / mean_over_team(team, kBetween, [&] { return kernel.once(); })) : 0;
  const OtherMemory other;
  const auto compute = [&](Bytes bytes) {
    for (int i = 0; i < products; ++i) (void)kernel.once();
    if (!computes) return;
    // Gradients of a whole backward pass are in no cache when they are summed.
    if (bytes >= own_cache()) other.walk();
    team.meet();  // Waiting for the slowest rank is in the pace of kernels.
  };
  for (int pass = 0; pass < kCommunicationPasses; ++pass) {
    std::vector<DeviceProfile::Collective> measured;
    for (const int group : groups)
      for (const CollectiveOp op : ops)
        measured.push_back(measure_collective(team, transport, op, group, pass, each, compute));
    measured.push_back(measure_messages(team, transport, pass, each));
    keep_shorter(out, std::move(measured));
  }
  return out;
}

BesideCompute beside_compute(const ComputeDevice& device) {
  return device.queues() ? BesideCompute{4096, 16777216} : BesideCompute{256, 1048576};
}

namespace {

/// Kernels and all-reduces of a team on one device, alone and at the same time.
class SideBySide {
 public:
  SideBySide(Team& team, Communicator& communicator, const KernelCase& product, std::int64_t elements)
      : team_(team),
        device_(team.device()),
        communicator_(communicator),
        kernel_(device_, product),
        call_(device_, CollectiveOp::all_reduce, elements, team.ranks()) {}

  /// Share of a kernel's speed that is lost.
  double taken(double seconds) {
    team_.meet();
    std::vector<double> alone;
    const double begin = device_.now();
    while (alone.size() < 5 || device_.now() - begin < seconds / 2) alone.push_back(kernel_.once());
    const double each = (device_.now() - begin) / static_cast<double>(alone.size());
    const double call = mean_over_team(
        team_, 0, [&] { return timed(device_, [&](const Done& done) { call_.start(communicator_, done); }); });
    const int calls = std::clamp(static_cast<int>(seconds / 2 / call), 4, 100);
    team_.meet();
    const double first = device_.now();
    const std::vector<double> beside = kernels_beside(calls);
    // What was under way when the last calls ended ran alone: the median is not theirs.
    if (device_.queues()) return 1 - spread_of(alone).median / spread_of(beside).median;
    // A processor's calls and kernels take turns: few kernels are held up, for long. Their loss is told over the time
    // that calls are priced at, in which nothing is beside them.
    return (device_.now() - first - static_cast<double>(beside.size()) * each) / (calls * call);
  }

 private:
  /// Times of kernels until all calls have ended.
  std::vector<double> kernels_beside(int calls) {
    std::vector<double> out;
    std::vector<EventPtr> under_way;
    device_.measure(true);  // Their times tell when the last has ended.
    for (int i = 0; i < calls; ++i)
      under_way.push_back(device_.submit(
          kNextStream, {}, {.run = {}, .start = [&](const Done& done) { call_.start(communicator_, done); }}));
    while (!device_.times(under_way.back()) || out.size() < 5) out.push_back(kernel_.once());
    for (const EventPtr& e : under_way) device_.wait(e);
    return out;
  }

  Team& team_;
  ComputeDevice& device_;
  Communicator& communicator_;
  KernelRun kernel_;
  Call call_;
};

}  // namespace

double taken_by_communication(Team& team, Transport& transport, double seconds, const BesideCompute& sizes) {
  std::vector<int> members(static_cast<std::size_t>(team.ranks()));
  std::iota(members.begin(), members.end(), 0);
  const auto communicator = transport.communicator("calibrate beside compute", members);
  transport.ready();
  const KernelCase product = product_case(team.device(), "linear", sizes.side, sizes.side, sizes.side);
  if (product.op == nullptr) return 0;
  std::vector<double> taken{SideBySide(team, *communicator, product, sizes.elements).taken(seconds)};
  team.sum(taken);
  return std::clamp(taken[0] / team.ranks(), 0.0, 0.95);
}

}  // namespace rehearse
