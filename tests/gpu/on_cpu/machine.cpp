#include "machine.hpp"

#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <vector>

#include "streams.hpp"

constinit thread_local dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace on_cpu {

int graph_launches_without_memory = 0;

namespace {

constexpr std::size_t kStack = std::size_t{128} << 10;
constexpr unsigned kMaxThreads = 1024;

/// Runs one thread of a block, and then the same one of the next block. Begun as a context; changes after that by
/// jumps, which save no signal mask and so need no system call.
struct Coroutine {
  ucontext_t context{};
  jmp_buf at;
  bool begun = false;
  std::unique_ptr<char[]> stack;
  dim3 thread;
  bool done = true;
  std::uint64_t waits_for = 0;  ///< Runs again once this many of its kind of meetings are complete.
  int kind = 0;                 ///< 0 runs, 1 waits for its block, 2 for its warp.
};

struct Warp {
  Given given[2][32] = {};
  int arrived = 0, alive = 0;
  std::uint64_t meetings = 0;
};

struct Machine {
  std::vector<Coroutine> coroutines{kMaxThreads};
  std::vector<Warp> warps{kMaxThreads / 32};
  ucontext_t unused{};
  jmp_buf scheduler;
  unsigned current = 0;
  int alive = 0, arrived = 0;
  std::uint64_t meetings = 0, blocks = 0;
  bool any[2] = {};
  const std::function<void()>* kernel = nullptr;
  std::exception_ptr failed;
  std::vector<unsigned char> memory;
};

/// The one of the CPU's thread.
constinit thread_local Machine* own = nullptr;

Machine& make_machine() {
  thread_local Machine machine;
  own = &machine;
  return machine;
}

void complete_block_if_all_came() {
  Machine& machine = *own;
  if (machine.alive == 0 || machine.arrived < machine.alive) return;
  machine.arrived = 0;
  machine.any[(machine.meetings + 1) % 2] = false;
  ++machine.meetings;
}
void complete_warp_if_all_came(Warp& w) {
  if (w.alive == 0 || w.arrived < w.alive) return;
  w.arrived = 0;
  ++w.meetings;
}

/// Back to the scheduler, until it resumes this coroutine.
void leave(Coroutine& me) {
  if (_setjmp(me.at) == 0) _longjmp(own->scheduler, 1);
}

void run_thread(Machine& machine, Coroutine& me) {
  try {
    (*machine.kernel)();
  } catch (...) {
    machine.failed = std::current_exception();
  }
  me.done = true;
  --machine.alive;
  Warp& warp = machine.warps[machine.current / 32];
  --warp.alive;
  complete_block_if_all_came();  // Threads that have ended are not waited for.
  complete_warp_if_all_came(warp);
}

void body() {
  Machine& machine = *own;
  Coroutine& me = machine.coroutines[machine.current];
  for (;;) {
    run_thread(machine, me);
    leave(me);
  }
}

void yield_until(int kind, std::uint64_t meetings) {
  Coroutine& me = own->coroutines[own->current];
  me.kind = kind, me.waits_for = meetings;
  leave(me);
}

bool ready(const Machine& machine, const Coroutine& c, unsigned i) {
  if (c.done) return false;
  if (c.kind == 0) return true;
  return (c.kind == 1 ? machine.meetings : machine.warps[i / 32].meetings) >= c.waits_for;
}

void begin(Coroutine& c, dim3 thread) {
  if (!c.stack) c.stack = std::make_unique_for_overwrite<char[]>(kStack);
  if (!c.done) c.begun = false;  // It was left within a kernel that failed.
  c.thread = thread, c.done = false, c.kind = 0;
}

void enter(Machine& machine, Coroutine& c) {
  c.begun = true;
  getcontext(&c.context);
  c.context.uc_stack.ss_sp = c.stack.get();
  c.context.uc_stack.ss_size = kStack;
  makecontext(&c.context, body, 0);
  swapcontext(&machine.unused, &c.context);
}

/// Until it waits or ends.
void resume(Machine& machine, Coroutine& c) {
  if (_setjmp(machine.scheduler) != 0) return;
  if (c.begun) _longjmp(c.at, 1);
  enter(machine, c);
}

int order() {
  static const int kOrder = [] {
    const char* chosen = std::getenv("REHEARSE_MACHINE");
    return chosen != nullptr ? std::atoi(chosen) : 0;
  }();
  return kOrder;
}
bool ascending() { return order() % 2 == 1; }
bool last_blocks_first() { return order() >= 2; }

/// Runs a warp until all of its threads wait or have ended. Whether any of them moved.
bool run_warp(Machine& machine, unsigned first, unsigned end) {
  bool moved = false;
  for (bool again = true; again;) {
    again = false;
    for (unsigned t = first; t < end; ++t) {
      const unsigned i = ascending() ? t : end - 1 - (t - first);
      Coroutine& c = machine.coroutines[i];
      if (!ready(machine, c, i)) continue;
      c.kind = 0;
      machine.current = i;
      threadIdx = c.thread;
      resume(machine, c);
      moved = again = true;
    }
  }
  return moved;
}

void run_block(Machine& machine, dim3 block) {
  const unsigned n = block.x * block.y * block.z, warps = (n + 31) / 32;
  ++machine.blocks;
  machine.alive = static_cast<int>(n), machine.arrived = 0;
  for (unsigned w = 0; w < warps; ++w)
    machine.warps[w].alive = static_cast<int>(n - w * 32 < 32 ? n - w * 32 : 32), machine.warps[w].arrived = 0;
  for (unsigned i = 0; i < n; ++i)
    begin(machine.coroutines[i], {i % block.x, i / block.x % block.y, i / (block.x * block.y)});
  while (machine.alive > 0) {
    bool moved = false;
    for (unsigned t = 0; t < warps; ++t) {
      const unsigned w = ascending() ? t : warps - 1 - t;
      moved = run_warp(machine, w * 32, std::min(n, w * 32 + 32)) || moved;
    }
    if (!moved) throw std::logic_error("threads of a block wait for each other: a barrier that not all reach");
  }
}

}  // namespace

void run(dim3 grid, dim3 block, std::size_t shared, const std::function<void()>& kernel) {
  if (!settings().computes) return;
  Machine& machine = own != nullptr ? *own : make_machine();
  machine.kernel = &kernel;
  machine.failed = nullptr;
  blockDim = block, gridDim = grid;
  const std::size_t all = std::size_t{grid.x} * grid.y * grid.z;
  for (std::size_t number = 0; number < all; ++number) {
    const std::size_t i = last_blocks_first() ? all - 1 - number : number;
    machine.memory.assign(shared + 16, 0xff);
    blockIdx = {static_cast<unsigned>(i % grid.x), static_cast<unsigned>(i / grid.x % grid.y),
                static_cast<unsigned>(i / grid.x / grid.y)};
    run_block(machine, block);
    if (machine.failed) std::rethrow_exception(machine.failed);
  }
}

void meet_block() {
  Machine& machine = *own;
  const std::uint64_t next = machine.meetings + 1;
  ++machine.arrived;
  complete_block_if_all_came();
  if (machine.meetings < next) yield_until(1, next);
}

bool any_of_block(bool mine) {
  Machine& machine = *own;
  const std::size_t which = (machine.meetings + 1) % 2;
  if (mine) machine.any[machine.meetings % 2] = true;
  meet_block();
  return machine.any[(which + 1) % 2];
}

const Given* meet_warp(const Given& mine) {
  Machine& machine = *own;
  Warp& w = machine.warps[machine.current / 32];
  const std::uint64_t now = w.meetings;
  w.given[now % 2][lane()] = mine;
  ++w.arrived;
  complete_warp_if_all_came(w);
  if (w.meetings == now) yield_until(2, now + 1);
  return w.given[now % 2];
}

Place place() { return {own->blocks, own->current}; }
bool copies_at_once() { return order() >= 2; }
int lane() { return static_cast<int>(own->current % 32); }

unsigned char* launch_memory() {
  unsigned char* memory = own->memory.data();
  return memory + (16 - reinterpret_cast<std::uintptr_t>(memory) % 16) % 16;
}

}  // namespace on_cpu
