#include "gpu_backend/communicate/transfer.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace rehearse {

namespace {

void append(Blocks& out, const Block& b) {
  if (b.length <= 0) return;
  if (!out.empty() && out.back().first + out.back().length == b.first)
    out.back().length += b.length;
  else
    out.push_back(b);
}

/// Positions in the list of `mine` of the indices that `other` lists too.
Blocks positions(const Runs& mine, const Runs& other) {
  Blocks out;
  std::int64_t begin = 0;
  for (const Run& m : mine) {
    for (const Run& o : other) {
      const std::int64_t from = std::max(m.first, o.first), to = std::min(m.first + m.length, o.first + o.length);
      append(out, {begin + from - m.first, to - from});
    }
    begin += m.length;
  }
  return out;
}

/// Elements of a storage at positions that are listed for every dimension.
Blocks rectangle(const Held& in, const std::vector<Blocks>& along) {
  Blocks out{{0, 1}};
  for (std::size_t d = 0; d < along.size(); ++d) {
    Blocks next;
    for (const Block& b : out)
      for (std::int64_t i = 0; i < b.length; ++i)
        for (const Block& a : along[d]) append(next, {(b.first + i) * in.extents[d] + a.first, a.length});
    out = std::move(next);
  }
  return out;
}

}  // namespace

Blocks common(const Held& mine, const Held& other) {
  if (mine.sliced() || other.sliced()) {
    if (mine.extents != other.extents) throw std::logic_error("flat slices of different tensors");
    const std::int64_t from = std::max(mine.flat.first, other.flat.first);
    const std::int64_t to = std::min(mine.flat.first + mine.flat.length, other.flat.first + other.flat.length);
    Blocks out;
    append(out, {from - mine.flat.first, to - from});
    return out;
  }
  std::vector<Blocks> along;
  for (std::size_t d = 0; d < mine.shape.size(); ++d) along.push_back(positions(mine.global[d], other.global[d]));
  return rectangle(mine, along);
}

Blocks halo_part(const Held& mine, const Held& other, std::size_t dim, const std::vector<bool>& filled, bool sends) {
  // What goes along `dim` is what one side owns and the other only borrows.
  const auto own = [](const Held& h, std::size_t d) {
    return Runs{{h.global[d].front().first + h.inner[d].first, h.inner[d].length}};
  };
  std::vector<Blocks> along;
  for (std::size_t d = 0; d < mine.shape.size(); ++d) {
    const bool whole = d != dim && filled[d];
    const Runs from = whole ? mine.global[d] : d == dim && !sends ? mine.global[d] : own(mine, d);
    const Runs to = whole ? other.global[d] : d == dim && sends ? other.global[d] : own(other, d);
    along.push_back(positions(from, to));
    const std::int64_t skipped = from.front().first - mine.global[d].front().first;
    for (Block& b : along.back()) b.first += skipped;
  }
  return rectangle(mine, along);
}

std::int64_t total(const Blocks& blocks) {
  std::int64_t n = 0;
  for (const Block& b : blocks) n += b.length;
  return n;
}

std::byte* pack(const std::byte* from, const Blocks& blocks, std::size_t element_size, std::byte* to) {
  for (const Block& b : blocks) {
    const std::size_t n = static_cast<std::size_t>(b.length) * element_size;
    std::memcpy(to, from + static_cast<std::size_t>(b.first) * element_size, n);
    to += n;
  }
  return to;
}

const std::byte* unpack(const std::byte* from, const Blocks& blocks, std::size_t element_size, std::byte* to) {
  for (const Block& b : blocks) {
    const std::size_t n = static_cast<std::size_t>(b.length) * element_size;
    std::memcpy(to + static_cast<std::size_t>(b.first) * element_size, from, n);
    from += n;
  }
  return from;
}

}  // namespace rehearse
