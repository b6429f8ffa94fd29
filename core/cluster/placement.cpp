#include "core/cluster/placement.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/config/json_file.hpp"

namespace rehearse {
namespace {

constexpr int kNone = -1;

/// kNone where the text is no whole number.
int number(std::string_view text) {
  int value = kNone;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  return failed == std::errc{} && end == text.data() + text.size() && value >= 0 ? value : kNone;
}

/// Devices as they are given out; no device twice.
class Placement {
 public:
  explicit Placement(const Cluster& cluster) : cluster_(cluster) {}

  void add(DeviceId device, const std::string& where) {
    const auto [first, fresh] = rank_of_.emplace(device, static_cast<int>(devices_.size()));
    if (!fresh)
      refuse_at(where, fmt::format("ranks {} and {} are both on {}", first->second, devices_.size(), name_of(device)),
                "each rank has a device of its own");
    devices_.push_back(device);
  }

  [[nodiscard]] DeviceId device(int index, const std::string& where) const {
    if (index >= cluster_.device_count())
      refuse_at(where,
                fmt::format("device {} does not exist: the cluster has 0 to {}", index, cluster_.device_count() - 1));
    return index;
  }
  [[nodiscard]] DeviceId device(NodeId node, int local, const std::string& where) const {
    const int count = cluster_.machine(node).gpus;
    if (local >= count) refuse_at(where, fmt::format("node{} has no device {}: it has {}", node, local, count));
    return cluster_.first_device(node) + local;
  }
  [[nodiscard]] NodeId node(std::string_view name, const std::string& where) const {
    const int index = name.starts_with("node") ? number(name.substr(4)) : kNone;
    if (index == kNone || index >= cluster_.node_count())
      refuse_at(where, fmt::format("'{}' is no node of the cluster", name),
                fmt::format("nodes are node0 to node{}", cluster_.node_count() - 1));
    return index;
  }
  /// "17" or "node3/GPU5".
  [[nodiscard]] DeviceId named(std::string_view name, const std::string& where) const {
    if (const int index = number(name); index != kNone) return device(index, where);
    const std::size_t slash = name.find('/');
    if (slash == std::string_view::npos)
      refuse_at(where, fmt::format("'{}' is no device", name), "write a device number, or node3/GPU5");
    const NodeId at = node(name.substr(0, slash), where);
    const std::string_view local = name.substr(slash + 1);
    const auto& vertices = cluster_.machine(at).vertices;
    for (int d = 0; d < cluster_.machine(at).gpus; ++d)
      if (nth(vertices, d).name == local) return cluster_.first_device(at) + d;
    refuse_at(where, fmt::format("node{} has no device '{}'", at, local),
              fmt::format("it has {} to {}", vertices[0].name, nth(vertices, cluster_.machine(at).gpus - 1).name));
  }

  /// `slots` more devices of a node; kNone: all that are left.
  void add_slots(NodeId node, int slots, const std::string& where) {
    int& used = used_[node];
    const int count = cluster_.machine(node).gpus;
    const int wanted = slots == kNone ? count - used : slots;
    if (used + wanted > count)
      refuse_at(where, fmt::format("{} slots on node{}, which has {} devices", used + wanted, node, count));
    for (int i = 0; i < wanted; ++i) add(cluster_.first_device(node) + used++, where);
  }

  std::vector<DeviceId> finish(const std::string& origin) {
    if (devices_.empty()) refuse_at(origin, "no rank has a device");
    return std::move(devices_);
  }

 private:
  [[nodiscard]] std::string name_of(DeviceId d) const {
    return fmt::format("node{}/{}", cluster_.node_of(d),
                       nth(cluster_.machine(cluster_.node_of(d)).vertices, cluster_.local_index(d)).name);
  }

  const Cluster& cluster_;
  std::vector<DeviceId> devices_;
  std::map<DeviceId, int> rank_of_;
  std::map<NodeId, int> used_;
};

std::vector<DeviceId> from_json(std::string_view text, const std::string& origin, const Cluster& cluster) {
  const nlohmann::json list = parse_json(text, origin);
  if (!list.is_array()) refuse_at(origin + ": /", "wanted an array of devices in rank order");
  Placement placement(cluster);
  for (std::size_t r = 0; r < list.size(); ++r) {
    const std::string where = fmt::format("{}: /{}", origin, r);
    const nlohmann::json& entry = list[r];
    const auto whole = [&](const nlohmann::json& v) {
      return v.is_number_integer() && v.get<double>() >= 0 && v.get<double>() < 2e9;
    };
    if (whole(entry))
      placement.add(placement.device(entry.get<int>(), where), where);
    else if (entry.is_string())
      placement.add(placement.named(entry.get<std::string>(), where), where);
    else if (entry.is_object() && entry.size() == 2 && entry.contains("node") && entry.contains("gpu") &&
             whole(entry["node"]) && whole(entry["gpu"]))
      placement.add(placement.device(placement.node(fmt::format("node{}", entry["node"].get<int>()), where),
                                     entry["gpu"].get<int>(), where),
                    where);
    else
      refuse_at(where, "wanted a device number, \"node3/GPU5\" or {\"node\": 3, \"gpu\": 5}");
  }
  return placement.finish(origin);
}

std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> words;
  std::string word;
  for (const char c : line.substr(0, line.find('#'))) {
    if (c != ' ' && c != '\t' && c != '\r')
      word += c;
    else if (!word.empty())
      words.push_back(std::move(word)), word.clear();
  }
  if (!word.empty()) words.push_back(std::move(word));
  return words;
}

/// One form of line; the first line of a file decides which.
class Form {
 public:
  explicit Form(const Cluster& cluster) : placement_(cluster) {}
  virtual ~Form() = default;
  virtual void take(const std::vector<std::string>& words, const std::string& where) = 0;
  virtual std::vector<DeviceId> finish(const std::string& origin) { return placement_.finish(origin); }

