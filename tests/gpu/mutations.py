"""Mistakes that tests on the machine on the CPU must notice: one line changed, one barrier missing.

Those in kernels are (file in gpu_backend/cuda/kernels, what stands there, what stands there instead, tests). What stands
there must occur once. A header is compiled into the kernel that the fifth field names. Those at the edges, where CUDA and
its libraries do less than one expects, are (file, what stands there, what stands there instead, tests, program); a
header is compiled into the group of sources that the sixth field names.
"""

TENSOR_CORES = "attention on tensor cores*"
ONE_PASS = "attention in one pass*"
PIECES = "what devices exchange*"
NORMS = "norms of rows*"
SUMS = "linear layers*"
LOSS = "cross-entropy*"
TABLES = "tables:*"
EXPERTS = "the best experts*"
SORTED_TABLES = "gradients of tables*"
SORTED_CHOICES = "many choices*"
BESIDE = "rotations and gates*"
ATTENTION_BESIDE = "attention of queries*"
NO_NUMBERS = "scores that are not numbers*"
ROWS = "rows in expert order*"
UPDATES = "updates of many tensors"
CASTS = "casts to fp8*"
MIXER = "the state-space mixer and*"
FUSED_NORM = "fused: all gradients of a norm*"
FUSED_LOSS = "fused: the sums of a loss*"
FUSED_UPDATE = "fused: an update*"

SYNC = "__syncthreads();"

