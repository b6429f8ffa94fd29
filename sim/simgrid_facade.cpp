#include "sim/simgrid_facade.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <csignal>
#include <exception>
#include <limits>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <simgrid/kernel/Timer.hpp>
#include <simgrid/kernel/resource/Model.hpp>
#include <simgrid/kernel/routing/NetPoint.hpp>
#include <simgrid/kernel/routing/NetZoneImpl.hpp>
#include <simgrid/s4u.hpp>

// After the headers that define what these two use.
#include <simgrid/version.h>
#include <xbt/log.h>

#include <dlfcn.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "sim/flow_pool.hpp"

namespace rehearse::sim {
namespace {

namespace s4u = simgrid::s4u;
namespace routing = simgrid::kernel::routing;
using simgrid::kernel::resource::Model;
using simgrid::kernel::resource::StandardLinkImpl;
using simgrid::kernel::timer::Timer;

constexpr double kScale = 65536;  // Of bytes and rates handed to SimGrid.

/// Where SimGrid's versions differ.
namespace version {

#if SIMGRID_VERSION >= 33400
constexpr auto kTimePrecision = "precision/timing:1e-11";
constexpr auto kRatePrecision = "precision/work-amount:1e-9";
#else
constexpr auto kTimePrecision = "surf/precision:1e-11";
constexpr auto kRatePrecision = "maxmin/precision:1e-9";
#endif

// Before 4.0 the first zone is the root; since then a root exists from the start.
void adopt([[maybe_unused]] s4u::Engine& engine, [[maybe_unused]] routing::NetZoneImpl& zone) {
#if SIMGRID_VERSION >= 40000
  zone.set_parent(engine.get_netzone_root()->get_impl());
#endif
}

s4u::Host* add_host(s4u::NetZone& zone, const std::string& name) {
#if SIMGRID_VERSION >= 40000
  return zone.add_host(name, 1.0);
#else
  return zone.create_host(name, 1.0);
#endif
}

s4u::Link* add_link(s4u::NetZone& zone, const std::string& name, double rate) {
#if SIMGRID_VERSION >= 40000
  return zone.add_link(name, rate);
#else
  return zone.create_link(name, rate);
#endif
}

}  // namespace version

/// SimGrid takes SIGINT, SIGSEGV and SIGBUS for itself; the program's own handlers are put back.
class KeepHandlers {
 public:
  KeepHandlers() {
    for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], nullptr, &actions_[i]);
  }
  ~KeepHandlers() {
    std::set_terminate(terminate_);
    for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &actions_[i], nullptr);
  }
  KeepHandlers(const KeepHandlers&) = delete;
  KeepHandlers& operator=(const KeepHandlers&) = delete;

 private:
  static constexpr std::array kSignals{SIGINT, SIGSEGV, SIGBUS};
  std::array<struct sigaction, kSignals.size()> actions_{};
  std::terminate_handler terminate_ = std::get_terminate();
};

/// The links, and two hosts between which all flows run: a flow's route is told when it starts. Lanes, and flows that
/// stand for others, make it depend on more than its ends; and hosts cost memory.
class ClusterZone final : public routing::NetZoneImpl {
 public:
  explicit ClusterZone(const Cluster& cluster) : NetZoneImpl("cluster"), cluster_(cluster) {}

  /// The only links there will be; all where it is never told.
  void keep_to(const std::vector<LinkId>& links) { kept_ = links; }
  /// Once, before the first flow.
  void build() {
    if (!hosts_.empty()) return;
    for (const char* name : {"from", "to"}) hosts_.push_back(version::add_host(*get_iface(), name));
    links_.resize(static_cast<std::size_t>(cluster_.link_count()), nullptr);
    if (kept_)
      for (const LinkId l : *kept_) add(l);
    else
      for (LinkId l = 0; l < cluster_.link_count(); ++l) add(l);
    get_iface()->seal();
  }
  [[nodiscard]] s4u::Host& from() const { return *hosts_[0]; }
  [[nodiscard]] s4u::Host& to() const { return *hosts_[1]; }
  /// The route of the flow about to start.
  void set_route(std::span<const LinkId> links) { route_ = links; }

 private:
  void get_local_route(const routing::NetPoint*, const routing::NetPoint*, routing::Route* into, double*) override {
    for (LinkId l : route_) into->link_list_.push_back(nth(links_, l));
  }
  void add(LinkId l) {
    auto* link = version::add_link(*get_iface(), std::to_string(l), cluster_.link_rate(l).value() * kScale);
    nth(links_, l) = link->get_impl();
  }

  const Cluster& cluster_;
  std::optional<std::vector<LinkId>> kept_;
  std::vector<s4u::Host*> hosts_;
  std::vector<StandardLinkImpl*> links_;  // By LinkId; null for those not kept.
  std::span<const LinkId> route_;
};

/// Options and signals belong to the process: the first engine settles them.
void configure_once() {
  static bool done = false;
  if (done) return;
  done = true;
  for (const char* option :
       {"network/model:CM02", "network/crosstraffic:0", version::kTimePrecision, version::kRatePrecision})
    s4u::Engine::set_config(option);
  FlowPool::connect();
}

