#pragma once
// What rules of Megatron-LM's export and of its start share. Private to core/export.

#include "core/export/export.hpp"

namespace rehearse::exporting {

/// What `validate_args` asks of --use-torch-fsdp2. The model must be a decoder stack.
[[nodiscard]] bool torch_fsdp_takes(const ExportInput& input);

/// Experts that are one grouped product (--moe-grouped-gemm): wherever there are experts, on GPUs from Ampere on.
[[nodiscard]] bool grouped_experts(const ExportInput& input);

}  // namespace rehearse::exporting
