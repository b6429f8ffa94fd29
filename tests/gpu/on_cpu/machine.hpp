#pragma once
// A machine for CUDA C++ without a GPU: the threads of a block are coroutines of one CPU thread, which change at
// barriers and warp operations; blocks and launches run one after the other. It shows that kernels compute what they
// should. It says nothing about speed, and misses races that need two threads at once.
//
// Warps of a block are as far apart as barriers let them be: each runs until it must wait before the next begins. Which
// goes first is one of four orders, chosen by REHEARSE_MACHINE: 0 (the default) takes the last warp and lane first, 1
// the first; 2 and 3 are the same with the blocks of a grid from last to first. Copies ahead arrive no earlier than
// they are waited for.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr dim3() = default;
  constexpr dim3(unsigned a, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};

/// Of the thread that runs.
extern constinit thread_local dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace on_cpu {

/// Runs `kernel` once per thread of every block. `shared` bytes of launch memory are filled with NaN.
void run(dim3 grid, dim3 block, std::size_t shared, const std::function<void()>& kernel);

/// All threads of the block come here before one goes on.
void meet_block();
/// What a lane gives to its warp.
using Given = std::array<std::uint64_t, 3>;
/// Gives `mine` to the warp; what lane l gave is at [l], until this lane comes here again. All lanes of the warp come
/// here before one goes on.
const Given* meet_warp(const Given& mine);
int lane();
/// Of the block: its number among all blocks that this CPU thread has run, and the thread's in it.
struct Place {
  std::uint64_t block;
  unsigned thread;
};
Place place();
bool copies_at_once();
/// Whether any thread of the block says so.
bool any_of_block(bool mine);
unsigned char* launch_memory();

/// How many of the next graph launches find no memory left.
extern int graph_launches_without_memory;

}  // namespace on_cpu
