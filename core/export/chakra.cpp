// Chakra execution traces (mlcommons/chakra, schema/protobuf/et_def.proto): one protobuf file a rank, a node for each
// task of the step. Times are what the cost model gives each task alone; ASTRA-sim reads num_ops, tensor_size (of
// copies, too), comm_type, comm_size and pg_name.

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/export/setting_table.hpp"
#include "core/program/body.hpp"
#include "core/program/flops.hpp"
#include "core/program/operation_class.hpp"
#include "core/strategy/workload.hpp"
#include "core/trace/chakra_format.hpp"

namespace rehearse::exporting {

namespace {

constexpr double kMostNodes = 1e6;  // Beyond, one rank of each role: a node takes about 150 bytes.

// ---- protobuf, as far as it is needed

void varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}
void number(std::string& out, int field, std::uint64_t value) {
  varint(out, static_cast<std::uint64_t>(field) << 3);
  varint(out, value);
}
void text(std::string& out, int field, const std::string& value) {
  varint(out, static_cast<std::uint64_t>(field) << 3 | 2);
  varint(out, value.size());
  out += value;
}
void message(std::string& out, const std::string& body) {
  varint(out, body.size());
  out += body;
}

constexpr int kDouble = 3, kInt64 = 9, kBool = 27, kString = 29;  // AttributeProto's fields.

void attribute(std::string& node, const std::string& name, int field, std::uint64_t value) {
  std::string a;
  text(a, 1, name);
  number(a, field, value);
  text(node, 10, a);
}
void attribute(std::string& node, const std::string& name, double value) {
  std::string a;
  text(a, 1, name);
  varint(a, std::uint64_t{kDouble} << 3 | 1);
  const auto bits = std::bit_cast<std::uint64_t>(value);
  for (int shift = 0; shift < 64; shift += 8) a += static_cast<char>(bits >> shift & 0xff);
  text(node, 10, a);
}
void attribute(std::string& node, const std::string& name, const std::string& value) {
  std::string a;
  text(a, 1, name);
  text(a, kString, value);
  text(node, 10, a);
}

std::uint64_t comm_type(CollectiveOp op) {
  for (std::size_t i = 0; i < std::size(kChakraCollectives); ++i)
    if (kChakraCollectives[i] == name_of(op)) return i;
  return static_cast<std::uint64_t>(
      std::find(std::begin(kChakraCollectives), std::end(kChakraCollectives), "all_to_all") -
      std::begin(kChakraCollectives));
}

// ---- groups

/// Numbers from 1 on, by group and first member: of the groups of two ranks and more.
using GroupNumbers = std::map<std::pair<int, int>, int>;

GroupNumbers number_groups(const Program& p) {
  GroupNumbers out;
  for (int g = 0; g < static_cast<int>(p.groups.size()); ++g)
    for (int r = 0; r < p.mesh.ranks(); ++r) {
      const std::vector<int> members = p.mesh.members(nth(p.groups, g), r, p.exprs);
      if (members.size() > 1 && members.front() == r) out.emplace(std::pair(g, r), static_cast<int>(out.size()) + 1);
    }
  return out;
}

Json ranks_of_groups(const Program& p, const GroupNumbers& numbers) {
  Json out = Json::object();
  for (const auto& [group, number] : numbers)
    out[fmt::format("{}", number)] = p.mesh.members(nth(p.groups, group.first), group.second, p.exprs);
  return out;
}

// ---- the step of one rank

using Ids = std::vector<std::uint64_t>;

class RankWriter {
 public:
  RankWriter(const ExportInput& in, const GroupNumbers& groups, int rank)
      : in_(in),
        p_(in.program),
        groups_(groups),
        rank_(rank),
        role_(nth(p_.roles, nth(p_.role_of_rank, rank))),
        at_(p_.mesh.context(rank)) {
    at_.tables = &p_.tables;
    at_.microbatches = role_.microbatches > 0 ? role_.microbatches : p_.microbatches;
  }

  std::string run() {
    std::string metadata;
    text(metadata, 1, "0.0.4");
    message(out_, metadata);
    events_.resize(static_cast<std::size_t>(role_.events));
    for (const Entry& e : role_.step) call(e);
    return std::move(out_);
  }

