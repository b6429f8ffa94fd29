// How layers are divided among pipeline stages, and in which order they run.

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <functional>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/import/job/draft.hpp"

namespace rehearse::job {

namespace {

/// "E|(t|)*3,m|L" with repetitions written out: megatron/core/transformer/pipeline_parallel_layer_layout.py.
std::string written_out(const std::string& layout, std::size_t& i, const std::string& where) {
  std::string out;
  constexpr std::size_t kLongest = 100'000;
  while (i < layout.size() && layout[i] != ')') {
    std::string unit(1, layout[i]);
    if (layout[i] == '(') {
      ++i;
      unit = written_out(layout, i, where);
      if (i >= layout.size()) throw Error(ErrorKind::usage, fmt::format("'{}': '(' without ')'", layout), where);
    }
    ++i;
    std::size_t times = 1;
    if (i < layout.size() && layout[i] == '*') {
      times = 0;
      for (++i; i < layout.size() && std::isdigit(static_cast<unsigned char>(layout[i])) != 0; ++i)
        times = std::min(kLongest, times * 10 + static_cast<std::size_t>(layout[i] - '0'));
    }
    for (std::size_t k = 0; k < times && out.size() < kLongest; ++k) out += unit;
  }
  return out;
}

std::vector<std::int64_t> layers_of_layout(std::string layout, const std::string& where) {
  std::erase_if(layout, [](char c) { return c == '\'' || c == '"' || c == ' ' || c == ','; });
  std::size_t i = 0;
  std::vector<std::int64_t> out(1);
  for (const char c : written_out(layout, i, where)) {
    if (c == '|')
      out.push_back(0);
    else if (c == 't')
      ++out.back();
    else if (c != 'E' && c != 'L' && c != 'm')
      throw Error(ErrorKind::usage, fmt::format("'{}' in a layout: wanted E, t, m, L and |", c), where);
  }
  return out;
}

bool equal(const std::vector<std::int64_t>& parts) {
  return std::adjacent_find(parts.begin(), parts.end(), std::not_equal_to<>()) == parts.end();
}

void state(Draft& d, const std::vector<std::int64_t>& chunks, std::int64_t layers) {
  std::int64_t sum = 0;
  for (const std::int64_t n : chunks) sum += n;
  if (sum != layers) {
    d.notes.push_back(
        fmt::format("stages of {} layers are stated for a model of {}: equal shares are taken", sum, layers));
    return;
  }
  // Each stage of a scenario has a layer.
  if (std::any_of(chunks.begin(), chunks.end(), [](std::int64_t n) { return n < 1; })) {
    d.notes.push_back("a stage holds the embedding or the loss alone, and no key says it: equal shares are taken");
    d.follow("strategy.uneven_layers", true);
    return;
  }
  if (equal(chunks)) return;
  // What uneven_layers gives by itself: the extra layers from the first stage on.
  const auto n = static_cast<std::int64_t>(chunks.size());
  bool usual = true;
  for (std::int64_t c = 0; c < n; ++c)
    usual = usual && chunks[static_cast<std::size_t>(c)] == ((c + 1) * layers + n - 1) / n - (c * layers + n - 1) / n;
  if (usual)
    d.follow("strategy.uneven_layers", true);
  else
    d.follow("strategy.layers_per_stage", Json(chunks));
}

std::int64_t chunks_a_stage(Draft& d, const std::string& framework, std::int64_t pp, std::int64_t layers) {
  if (d.has("strategy.virtual_stages")) return std::max<std::int64_t>(1, d.whole("strategy.virtual_stages", 1));
  if (const std::int64_t each = d.whole("job.layers_per_chunk", 0); each > 0) {
    if (framework == "torchtitan") {
      const std::int64_t all = layers + d.whole("job.first_stage_less", 1) + d.whole("job.last_stage_less", 1);
      return std::max<std::int64_t>(1, (all + each - 1) / each / pp);
    }
    return std::max<std::int64_t>(1, layers / pp / each);
  }
  const std::string interleaved = d.word("job.interleaved");
  if (!interleaved.empty() && interleaved != "null" && interleaved != "None")
    return std::max(1, std::atoi(interleaved.c_str()));
  return framework == "torchtitan" &&
                 (d.word("strategy.schedule") == "interleaved_1f1b" || d.word("strategy.schedule") == "zb_v")
             ? 2
             : 1;
}

/// torchtitan/distributed/pipeline_parallel.py: embedding and head count as layers.
std::vector<std::int64_t> shares_of_torchtitan(const Draft& d, std::int64_t chunks, std::int64_t layers) {
  const std::int64_t first = d.whole("job.first_stage_less", 1), last = d.whole("job.last_stage_less", 1),
                     all = layers + first + last;
  std::vector<std::int64_t> out;
  for (std::int64_t c = 0; c < chunks; ++c) out.push_back(all / chunks + (c < all % chunks ? 1 : 0));
  out.front() -= first;
  out.back() -= last;
  return out;
}

/// torchtitan's parts of the model, by the names of their modules: "tok_embeddings layers.0 layers.1".
std::vector<std::int64_t> shares_of_parts(const std::vector<std::string>& parts) {
  std::vector<std::int64_t> out;
  for (const std::string& part : parts) {
    out.push_back(0);
    for (std::size_t at = part.find("layers."); at != std::string::npos; at = part.find("layers.", at + 1))
      ++out.back();
  }
  return out;
}

/// Embedding or loss take the place of a layer, or the first and last stage have layers of their own number.
std::vector<std::int64_t> shares_of_megatron(const Draft& d, std::int64_t pp, std::int64_t v, std::int64_t layers) {
  const std::int64_t chunks = pp * v;
  const std::int64_t embedding = d.flag("job.embedding_is_layer") ? 1 : 0, loss = d.flag("job.loss_is_layer") ? 1 : 0;
  if (embedding + loss > 0 && (layers + embedding + loss) % chunks == 0) {
    std::vector<std::int64_t> out(static_cast<std::size_t>(chunks), (layers + embedding + loss) / chunks);
    out.front() -= embedding;
    out.back() -= loss;
    return out;
  }
  const std::int64_t first = d.whole("job.first_stage_layers", 0), last = d.whole("job.last_stage_layers", 0);
  if (first + last == 0) return {};
  const std::int64_t others = pp - (first > 0 ? 1 : 0) - (last > 0 ? 1 : 0), rest = layers - first - last;
  if (rest < 0 || (others > 0 && rest % (others * v) != 0) || first % v != 0 || last % v != 0) return {};
  std::vector<std::int64_t> out(static_cast<std::size_t>(chunks), others > 0 ? rest / (others * v) : 0);
  for (std::int64_t c = 0; c < v; ++c) {
    if (first > 0) out[static_cast<std::size_t>(c * pp)] = first / v;
    if (last > 0) out[static_cast<std::size_t>(c * pp + pp - 1)] = last / v;
  }
  return out;
}

void take_schedule(Draft& d, std::int64_t v) {
  if (d.flag("job.zero_bubble_v")) return d.replace("strategy.schedule", "zb_v");
  if (d.flag("job.zero_bubble")) return d.replace("strategy.schedule", "zb_h1");
  d.follow("strategy.schedule", v > 1 ? "interleaved_1f1b" : "1f1b");
  const std::string schedule = d.word("strategy.schedule");
  if (v > 1 && schedule == "1f1b") d.replace("strategy.schedule", "interleaved_1f1b");
}

}  // namespace

void finish_stages(Draft& d, const std::string& framework, std::int64_t layers) {
  const std::int64_t pp = d.whole("strategy.pp", 1);
  if (d.flag("job.expert_overlap"))
    d.notes.push_back(
        "exchanges of experts run beside other microbatches' work: state --set strategy.schedule=paired_1f1b to "
        "predict it");
  if (pp <= 1) {
    for (const char* key : {"strategy.schedule", "strategy.virtual_stages", "framework.scatter_gather"})
      d.facts.erase(key);
    return;
  }
  if (layers <= 0) return;
  std::int64_t v = chunks_a_stage(d, framework, pp, layers);
  std::vector<std::int64_t> shares;
  if (const Fact* layout = d.find("job.layout"); layout != nullptr && d.word("job.layout") != "null") {
    shares = layers_of_layout(d.word("job.layout"), layout->where);
    v = std::max<std::int64_t>(1, static_cast<std::int64_t>(shares.size()) / pp);
    if (static_cast<std::int64_t>(shares.size()) != pp * v)
      throw Error(ErrorKind::usage, fmt::format("a layout of {} stages on pp = {}", shares.size(), pp),
                  d.said("job.layout"), "wanted a multiple of pp");
  } else if (d.has("job.module_parts")) {
    shares = shares_of_parts(d.list("job.module_parts"));
    v = std::max<std::int64_t>(1, static_cast<std::int64_t>(shares.size()) / pp);
    if (static_cast<std::int64_t>(shares.size()) != pp * v)
      throw Error(ErrorKind::usage, fmt::format("{} parts of the model on pp = {}", shares.size(), pp),
                  d.said("job.module_parts"), "wanted a multiple of pp");
  } else if (framework == "torchtitan") {
    shares = shares_of_torchtitan(d, pp * v, layers);
    if (d.whole("job.first_stage_less", 1) + d.whole("job.last_stage_less", 1) == 0) shares.clear();
  } else {
    shares = shares_of_megatron(d, pp, v, layers);
  }
  if (v > 1)
    d.replace("strategy.virtual_stages", v);
  else
    d.facts.erase("strategy.virtual_stages");
  take_schedule(d, v);
  if (!shares.empty()) state(d, shares, layers);
  if (!d.has("strategy.layers_per_stage") && layers % (pp * v) != 0) d.follow("strategy.uneven_layers", true);
}

}  // namespace rehearse::job
