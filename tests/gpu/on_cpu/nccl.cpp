// NCCL as strict as it may be, in place of the library, under the product's own nccl_world.cpp. Ranks are threads with
// late streams (streams.hpp). A communicator's first call of each kind, and to each peer, blocks the host until its
// peers make theirs. Calls are kernels on their streams: a send is done when it was received, and a collective when all
// members came. Members whose calls differ in kind, count, type, operation or root are an error that says how.
#include "nccl.h"

#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "gpu_backend/communicate/local_world.hpp"
#include "gpu_backend/cuda/load_library.hpp"

namespace {

using rehearse::ElementType;

/// One of a group's calls, as its caller describes it.
struct Call {
  std::string kind;
  const void* send = nullptr;
  void* receive = nullptr;
  std::size_t count = 0;
  ncclDataType_t type = ncclUint8;
  ncclRedOp_t op = ncclSum;
  int root = 0;  ///< Of a send or receive: the peer.
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;

  [[nodiscard]] bool is_message() const { return kind == "ncclSend" || kind == "ncclRecv"; }
  [[nodiscard]] std::string text() const {
    return fmt::format("{} of {} elements of type {}, operation {}, root {}", kind, count, static_cast<int>(type),
                       static_cast<int>(op), is_message() ? 0 : root);
  }
};

/// Calls of several members that belong together.
struct Match {
  std::map<int, Call> calls;           ///< Of a collective, by member.
  std::optional<Call> sent, received;  ///< Of a message.
  bool done = false;
};

/// A communicator, as all of its members share it.
struct Team {
  std::string name;
  int size = 0;
  std::map<std::string, std::shared_ptr<Match>> matches;       ///< By kind of call and number.
  std::map<std::string, std::set<int>> met;                    ///< By first use: who has come.
  std::map<int, std::map<int, std::pair<int, int>>> splits;    ///< By number: colour and key of each member.
  std::map<std::pair<int, int>, std::shared_ptr<Team>> parts;  ///< Made by a split, by its number and colour.
};

/// Guards all teams.
std::mutex& guard() {
  static std::mutex one;
  return one;
}
std::map<std::string, std::shared_ptr<Team>>& worlds() {
  static std::map<std::string, std::shared_ptr<Team>> all;
  return all;
}
std::string& last_error() {
  thread_local std::string one;
  return one;
}
ncclResult_t failed(std::string why, ncclResult_t result = ncclInvalidUsage) {
  last_error() = std::move(why);
  return result;
}

}  // namespace

struct ncclComm {
  std::shared_ptr<Team> team;
  int rank = 0;
  bool is_world = false;
  int collectives = 0, splits = 0;
  std::map<std::string, int> messages;  ///< By direction.
  int in_flight = 0;                    ///< Groups on streams.
};

