#include "core/report/pictures/kineto_trace.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/index.hpp"

namespace rehearse {

namespace {

std::string json_quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20)
      out += fmt::format("\\u{:04x}", static_cast<int>(c));
    else
      out += c;
  }
  return out + "\"";
}

/// Names as PyTorch's communication records write them.
struct CollectiveNames {
  std::string_view ours, kineto, kernel;
};
constexpr CollectiveNames kCollectives[] = {{"all_reduce", "allreduce", "AllReduce"},
                                            {"all_gather", "_allgather_base", "AllGather"},
                                            {"reduce_scatter", "_reduce_scatter_base", "ReduceScatter"},
                                            {"broadcast", "broadcast", "Broadcast"},
                                            {"reduce", "reduce", "Reduce"},
                                            {"all_to_all", "all_to_all", "SendRecv"}};

CollectiveNames names_of(const Span& span) {
  if (span.kind == SpanKind::send) return {"send", "send", "SendRecv"};
  if (span.kind == SpanKind::receive) return {"receive", "recv", "SendRecv"};
  for (const CollectiveNames& n : kCollectives)
    if (n.ours == span.collective) return n;
  return {span.collective, span.collective, "Generic"};
}

std::string_view dtype_of(DType t) {
  switch (t) {
    case DType::fp64: return "Double";
    case DType::fp32:
    case DType::tf32: return "Float";
    case DType::bf16: return "BFloat16";
    case DType::fp16: return "Half";
    case DType::fp8:
    case DType::mxfp8: return "Float8_e4m3fn";
    case DType::int64: return "Long";
    case DType::int32: return "Int";
    case DType::fp4:
    case DType::uint8: return "Byte";
  }
  return "Byte";
}

bool communicates(const Span& s) {
  return s.kind == SpanKind::collective || s.kind == SpanKind::send || s.kind == SpanKind::receive;
}

std::string_view category_of(const Span& s, StreamRole role) {
  if (s.kind == SpanKind::wait) return "gpu_user_annotation";
  if (s.kind == SpanKind::host || s.kind == SpanKind::input || role == StreamRole::host) return "cpu_op";
  return s.kind == SpanKind::copy ? "gpu_memcpy" : "kernel";
}

/// What kind of work a kernel does, in the words that `import trace` sorts kernels by; empty where the span does not
/// tell.
std::string_view class_of(const Span& s) {
  if (s.kind != SpanKind::compute) return {};
  switch (s.category) {
    case TimeCategory::matmul: return "matmul";
    case TimeCategory::attention: return "attention";
    case TimeCategory::memory_bound: return "elementwise";
    case TimeCategory::loss: return "loss";
    case TimeCategory::optimizer: return "optimizer";
    default: return {};
  }
}

/// Whole nanoseconds, so that rounded ends of neighbours agree.
double nanoseconds(Seconds t) { return std::round(t.value() * 1e9); }
std::string microseconds(double ns) { return fmt::format("{:.3f}", ns / 1e3); }

/// Microseconds, a picosecond less than they were. Readers add "ts" and "dur" as doubles, some (speedscope) counting
/// from the track's first "ts"; where the sum rounds to above the begin of the next span they take that one for a part
/// of this.
std::string duration(double begin, double end) {
  constexpr double kTrim = 1e-6;  // Of a microsecond; a double tells them apart up to an hour of trace.
  return end > begin ? fmt::format("{:.6f}", (end - begin) / 1e3 - kTrim) : microseconds(0);
}

class Writer {
 public:
  Writer(const Trace& trace, const Program& program, const Cluster& cluster, std::string device, TextOutput& out)
      : trace_(trace), program_(program), cluster_(cluster), device_(std::move(device)), out_(out) {
    for (const Span& s : trace.spans) tracks_[s.rank].insert(s.stream);
  }

  void write(const std::string& name) {
    out_.write("{\n\"schemaVersion\": 1,\n");
    out_.write(fmt::format("\"deviceProperties\": [{}],\n", devices()));
    out_.write(fmt::format("\"distributedInfo\": {},\n", distributed()));
    out_.write(
        fmt::format("\"traceName\": {},\n\"displayTimeUnit\": \"ms\",\n\"traceEvents\": [\n", json_quoted(name)));
    metadata();
    events();
    out_.write("\n]\n}\n");
  }

 private:
  [[nodiscard]] const GpuSpec& gpu(int rank) const { return cluster_.gpu(nth(program_.device_of_rank, rank)); }