 private:
  void call(const Entry& e) {
    at_.layer = e.layer, at_.chunk = e.chunk, at_.microbatch = e.microbatch, at_.pass = e.pass, at_.copy = e.copy;
    if (p_.exprs.evaluate(e.predicate, at_) == 0) return;
    const Body& body = nth(p_.bodies, e.body);
    std::vector<Ids> made(body.graph.size());  // Of a skipped task: what it would have waited for.
    std::set<StreamId> begun;
    for (const auto v : body.graph.vertices()) {
      const Task& t = body.graph[v];
      const StreamId stream = t.stream;
      Ids after = last_[stream];
      for (const std::size_t before : body.graph.before(v)) append(after, made[before]);
      for (std::int32_t w = 0; w < e.wait_count; ++w) {
        const Wait& wait = nth(role_.waits, e.first_wait + w);
        if (wait.steps_back == 0 &&
            (wait.task < 0 ? !begun.contains(stream) : wait.task == static_cast<std::int32_t>(v)))
          append(after, nth(events_, wait.event));
      }
      begun.insert(stream);
      if (p_.exprs.evaluate(t.predicate, at_) == 0 || stays_on_rank(t)) {
        made[v] = after;
        continue;
      }
      made[v] = {write_chakra(t, body, after)};
      last_[stream] = made[v];
    }
    if (e.record >= 0)
      for (const Ids& ids : made) append(nth(events_, e.record), ids);
    for (std::int32_t m = 0; m < e.mark_count; ++m) {
      const Mark& mark = nth(role_.marks, e.first_mark + m);
      nth(events_, mark.event) = nth(made, mark.task);
    }
  }

  /// Whether the task is a collective of one rank, which moves nothing. A call without a group is one of all ranks to
  /// ASTRA-sim (@518bd51, Workload::extract_comm_group).
  [[nodiscard]] bool stays_on_rank(const Task& t) const {
    const auto* g = std::get_if<CollectiveTask>(&t.kind);
    return g != nullptr && p_.mesh.members(nth(p_.groups, g->group), rank_, p_.exprs).size() < 2;
  }

  static void append(Ids& to, const Ids& more) { to.insert(to.end(), more.begin(), more.end()); }

  std::uint64_t write_chakra(const Task& t, const Body& body, Ids after) {
    const std::uint64_t id = next_++;
    const PricedTask price = in_.cost.price(p_, t, body, rank_, at_);
    std::string node;
    number(node, 1, id);
    text(node, 2, fmt::format("{} block {} microbatch {}", t.name, at_.layer, at_.microbatch));
    number(node, 3, static_cast<std::uint64_t>(type_of(t)));
    std::sort(after.begin(), after.end());
    after.erase(std::unique(after.begin(), after.end()), after.end());
    for (const std::uint64_t a : after) number(node, 5, a);
    number(node, 7, static_cast<std::uint64_t>(std::llround(price.time.value() * 1e6)));
    attribute(node, std::string(kChakraDuration), price.time.value() * 1e9);
    attribute(node, "is_cpu_op", kBool, on_host(t) ? 1 : 0);
    attribute(node, "stream", kInt64, static_cast<std::uint64_t>(t.stream));
    details(node, t, body);
    message(out_, node);
    return id;
  }

  [[nodiscard]] static bool on_host(const Task& t) {
    return std::holds_alternative<HostTask>(t.kind) || std::holds_alternative<InputTask>(t.kind) ||
           std::holds_alternative<ScalarTask>(t.kind);
  }
  [[nodiscard]] static ChakraNode type_of(const Task& t) {
    if (std::holds_alternative<CollectiveTask>(t.kind)) return ChakraNode::comm_coll;
    if (const auto* m = std::get_if<P2pTask>(&t.kind))
      return m->direction == P2pTask::Direction::send ? ChakraNode::comm_send : ChakraNode::comm_recv;
    if (std::holds_alternative<CopyTask>(t.kind)) return ChakraNode::mem_store;
    return ChakraNode::comp;
  }

  [[nodiscard]] double operand_bytes(const Task& t, const Body& body) const {
    double out = 0;
    for (const Operand& o : t.operands) out += p_.local_bytes(nth(p_.tensors, nth(body.formals, o.formal).like), at_);
    return out;
  }