namespace {

thread_local int depth = 0;
thread_local std::vector<Call> grouped;

/// What all members must do alike, or both ends of a message.
std::string direction(const Call& c) {
  const bool sends = c.kind == "ncclSend";
  return fmt::format("{}>{}", sends ? c.comm->rank : c.root, sends ? c.root : c.comm->rank);
}

std::size_t bytes_of(ncclDataType_t type) {
  switch (type) {
    case ncclUint8: return 1;
    case ncclBfloat16: return 2;
    case ncclFloat32: return 4;
    default: return 8;
  }
}
ElementType element(ncclDataType_t type) {
  switch (type) {
    case ncclUint8: return ElementType::byte;
    case ncclBfloat16: return ElementType::real16;
    case ncclFloat32: return ElementType::real32;
    case ncclFloat64: return ElementType::real64;
    default: return ElementType::int64;
  }
}
rehearse::ReduceOp reduction(ncclRedOp_t op) {
  return op == ncclSum ? rehearse::ReduceOp::sum : op == ncclMax ? rehearse::ReduceOp::max : rehearse::ReduceOp::min;
}

/// The sum of what all members send, `n` elements each.
std::vector<std::byte> reduced(const Match& m, std::size_t n) {
  const Call& first = m.calls.begin()->second;
  std::vector<std::byte> out(n * bytes_of(first.type));
  std::memcpy(out.data(), first.send, out.size());
  for (auto at = std::next(m.calls.begin()); at != m.calls.end(); ++at)
    rehearse::reduce_into(out.data(), static_cast<const std::byte*>(at->second.send), static_cast<std::int64_t>(n),
                          element(first.type), reduction(first.op));
  return out;
}

/// All have come: the bytes move.
void collective(const Match& m, std::size_t size) {
  const Call& first = m.calls.begin()->second;
  const std::size_t part = first.count * bytes_of(first.type);
  if (first.kind == "ncclAllGather") {
    std::vector<std::byte> all(size * part);
    for (const auto& [rank, c] : m.calls) std::memcpy(all.data() + static_cast<std::size_t>(rank) * part, c.send, part);
    for (const auto& [rank, c] : m.calls) std::memcpy(c.receive, all.data(), all.size());
    return;
  }
  if (first.kind == "ncclBroadcast") {
    const void* from = m.calls.at(first.root).send;
    for (const auto& [rank, c] : m.calls) std::memmove(c.receive, from, part);
    return;
  }
  const bool scatters = first.kind == "ncclReduceScatter";
  const std::vector<std::byte> sum = reduced(m, first.count * (scatters ? size : 1));
  for (const auto& [rank, c] : m.calls)
    if (first.kind != "ncclReduce" || rank == first.root)
      std::memcpy(c.receive, sum.data() + (scatters ? static_cast<std::size_t>(rank) * part : 0), part);
}

/// A call that has come to the head of its stream.
struct Running {
  Call call;
  std::string key;
  std::shared_ptr<Match> match;
};

/// Whether it is done; `guard()` is held. Throws where members do not call alike.
bool arrive(Running& r) {
  const Call& c = r.call;
  Team& team = *c.comm->team;
  if (!r.match) {
    std::shared_ptr<Match>& match = team.matches[r.key];
    if (!match) match = std::make_shared<Match>();
    r.match = match;
    Match& m = *match;
    if (c.kind == "ncclSend") m.sent = c;
    if (c.kind == "ncclRecv") m.received = c;
    if (!c.is_message()) m.calls[c.comm->rank] = c;
    if (c.is_message() && m.sent && m.received) {
      if (m.sent->count * bytes_of(m.sent->type) != m.received->count * bytes_of(m.received->type))
        throw std::logic_error(
            fmt::format("{}, {}: {} is received as {}", team.name, r.key, m.sent->text(), m.received->text()));
      std::memcpy(m.received->receive, m.sent->send, m.sent->count * bytes_of(m.sent->type));
      m.done = true;
    }
    for (const auto& [rank, other] : m.calls)
      if (other.text() != c.text())
        throw std::logic_error(fmt::format("{}, {}: member {} calls {}, member {} {}", team.name, r.key, rank,
                                           other.text(), c.comm->rank, c.text()));
    if (static_cast<int>(m.calls.size()) == team.size) {
      collective(m, static_cast<std::size_t>(team.size));
      m.done = true;
    }
    if (m.done) {
      team.matches.erase(r.key);
      on_cpu::tell_ranks();
    }
  }
  return r.match->done;
}

/// All calls of a group on one communicator and stream are one kernel.
struct Kernel {
  std::vector<Running> calls;
  bool operator()() {
    const std::lock_guard lock(guard());
    bool done = true;
    for (Running& r : calls) done = arrive(r) && done;
    if (done) --calls.front().call.comm->in_flight;
    return done;
  }
};

/// Blocks the host until all that this call needs have made theirs too.
ncclResult_t meet(const std::vector<Call>& calls) {
  std::vector<std::pair<std::set<int>*, std::size_t>> awaited;
  std::string what;
  {
    const std::lock_guard lock(guard());
    for (const Call& c : calls) {
      if (c.is_message() && c.root == c.comm->rank) continue;
      const std::string key = c.is_message() ? direction(c) : c.kind;
      std::set<int>& came = c.comm->team->met[key];
      if (!came.insert(c.comm->rank).second) continue;
      awaited.emplace_back(&came, c.is_message() ? 2 : static_cast<std::size_t>(c.comm->team->size));
      what += fmt::format("{}, {}, {}; ", c.comm->team->name, key, c.kind);
    }
  }
  if (awaited.empty()) return ncclSuccess;
  on_cpu::tell_ranks();
  const auto all_came = [&] {
    const std::lock_guard lock(guard());
    for (const auto& [came, n] : awaited)
      if (came->size() < n) return false;
    return true;
  };
  if (!on_cpu::run_until(all_came, "the first use of " + what)) return failed(on_cpu::why_not(), ncclInternalError);
  return ncclSuccess;
}

/// NCCL's kernels are loaded as others are: one for all messages, one for each collective.
const void* kernel_of(const Call& c) {
  static const std::map<std::string, char> kAll{{"ncclSend", 0},      {"ncclAllReduce", 0}, {"ncclReduce", 0},
                                                {"ncclBroadcast", 0}, {"ncclAllGather", 0}, {"ncclReduceScatter", 0}};
  return &kAll.at(c.is_message() ? "ncclSend" : c.kind);
}

ncclResult_t launch(std::vector<Call> calls) {
  if (const ncclResult_t met = meet(calls); met != ncclSuccess) return met;
  for (const Call& c : calls)
    if (!on_cpu::load(kernel_of(c))) return failed(on_cpu::why_not(), ncclInternalError);
  std::map<std::pair<ncclComm_t, cudaStream_t>, Kernel> kernels;
  for (Call& c : calls) {
    ncclComm& comm = *c.comm;
    std::string key = c.is_message() ? fmt::format("{} number {}", direction(c), comm.messages[direction(c) + c.kind]++)
                                     : fmt::format("collective {}", comm.collectives++);
    kernels[{c.comm, c.stream}].calls.push_back({std::move(c), std::move(key), nullptr});
  }
  for (auto& [at, kernel] : kernels) {
    const auto queue = on_cpu_queue(at.second);
    if (queue == nullptr || on_cpu_captures(at.second)) return failed("only late streams wait for others");
    ++at.first->in_flight;
    std::string what = at.first->team->name + ", " + kernel.calls.front().call.kind + ", " + kernel.calls.front().key;
    queue->push_back({std::move(kernel), std::move(what)});
  }
  return ncclSuccess;
}

ncclResult_t call(Call c) {
  if (c.comm == nullptr) return failed(c.kind + " on no communicator");
  if (c.root < 0 || c.root >= c.comm->team->size) return failed(fmt::format("{}: there is no rank {}", c.kind, c.root));
  if (depth > 0) {
    grouped.push_back(std::move(c));
    return ncclSuccess;
  }
  return launch({std::move(c)});
}

}  // namespace

