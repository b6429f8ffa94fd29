#include "core/import/traces/chakra_reader.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <unordered_map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/config/json_file.hpp"
#include "core/import/protobuf_message.hpp"
#include "core/import/traces/gzip_input.hpp"

namespace rehearse {

namespace {

constexpr std::uint64_t kLargestMessage = 64'000'000;

struct Attribute {
  std::string name, text;
  double number = 0;
};
struct Node {
  std::string name;
  int type = 0;
  std::uint64_t id = 0;
  double start_us = 0, duration_us = 0;
  std::vector<std::uint64_t> after{};  // data_deps and ctrl_deps.
  std::vector<Attribute> attributes;
  [[nodiscard]] const Attribute* find(std::string_view wanted) const {
    const auto at =
        std::find_if(attributes.begin(), attributes.end(), [&](const Attribute& a) { return a.name == wanted; });
    return at == attributes.end() ? nullptr : &*at;
  }
  [[nodiscard]] double number(std::string_view wanted) const {
    const Attribute* a = find(wanted);
    return a == nullptr ? 0 : a->number;
  }
};

// ---- protobuf

template <class To, class From>
To bits(From from) {
  To to;
  static_assert(sizeof(To) <= sizeof(From));
  std::memcpy(&to, &from, sizeof to);
  return to;
}

Attribute read_attribute(std::string_view text, const ProtobufFile& file) {
  Attribute out;
  ProtobufMessage m(text, file);
  while (m.next()) {
    if (m.field == 1 && m.wire == 2)
      out.name = m.payload;
    else if (m.field == 29 && m.wire == 2)
      out.text = m.payload;
    else if (m.field == 3 && m.wire == 1)
      out.number = bits<double>(m.value);
    else if (m.field == 5 && m.wire == 5)
      out.number = static_cast<double>(bits<float>(static_cast<std::uint32_t>(m.value)));
    else if ((m.field == 15 || m.field == 17) && m.wire == 0)
      out.number =
          static_cast<double>(static_cast<std::int64_t>(m.value >> 1) ^ -static_cast<std::int64_t>(m.value & 1));
    else if (m.wire == 0 && m.field >= 7)
      out.number = m.field == 7 || m.field == 9 ? static_cast<double>(static_cast<std::int64_t>(m.value))
                                                : static_cast<double>(m.value);
    else if ((m.wire == 1 || m.wire == 5) && m.field >= 19)
      out.number = static_cast<double>(m.value);
  }
  return out;
}

Node read_node(std::string_view text, const ProtobufFile& file) {
  Node out;
  ProtobufMessage m(text, file);
  while (m.next()) {
    if (m.field == 1 && m.wire == 0)
      out.id = m.value;
    else if (m.field == 4 || m.field == 5)
      m.append_numbers(out.after);
    else if (m.field == 2 && m.wire == 2)
      out.name = m.payload;
    else if (m.field == 3 && m.wire == 0)
      out.type = static_cast<int>(std::min<std::uint64_t>(m.value, 1000));
    else if (m.field == 6 && m.wire == 0)
      out.start_us = static_cast<double>(m.value);
    else if (m.field == 7 && m.wire == 0)
      out.duration_us = static_cast<double>(m.value);
    else if (m.field == 10 && m.wire == 2)
      out.attributes.push_back(read_attribute(m.payload, file));
  }
  return out;
}

/// The next length-delimited message; false at the end of the file.
bool next_message(std::istream& in, std::string& message, const ProtobufFile& file) {
  std::uint64_t length = 0;
  unsigned shift = 0;
  for (int c = in.get();; c = in.get(), shift += 7) {
    if (c == std::char_traits<char>::eof()) {
      if (shift == 0) return false;
      throw Error(ErrorKind::usage, "the file ends in the middle of a message", file.origin, "copy the file again");
    }
    if (shift > 35) throw Error(ErrorKind::usage, file.damaged, file.origin, file.hint);
    length |= static_cast<std::uint64_t>(c & 0x7f) << shift;
    if (c < 0x80) break;
  }
  if (length > kLargestMessage)
    throw Error(ErrorKind::usage, fmt::format("a message of {} bytes", length), file.origin,
                "the file is damaged, or no Chakra trace");
  message.resize(length);
  in.read(message.data(), static_cast<std::streamsize>(length));
  if (static_cast<std::uint64_t>(in.gcount()) != length)
    throw Error(ErrorKind::usage, "the file ends in the middle of a message", file.origin, "copy the file again");
  return true;
}

// ---- nodes to events

/// The last number in a file's name: "trace.3.et" is of rank 3; 0 where there is none.
int rank_in_name(const std::string& path) {
  const std::string name = path.substr(path.find_last_of('/') + 1);
  std::size_t end = name.size();
  while (end > 0 && std::isdigit(static_cast<unsigned char>(name[end - 1])) == 0) --end;
  std::size_t begin = end;
  while (begin > 0 && end - begin < 8 && std::isdigit(static_cast<unsigned char>(name[begin - 1])) != 0) --begin;
  return begin == end ? 0 : std::stoi(name.substr(begin, end - begin));
}

/// Ranks by group, from comm_group.json beside the trace; none where there is no such file.
std::map<std::string, std::vector<int>> groups_beside(const std::string& path, const TraceLimits& limits) {
  const std::string file = (std::filesystem::path(path).parent_path() / kChakraGroups).string();
  std::error_code none;
  if (!std::filesystem::is_regular_file(file, none)) return {};
  const nlohmann::json json = load_json(file, {100'000'000, limits.depth});
  std::map<std::string, std::vector<int>> out;
  for (const auto& [name, ranks] : json.items()) {
    const auto is_rank = [](const nlohmann::json& r) { return r.is_number_unsigned() && r <= 100'000'000; };
    if (!ranks.is_array() || !std::all_of(ranks.begin(), ranks.end(), is_rank))
      throw Error(ErrorKind::usage, fmt::format("group '{}' is no list of ranks", name), file,
                  R"(it is {"1": [0, 1], ...}, or moved away)");
    out[name] = ranks.get<std::vector<int>>();
  }
  return out;
}

class Collector {
 public:
  Collector(const std::string& origin, const TraceLimits& limits)
      : limits_(limits), groups_(groups_beside(origin, limits)) {
    out_.file = origin;
    out_.rank = rank_in_name(origin);
  }

