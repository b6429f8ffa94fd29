#include "core/serialise/serialise.hpp"

#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/config/json_file.hpp"
#include "core/program/body.hpp"
#include "core/program/enum_names.hpp"
#include "core/serialise/fields.hpp"

namespace rehearse {

namespace {

using nlohmann::json;

/// Lists of these are written as one array per field.
template <class T>
constexpr bool kInColumns = std::is_same_v<T, Entry> || std::is_same_v<T, Wait> || std::is_same_v<T, Mark> ||
                            std::is_same_v<T, Role::Persistent>;

constexpr std::array<std::string_view, 7> kTaskKinds{"compute", "collective", "p2p", "copy", "host", "input", "scalar"};
constexpr std::array<std::string_view, 5> kLayoutKinds{"replicate", "shard", "partial", "halo", "ragged"};
template <class Variant>
constexpr const auto& kinds_of() {
  if constexpr (std::is_same_v<Variant, TaskKind>)
    return kTaskKinds;
  else
    return kLayoutKinds;
}

template <class T>
bool is_default(const T& x, const T& standard) {
  if constexpr (std::equality_comparable<T>)
    return x == standard;
  else
    return false;
}
template <class T>
bool is_default(const std::vector<T>& x, const std::vector<T>&) {
  return x.empty();
}
template <class... T>
bool is_default(const std::variant<T...>&, const std::variant<T...>&) {
  return false;
}

/// Members of one class, so that each overload sees all others.
struct Encoder {
  template <class A, class B>
  static json encode(const std::pair<A, B>& p) {
    return json::array({encode(p.first), encode(p.second)});
  }
  template <class... T>
  static json encode(const std::variant<T...>& v) {
    return {{std::string(kinds_of<std::variant<T...>>()[v.index()]),
             std::visit([](const auto& x) { return encode(x); }, v)}};
  }
  static json encode(const ExprId& id) { return id.index; }
  static json encode(const AxisSet& axes) {
    json out = json::array();
    for (int a = 0; a < kAxisCount; ++a)
      if (axes.contains(static_cast<Axis>(a))) out.push_back(enum_name(static_cast<Axis>(a)));
    return out;
  }

  /// A constant is its number; a variable ["variable", "layer", index], with its expectation where it has one; an
  /// operation its name and operands.
  static json encode(const ExprPool& pool) {
    json out = json::array();
    for (const ExprPool::Node& n : pool.nodes()) {
      if (n.op == ExprOp::constant)
        out.push_back(n.value);
      else if (n.op == ExprOp::variable && n.args[1] == ExprPool::kOne)
        out.push_back({"variable", enum_name(n.var), n.value, n.args[0].index});
      else if (n.op == ExprOp::variable)
        out.push_back({"variable", enum_name(n.var), n.value});
      else
        out.push_back({enum_name(n.op), n.args[0].index, n.args[1].index, n.args[2].index});
    }
    return out;
  }
  static json encode(const Mesh& mesh) {
    return {{"islands", encode(mesh.islands())}, {"join", enum_name(mesh.join())}};
  }
  static json encode(const TaskGraph& graph) {
    json tasks = json::array(), after = json::array();
    for (const auto v : graph.vertices()) tasks.push_back(encode(graph[v]));
    for (const TaskGraph::Edge& e : graph.edges()) after.push_back({e.from, e.to});
    return {{"tasks", tasks}, {"edges", after}};
  }

  template <class T>
  static json encode(const T& x) {
    if constexpr (fields::Struct<T>) {
      json out = json::object();
      const T standard{};
      fields::each(fields::Of<T>{}, [&](std::string_view name, auto member) {
        if (!is_default(x.*member, standard.*member)) out[std::string(name)] = encode(x.*member);
      });
      return out;
    } else if constexpr (std::is_enum_v<T>) {
      return enum_name(x);
    } else {
      return x;
    }
  }

