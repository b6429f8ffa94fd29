#pragma once
// What NCCL 2.28.9 found and chose on known machines, as recorded in data/.

#include <map>
#include <string>
#include <vector>

#include "core/collective/nccl/nccl_tuning.hpp"

namespace recorded {

struct Configuration {
  std::string machine;
  rehearse::nccl::CommunicatorShape shape;
  int channels = 0;
  struct Cell {
    rehearse::CollectiveOp op;
    rehearse::nccl::Algorithm algorithm;
    rehearse::nccl::Protocol protocol;
    double latency_us, GBps;
  };
  std::vector<Cell> table;
  struct Choice {
    rehearse::CollectiveOp op;
    double bytes;
    std::string algorithm, protocol;
    double us;
  };
  std::vector<Choice> choices;
};

/// data/nccl_2.28.9_predictions.json: search, table and choices of 32 configurations.
std::vector<Configuration> configurations();

/// data/nccl_2.28.9_searches.json: the search alone, for every subset of a machine's eight GPUs.
struct Search {
  std::string machine;
  std::vector<int> gpus;  ///< Of each node.
  int nodes = 1;          ///< 1, or 2 for any number above.
  int parts = 1;          ///< Nodes that NCCL makes of one.
  rehearse::nccl::SearchResult result;
};
std::vector<Search> searches();

}  // namespace recorded
