#include "core/import/traces/measured_workload.hpp"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/import/traces/message_edges.hpp"

namespace rehearse {

namespace {

TimeCategory category_of(OperationClass c) {
  switch (c) {
    case OperationClass::matmul:
    case OperationClass::convolution: return TimeCategory::matmul;
    case OperationClass::attention:
    case OperationClass::softmax: return TimeCategory::attention;
    case OperationClass::embedding:
    case OperationClass::loss: return TimeCategory::loss;
    case OperationClass::optimizer: return TimeCategory::optimizer;
    case OperationClass::memory: return TimeCategory::exposed_copy;
    default: return TimeCategory::memory_bound;
  }
}

/// The step to be played, on the rank's own clock.
StepWindow window_of(const RankTrace& rank, const std::string& wanted) {
  if (rank.steps.empty() && !wanted.empty())
    throw Error(ErrorKind::usage, "the profiler marked no steps", rank.file,
                "leave --step out, or call prof.step() after each");
  if (rank.steps.empty()) {
    Seconds last;
    for (const DeviceEvent& e : rank.events) last = max(last, e.end());
    return {rank.laid_out ? "the whole trace, laid out by its dependencies" : "the whole trace",
            rank.events.front().begin, last};
  }
  for (const StepWindow& s : rank.steps)
    if (s.name == wanted || s.name == "ProfilerStep#" + wanted) return s;
  if (wanted.empty()) return rank.steps.back();
  std::vector<std::string> names;
  for (const StepWindow& s : rank.steps) names.push_back(s.name);
  throw Error(ErrorKind::usage, fmt::format("no step '{}' in it", wanted), rank.file,
              fmt::format("steps: {}", fmt::join(names, ", ")));
}

/// One rank's events become operations, in order of their starts.
class Runs {
 public:
  Runs(const JobTrace& job, std::size_t rank_index, StepWindow window, const std::vector<int>& edge_of_call)
      : job_(job),
        rank_index_(rank_index),
        rank_(job.ranks[rank_index]),
        window_(std::move(window)),
        edge_of_call_(edge_of_call) {
    out_.rank = rank_.rank;
  }

  MeasuredRank run(const std::map<std::int32_t, int>& group_of_call) {
    order_streams();
    for (std::size_t i = 0; i < rank_.events.size(); ++i) {
      const DeviceEvent& e = rank_.events[i];
      if (e.begin < window_.begin || !(e.begin < window_.end)) continue;
      if (e.call >= 0)
        call(static_cast<std::int32_t>(i), group_of_call);
      else
        kernel(e);
    }
    finish();
    return std::move(out_);
  }

 private:
  /// `last` may still run when another stream starts something: `before` is what had ended by then, the same operation
  /// if that is a run whose last kernel (`tail`) has to be cut off for it.
  struct Lane {
    int last = -1, before = -1;
    bool open = false;
    Seconds end, before_end, tail_gap, tail_time;
    TimeCategory tail = TimeCategory::matmul;
  };
  struct Ended {
    int lane = -1;
    bool before = false;
    Seconds at;
  };

  /// The busiest with kernels first: it computes.
  void order_streams() {
    std::map<std::int32_t, Seconds> busy;
    for (const DeviceEvent& e : rank_.events) busy[e.stream] += e.call < 0 ? e.duration : Seconds{0};
    std::vector<std::int32_t> order;
    for (const auto& [stream, time] : busy) order.push_back(stream);
    std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) { return busy[a] > busy[b]; });
    for (const std::int32_t s : order) {
      lane_of_[s] = static_cast<int>(out_.streams.size());
      out_.streams.push_back(std::to_string(s));
    }
    lanes_.resize(order.size());
    for (Lane& l : lanes_) l.end = l.before_end = window_.begin;
  }

