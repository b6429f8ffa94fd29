#pragma once
// The words in which profilers write communication, read into ours. Private to core/import.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rehearse {

/// "_allgather_base", "nccl:all_reduce", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(...)", "ALL_GATHER": the name
/// CollectiveOp has, or "send", "receive", "send_recv", "barrier"; "unknown" for others.
[[nodiscard]] std::string call_name(std::string_view word);
/// Bytes of an element of "Float", "c10::BFloat16", "long int", ...; nothing for others.
[[nodiscard]] std::optional<double> element_bytes(std::string_view word);
/// "[0, 1, 2]"; empty for anything else, "..." included.
[[nodiscard]] std::vector<int> rank_list(std::string_view text);

}  // namespace rehearse