 protected:
  Placement placement_;
};

class DeviceList final : public Form {
  using Form::Form;
  void take(const std::vector<std::string>& words, const std::string& where) override {
    if (words.size() != 1) refuse_at(where, "wanted one device: a number, or node3/GPU5");
    placement_.add(placement_.named(words[0], where), where);
  }
};

class RankFile final : public Form {
  using Form::Form;
  void take(const std::vector<std::string>& words, const std::string& where) override {
    const std::size_t equals = words.size() == 3 ? words[1].find('=') : std::string::npos;
    const int rank = equals == std::string::npos ? kNone : number(std::string_view(words[1]).substr(0, equals));
    const int slot =
        words.size() == 3 && words[2].starts_with("slot=") ? number(std::string_view(words[2]).substr(5)) : kNone;
    if (words[0] != "rank" || rank == kNone || slot == kNone)
      refuse_at(where, "wanted a line such as 'rank 0=node3 slot=5'");
    const NodeId node = placement_.node(std::string_view(words[1]).substr(equals + 1), where);
    if (!lines_.emplace(rank, Line{placement_.device(node, slot, where), where}).second)
      refuse_at(where, fmt::format("rank {} is named twice", rank));
  }
  std::vector<DeviceId> finish(const std::string& origin) override {
    int next = 0;
    for (const auto& [rank, line] : lines_) {
      if (rank != next) refuse_at(origin, fmt::format("rank {} is missing", next));
      placement_.add(line.device, line.where);
      ++next;
    }
    return placement_.finish(origin);
  }
  struct Line {
    DeviceId device;
    std::string where;
  };
  std::map<int, Line> lines_;
};

class HostFile final : public Form {
  using Form::Form;
  void take(const std::vector<std::string>& words, const std::string& where) override {
    std::string host = words[0];
    int slots = kNone;
    const auto take_slots = [&](std::string_view text) {
      slots = number(text);
      if (slots <= 0) refuse_at(where, fmt::format("'{}' is no number of slots", text));
    };
    if (const std::size_t colon = host.find(':'); colon != std::string::npos) {
      take_slots(std::string_view(host).substr(colon + 1));
      host.resize(colon);
    }
    for (std::size_t i = 1; i < words.size(); ++i) {
      if (words[i].starts_with("slots="))
        take_slots(std::string_view(words[i]).substr(6));
      else if (!words[i].starts_with("max_slots=") && !words[i].starts_with("max-slots="))
        refuse_at(where, fmt::format("'{}' is not understood", words[i]), "a line is a node, then slots=N");
    }
    for (const NodeId node : nodes(host, where)) placement_.add_slots(node, slots, where);
  }

  /// "node3", or "node[0-3,7]" as Slurm writes it.
  [[nodiscard]] std::vector<NodeId> nodes(const std::string& host, const std::string& where) const {
    const std::size_t open = host.find('[');
    if (open == std::string::npos) return {placement_.node(host, where)};
    if (host.back() != ']') refuse_at(where, fmt::format("'{}' is no list of nodes", host), "example: node[0-3,7]");
    const std::string prefix = host.substr(0, open), list = host.substr(open + 1, host.size() - open - 2);
    std::vector<NodeId> out;
    for (std::size_t begin = 0; begin <= list.size();) {
      const std::size_t end = std::min(list.find(',', begin), list.size());
      const std::string piece = list.substr(begin, end - begin);
      const std::size_t dash = piece.find('-');
      const NodeId first = placement_.node(prefix + piece.substr(0, dash), where);
      const NodeId last = dash == std::string::npos ? first : placement_.node(prefix + piece.substr(dash + 1), where);
      if (last < first) refuse_at(where, fmt::format("'{}' is no range of nodes", piece));
      for (NodeId n = first; n <= last; ++n) out.push_back(n);
      begin = end + 1;
    }
    return out;
  }
};

std::unique_ptr<Form> form_of(const std::vector<std::string>& words, const Cluster& cluster) {
  if (words[0] == "rank") return std::make_unique<RankFile>(cluster);
  if (number(words[0]) != kNone || words[0].find('/') != std::string::npos)
    return std::make_unique<DeviceList>(cluster);
  return std::make_unique<HostFile>(cluster);
}

}  // namespace

std::vector<DeviceId> read_placement(std::string_view text, const std::string& origin, const Cluster& cluster) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && (text[first] == '[' || text[first] == '{'))
    return from_json(text, origin, cluster);
  std::unique_ptr<Form> form;
  int line = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const auto words = words_of(text.substr(begin, end - begin));
    begin = end + 1;
    ++line;
    if (words.empty()) continue;
    if (!form) form = form_of(words, cluster);
    form->take(words, fmt::format("{}:{}", origin, line));
  }
  if (!form) refuse_at(origin, "the file names no device");
  return form->finish(origin);
}

std::vector<DeviceId> first_devices(const Cluster& cluster, int count, const std::string& where) {
  std::vector<DeviceId> out;
  for (NodeId n = 0; n < cluster.node_count(); ++n) {
    if (const int has = cluster.machine(n).gpus; has < count)
      throw Error(ErrorKind::usage,
                  fmt::format("{} GPUs of each node, but {} has {}", count, cluster.machine(n).id, has), where,
                  fmt::format("1 to {}", has));
    for (int i = 0; i < count; ++i) out.push_back(cluster.first_device(n) + i);
  }
  return out;
}

}  // namespace rehearse
