#pragma once
// What a row's words say of a node's network ports.
//
//   words  = clause {("," | ";" | "(" | ")" | "+" | " and ") clause}
//   clause = [count] rate ["x" count] ["per GPU" | "per node"]
//   count  = "8 x", "8x", "8 NICs", "eight", "dual"; of a clause without a rate: "8 NICs per node", "8 per node"
//   rate   = "400 Gb/s", "400Gbps", "400G", "100GbE", "1.6 Tb/s", "50 GB/s", "HDR", "NDR400", "HDR100", ...
//
// Clauses on NVLink, PCIe and storage are left out. Counted rates of several clauses add up.

#include <cstdint>
#include <optional>
#include <string>

namespace rehearse {

struct PortWords {
  std::optional<double> single;  ///< Gb/s of which nobody says whether a port or all of them carry it.
  std::optional<double> node;    ///< Gb/s, one direction, of all ports of a node.
};

/// `gpus`: of a node. `nics`: its ports, where a field of the row says how many and its words don't.
[[nodiscard]] PortWords port_words(const std::string& words, std::optional<std::int64_t> nics, int gpus);

}  // namespace rehearse
