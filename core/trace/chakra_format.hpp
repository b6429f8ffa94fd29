#pragma once
// Numbers and names of Chakra execution traces (mlcommons/chakra, schema/protobuf/et_def.proto), for who writes such
// files and who reads them.

#include <cstdint>
#include <string_view>

namespace rehearse {

/// Attribute with the name of a node's OperationClass.
inline constexpr std::string_view kChakraClass = "op_class";

/// Attribute with a node's time in nanoseconds, fractions included: `duration_micros` is whole.
inline constexpr std::string_view kChakraDuration = "duration_ns";

/// Attribute of a call with the number of ranks of its group, for who has the file without its comm_group.json.
inline constexpr std::string_view kChakraGroupSize = "pg_size";

/// Lists of ranks by pg_name, beside the traces. ASTRA-sim takes names for numbers above 0 (astra-sim/astra-sim
/// @518bd51, astra-sim/workload/Workload.cc, initialize_comm_groups).
inline constexpr std::string_view kChakraGroups = "comm_group.json";

/// Whether `comm_size`, what a rank puts in, is one of as many parts as there are ranks
/// (mlcommons/chakra, src/converter/pytorch_node.py, comm_size; astra-sim, Sys::generate_all_gather).
[[nodiscard]] inline bool chakra_puts_in_part(std::string_view op) { return op == "all_gather" || op == "gather"; }

/// Numbers of et_def.proto, for whoever writes such files.
enum class ChakraNode : std::uint8_t { invalid, metadata, mem_load, mem_store, comp, comm_send, comm_recv, comm_coll };
inline constexpr std::string_view kChakraCollectives[] = {"all_reduce",     "reduce",    "all_gather", "gather",
                                                          "scatter",        "broadcast", "all_to_all", "reduce_scatter",
                                                          "reduce_scatter", "barrier"};

}  // namespace rehearse