  void add(const Node& n) {
    ++out_.all_events;
    if (n.type != static_cast<int>(ChakraNode::metadata)) remember(n);
    const auto type = static_cast<ChakraNode>(n.type);
    const bool communicates =
        type == ChakraNode::comm_coll || type == ChakraNode::comm_send || type == ChakraNode::comm_recv;
    if (!communicates && (n.number("is_cpu_op") != 0 ||
                          (type != ChakraNode::comp && type != ChakraNode::mem_load && type != ChakraNode::mem_store)))
      return;
    if (static_cast<std::int64_t>(out_.events.size()) >= limits_.device_events)
      throw Error(ErrorKind::usage, fmt::format("more than {} nodes", limits_.device_events), out_.file);
    DeviceEvent e;
    e.begin = Seconds{n.start_us * 1e-6};
    e.duration = duration_of(n);
    e.name = intern(n.name);
    e.stream = static_cast<std::int32_t>(std::clamp(n.number("stream"), 0.0, 1e9));
    e.cls = communicates               ? OperationClass::communication
            : type == ChakraNode::comp ? class_of(n)
                                       : OperationClass::memory;
    if (communicates) e.call = add_call(n, type);
    if (!timed_) nodes_.back().event = static_cast<std::int64_t>(out_.events.size());
    out_.events.push_back(e);
    out_.work.emplace_back(n.number("num_ops"));
  }