  [[nodiscard]] std::string devices() const {
    std::string out;
    for (const auto& [rank, streams] : tracks_) {
      if (!device_.empty()) {
        out += fmt::format("{}{{\"id\": {}, \"name\": {}}}", out.empty() ? "" : ", ", rank, json_quoted(device_));
        continue;
      }
      const GpuSpec& g = gpu(rank);
      out += fmt::format(
          "{}{{\"id\": {}, \"name\": {}, \"totalGlobalMem\": {:.0f}, \"computeMajor\": {}, \"computeMinor\": {}, "
          "\"numSms\": {}}}",
          out.empty() ? "" : ", ", rank, json_quoted(g.name), g.memory.value(), g.compute_capability / 10,
          g.compute_capability % 10, g.sm_count);
    }
    return out;
  }

  [[nodiscard]] std::string distributed() const {
    const int rank = tracks_.empty() ? 0 : tracks_.begin()->first;
    std::string groups;
    int count = 0;
    for (const GroupSpec& g : program_.groups) {
      const std::vector<int> members = program_.mesh.members(g, rank, program_.exprs);
      if (members.size() < 2) continue;
      groups +=
          fmt::format("{}{{\"pg_name\": {}, \"pg_desc\": {}, \"pg_size\": {}, \"ranks\": [{}]}}", count++ ? ", " : "",
                      json_quoted(g.name), json_quoted(g.name), members.size(), fmt::join(members, ", "));
    }
    return fmt::format(
        "{{\"backend\": \"nccl\", \"rank\": {}, \"world_size\": {}, \"pg_count\": {}, \"pg_config\": [{}]}}", rank,
        program_.mesh.ranks(), count, groups);
  }

  void event(const std::string& text) {
    out_.write(first_ ? text : ",\n" + text);
    first_ = false;
  }

  void metadata() {
    const auto about = [this](std::string_view what, int pid, int tid, const std::string& args) {
      event(fmt::format("{{\"ph\": \"M\", \"name\": \"{}\", \"pid\": {}, \"tid\": {}, \"ts\": 0, \"args\": {{{}}}}}",
                        what, pid, tid, args));
    };
    for (const auto& [rank, streams] : tracks_) {
      const auto role = static_cast<std::size_t>(nth(program_.role_of_rank, rank));
      about("process_name", rank, 0,
            fmt::format("\"name\": {}", json_quoted(fmt::format("rank {} ({})", rank, program_.roles[role].name))));
      about("process_labels", rank, 0, fmt::format("\"labels\": \"GPU {}\"", nth(program_.device_of_rank, rank)));
      about("process_sort_index", rank, 0, fmt::format("\"sort_index\": {}", rank));
      for (const int stream : streams) {
        about("thread_name", rank, stream,
              fmt::format("\"name\": {}", json_quoted(nth(program_.streams, stream).name)));
        about("thread_sort_index", rank, stream, fmt::format("\"sort_index\": {}", stream));
      }
    }
  }

  void events() {
    std::vector<const Span*> order;
    for (const Span& s : trace_.spans) order.push_back(&s);
    std::stable_sort(order.begin(), order.end(), [](const Span* a, const Span* b) {
      return std::tuple(a->rank, a->stream, a->begin, b->end) < std::tuple(b->rank, b->stream, b->begin, a->end);
    });
    std::map<std::int64_t, int> ends;
    for (const Span& s : trace_.spans)
      if (s.message >= 0) ++ends[s.message];
    const Span* before = nullptr;
    for (const Span* s : order) {
      // A communication kernel runs from its rank's entry on, as NCCL's do; how much of it was waiting is an annotation
      // inside.
      const bool waited = before != nullptr && before->kind == SpanKind::wait && communicates(*s) &&
                          before->rank == s->rank && before->stream == s->stream && before->end == s->begin;
      if (s->kind != SpanKind::wait) span(*s, waited ? before->begin : s->begin);
      if (waited) span(*before, before->begin);
      before = s;
      if (s->message >= 0 && ends[s->message] == 2) flow(*s);
    }
  }