ncclResult_t ncclGetVersion(int* version) {
  *version = 21800;
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t result) { return result == ncclSuccess ? "no error" : "error"; }
const char* ncclGetLastError(ncclComm_t) { return last_error().c_str(); }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static int made = 0;
  const std::lock_guard lock(guard());
  *id = {};
  const std::string text = fmt::format("world {}", made++);
  std::memcpy(id->internal, text.data(), text.size());
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  on_cpu::join_ranks();
  std::shared_ptr<Team> team;
  {
    const std::lock_guard lock(guard());
    std::shared_ptr<Team>& at = worlds()[id.internal];
    if (!at)
      at = std::make_shared<Team>(
          Team{.name = id.internal, .size = ranks, .matches = {}, .met = {}, .splits = {}, .parts = {}});
    team = at;
    team->met["init"].insert(rank);
  }
  *comm = new ncclComm{.team = team, .rank = rank, .is_world = true, .messages = {}};
  on_cpu::tell_ranks();
  const auto all_came = [&] {
    const std::lock_guard lock(guard());
    return static_cast<int>(team->met["init"].size()) == ranks;
  };
  // Ranks join the others in here: until all have, nobody waits in vain.
  while (!all_came()) std::this_thread::yield();
  return ncclSuccess;
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* out, ncclConfig_t*) {
  Team& team = *comm->team;
  const int number = comm->splits++;
  {
    const std::lock_guard lock(guard());
    team.splits[number][comm->rank] = {color, key};
  }
  on_cpu::tell_ranks();
  const auto all_came = [&] {
    const std::lock_guard lock(guard());
    return static_cast<int>(team.splits[number].size()) == team.size;
  };
  if (!on_cpu::run_until(all_came, fmt::format("{}, split {}", team.name, number)))
    return failed(on_cpu::why_not(), ncclInternalError);
  *out = nullptr;
  if (color == NCCL_SPLIT_NOCOLOR) return ncclSuccess;
  const std::lock_guard lock(guard());
  std::shared_ptr<Team>& part = team.parts[{number, color}];
  if (!part) part = std::make_shared<Team>();
  part->name = fmt::format("{}, split {} colour {}", team.name, number, color);
  std::set<std::pair<int, int>> members;  // By key, then by rank.
  for (const auto& [rank, wish] : team.splits[number])
    if (wish.first == color) members.emplace(wish.second, rank);
  part->size = static_cast<int>(members.size());
  const int place = static_cast<int>(std::distance(members.begin(), members.find({key, comm->rank})));
  *out = new ncclComm{.team = part, .rank = place, .messages = {}};
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  const bool ended =
      on_cpu::run_until([&] { return comm->in_flight == 0; }, "what is in flight on " + comm->team->name);
  if (comm->is_world) on_cpu::leave_ranks();
  delete comm;
  return ended ? ncclSuccess : failed(on_cpu::why_not(), ncclInternalError);
}

ncclResult_t ncclGroupStart() {
  ++depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  if (--depth > 0) return ncclSuccess;
  std::vector<Call> calls;
  calls.swap(grouped);
  return calls.empty() ? ncclSuccess : launch(std::move(calls));
}

ncclResult_t ncclAllReduce(const void* send, void* receive, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  return call({"ncclAllReduce", send, receive, count, type, op, 0, comm, stream});
}
ncclResult_t ncclReduce(const void* send, void* receive, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                        int root, ncclComm_t comm, cudaStream_t stream) {
  return call({"ncclReduce", send, receive, count, type, op, root, comm, stream});
}
ncclResult_t ncclBroadcast(const void* send, void* receive, std::size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  return call({"ncclBroadcast", send, receive, count, type, ncclSum, root, comm, stream});
}
ncclResult_t ncclAllGather(const void* send, void* receive, std::size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  return call({"ncclAllGather", send, receive, count, type, ncclSum, 0, comm, stream});
}
ncclResult_t ncclReduceScatter(const void* send, void* receive, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream) {
  return call({"ncclReduceScatter", send, receive, count, type, op, 0, comm, stream});
}
ncclResult_t ncclSend(const void* send, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return call({"ncclSend", send, nullptr, count, type, ncclSum, peer, comm, stream});
}
ncclResult_t ncclRecv(void* receive, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return call({"ncclRecv", nullptr, receive, count, type, ncclSum, peer, comm, stream});
}