  template <class T>
  static json encode(const std::vector<T>& list) {
    if constexpr (kInColumns<T>) {
      json out = {{"count", list.size()}};
      const T standard{};
      fields::each(fields::Of<T>{}, [&](std::string_view name, auto member) {
        const auto plain = [&](const T& x) { return x.*member == standard.*member; };
        if (std::all_of(list.begin(), list.end(), plain)) return;
        json& column = out[std::string(name)] = json::array();
        for (const T& x : list) column.push_back(encode(x.*member));
      });
      return out;
    } else {
      json out = json::array();
      for (const T& x : list) out.push_back(encode(x));
      return out;
    }
  }
};

/// Of a list that has no column, as all of its entries are as a new one: what bounds others is their text.
constexpr std::size_t kMostDefaults = 1'000'000;

[[noreturn]] void fail(const std::string& at, const std::string& what) {
  throw Error(ErrorKind::usage, "program: " + what, at.empty() ? "/" : at, "give a file that this program wrote");
}

const json& item(const json& j, std::size_t i, const std::string& at) {
  if (!j.is_array() || i >= j.size()) fail(at, "a list is too short");
  return j[i];
}
/// `at` is the JSON path, for errors.
struct Decoder {
  template <class A, class B>
  static void decode(const json& j, std::pair<A, B>& p, const std::string& at) {
    decode(item(j, 0, at), p.first, at + "/0");
    decode(item(j, 1, at), p.second, at + "/1");
  }
  template <class... T>
  static void decode(const json& j, std::variant<T...>& v, const std::string& at) {
    if (!j.is_object() || j.size() != 1) fail(at, "expected an object with one key, the kind");
    const auto& kinds = kinds_of<std::variant<T...>>();
    const auto kind = static_cast<std::size_t>(std::find(kinds.begin(), kinds.end(), j.begin().key()) - kinds.begin());
    std::size_t i = 0;
    const auto take = [&]<class K>(std::type_identity<K>) {
      if (i++ == kind) decode(*j.begin(), v.template emplace<K>(), at + "/" + j.begin().key());
    };
    (take(std::type_identity<T>{}), ...);
    if (kind >= kinds.size()) fail(at, "unknown kind '" + j.begin().key() + "'");
  }
  static void decode(const json& j, ExprId& id, const std::string& at) { decode(j, id.index, at); }
  static void decode(const json& j, AxisSet& axes, const std::string& at) {
    std::vector<Axis> list;
    decode(j, list, at);
    for (const Axis a : list) axes.insert(a);
  }
  static void decode(const json& j, ExprPool& pool, const std::string& at) {
    std::vector<ExprPool::Node> nodes;
    for (std::size_t i = 0; i < j.size(); ++i) {
      const std::string here = at + "/" + std::to_string(i);
      const json& node = item(j, i, at);
      ExprPool::Node n;
      if (node.is_array()) {
        decode(item(node, 0, here), n.op, here);
        if (n.op == ExprOp::variable) {
          decode(item(node, 1, here), n.var, here);
          decode(item(node, 2, here), n.value, here);
          if (node.size() > 3) {
            decode(item(node, 3, here), n.args[0], here);
            n.args[1] = ExprPool::kOne;
          }
        } else {
          for (std::size_t a = 0; a < n.args.size(); ++a) decode(item(node, a + 1, here), n.args[a], here);
        }
      } else {
        decode(node, n.value, here);
      }
      nodes.push_back(n);
    }
    try {
      pool = ExprPool::from_nodes(std::move(nodes));
    } catch (const std::invalid_argument& e) {
      fail(at, e.what());
    }
  }
  static void decode(const json& j, Mesh& mesh, const std::string& at) {
    std::vector<Island> islands;
    Join join = Join::none;
    if (!j.is_object() || !j.contains("islands") || !j.contains("join") || j.size() != 2)
      fail(at, "expected islands and join");
    decode(j.at("islands"), islands, at + "/islands");
    decode(j.at("join"), join, at + "/join");
    try {
      mesh = Mesh(std::move(islands), join);
    } catch (const std::invalid_argument& e) {
      fail(at, e.what());
    }
  }
  static void decode(const json& j, TaskGraph& graph, const std::string& at) {
    if (!j.is_object() || !j.contains("tasks") || !j.contains("edges") || j.size() != 2)
      fail(at, "expected tasks and edges");
    std::vector<Task> tasks;
    std::vector<std::pair<std::size_t, std::size_t>> edges;
    decode(j.at("tasks"), tasks, at + "/tasks");
    decode(j.at("edges"), edges, at + "/edges");
    for (Task& t : tasks) graph.add(std::move(t));
    for (const auto& [from, to] : edges) {
      if (from >= tasks.size() || to >= tasks.size()) fail(at + "/edges", "an edge leaves the tasks");
      graph.add_edge(from, to);
    }
  }