  RankTrace finish() {
    if (out_.events.empty())
      throw Error(ErrorKind::usage, fmt::format("no computation or communication among {} nodes", out_.all_events),
                  out_.file, "is it a Chakra execution trace of a device?");
    if (!timed_ && nodes_.size() > 1) lay_out();
    std::vector<std::size_t> order(out_.events.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return out_.events[a].begin < out_.events[b].begin; });
    RankTrace sorted = out_;
    for (std::size_t i = 0; i < order.size(); ++i) {
      sorted.events[i] = out_.events[order[i]];
      sorted.work[i] = out_.work[order[i]];
    }
    return sorted;
  }

 private:
  /// What is needed to say when a node starts that does not say it.
  struct Placed {
    std::uint64_t id;
    Seconds duration;
    std::int64_t stream, event;
    std::vector<std::uint64_t> after;
  };

  static Seconds duration_of(const Node& n) {
    const Attribute* exact = n.find(kChakraDuration);
    return Seconds{exact == nullptr ? n.duration_us * 1e-6 : exact->number * 1e-9};
  }
  static OperationClass class_of(const Node& n) {
    const Attribute* said = n.find(kChakraClass);
    const auto known = said == nullptr ? std::nullopt : class_named(said->text);
    return known && *known != OperationClass::communication ? *known : class_of_kernel(n.name);
  }

  void remember(const Node& n) {
    if (n.start_us != 0) timed_ = true;
    if (timed_) return;
    if (static_cast<std::int64_t>(nodes_.size()) >= limits_.device_events)
      throw Error(ErrorKind::usage, fmt::format("more than {} nodes", limits_.device_events), out_.file);
    nodes_.push_back({n.id, duration_of(n),
                      n.find("stream") == nullptr ? -1 : static_cast<std::int64_t>(n.number("stream")), -1, n.after});
  }

  /// As early as dependencies and streams let each node start; nodes of a stream in the file's order as far as
  /// dependencies let them.
  void lay_out() {
    std::unordered_map<std::uint64_t, std::size_t> at;
    for (std::size_t i = 0; i < nodes_.size(); ++i) at.emplace(nodes_[i].id, i);
    std::vector<std::vector<std::size_t>> next(nodes_.size());
    std::vector<std::size_t> missing(nodes_.size());
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      for (const std::uint64_t id : nodes_[i].after)
        if (const auto from = at.find(id); from != at.end()) next[from->second].push_back(i), ++missing[i];
    std::set<std::size_t> ready;
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      if (missing[i] == 0) ready.insert(i);
    std::vector<Seconds> earliest(nodes_.size());
    std::map<std::int64_t, Seconds> free;
    std::size_t placed = 0;
    for (; !ready.empty(); ++placed) {
      const std::size_t i = *ready.begin();
      ready.erase(ready.begin());
      const Placed& n = nodes_[i];
      Seconds begin = earliest[i];
      if (n.stream >= 0) begin = max(begin, free[n.stream]);
      const Seconds end = begin + n.duration;
      if (n.stream >= 0) free[n.stream] = end;
      if (n.event >= 0) nth(out_.events, n.event).begin = begin;
      for (const std::size_t to : next[i]) {
        earliest[to] = max(earliest[to], end);
        if (--missing[to] == 0) ready.insert(to);
      }
    }
    if (placed < nodes_.size())
      throw Error(ErrorKind::usage, fmt::format("{} nodes wait for one another", nodes_.size() - placed), out_.file,
                  "dependencies have to end somewhere: the file is damaged, or another program wrote it");
    out_.laid_out = std::any_of(nodes_.begin(), nodes_.end(), [](const Placed& n) { return n.duration > Seconds{0}; });
  }

