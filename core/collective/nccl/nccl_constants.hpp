#pragma once
// The constants of NCCL's cost model (graph/tuning.cc, 2.28.9). Latencies in us, bandwidths in GB/s.

#include <array>

namespace rehearse::nccl::constants {

inline constexpr double kMicro = 1e-6;
inline constexpr double kGiga = 1e9;

// Columns LL, LL128, Simple.
using PerProtocol = std::array<double, 3>;
// Rows tree, ring, collnet_direct, collnet_chain, nvls, nvls_tree, pat.
using PerAlgorithm = std::array<PerProtocol, 7>;

inline constexpr PerAlgorithm kBaseLatency{
    {{6.8, 14.0, 8.4}, {6.6, 14.0, 8.4}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {8.0, 8.0, 8.0}}};

enum Wire { kNvlink, kPci, kNet };
inline constexpr std::array<PerAlgorithm, 3> kHardwareLatency{{
    {{{0.6, 1.25, 4.0}, {0.6, 1.9, 3.4}, {0, 0, 3.7}, {0, 0, 2.8}, {0, 0, 25.0}, {0, 0, 25.0}, {0, 0, 4.0}}},
    {{{1.0, 1.9, 4.0}, {1.0, 2.5, 5.7}, {0, 0, 3.7}, {0, 0, 2.8}, {0, 0, 0}, {0, 0, 0}, {0, 0, 4.0}}},
    {{{5.0, 8.5, 14.0}, {2.7, 4.0, 14.0}, {0, 0, 31.0}, {0, 0, 30.0}, {0, 0, 18.0}, {0, 0, 20.9}, {0, 0, 14.0}}},
}};

enum Generation { kVolta, kAmpere, kHopper, kBlackwell };
constexpr Generation generation_of(int compute_capability) {
  return compute_capability >= 100  ? kBlackwell
         : compute_capability >= 90 ? kHopper
         : compute_capability >= 80 ? kAmpere
                                    : kVolta;
}

// Columns: 1 node, 2 nodes, 3 and more.
using PerSpan = std::array<double, 3>;
using PerGeneration = std::array<PerSpan, 4>;
inline constexpr PerGeneration kLlMax{
    {{39.0, 39.0, 20.4}, {87.7, 22.5, 19.0}, {141.0, 45.0, 35.0}, {282.0, 90.0, 70.0}}};
inline constexpr PerGeneration kRingLl128{{{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 36.7}, {73.4, 34.6, 73.4}}};
inline constexpr PerGeneration kTreeLl128{{{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 29.0}, {55.6, 31.67, 20.0}}};
inline constexpr PerGeneration kTree{{{26.5, 18.5, 10.0}, {24.0, 23.6, 17.8}, {38.7, 41.4, 36.0}, {70.0, 42.8, 24.0}}};
inline constexpr PerGeneration kNvlsTree{
    {{26.5, 18.5, 10.0}, {24.0, 23.6, 17.8}, {0.0, 57.7, 45.5}, {0.0, 96.0, 43.8}}};
inline constexpr std::array<double, 4> kNvlsEfficiency{0.0, 0.0, 0.85, 0.74};

// Loss of a tree by message size: 64 B, 128 B, ... 256 MB. Rows LL, LL128, Simple.
inline constexpr int kTreeSizes = 23;
inline constexpr std::array<std::array<double, kTreeSizes>, 3> kTreeCorrection{{
    {1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1},
    {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1},
    {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9},
}};

// Cost of posting one network operation.
inline constexpr double kNetOverhead = 1.0;
inline constexpr double kNetOverheadAmd = 2.0;

// Threads per block and the least bytes per thread before NCCL drops a channel (enqueue.cc). Columns LL, LL128, Simple.
inline constexpr std::array<int, 3> kThreads{512, 640, 512};
inline constexpr int kWideThreads = 640;
inline constexpr std::array<int, 3> kThreadThreshold{8, 8, 64};
inline constexpr int kMaxChannels = 64;

// A ring that reduces fp8 over more ranks than this loses precision: NCCL makes it dear (tuning.cc).
inline constexpr int kFp8RingRanks = 8;
inline constexpr double kFp8RingPenalty = 1024;
// Trees, NVLS and the like carry this many collectives of one group in the time of one.
inline constexpr double kGroupedPerStep = 10;
// Most GPUs per node that CollNetDirect serves.
inline constexpr double kCollnetDirectRanks = 8;

}  // namespace rehearse::nccl::constants