  /// What ended last on another lane, in (from, to].
  Ended ended(int lane, Seconds from, Seconds to) const {
    Ended best;
    for (std::size_t l = 0; l < lanes_.size(); ++l) {
      if (static_cast<int>(l) == lane) continue;
      const Lane& other = lanes_[l];
      const bool runs = to < other.end;
      if ((runs ? other.before : other.last) < 0) continue;
      const Seconds at = runs ? other.before_end : other.end;
      if (from < at && !(to < at) && (best.lane < 0 || best.at < at)) best = {static_cast<int>(l), runs, at};
    }
    return best;
  }

  /// The operation that ended then, as one that ends there.
  int operation_of(const Ended& ended) {
    Lane& lane = nth(lanes_, ended.lane);
    if (!ended.before) {
      lane.open = false;
      return lane.last;
    }
    if (lane.before == lane.last) split(ended.lane);
    return lane.before;
  }

  void split(int index) {
    Lane& lane = nth(lanes_, index);
    MeasuredOperation& run = nth(out_.operations, lane.last);
    run.work[lane.tail] -= lane.tail_time;
    if (lane.tail_gap > Seconds{0}) run.work[TimeCategory::launch] -= lane.tail_gap;
    MeasuredOperation op;
    op.stream = index;
    op.delay = lane.tail_gap;
    op.work[lane.tail] = lane.tail_time;
    lane.last = static_cast<int>(out_.operations.size());
    out_.operations.push_back(std::move(op));
  }

  MeasuredOperation& push(int lane, Seconds begin, const Ended& waits_for) {
    MeasuredOperation op;
    op.stream = lane;
    Seconds ready = nth(lanes_, lane).end;
    if (waits_for.lane >= 0) {
      op.after.push_back(operation_of(waits_for));
      ready = max(ready, waits_for.at);
    }
    op.delay = max(Seconds{0}, begin - ready);
    Lane& mine = nth(lanes_, lane);
    mine.before = mine.last;
    mine.before_end = mine.end;
    mine.last = static_cast<int>(out_.operations.size());
    out_.operations.push_back(std::move(op));
    return out_.operations.back();
  }

  void call(std::int32_t index, const std::map<std::int32_t, int>& group_of_call) {
    const DeviceEvent& e = nth(rank_.events, index);
    const int lane = lane_of_.at(e.stream);
    MeasuredOperation& op = push(lane, e.begin, ended(lane, window_.begin, e.begin));
    const CommunicationCall& c = nth(rank_.calls, e.call);
    op.call = c.op;
    op.bytes = c.bytes;
    op.sized = c.sized;
    op.group = group_of_call.at(e.call);
    if (const int edge = nth(edge_of_call_, e.call); edge >= 0) op.edge = edge, op.peer = c.peer;
    op.measured = job_.transfer(static_cast<int>(rank_index_), index);
    nth(lanes_, lane).end = max(nth(lanes_, lane).end, e.end());
    nth(lanes_, lane).open = false;
  }

  void kernel(const DeviceEvent& e) {
    const int lane = lane_of_.at(e.stream);
    Lane& mine = nth(lanes_, lane);
    const Ended released_by = ended(lane, max(mine.end, e.begin - kReleaseWindow), e.begin);
    mine.tail_gap = max(Seconds{0}, e.begin - mine.end);
    if (released_by.lane >= 0 || !mine.open) {
      mine.tail_gap = push(lane, e.begin, released_by).delay;
    } else {
      mine.before = mine.last;
      mine.before_end = mine.end;
      nth(out_.operations, mine.last).work[TimeCategory::launch] += mine.tail_gap;
    }
    mine.tail = category_of(e.cls);
    mine.tail_time = e.duration;
    nth(out_.operations, mine.last).work[mine.tail] += e.duration;
    mine.open = true;
    mine.end = max(mine.end, e.end());
  }