  void details(std::string& node, const Task& t, const Body& body) {
    const auto whole = [](double v) { return static_cast<std::uint64_t>(std::llround(v)); };
    if (const auto* c = std::get_if<ComputeTask>(&t.kind)) {
      attribute(node, std::string(kChakraClass), std::string(rehearse::name_of(class_of_task(t))));
      attribute(node, "num_ops", kInt64, whole(matmul_flops(p_, *c, at_).value()));
      attribute(node, "tensor_size", kInt64, whole(operand_bytes(t, body)));
    } else if (const auto* g = std::get_if<CollectiveTask>(&t.kind)) {
      const std::vector<int> members = p_.mesh.members(nth(p_.groups, g->group), rank_, p_.exprs);
      const double bytes = CostModel::collective_bytes(p_, t, body, at_).value(),
                   parts = chakra_puts_in_part(name_of(g->op)) ? static_cast<double>(members.size()) : 1.0;
      attribute(node, "comm_type", kInt64, comm_type(g->op));
      attribute(node, "comm_size", kInt64, whole(bytes / parts));
      attribute(node, std::string(kChakraGroupSize), kInt64, members.size());
      attribute(node, "pg_name", fmt::format("{}", groups_.at({g->group, members.front()})));
      attribute(node, "pg_desc", fmt::format("{}.{}", nth(p_.groups, g->group).name, members.front()));
    } else if (const auto* m = std::get_if<P2pTask>(&t.kind)) {
      const std::vector<int> members = p_.mesh.members(nth(p_.groups, m->group), rank_, p_.exprs);
      const auto peer =
          static_cast<std::uint64_t>(members.at(static_cast<std::size_t>(p_.exprs.evaluate(m->peer, at_))));
      const bool sends = m->direction == P2pTask::Direction::send;
      attribute(node, "comm_src", kInt64, sends ? static_cast<std::uint64_t>(rank_) : peer);
      attribute(node, "comm_dst", kInt64, sends ? peer : static_cast<std::uint64_t>(rank_));
      attribute(node, "comm_tag", kInt64, static_cast<std::uint64_t>(m->edge));
      attribute(node, "comm_size", kInt64, whole(operand_bytes(t, body)));
    } else if (std::holds_alternative<CopyTask>(t.kind)) {
      attribute(node, "tensor_size", kInt64, whole(operand_bytes(t, body) / 2));  // Read, and written.
    }
  }

  const ExportInput& in_;
  const Program& p_;
  const GroupNumbers& groups_;
  int rank_;
  const Role& role_;
  ExprContext at_;
  std::string out_;
  std::uint64_t next_ = 0;
  std::map<StreamId, Ids> last_;
  std::vector<Ids> events_;
};

std::vector<int> ranks_of(const Program& p) {
  std::vector<int> out;
  double nodes = 0;
  for (const std::int32_t role : p.role_of_rank)
    for (const Entry& e : nth(p.roles, role).step) nodes += static_cast<double>(nth(p.bodies, e.body).graph.size());
  if (nodes <= kMostNodes) {
    for (int r = 0; r < p.mesh.ranks(); ++r) out.push_back(r);
    return out;
  }
  std::set<std::int32_t> seen;
  for (int r = 0; r < p.mesh.ranks(); ++r)
    if (seen.insert(nth(p.role_of_rank, r)).second) out.push_back(r);
  return out;
}

const std::vector<Rule>& rules_chakra() {
  static const std::vector<Rule> table{{"strategy", "nodes and their dependencies", {}}};
  return table;
}

Exported write_chakra(const ExportInput& in) {
  Exported out;
  const std::vector<int> ranks = ranks_of(in.program);
  const GroupNumbers groups = number_groups(in.program);
  for (const int rank : ranks)
    out.files.push_back({fmt::format("{}.{}.et", in.name, rank), RankWriter(in, groups, rank).run(), false, true});
  out.files.push_back({std::string(kChakraGroups), ranks_of_groups(in.program, groups).dump() + "\n", false, false});
  out.settings.push_back({"strategy", "", "nodes", fmt::format("{} ranks", ranks.size())});
  out.left_out.push_back(
      {"cluster", in.cluster.name(), "a trace says what runs, not on what: --to simgrid writes that"});
  out.left_out.push_back({"model", in.workload.network.name, "a trace holds the operations that it comes to"});
  for (const char* group : {"training", "strategy"}) out.left_out.push_back({group, "", "likewise"});
  if (static_cast<int>(ranks.size()) < in.program.mesh.ranks())
    out.notes.push_back(fmt::format("{} of {} ranks are written, one of each role: the others of a role do the same",
                                    ranks.size(), in.program.mesh.ranks()));
  return out;
}

[[maybe_unused]] const bool entered_chakra =
    enter("chakra", "Chakra execution traces of a step, a file per rank", rules_chakra(), write_chakra);

}  // namespace

}  // namespace rehearse::exporting
