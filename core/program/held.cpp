#include "core/program/held.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "core/base/index.hpp"

namespace rehearse {

namespace {

void append(Runs& runs, const Run& run) {
  if (run.length <= 0) return;
  if (!runs.empty() && runs.back().first + runs.back().length == run.first)
    runs.back().length += run.length;
  else
    runs.push_back(run);
}

Run block(std::int64_t n, std::int64_t index, std::int64_t count, bool padded) {
  const std::int64_t step = (n + count - 1) / count;
  const std::int64_t first = padded ? index * step : std::min(n, index * step);
  return {first, padded ? step : std::min(n, first + step) - first};
}

Runs slice_of_piece(const Shard& shard, std::int64_t n, int place, int k) {
  const int i = owner_on_ring(shard, place, k);
  Runs out;
  if (!shard.parts.empty()) {
    const auto at = shard.parts.begin() + i;
    append(out, {std::accumulate(shard.parts.begin(), at, std::int64_t{0}),
                 shard.padded ? *std::max_element(shard.parts.begin(), shard.parts.end()) : *at});
  } else if (shard.zigzag) {
    append(out, block(n, i, 2LL * k, shard.padded));
    append(out, block(n, 2LL * k - 1 - i, 2LL * k, shard.padded));
  } else {
    append(out, block(n, i, k, shard.padded));
  }
  return out;
}

/// The elements at `positions` of the list that `runs` stand for.
Runs pick(const Runs& runs, const Runs& positions) {
  Runs out;
  const std::int64_t total = std::accumulate(runs.begin(), runs.end(), std::int64_t{0},
                                             [](std::int64_t sum, const Run& r) { return sum + r.length; });
  for (const Run& wanted : positions) {
    std::int64_t begin = 0;
    for (const Run& r : runs) {
      const std::int64_t from = std::max(wanted.first, begin),
                         to = std::min(wanted.first + wanted.length, begin + r.length);
      if (from < to) append(out, {r.first + from - begin, to - from});
      begin += r.length;
    }
    // Padding goes on where the last run ends.
    const std::int64_t beyond = wanted.first + wanted.length - std::max(total, wanted.first);
    if (beyond > 0 && !runs.empty())
      append(out, {runs.back().first + runs.back().length + std::max<std::int64_t>(0, wanted.first - total), beyond});
  }
  return out;
}

std::int64_t length_of(const Runs& runs) {
  return std::accumulate(runs.begin(), runs.end(), std::int64_t{0},
                         [](std::int64_t sum, const Run& r) { return sum + r.length; });
}

/// Takes a slice of the dimension, one run, with what its neighbours lend.
void lengthen(Held& out, std::vector<Run>& inner, const Halo& halo, int i, int k) {
  const auto d = static_cast<std::size_t>(halo.dim);
  Shard own;
  own.parts = halo.parts;
  const Runs mine = pick(out.global[d], slice_of_piece(own, length_of(out.global[d]), i, k));
  if (mine.size() != 1) throw std::logic_error("a halo around a slice that is not one run");
  const std::int64_t before = i > 0 ? halo.before : 0, after = i + 1 < k ? halo.after : 0;
  out.global[d] = {{mine[0].first - before, mine[0].length + before + after}};
  inner[d] = {before, mine[0].length};
}

/// Global number of row `r` over the dimensions before `last`; -1 for padding.
std::int64_t first_of_row(const Held& held, std::size_t last, std::int64_t r) {
  std::int64_t out = 0, stride = 1;
  for (std::size_t d = last; d-- > 0;) {
    const std::int64_t g = held.global_index(d, r % held.extents[d]);
    if (g < 0) return -1;
    out += g * stride;
    stride *= held.shape[d];
    r /= held.extents[d];
  }
  return out;
}

/// Those of a stretch that are stored, counted from the first that is; lengthens the last one where it goes on.
void append_stored(std::vector<Stretch>& out, const Run& stored, const Stretch& all) {
  const std::int64_t from = std::max(all.local, stored.first),
                     to = std::min(all.local + all.length, stored.first + stored.length);
  if (from >= to) return;
  const Stretch next{from - stored.first, all.global + from - all.local, to - from};
  const bool goes_on = !out.empty() && out.back().local + out.back().length == next.local &&
                       out.back().global + out.back().length == next.global;
  if (goes_on)
    out.back().length += next.length;
  else
    out.push_back(next);
}

}  // namespace

Runs slice_of(const Shard& shard, std::int64_t n, int i, int k, const std::vector<std::int64_t>& segments) {
  if (segments.empty()) return slice_of_piece(shard, n, i, k);
  Runs out;
  std::int64_t begin = 0;
  for (const std::int64_t length : segments) {
    for (const Run& r : slice_of_piece(shard, length, i, k)) append(out, {begin + r.first, r.length});
    begin += length;
  }
  return out;
}

bool Held::sliced() const {
  const std::int64_t all = std::accumulate(extents.begin(), extents.end(), std::int64_t{1}, std::multiplies<>());
  return flat.length != all;
}

bool Held::haloed() const {
  for (std::size_t d = 0; d < extents.size(); ++d)
    if (inner[d].length != extents[d]) return true;
  return false;
}

std::int64_t Held::global_index(std::size_t d, std::int64_t x) const {
  for (const Run& r : global[d]) {
    if (x < r.length) return r.first + x < shape[d] ? r.first + x : -1;
    x -= r.length;
  }
  throw std::out_of_range("local index");
}

std::vector<std::int64_t> Held::global_elements() const {
  std::vector<std::vector<std::int64_t>> index(shape.size());
  for (std::size_t d = 0; d < shape.size(); ++d)
    for (std::int64_t x = 0; x < extents[d]; ++x) index[d].push_back(global_index(d, x));
  std::vector<std::int64_t> out;
  out.reserve(static_cast<std::size_t>(flat.length));
  for (std::int64_t e = flat.first; e < flat.first + flat.length; ++e) {
    std::int64_t rest = e, element = 0, stride = 1;
    bool padding = false;
    for (std::size_t d = shape.size(); d-- > 0;) {
      const std::int64_t g = nth(index[d], rest % extents[d]);
      padding |= g < 0;
      element += g * stride;
      stride *= shape[d];
      rest /= extents[d];
    }
    out.push_back(padding ? -1 : element);
  }
  return out;
}

std::vector<Stretch> stretches_of(const Held& held) {
  // Dimensions behind `last` are whole: an index of it stands for `inner` neighbouring elements.
  if (held.shape.empty()) return held.flat.length > 0 ? std::vector<Stretch>{{0, 0, 1}} : std::vector<Stretch>{};
  std::size_t last = held.shape.size() - 1;
  std::int64_t inner = 1;
  for (; last > 0 && held.global[last] == Runs{{0, held.shape[last]}}; --last) inner *= held.shape[last];
  std::vector<Stretch> out;
  const std::int64_t row = held.extents[last] * inner, end = held.flat.first + held.flat.length;
  for (std::int64_t r = row > 0 ? held.flat.first / row : 0; row > 0 && r * row < end; ++r) {
    const std::int64_t begin = first_of_row(held, last, r);
    std::int64_t local = r * row;
    for (const Run& run : held.global[last]) {
      const std::int64_t real = std::clamp<std::int64_t>(held.shape[last] - run.first, 0, run.length);
      if (begin >= 0)
        append_stored(out, held.flat, {local, (begin * held.shape[last] + run.first) * inner, real * inner});
      local += run.length * inner;
    }
  }
  return out;
}

Held held(const Program& program, const Tensor& tensor, const ExprContext& at) {
  Held out;
  std::vector<Run> inner(tensor.shape.size(), {-1, 0});
  for (const ExprId e : tensor.shape) {
    out.shape.push_back(program.exprs.evaluate(e, at));
    out.global.push_back({{0, out.shape.back()}});
  }
  // Weights of experts, which name their view, concatenate along their second dimension.
  const bool experts =
      std::any_of(tensor.layout.begin(), tensor.layout.end(), [](const auto& on) { return on.first == Axis::ep; });
  const std::size_t pieces = experts ? 1 : 0;
  for (const auto& [axis, l] : tensor.layout) {
    if (const auto* h = std::get_if<Halo>(&l)) lengthen(out, inner, *h, nth(at.coord, axis), nth(at.extent, axis));
    const auto* s = std::get_if<Shard>(&l);
    if (s == nullptr || s->flat) continue;
    const auto a = static_cast<std::size_t>(axis), d = static_cast<std::size_t>(s->dim);
    const bool whole = length_of(out.global[d]) == out.shape[d];
    const auto& segments = d == pieces && whole ? tensor.segments : std::vector<std::int64_t>{};
    out.global[d] = pick(out.global[d], slice_of(*s, length_of(out.global[d]), at.coord[a], at.extent[a], segments));
  }
  std::int64_t n = 1;
  for (const Runs& runs : out.global) {
    out.extents.push_back(length_of(runs));
    n *= out.extents.back();
    const Run& own = inner[out.extents.size() - 1];
    out.inner.push_back(own.first < 0 ? Run{0, out.extents.back()} : own);
  }
  out.flat = {0, n};
  for (const auto& [axis, l] : tensor.layout) {
    const auto* s = std::get_if<Shard>(&l);
    if (s == nullptr || !s->flat) continue;
    const auto a = static_cast<std::size_t>(axis);
    const Runs mine = slice_of(*s, out.flat.length, at.coord[a], at.extent[a]);
    out.flat = mine.empty() ? Run{out.flat.first, 0} : Run{out.flat.first + mine.front().first, mine.front().length};
  }
  return out;
}

}  // namespace rehearse
