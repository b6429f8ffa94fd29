#include "core/strategy/roles/skips.hpp"

#include <set>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"

namespace rehearse {

namespace {

struct Connection {
  std::size_t maker, reader;
  int made, read;
};

std::vector<Connection> connections(const Network& network) {
  std::vector<Connection> out;
  for (std::size_t b = 0; b < network.blocks.size(); ++b)
    for (std::size_t t = 0; t < network.blocks[b].tensors.size(); ++t)
      if (const std::string& from = network.blocks[b].tensors[t].from; !from.empty()) {
        const auto [block, tensor] = find_skip(network, from);
        out.push_back({static_cast<std::size_t>(block), b, tensor, static_cast<int>(t)});
      }
  return out;
}

std::size_t chunk_of(const std::vector<ChunkPlacement>& chunks, int position) {
  for (std::size_t c = 0; c < chunks.size(); ++c)
    if (position >= chunks[c].first_layer && position < chunks[c].last_layer) return c;
  return chunks.size();
}

void check_way(const Network& network, const Connection& c, const std::vector<ChunkPlacement>& chunks,
               std::size_t first, std::size_t last) {
  std::set<int> stages;
  for (std::size_t i = first; i <= last; ++i)
    if (!stages.insert(chunks[i].stage).second)
      throw Error(ErrorKind::usage,
                  fmt::format("the skip connection from '{}' to '{}' comes back to stage {}",
                              network.blocks[c.maker].name, network.blocks[c.reader].name, chunks[i].stage),
                  "strategy.virtual_stages", "set strategy.virtual_stages to 1");
}

}  // namespace

void link_skips(ProgramFrame& frame, const Network& network, const std::vector<ChunkPlacement>& chunks,
                std::vector<BlockTensors>& blocks) {
  for (const Connection& c : connections(network)) {
    BlockTensors &maker = blocks[c.maker], &reader = blocks[c.reader];
    const std::size_t from = chunk_of(chunks, maker.position), to = chunk_of(chunks, reader.position);
    if (from != to) check_way(network, c, chunks, from, to);
    const bool maker_keeps = nth(maker.saved, c.made);
    const bool reader_keeps = nth(reader.saved, c.read) || reader.recompute_all;
    const bool others_drop = from == to && maker_keeps;
    Tensor& value = nth(frame.program.tensors, nth(maker.value, c.made));
    value.lifetime = Lifetime::saved;
    value.per_layer = value.per_microbatch = true;
    Tensor grad = value;
    grad.name += ".skip.grad";
    grad.layout = gradient_layout(grad.layout);
    grad.lifetime = Lifetime::step;
    BlockTensors::Skip skip;
    skip.value = nth(maker.value, c.made);
    skip.grad = frame.add_tensor(std::move(grad));
    skip.delta = maker.position - reader.position;
    skip.release_forward = !reader_keeps && !others_drop;
    skip.release_backward = reader_keeps && !others_drop;
    nth(reader.value, c.read) = skip.value;
    reader.skips_in[c.read] = skip;
    skip.delta = 0;
    skip.release_forward = false;
    skip.release_backward = maker_keeps;
    maker.skips_out[c.made] = skip;
  }
}

void carry_skips(const Network& network, const std::vector<BlockTensors>& blocks,
                 const std::vector<ChunkPlacement>& chunks,
                 std::map<int, std::array<StepBodies::Passing, 2>>& passing) {
  for (const Connection& c : connections(network)) {
    const BlockTensors& maker = blocks[c.maker];
    const BlockTensors::Skip& skip = maker.skips_out.at(c.made);
    const std::size_t from = chunk_of(chunks, maker.position), to = chunk_of(chunks, blocks[c.reader].position);
    for (std::size_t i = from; i < to; ++i) {
      const int boundary = chunks[i + 1].first_layer, delta = maker.position - boundary;
      auto& [forward, backward] = passing.at(boundary);
      forward.skips.push_back({skip.value, delta, i > from || !skip.release_backward});
      backward.skips.push_back({skip.grad, delta, true});
    }
  }
}

}  // namespace rehearse