  /// What is left of the step after the last event is the host's.
  void finish() {
    Seconds last = window_.begin;
    for (const Lane& l : lanes_) last = max(last, l.end);
    if (!(last < window_.end)) return;
    MeasuredOperation op;
    op.delay = window_.end - last;
    for (std::size_t l = 1; l < lanes_.size(); ++l)
      if (lanes_[l].last >= 0) op.after.push_back(lanes_[l].last);
    out_.operations.push_back(std::move(op));
  }

  const JobTrace& job_;
  std::size_t rank_index_;
  const RankTrace& rank_;
  StepWindow window_;
  const std::vector<int>& edge_of_call_;
  MeasuredRank out_;
  std::map<std::int32_t, int> lane_of_;
  std::vector<Lane> lanes_;
};

/// Process groups as shapes.
class Shapes {
 public:
  Shapes(MeasuredWorkload& out) : out_(out) {}

  int shape_of(const CommunicationCall& c) {
    GroupShape shape;
    if (c.members.size() > 1) {
      shape.size = static_cast<int>(c.members.size());
      shape.stride = c.members[1] - c.members[0];
      for (std::size_t i = 1; i < c.members.size(); ++i)
        if (c.members[i] - c.members[i - 1] != shape.stride || shape.stride < 1) {
          note(fmt::format(
              "the ranks of group '{}' are not evenly spaced: its calls are played at their measured times", c.group));
          return -1;
        }
    } else if (c.group_size > 0 && c.group_size < out_.world_size) {
      shape.size = c.group_size;
      note(fmt::format("group '{}' of {} ranks is taken to be of neighbours: the trace does not name them", c.group,
                       c.group_size));
    } else {
      shape.size = out_.world_size;
      if (c.group_size == 0 && c.members.empty())
        note(fmt::format("calls whose group the trace does not name are taken to be of all {} ranks", out_.world_size));
    }
    if (joins_ends(shape)) {
      note(fmt::format("calls between the first stage and the last (group '{}') are played at their measured times",
                       c.group));
      return -1;
    }
    const auto at = std::find_if(out_.groups.begin(), out_.groups.end(),
                                 [&](const GroupShape& g) { return g.stride == shape.stride && g.size == shape.size; });
    if (at != out_.groups.end()) return static_cast<int>(at - out_.groups.begin());
    out_.groups.push_back(shape);
    return static_cast<int>(out_.groups.size()) - 1;
  }

  /// Ranks that messages join, all as far apart: the stages of one replica.
  int shape_of_messages(const JobTrace& job) {
    if (messages_ >= 0) return messages_;
    GroupShape shape;
    for (const RankTrace& r : job.ranks)
      for (const CommunicationCall& c : r.calls)
        if (c.peer >= 0 && c.peer != r.rank) {
          shape.stride = shape.size == 1 ? std::abs(c.peer - r.rank) : std::gcd(shape.stride, c.peer - r.rank);
          shape.size = 2;
        }
    int first = out_.world_size, last = 0;
    for (const RankTrace& r : job.ranks)
      if (std::any_of(r.calls.begin(), r.calls.end(), [](const CommunicationCall& c) { return c.peer >= 0; }))
        first = std::min(first, r.rank), last = std::max(last, r.rank);
    shape.size = std::max(shape.size, (last - first) / shape.stride + 1);
    out_.groups.push_back(shape);
    return messages_ = static_cast<int>(out_.groups.size()) - 1;
  }

  /// The widest group is the data-parallel one: replicas are farthest apart.
  void choose_data_parallel() {
    if (out_.groups.empty()) return;
    std::max_element(out_.groups.begin(), out_.groups.end(), [](const GroupShape& a, const GroupShape& b) {
      return std::pair(a.stride * a.size, a.stride) < std::pair(b.stride * b.size, b.stride);
    })->data_parallel = true;
  }

 private:
  /// Whether a group is of the two stages that share a table of words: no part of a mesh.
  [[nodiscard]] bool joins_ends(const GroupShape& shape) const {
    if (messages_ < 0) return false;
    const GroupShape& stages = nth(out_.groups, messages_);
    return stages.size > 2 && shape.size == 2 && shape.stride == stages.stride * (stages.size - 1);
  }