MUTATIONS = [
    # Barriers and copies of the tensor-core kernels.
    ("attention_mma.cu", f"    {SYNC}\n    FragmentC s[kColumns];\n", "    FragmentC s[kColumns];\n", TENSOR_CORES),
    ("attention_mma.cu", f"value_tile(j));\n    {SYNC}", "value_tile(j));", TENSOR_CORES),
    ("attention_mma.cu", f"    {SYNC}\n    FragmentC s[kColumns], ds", "    FragmentC s[kColumns], ds", TENSOR_CORES),
    ("attention_mma.cu", f"tile(step, 1));\n    {SYNC}", "tile(step, 1));", TENSOR_CORES),
    ("attention_mma.cu", "fetch_tiles(j + 1);\n      wait_for_copies<1>", "fetch_tiles(j + 1);\n      wait_for_copies<2>",
     TENSOR_CORES),
    ("attention_mma.cu", "wait_for_copies<0>();\n    }\n    __syncthreads();\n    FragmentC s[kColumns];",
     "wait_for_copies<1>();\n    }\n    __syncthreads();\n    FragmentC s[kColumns];", TENSOR_CORES),
    ("attention_mma.cu", "fetch_tiles(step + 1);\n      wait_for_copies<1>",
     "fetch_tiles(step + 1);\n      wait_for_copies<2>", TENSOR_CORES),
    ("attention_mma.cu", "wait_for_copies<0>();\n    }\n    __syncthreads();\n    FragmentC s[kColumns], ds",
     "wait_for_copies<1>();\n    }\n    __syncthreads();\n    FragmentC s[kColumns], ds", TENSOR_CORES),
    ("attention_mma.cu", "streamed + (j % 2) * 2 * kTile", "streamed + (j % 1) * 2 * kTile", TENSOR_CORES),
    ("attention_mma.cu", "per_column + (j % 2) * 2 * kTile", "per_column + (j % 1) * 2 * kTile", TENSOR_CORES),
    # Fragments of the tensor cores.
    ("attention_mma.cu", "load_matrices(a.x, tile + (row + m % 2 * 8 + lane % 8) * kStride<D> + column + m / 2 * 8)",
     "load_matrices(a.x, tile + (row + m / 2 * 8 + lane % 8) * kStride<D> + column + m % 2 * 8)", TENSOR_CORES),
    ("attention_mma.cu", "column + m % 2 * 8);\n  b[0] = {{x[0], x[1]}};", "column + m % 2 * 8);\n  b[0] = {{x[1], x[0]}};",
     TENSOR_CORES),
    ("attention_mma.cu", "column + m / 2 * 8);\n  b[0] = {{x[0], x[1]}};", "column + m / 2 * 8);\n  b[0] = {{x[0], x[2]}};",
     TENSOR_CORES),
    ("attention_mma.cu", "pack(p[k].x[2], p[k].x[3])", "pack(p[k].x[3], p[k].x[2])", TENSOR_CORES),
    ("attention_mma.cu", "__shfl_xor_sync(0xffffffffu, x, 2)", "__shfl_xor_sync(0xffffffffu, x, 1)", TENSOR_CORES),
    ("attention_mma.cu", "kStride = D + 8", "kStride = D + 4", TENSOR_CORES),
    # Bounds of attention.
    ("attention_mma.cu", "if (row >= rows) continue;", "if (row > rows) continue;", TENSOR_CORES),
    ("attention_mma.cu", "first + r < rows;", "first + r <= rows;", TENSOR_CORES),
    ("attention_mma.cu", "key <= last[i / 2]", "key < last[i / 2]", TENSOR_CORES),
    ("attention_mma.cu", "total[half] *= shrink;", "", TENSOR_CORES),
    ("attention.cu", "to[c] = static_cast<A>(widen(from[c]));\n  __syncwarp();",
     "to[c] = static_cast<A>(widen(from[c]));", ONE_PASS),
    ("attention.cu", "sum.at[i] *= shrink;", "sum.at[i] *= A(1);", ONE_PASS),
    ("attention.cu", "    sum = over_warp<Sum>(sum);\n", "", ONE_PASS),
    ("attention.cu", "    __syncwarp();\n    if (threadIdx.x == 0) put(lse, r, sum);",
     "    if (threadIdx.x == 0) put(lse, r, sum);", PIECES),
    # Sums over blocks and warps.
    ("common.cuh", f"  {SYNC}  // Whoever still reads the last result.\n", "", NORMS, "norm.cu"),
    ("common.cuh", f"= x;\n  {SYNC}\n  const int warps", "= x;\n  const int warps", NORMS, "norm.cu"),
    ("common.cuh", "for (int o = kWarp / 2; o > 0;", "for (int o = kWarp / 2; o > 1;", NORMS, "norm.cu"),
    ("column_sums.cu", f"  {SYNC}\n  // From here on", "  // From here on", SUMS),
    ("column_sums.cu", f"  {SYNC}\n  if (threadIdx.y != 0", "  if (threadIdx.y != 0", SUMS),
    ("column_sums.cu", "first + kRowsOfPart < rows ? first + kRowsOfPart : rows", "first + kRowsOfPart", SUMS),
    ("norm.cu", "    });\n    square = over_row<Sum, kAcross>(square, A(0));\n    along = over_row<Sum, kAcross>(along, A(0));\n",
     "    });\n    square = over_row<Sum, kAcross>(square, A(0));\n", NORMS),
    ("rows.cu", f"    {SYNC}  // The label's logit", "    // The label's logit", LOSS),
    ("rows.cu", "(p - (j + i == label ?", "(p - (j == label ?", LOSS),
    # Tables.
    ("table_grads.cu", f"        {SYNC}\n        for (int e = 0; e < kLooks; ++e)", "        for (int e = 0; e < kLooks; ++e)",
     TABLES),
    ("table_grads.cu", "if (__syncthreads_or(any) == 0) continue;", "if (any == 0) continue;", TABLES),
    ("tables.cu", f"{SYNC}\n      const int groups", "const int groups", TABLES),
    ("table_grads.cu", "atomicMin(first + row, static_cast<int>(t))", "first[row] = static_cast<int>(t)", TABLES),
    # Sorted tokens and choices.
    ("table_grads.cu", "bool began = !from.same(first - 1, first);", "bool began = true;", SORTED_TABLES),
    ("table_grads.cu", "if (from.same(first, last) && from.same(first - 1, first)) continue;", "", SORTED_TABLES),
    ("table_grads.cu", "from.same(last, next * kTile); ++next", "next == tile + 1; ++next", SORTED_TABLES),
    ("table_grads.cu", "if (!ends && p + 1 < end) continue;", "if (!ends) continue;", SORTED_TABLES),
    ("dealing.cu", "static_cast<std::int64_t>(sorted[i - 1]) + 1 : 0", "static_cast<std::int64_t>(sorted[i]) : 0",
     SORTED_CHOICES),
    ("dealing.cu", "place >= capacity ? -1 : first[e] + place", "place > capacity ? -1 : first[e] + place", SORTED_CHOICES),
    ("dealing.cu", f"    {SYNC}\n    sums[e] += before;", "    sums[e] += before;", SORTED_CHOICES),
    ("dealing.cu", "first[e] = sums[e] - mine", "first[e] = sums[e]", SORTED_CHOICES),
    # Rows that lie beside others.
    ("column_sums.cu", "r * from.apart[which] + c", "r * columns + c", SUMS),
    ("pointwise.cu", "to = row * z.grad_apart + column", "to = i", BESIDE),
    ("tables.cu", "T* to = y + t * z.to_apart;", "T* to = y + t * z.from_apart;", BESIDE),
    ("attention_mma.cu", "kKeys ? z.apart.dk : z.apart.dq", "kKeys ? of_dout : z.apart.dq",
     ATTENTION_BESIDE),
    # Experts, updates, casts, the mixer.
    ("dealing.cu", "votes & ((1u << in_warp) - 1u)", "votes & ((2u << in_warp) - 1u)", ROWS),
    ("experts.cu", "        t.open[e] = A(-2);\n", "", EXPERTS),
    ("experts.cu", "return at < n ? at : 0;", "return at;", NO_NUMBERS),
    ("update.cu", "f(list.at[low], first, first + kPerPart < n ? first + kPerPart : n);",
     "f(list.at[low], first, first + kPerPart);", UPDATES),
    ("update.cu", "addresses % 16 == 0 && end % V == 0", "addresses % 16 == 0", UPDATES),
    ("update.cu", "if (!(factor < 1.0)) return;", "if (factor < 1.0) return;", UPDATES),
    ("quantise.cu", "scale_for(over_block<Max>(most, 0.0), format)", "scale_for(most, format)", CASTS),
    ("quantise.cu", "near = rint(x / step) * step", "near = floor(x / step) * step", CASTS),
    # Several tasks at once.
    ("norm.cu", f"  {SYNC}\n  for (std::int64_t c = threadIdx.y", "  for (std::int64_t c = threadIdx.y", FUSED_NORM),
    ("norm.cu", "lane < kLanes; ++lane) a +=", "lane < 1; ++lane) a +=", FUSED_NORM),
    ("norm.cu", "if (beside != nullptr) v =", "if (beside == nullptr) v =", FUSED_NORM),
    ("rows.cu", "      sum *= exp(largest - x);\n", "", FUSED_LOSS),
    ("rows.cu", "if (j < z.valid) {\n        v = read<V>(row, j);", "if (j <= z.valid) {\n        v = read<V>(row, j);",
     FUSED_LOSS),
    ("update.cu", "return scale < 1.0 ? scale : 1.0;", "return scale;", FUSED_UPDATE),
    ("update.cu", "if constexpr (kClears) write", "if constexpr (!kClears) write", FUSED_UPDATE),
    ("state_space_grad.cu", f"        {SYNC}\n        columns_of_token", "        columns_of_token", MIXER),
]

