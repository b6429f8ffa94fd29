#include "core/import/traces/kineto_events.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/base/units.hpp"
#include "core/import/traces/call_words.hpp"

namespace rehearse {

namespace {

constexpr double kLongest = 1e18;  // Microseconds since the epoch that no clock shows.

enum class Kind { device, memory, runtime, host, other };

/// Both spellings: PyTorch wrote "Kernel" before 1.13, "kernel" since.
Kind kind_of(const std::string& category) {
  if (category == "kernel" || category == "Kernel") return Kind::device;
  if (category == "gpu_memcpy" || category == "gpu_memset" || category == "Memcpy" || category == "Memset")
    return Kind::memory;
  if (category == "cuda_runtime" || category == "cuda_driver" || category == "Runtime") return Kind::runtime;
  if (category == "user_annotation" || category == "cpu_op" || category == "Operator") return Kind::host;
  return Kind::other;
}

/// A build of PyTorch without Kineto writes no categories, and operators of a process of this name.
bool without_kineto(const KinetoEntry& e) { return e.category.empty() && e.process == "CPU functions"; }

/// "rank 3 (stage 1)": a process of a file that holds many ranks.
int rank_in(const std::string& label) {
  constexpr std::string_view kPrefix = "rank ";
  int rank = -1;
  if (label.compare(0, kPrefix.size(), kPrefix) == 0)
    std::from_chars(label.data() + kPrefix.size(), label.data() + label.size(), rank);
  return rank;
}

}  // namespace

void KinetoEntry::clear() {
  phase = 0;
  for (std::string* s : {&category, &name, &process, &thread, &collective, &dtype, &group, &members, &label, &cls})
    s->clear();
  timed = lasting = false;
  ts = dur = 0;
  correlation = sequence = stream = device = source = destination = -1;
  group_size = 0;
  elements_in = elements_out = elements_hint = -1;
}

void KinetoEvents::fail(const std::string& what) const {
  throw Error(ErrorKind::usage, what, fmt::format("{}: /traceEvents/{}", origin_, entries_ - 1),
              "the file is damaged, or another program wrote it");
}

std::int32_t KinetoEvents::intern(const std::string& name) {
  const auto [at, fresh] = known_.try_emplace(name, static_cast<std::int32_t>(names_.size()));
  if (fresh) {
    names_.push_back(name);
    classes_.push_back(class_of_kernel(name));
  }
  return at->second;
}

void KinetoEvents::add(const KinetoEntry& e) {
  ++entries_;
  if (e.phase == 'M') {
    if (e.name == "process_name")
      if (const int named = rank_in(e.label); named >= 0) processes_[e.process].rank = named;
    return;
  }
  if (e.phase != 'X') return;
  const Kind kind = without_kineto(e) ? Kind::host : kind_of(e.category);
  if (kind == Kind::other) return;
  if (!e.timed || !std::isfinite(e.ts) || std::abs(e.ts) > kLongest)
    fail(fmt::format("'{}' has no time \"ts\"", e.name));
  if (!based_) base_us_ = std::floor(e.ts);
  based_ = true;
  if (kind == Kind::device || kind == Kind::memory) return device_event(e);
  const auto thread = threads_.try_emplace(e.thread, static_cast<std::int32_t>(threads_.size())).first->second;
  if (kind == Kind::host) host_event(thread, e);
  if (kind == Kind::runtime) {
    if (e.correlation >= 0 && e.name.find("aunchKernel") != std::string::npos)
      launches_.push_back({e.correlation, e.ts, thread});
  } else if (e.name.compare(0, 5, "nccl:") == 0) {
    const auto element = element_bytes(e.dtype);
    marks_.push_back({thread, e.ts, e.ts + std::max(0.0, e.dur), call_name(e.name),
                      element && e.elements_hint >= 0 ? *element * e.elements_hint : -1});
  } else if (e.name.compare(0, 13, "ProfilerStep#") == 0) {
    steps_.push_back({e.name, Seconds{(e.ts - base_us_) * kMicrosecond},
                      Seconds{(e.ts + std::max(0.0, e.dur) - base_us_) * kMicrosecond}});
  }
}

/// Kept until a device's event shows that operators only launch what takes the time.
void KinetoEvents::host_event(std::int32_t thread, const KinetoEntry& e) {
  if (device_events_ > 0 || !e.lasting || !(e.dur >= 0) || e.dur > kLongest) return;
  if (static_cast<std::int64_t>(operators_.size()) >= limits_.device_events) return;
  const std::int32_t name = intern(e.name);
  const Seconds begin{(e.ts - base_us_) * kMicrosecond};
  operators_.add(thread, name, nth(classes_, name), begin, begin + Seconds{e.dur * kMicrosecond});
}

void KinetoEvents::device_event(const KinetoEntry& e) {
  if (!e.lasting) fail(fmt::format("'{}' has no duration \"dur\"", e.name));
  if (!(e.dur >= 0) || e.dur > kLongest) fail(fmt::format("'{}' lasts {} us", e.name, e.dur));
  if (++device_events_ > limits_.device_events)
    throw Error(ErrorKind::usage, fmt::format("more than {} device events", limits_.device_events), origin_,
                "trace fewer steps");
  operators_.clear();
  Process& process = processes_[e.process];
  DeviceEvent event;
  event.begin = Seconds{(e.ts - base_us_) * kMicrosecond};
  event.duration = Seconds{e.dur * kMicrosecond};
  event.name = intern(e.name);
  event.cls = kind_of(e.category) == Kind::memory ? OperationClass::memory : nth(classes_, event.name);
  if (const auto said = class_named(e.cls);
      said && *said != OperationClass::communication && event.cls != OperationClass::communication)
    event.cls = *said;
  if (e.stream >= 0)
    event.stream = static_cast<std::int32_t>(e.stream);
  else
    std::from_chars(e.thread.data(), e.thread.data() + e.thread.size(), event.stream);
  if (process.device < 0) process.device = e.device;
  if (event.cls == OperationClass::communication) event.call = call_of(process, e);
  process.events.push_back(event);
}

std::int32_t KinetoEvents::call_of(Process& process, const KinetoEntry& e) {
  CommunicationCall call;
  call.op = call_name(e.collective.empty() ? e.name : e.collective);
  call.group = e.group;
  call.members = rank_list(e.members);
  call.group_size = e.group_size > 0 ? static_cast<int>(e.group_size) : static_cast<int>(call.members.size());
  call.sequence = e.sequence;
  const std::int64_t peer = call.op == "send" ? e.destination : call.op == "receive" ? e.source : -1;
  call.peer = peer >= 0 && peer < 100'000'000 ? static_cast<int>(peer) : -1;
  const double elements = std::max(e.elements_in, e.elements_out);
  if (const auto element = element_bytes(e.dtype); element && elements >= 0) {
    call.bytes = Bytes{*element * elements};
    call.sized = true;
  }
  process.calls.push_back(std::move(call));
  process.correlations.push_back(e.collective.empty() ? e.correlation : -1);
  return static_cast<std::int32_t>(process.calls.size()) - 1;
}

/// Calls whose kernels say nothing: by the mark that stands around their launch.
void KinetoEvents::complete_calls(Process& process) {
  for (std::size_t i = 0; i < process.calls.size(); ++i) {
    const auto launch = std::lower_bound(launches_.begin(), launches_.end(), process.correlations[i],
                                         [](const Launch& l, std::int64_t c) { return l.correlation < c; });
    if (process.correlations[i] < 0 || launch == launches_.end() || launch->correlation != process.correlations[i])
      continue;
    auto mark = std::upper_bound(marks_.begin(), marks_.end(), std::pair(launch->thread, launch->ts),
                                 [](const auto& at, const Mark& m) { return at < std::pair(m.thread, m.begin); });
    if (mark == marks_.begin()) continue;
    --mark;
    if (mark->thread != launch->thread || mark->end < launch->ts) continue;
    process.calls[i].op = mark->op;
    if (process.calls[i].sized || mark->bytes < 0) continue;
    process.calls[i].bytes = Bytes{mark->bytes};
    process.calls[i].sized = true;
  }
}

RankTrace KinetoEvents::trace_of(Process&& process) {
  complete_calls(process);
  RankTrace out;
  out.rank = process.rank;
  out.world_size = world_size;
  out.file = origin_;
  out.base_us = static_cast<std::int64_t>(base_us_) + static_cast<std::int64_t>(base_ns / 1e3);
  if (const auto at = gpu_names.find(process.device); at != gpu_names.end())
    out.gpu = at->second;
  else if (!gpu_names.empty())
    out.gpu = gpu_names.begin()->second;
  out.names = names_;
  out.events = std::move(process.events);
  std::stable_sort(out.events.begin(), out.events.end(),
                   [](const DeviceEvent& a, const DeviceEvent& b) { return a.begin < b.begin; });
  for (DeviceEvent& e : out.events) {
    if (e.call < 0) continue;
    out.calls.push_back(std::move(nth(process.calls, e.call)));
    e.call = static_cast<std::int32_t>(out.calls.size()) - 1;
  }
  out.steps = steps_;
  std::stable_sort(out.steps.begin(), out.steps.end(),
                   [](const StepWindow& a, const StepWindow& b) { return a.begin < b.begin; });
  out.all_events = entries_;
  return out;
}

std::vector<RankTrace> KinetoEvents::finish() {
  std::sort(launches_.begin(), launches_.end(),
            [](const Launch& a, const Launch& b) { return a.correlation < b.correlation; });
  std::sort(marks_.begin(), marks_.end(),
            [](const Mark& a, const Mark& b) { return std::pair(a.thread, a.begin) < std::pair(b.thread, b.begin); });
  std::vector<RankTrace> out;
  Process rest;
  for (auto& [pid, process] : processes_) {
    if (process.events.empty()) continue;
    if (process.rank >= 0) {
      out.push_back(trace_of(std::move(process)));
      continue;
    }
    // All devices of a PyTorch process are one rank's.
    const auto shift = static_cast<std::int32_t>(rest.calls.size());
    for (DeviceEvent& e : process.events)
      if (e.call >= 0) e.call += shift;
    if (rest.device < 0) rest.device = process.device;
    rest.events.insert(rest.events.end(), process.events.begin(), process.events.end());
    rest.calls.insert(rest.calls.end(), process.calls.begin(), process.calls.end());
    rest.correlations.insert(rest.correlations.end(), process.correlations.begin(), process.correlations.end());
    process = {};
  }
  if (out.empty() && rest.events.empty() && operators_.size() > 0) rest.events = operators_.own_times();
  if (!rest.events.empty()) {
    rest.rank = std::max(rank, 0);
    out.push_back(trace_of(std::move(rest)));
  }
  if (out.empty())
    throw Error(ErrorKind::usage, fmt::format("no device event among {} entries", entries_), origin_,
                "profile with ProfilerActivity.CUDA on a machine with a GPU, or with ProfilerActivity.CPU");
  return out;
}

}  // namespace rehearse