  void note(const std::string& text) {
    if (std::find(out_.notes.begin(), out_.notes.end(), text) == out_.notes.end()) out_.notes.push_back(text);
  }
  MeasuredWorkload& out_;
  int messages_ = -1;  ///< Index of the stages' shape.
};

int world_of(const JobTrace& job) {
  int world = 1;
  for (const RankTrace& r : job.ranks) {
    world = std::max({world, r.world_size, r.rank + 1});
    for (const CommunicationCall& c : r.calls)
      for (const int m : c.members) world = std::max(world, m + 1);
  }
  return world;
}

/// Calls that cannot be priced, by why.
void note_unpriced(MeasuredWorkload& out) {
  std::set<std::string> unpriced, messages;
  for (const MeasuredRank& r : out.ranks) {
    for (const MeasuredOperation& o : r.operations) {
      if (is_priced_message(o)) continue;
      if (is_message(o))
        messages.insert(o.call);
      else if (!o.call.empty() &&
               (!o.sized || o.call == "unknown" || o.call == "barrier" || o.call == "gather" || o.call == "scatter"))
        unpriced.insert(o.sized ? o.call : o.call + " of unknown size");
    }
  }
  if (!unpriced.empty())
    out.notes.push_back(fmt::format("played at their measured times, on any cluster: {}", fmt::join(unpriced, ", ")));
  if (!messages.empty())
    out.notes.push_back(
        fmt::format("messages between two ranks ({}) whose other end is not traced hold the waiting for it: played "
                    "only as traced, with messages=measured",
                    fmt::join(messages, ", ")));
}

}  // namespace

bool is_message(const MeasuredOperation& operation) {
  return operation.call == "send" || operation.call == "receive" || operation.call == "send_recv";
}

bool is_priced_message(const MeasuredOperation& operation) { return is_message(operation) && operation.edge >= 0; }

MeasuredWorkload measured_workload(const JobTrace& job, const std::string& step) {
  MeasuredWorkload out;
  const RankTrace& first = job.ranks.front();
  out.name = first.file.substr(first.file.find_last_of('/') + 1);
  out.gpu = first.gpu;
  out.world_size = world_of(job);
  Shapes shapes(out);
  const std::vector<std::vector<int>> edges = message_edges(job);
  for (const std::vector<int>& of_rank : edges)
    if (std::any_of(of_rank.begin(), of_rank.end(), [](int e) { return e >= 0; })) (void)shapes.shape_of_messages(job);
  for (std::size_t r = 0; r < job.ranks.size(); ++r) {
    const RankTrace& rank = job.ranks[r];
    if (std::all_of(rank.events.begin(), rank.events.end(),
                    [](const DeviceEvent& e) { return e.duration == Seconds{0}; }))
      throw Error(ErrorKind::usage, "no event of it has a duration", rank.file,
                  "a trace without times can be looked at, not played");
    const StepWindow window = window_of(rank, step);
    if (r == 0) {
      out.step = window.name;
      out.measured_step = window.end - window.begin;
    }
    std::map<std::int32_t, int> group_of_call;
    for (std::size_t c = 0; c < rank.calls.size(); ++c)
      group_of_call[static_cast<std::int32_t>(c)] =
          edges[r][c] >= 0 ? shapes.shape_of_messages(job) : shapes.shape_of(rank.calls[c]);
    out.ranks.push_back(Runs(job, r, window, edges[r]).run(group_of_call));
  }
  shapes.choose_data_parallel();
  if (std::any_of(job.ranks.begin(), job.ranks.end(), [](const RankTrace& r) { return r.laid_out; }))
    out.notes.push_back(
        "the trace has no start times: its nodes start as soon as dependencies and streams let them, and \"measured\" "
        "is the length of that, without waiting between ranks");
  note_unpriced(out);
  return out;
}

}  // namespace rehearse