  void span(const Span& s, Seconds entry) {
    const double begin = nanoseconds(entry), end = nanoseconds(s.end);
    const std::string_view category = category_of(s, nth(program_.streams, s.stream).role);
    // Tools take whatever has a stream for a kernel: neither a wait nor the host's work has one.
    std::string args = fmt::format("\"device\": {}", s.rank);
    if (category == "kernel" || category == "gpu_memcpy")
      args += fmt::format(", \"stream\": {}, \"correlation\": {}", s.stream, ++correlation_);
    if (const std::string_view cls = class_of(s); !cls.empty()) args += fmt::format(", \"class\": \"{}\"", cls);
    if (s.microbatch >= 0) args += fmt::format(", \"microbatch\": {}", s.microbatch);
    if (s.chunk >= 0) args += fmt::format(", \"chunk\": {}", s.chunk);
    if (s.layer >= 0) args += fmt::format(", \"layer\": {}", s.layer);
    if (s.kind == SpanKind::copy)
      args += fmt::format(", \"bytes\": {:.0f}, \"task\": {}", s.bytes.value(), json_quoted(s.name));
    if (communicates(s)) args += fmt::format(", \"task\": {}, {}", json_quoted(s.name), message_fields(s));
    if (s.peer >= 0) args += fmt::format(", \"{} Rank\": {}", s.kind == SpanKind::send ? "Dst" : "Src", s.peer);
    event(fmt::format(
        "{{\"ph\": \"X\", \"cat\": \"{}\", \"name\": {}, \"pid\": {}, \"tid\": {}, \"ts\": {}, \"dur\": "
        "{}, \"args\": {{{}}}}}",
        category, json_quoted(name_of(s)), s.rank, s.stream, microseconds(begin), duration(begin, end), args));
  }

  /// Names by which PyTorch's tools sort kernels: "nccl..." communicates, "Memcpy..." copies, all others compute.
  [[nodiscard]] std::string name_of(const Span& s) const {
    if (communicates(s)) return fmt::format("ncclDevKernel_{}", names_of(s).kernel);
    if (s.kind != SpanKind::copy) return s.name;
    const bool out = nth(program_.streams, s.stream).role == StreamRole::copy_out;
    return out ? "Memcpy DtoH (Device -> Pinned)" : "Memcpy HtoD (Pinned -> Device)";
  }

  [[nodiscard]] std::string message_fields(const Span& s) {
    const double large = s.bytes.value() / size_of(s.dtype);
    const double part = large / std::max(1, s.group_size);
    const double in = s.collective == "all_gather" ? part : s.kind == SpanKind::receive ? 0 : large;
    const double out = s.collective == "reduce_scatter" ? part : s.kind == SpanKind::send ? 0 : large;
    return fmt::format(
        "\"Collective name\": \"{}\", \"In msg nelems\": {:.0f}, \"Out msg nelems\": {:.0f}, \"Group size\": {}, "
        "\"dtype\": \"{}\", "
        "\"Process Group Name\": {}, \"Process Group Ranks\": \"[{}]\"",
        names_of(s).kineto, in, out, s.group_size, dtype_of(s.dtype), json_quoted(s.group),
        fmt::join(members(s), ", "));
  }

  const std::vector<int>& members(const Span& s) {
    const auto [at, fresh] = members_.try_emplace({s.group, s.rank});
    if (fresh)
      for (const GroupSpec& g : program_.groups)
        if (g.name == s.group) at->second = program_.mesh.members(g, s.rank, program_.exprs);
    return at->second;
  }

  /// Arrows from the end that sends to the end that receives.
  void flow(const Span& s) {
    const bool start = s.kind == SpanKind::send;
    event(
        fmt::format("{{\"ph\": \"{}\", \"cat\": \"p2p\", \"name\": \"message\", \"id\": {}, \"pid\": {}, \"tid\": {}, "
                    "\"ts\": {}{}}}",
                    start ? "s" : "f", s.message, s.rank, s.stream, microseconds(nanoseconds(start ? s.begin : s.end)),
                    start ? "" : ", \"bp\": \"e\""));
  }

  const Trace& trace_;
  const Program& program_;
  const Cluster& cluster_;
  std::string device_;
  TextOutput& out_;
  std::map<int, std::set<int>> tracks_;
  std::map<std::pair<std::string, int>, std::vector<int>> members_;
  std::int64_t correlation_ = 0;
  bool first_ = true;
};

}  // namespace

void write_kineto(const Trace& trace, const Program& program, const Cluster& cluster, const std::string& name,
                  TextOutput& out, const std::string& device) {
  Writer(trace, program, cluster, device, out).write(name);
}

}  // namespace rehearse