OPERATORS = "tests/gpu/test_cuda_on_cpu"
RANKS = "tests/gpu/test_nccl_on_cpu"

EDGES = [
    # Channels are opened in an order that all ranks share.
    ("gpu_backend/communicate/nccl_world.cpp", "    for (const auto& round : rounds) connect(round);\n", "",
     "no strategy or schedule hangs at two ranks", RANKS),
    # A list has arrived before another stream reads it.
    ("gpu_backend/cuda/piece_lists.cpp", "    REHEARSE_CUDA(cudaStreamSynchronize(nullptr));\n", "",
     "a list of pieces*", RANKS),
    # Proposals that failed; products over nothing.
    ("gpu_backend/cuda/gemm.cpp",
     "    std::erase_if(plan.candidates, [](const auto& c) { return c.state != CUBLAS_STATUS_SUCCESS; });\n", "",
     "an algorithm that cuBLASLt proposes*", RANKS),
    ("gpu_backend/cuda/gemm.cpp", "  if (g.k == 0) return nothing_plus(stream, g);\n", "",
     "a product over nothing*", RANKS),
    # Less alignment than an algorithm was chosen for: of a bias, of a matrix.
    ("gpu_backend/cuda/ops/products.hpp", "  if (aligned(first)) return first;\n", "  return first;\n", "linear layers*",
     OPERATORS, "tests/gpu/CMakeFiles/rehearse_cuda_on_cpu.dir/Unity/unity_ops_cxx.cxx"),
    ("gpu_backend/cuda/gemm.cpp", "return x % 16 == 0 ? 16 : x % 8 == 0 ? 8 : x % 4 == 0 ? 4 : 2;", "return x == 0 ? 2 : 16;",
     "matrices that begin at any element*", RANKS),
    # A pool near its end; a graph that finds no memory.
    ("gpu_backend/cuda/memory.cpp", "int never = 0;", "int never = 1;", "a pool of memory*", RANKS),
    ("gpu_backend/cuda/recording.cpp", "    (void)cudaGetLastError();\n    return false;\n  }\n  check(status, \"cudaGraphLaunch\");",
     "  }\n  check(status, \"cudaGraphLaunch\");", "a replay that finds no memory*", OPERATORS),
    # Kernels are loaded at the start, and streams have queues of their own.
    ("gpu_backend/cuda/cuda_environment.cpp", '{"CUDA_MODULE_LOADING", "EAGER"}, ', "",
     "no schedule hangs at eight ranks", RANKS),
    ("gpu_backend/cuda/cuda_environment.cpp", '"CUDA_DEVICE_MAX_CONNECTIONS", "32"', '"CUDA_DEVICE_MAX_CONNECTIONS", "1"',
     "no schedule hangs at eight ranks", RANKS),
]