  std::int32_t add_call(const Node& n, ChakraNode type) {
    CommunicationCall c;
    const auto kind = static_cast<std::size_t>(std::max(0.0, n.number("comm_type")));
    c.op = type == ChakraNode::comm_send          ? "send"
           : type == ChakraNode::comm_recv        ? "receive"
           : kind < std::size(kChakraCollectives) ? std::string(kChakraCollectives[kind])
                                                  : "unknown";
    c.sized = n.find("comm_size") != nullptr;
    c.bytes = Bytes{std::max(0.0, n.number("comm_size"))};
    if (type == ChakraNode::comm_coll)
      set_group(n, c);
    else
      set_peer(n, type == ChakraNode::comm_send, c);
    out_.calls.push_back(std::move(c));
    return static_cast<std::int32_t>(out_.calls.size()) - 1;
  }
  /// A group of no list is one of all ranks; nobody says how many those are. What a rank gathers is its part of each.
  void set_group(const Node& n, CommunicationCall& c) const {
    const Attribute* name = n.find("pg_name");
    const Attribute* told = n.find("pg_desc");
    if (name != nullptr) c.group = told != nullptr ? told->text : name->text;
    if (const auto at = name == nullptr ? groups_.end() : groups_.find(name->text); at != groups_.end())
      c.members = at->second;
    c.group_size = c.members.empty() ? static_cast<int>(std::clamp(n.number(kChakraGroupSize), 0.0, 1e8))
                                     : static_cast<int>(c.members.size());
    if (!chakra_puts_in_part(c.op)) return;
    c.sized = c.sized && c.group_size > 0;
    c.bytes *= c.group_size;
  }
  /// The two ends of a message are a group of two.
  void set_peer(const Node& n, bool sends, CommunicationCall& c) const {
    const Attribute* peer = n.find(sends ? "comm_dst" : "comm_src");
    if (peer == nullptr || peer->number < 0 || peer->number > 1e8) return;
    const auto other = static_cast<int>(peer->number);
    c.members = {std::min(out_.rank, other), std::max(out_.rank, other)};
    c.group_size = 2;
  }
  std::int32_t intern(const std::string& name) {
    const auto [at, fresh] = known_.try_emplace(name, static_cast<std::int32_t>(out_.names.size()));
    if (fresh) out_.names.push_back(name);
    return at->second;
  }

