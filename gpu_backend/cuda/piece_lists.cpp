#include "gpu_backend/cuda/piece_lists.hpp"

#include <algorithm>
#include <utility>

#include "gpu_backend/cuda/check.hpp"

namespace rehearse::cuda {

std::vector<Piece> packing(const ElementRanges& blocks, std::size_t size) {
  const auto each = static_cast<std::int64_t>(size);
  std::int64_t at = 0;
  std::vector<Piece> out;
  for (const ElementRange& b : blocks) {
    out.push_back({b.first * each, at, b.length * each});
    at += b.length * each;
  }
  return out;
}

std::vector<Piece> unpacking(const ElementRanges& blocks, std::size_t size) {
  std::vector<Piece> out = packing(blocks, size);
  for (Piece& p : out) std::swap(p.from, p.to);
  return out;
}

std::int64_t bytes_of(const std::vector<Piece>& pieces) {
  std::int64_t out = 0;
  for (const Piece& p : pieces) out += p.bytes;
  return out;
}

PieceLists::~PieceLists() {
  for (const auto& [pieces, list] : lists_) cudaFree(list);
}

const Piece* PieceLists::on_device(const std::vector<Piece>& pieces) {
  Piece*& list = lists_[pieces];
  if (list == nullptr) {
    void* memory = nullptr;
    REHEARSE_CUDA(cudaMalloc(&memory, pieces.size() * sizeof(Piece)));
    list = static_cast<Piece*>(memory);
    REHEARSE_CUDA(cudaMemcpy(list, pieces.data(), pieces.size() * sizeof(Piece), cudaMemcpyHostToDevice));
    // A short copy from pageable memory returns before it has arrived, and no other stream waits for the null stream.
    REHEARSE_CUDA(cudaStreamSynchronize(nullptr));
  }
  return list;
}

void PieceLists::move(cudaStream_t stream, const std::byte* from, std::byte* to, const std::vector<Piece>& pieces) {
  if (pieces.empty()) return;
  std::int64_t largest = 0;
  for (const Piece& p : pieces) largest = std::max(largest, p.bytes);
  copy_pieces(stream, from, to, on_device(pieces), static_cast<int>(pieces.size()), largest);
}

}  // namespace rehearse::cuda
