#pragma once
// Numbers and names of Chakra execution traces (mlcommons/chakra, schema/protobuf/et_def.proto), for who writes such
// files and who reads them.

#include <cstdint>
#include <string_view>

namespace rehearse {

/// Attribute with the name of a node's OperationClass.
inline constexpr std::string_view kChakraClass = "op_class";

/// Numbers of et_def.proto, for whoever writes such files.
enum class ChakraNode : std::uint8_t { invalid, metadata, mem_load, mem_store, comp, comm_send, comm_recv, comm_coll };
inline constexpr std::string_view kChakraCollectives[] = {"all_reduce",     "reduce",    "all_gather", "gather",
                                                          "scatter",        "broadcast", "all_to_all", "reduce_scatter",
                                                          "reduce_scatter", "barrier"};

}  // namespace rehearse