  RankTrace out_;
  TraceLimits limits_;
  std::map<std::string, std::vector<int>> groups_;
  std::map<std::string, std::int32_t> known_;
  std::vector<Placed> nodes_;  // Until a node has a start.
  bool timed_ = false;
};

// ---- JSON

/// Protobuf's JSON form writes 64-bit numbers as text.
double json_number(const nlohmann::json& value, const std::string& where) {
  if (value.is_number()) return value.get<double>();
  if (value.is_boolean()) return value.get<bool>() ? 1 : 0;
  if (value.is_string()) {
    const std::string text = value.get<std::string>();
    char* end = nullptr;
    const double out = std::strtod(text.c_str(), &end);
    if (end != text.c_str() && *end == '\0' && std::isfinite(out)) return out;
  }
  throw Error(ErrorKind::usage, fmt::format("'{}' is no number", value.dump().substr(0, 40)), where);
}

std::uint64_t json_id(const nlohmann::json& value, const std::string& where) {
  const double id = json_number(value, where);
  if (!(id >= 0) || id > 9e15)
    throw Error(ErrorKind::usage, fmt::format("'{}' is no number of a node", value.dump().substr(0, 40)), where);
  return static_cast<std::uint64_t>(id);
}

const nlohmann::json* member(const nlohmann::json& object, const char* snake, const char* camel) {
  if (const auto at = object.find(snake); at != object.end()) return &*at;
  const auto at = object.find(camel);
  return at == object.end() ? nullptr : &*at;
}

int node_type(const nlohmann::json& value, const std::string& where) {
  if (value.is_number()) return static_cast<int>(json_number(value, where));
  constexpr std::string_view kNames[] = {"INVALID_NODE", "METADATA_NODE",  "MEM_LOAD_NODE",  "MEM_STORE_NODE",
                                         "COMP_NODE",    "COMM_SEND_NODE", "COMM_RECV_NODE", "COMM_COLL_NODE"};
  for (std::size_t i = 0; i < std::size(kNames); ++i)
    if (value.is_string() && value.get<std::string>() == kNames[i]) return static_cast<int>(i);
  return 0;
}

Node json_node(const nlohmann::json& in, const std::string& where) {
  if (!in.is_object()) throw Error(ErrorKind::usage, "a node is no object", where);
  Node out;
  if (const auto at = in.find("name"); at != in.end() && at->is_string()) out.name = at->get<std::string>();
  if (const auto at = in.find("type"); at != in.end()) out.type = node_type(*at, where);
  if (const auto at = in.find("id"); at != in.end()) out.id = json_id(*at, where);
  for (const auto* list : {member(in, "data_deps", "dataDeps"), member(in, "ctrl_deps", "ctrlDeps")})
    if (list != nullptr && list->is_array())
      for (const auto& id : *list) out.after.push_back(json_id(id, where));
  if (const auto* v = member(in, "start_time_micros", "startTimeMicros")) out.start_us = json_number(*v, where);
  if (const auto* v = member(in, "duration_micros", "durationMicros")) out.duration_us = json_number(*v, where);
  if (!(out.duration_us >= 0))
    throw Error(ErrorKind::usage, fmt::format("'{}' lasts {} us", out.name, out.duration_us), where);
  const auto list = in.find("attr");
  if (list == in.end() || !list->is_array()) return out;
  for (const auto& a : *list) {
    if (!a.is_object()) continue;
    Attribute attribute;
    for (const auto& [key, value] : a.items()) {
      if (key == "name" && value.is_string())
        attribute.name = value.get<std::string>();
      else if (key == "string_val" || key == "stringVal")
        attribute.text = value.is_string() ? value.get<std::string>() : "";
      else if ((key.ends_with("_val") || key.ends_with("Val")) && !key.starts_with("bytes"))
        attribute.number = json_number(value, where);
    }
    out.attributes.push_back(std::move(attribute));
  }
  return out;
}

}  // namespace

RankTrace read_chakra(std::istream& in, const std::string& origin, const TraceLimits& limits) {
  Collector collector(origin, limits);
  std::string message;
  ProtobufFile file{origin, "damaged protobuf", "a Chakra trace is GlobalMetadata and Nodes, each after its length"};
  for (std::int64_t i = 0;; ++i) {
    file.origin = fmt::format("{}: message {}", origin, i);
    if (!next_message(in, message, file)) break;
    if (i > 0) collector.add(read_node(message, file));  // The first is GlobalMetadata.
  }
  return collector.finish();
}

RankTrace read_chakra_json(const std::string& path, const TraceLimits& limits) {
  constexpr std::size_t kMost = 1'000'000'000;
  const nlohmann::json json = parse_json(read_unpacked(path, kMost), path, {kMost, limits.depth});
  const auto nodes = json.is_object() ? json.find("nodes") : json.end();
  if (!json.is_object() || nodes == json.end() || !nodes->is_array())
    throw Error(ErrorKind::usage, "no list \"nodes\" in it", path, "a Chakra trace in JSON is {\"nodes\": [...]}");
  if (!nodes->empty() && nodes->front().is_object() && !nodes->front().contains("type"))
    throw Error(ErrorKind::usage,
                "this is PyTorch's graph of operators on the host (ExecutionTraceObserver), which has no times", path,
                "import the profiler's trace of the same run, or link both with chakra_trace_link");
  Collector collector(path, limits);
  for (std::size_t i = 0; i < nodes->size(); ++i)
    collector.add(json_node((*nodes)[i], fmt::format("{}: /nodes/{}", path, i)));
  return collector.finish();
}

}  // namespace rehearse