/// SimGrid's clock is a variable of the library that a new engine doesn't set back; without that, a second simulation's
/// times would differ from the first's in their last bits.
void restart_clock() {
  if (s4u::Engine::get_clock() == 0) return;
  auto* clock = static_cast<double*>(dlsym(RTLD_DEFAULT, "_ZN7simgrid6kernel10EngineImpl4now_E"));
  if (clock != nullptr) *clock = 0;
  if (s4u::Engine::get_clock() != 0)
    throw Error(ErrorKind::unavailable, "this SimGrid runs one simulation in a process, and has run it", "simgrid");
}

/// One engine at a time: a second one beside it aborts the process. (SimGrid 4's Engine::has_instance() says no for
/// every engine after a process's first has ended.) Threads wait for their turn; one that has an engine already would
/// wait for itself.
class Turn {
 public:
  Turn() : lock_(mutex, std::defer_lock) {
    if (owner == std::this_thread::get_id())
      throw Error(ErrorKind::unavailable, "SimGrid runs one simulation at a time in a process", "simgrid");
    lock_.lock();
    owner = std::this_thread::get_id();
  }
  ~Turn() {
    if (lock_.owns_lock()) owner = std::thread::id();
  }
  Turn(Turn&&) = default;
  Turn& operator=(Turn&&) = delete;

 private:
  static std::mutex mutex;
  static std::atomic<std::thread::id> owner;
  std::unique_lock<std::mutex> lock_;
};
std::mutex Turn::mutex;
std::atomic<std::thread::id> Turn::owner;

struct EndEngine {
  Turn turn;
  void operator()(s4u::Engine* engine) const { delete engine; }
};
using EnginePtr = std::unique_ptr<s4u::Engine, EndEngine>;

EnginePtr make_engine() {
  Turn turn;
  restart_clock();
  const KeepHandlers keep;
  return {new s4u::Engine("rehearse"), EndEngine{std::move(turn)}};
}

ClusterZone& make_zone(s4u::Engine& engine, const Cluster& cluster) {
  auto* zone = new ClusterZone(cluster);
  version::adopt(engine, *zone);
  return *zone;
}

Model& network_model(const s4u::Engine& engine) {
  for (Model* model : engine.get_all_models())
    if (model->get_name() == "Network_CM02") return *model;
  throw Error(ErrorKind::unavailable, "this SimGrid has no network model CM02", "simgrid");
}

struct Started {
  EnginePtr engine;
  ClusterZone& zone;  // Owned by the engine.
  Model& network;
};

/// SimGrid cannot end an engine that it could not finish making: where there is no memory for one, the process keeps
/// what there is of it and makes no other.
Started start_engine(const Cluster& cluster) {
  static std::atomic<bool> unfinished = false;
  if (unfinished) throw Error(ErrorKind::unavailable, "SimGrid had no memory to start with in this process", "simgrid");
  EnginePtr engine = make_engine();
  try {
    xbt_log_control_set("root.thresh:critical");
    configure_once();
    ClusterZone& zone = make_zone(*engine, cluster);
    Model& network = network_model(*engine);
    return {std::move(engine), zone, network};
  } catch (const std::bad_alloc&) {
    unfinished = true;
    (void)engine.release();
    throw;
  }
}

}  // namespace

struct SimGridFacade::Impl {
  Impl(const Cluster& cluster, Listener& heard)
      : listener(heard), started(start_engine(cluster)), flows(heard, started.network) {}

  Listener& listener;
  Started started;
  FlowPool flows;
  Timer* wake = nullptr;
};

SimGridFacade::SimGridFacade(const Cluster& cluster, Listener& listener)
    : impl_(std::make_unique<Impl>(cluster, listener)) {}
SimGridFacade::~SimGridFacade() = default;

double SimGridFacade::now() const { return s4u::Engine::get_clock(); }

void SimGridFacade::wake_at(double date) {
  if (impl_->wake != nullptr && impl_->wake->get_date() == date) return;
  forget_wake();
  impl_->wake = Timer::set(date, [impl = impl_.get()] {
    impl->wake = nullptr;
    impl->flows.release_ended();
    impl->listener.on_wake();
  });
}

void SimGridFacade::forget_wake() {
  if (impl_->wake != nullptr) impl_->wake->remove();
  impl_->wake = nullptr;
}

bool SimGridFacade::flow_ends_pending() const { return impl_->flows.ends_pending(); }

void SimGridFacade::keep_to(const std::vector<LinkId>& links) { impl_->started.zone.keep_to(links); }

void SimGridFacade::start_flow(std::span<const LinkId> links, Bytes bytes, BytesPerSecond cap, std::uint64_t payload) {
  const double size = std::max(1.0, std::round(bytes.value() * kScale));
  if (!(size <= static_cast<double>(std::numeric_limits<std::int64_t>::max())))
    throw std::logic_error("flow of more bytes than SimGrid counts");
  ClusterZone& zone = impl_->started.zone;
  zone.build();
  zone.set_route(links);
  impl_->flows.start(zone.from(), zone.to(), static_cast<std::uint64_t>(size), cap.value() * kScale, payload);
  zone.set_route({});
}

void SimGridFacade::run() {
  impl_->started.zone.build();
  impl_->started.engine->run();
}

const char* simgrid_version() {
  static const std::string text = [] {
    int major = 0, minor = 0, patch = 0;
    sg_version_get(&major, &minor, &patch);
    return std::to_string(major) + "." + std::to_string(minor);
  }();
  return text.c_str();
}

}  // namespace rehearse::sim