  /// Calls `read(key, member)` for the fields present; other keys than `also` are refused.
  template <class T, class Read>
  static void decode_fields(const json& j, const std::string& at, std::string_view also, Read&& read) {
    if (!j.is_object()) fail(at, "expected an object");
    std::size_t known = j.contains(also) ? 1 : 0;
    fields::each(fields::Of<T>{}, [&](std::string_view name, auto member) {
      const auto found = j.find(name);
      if (found == j.end()) return;
      ++known;
      read(*found, member, at + "/" + std::string(name));
    });
    if (known == j.size()) return;
    for (const auto& item : j.items()) {
      const std::string& key = item.key();
      bool is_field = key == also;
      fields::each(fields::Of<T>{}, [&](std::string_view name, auto) { is_field |= key == name; });
      if (!is_field) fail(at, "unknown key '" + key + "'");
    }
  }

  template <class T>
  static void decode(const json& j, T& x, const std::string& at) {
    if constexpr (fields::Struct<T>) {
      const char* also = std::is_same_v<T, Program> ? "schema" : "";
      decode_fields<T>(j, at, also, [&](const json& value, auto member, const std::string& here) {
        decode(value, x.*member, here);
      });
    } else if constexpr (std::is_enum_v<T>) {
      if (!j.is_string() || !enum_value(j.get_ref<const std::string&>(), x)) fail(at, "unknown name " + j.dump());
    } else if constexpr (std::is_same_v<T, bool>) {
      if (!j.is_boolean()) fail(at, "expected true or false, not " + j.dump());
      x = j.get<bool>();
    } else if constexpr (std::is_same_v<T, std::string>) {
      if (!j.is_string()) fail(at, "expected text, not " + j.dump());
      x = j.get<std::string>();
    } else if constexpr (std::is_floating_point_v<T>) {
      if (!j.is_number()) fail(at, "expected a number, not " + j.dump());
      x = j.get<T>();
    } else {
      if (!j.is_number_integer()) fail(at, "expected a whole number, not " + j.dump());
      x = j.get<T>();
      if (json(x) != j) fail(at, "the number is out of range: " + j.dump());
    }
  }

  template <class T>
  static void decode(const json& j, std::vector<T>& list, const std::string& at) {
    if constexpr (kInColumns<T>) {
      const auto count = j.is_object() ? j.find("count") : j.end();
      if (count == j.end() || !count->is_number_unsigned()) fail(at, "expected columns with a count");
      std::size_t longest = 0;
      for (const auto& [key, column] : j.items()) longest = std::max(longest, column.is_array() ? column.size() : 0);
      if (j.size() > 1 && count->get<std::size_t>() != longest) fail(at, "columns of another length than the count");
      if (j.size() == 1 && count->get<std::size_t>() > kMostDefaults) fail(at, "more entries than a Program has");
      list.resize(count->get<std::size_t>());
      decode_fields<T>(j, at, "count", [&](const json& column, auto member, const std::string& here) {
        for (std::size_t i = 0; i < list.size(); ++i) decode(item(column, i, here), list[i].*member, here);
      });
    } else {
      if (!j.is_array()) fail(at, "expected a list");
      list.resize(j.size());
      for (std::size_t i = 0; i < j.size(); ++i) decode(j[i], list[i], at + "/" + std::to_string(i));
    }
  }
};

}  // namespace

std::string to_json(const Program& program) {
  json out = Encoder::encode(program);
  out["schema"] = kProgramSchema;
  return out.dump();
}

Program program_from_json(std::string_view text) {
  const json j = parse_json(text, "program");
  if (!j.is_object() || !j.contains("schema") || j.at("schema") != kProgramSchema)
    fail("/schema", "expected schema " + std::string(kProgramSchema));
  Program program;
  Decoder::decode(j, program, "");
  if (program.version != kProgramVersion)
    fail("/version",
         "version " + std::to_string(program.version) + ", but this program reads " + std::to_string(kProgramVersion));
  return program;
}

}  // namespace rehearse
