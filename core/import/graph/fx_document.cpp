// The JSON of rehearse_graph.py: names, operators, shapes and sizes of parameters.

#include <algorithm>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/config/object_reader.hpp"
#include "core/import/graph/fx_node.hpp"

namespace rehearse {
namespace {

std::vector<std::int64_t> fx_sizes(const nlohmann::json& list) {
  std::vector<std::int64_t> out;
  for (const nlohmann::json& v : list) {
    if (!v.is_number_integer() || v.get<std::int64_t>() < 0 || v.get<std::int64_t>() > (std::int64_t{1} << 40))
      throw Error(ErrorKind::usage, "sizes are whole numbers");
    out.push_back(v.get<std::int64_t>());
  }
  return out;
}

FxNode fx_node_of(ObjectReader& in) {
  FxNode n;
  n.out.name = in.string("name");
  n.out.op = in.string("op");
  n.out.inputs = in.strings("inputs");
  n.module = in.string("module", "");
  const auto object = [&](const char* key) {
    const nlohmann::json* found = in.has(key) ? in.raw(key) : nullptr;
    in.expect(key);
    return found != nullptr && found->is_object() ? *found : nlohmann::json::object();
  };
  n.attributes = object("attributes");
  n.options = object("options");
  in.expect("constants");
  const nlohmann::json* constants = in.has("constants") ? in.raw("constants") : nullptr;
  n.constants = constants != nullptr && constants->is_array() ? *constants : nlohmann::json::array();
  const nlohmann::json* shape = in.raw("shape");
  if (shape != nullptr && shape->is_array()) n.out.shape = fx_sizes(*shape);
  const nlohmann::json parameters = object("parameters");
  for (const auto& [name, sizes] : parameters.items()) n.parameters[name] = fx_sizes(sizes);
  if (n.out.op == "parameter") n.parameters["value"] = n.out.shape;
  for (const auto& [name, sizes] : n.parameters) n.out.parameters += elements_of(sizes);
  in.finish();
  return n;
}

}  // namespace

const nlohmann::json* FxNode::find(const std::string& key, std::size_t place) const {
  for (const nlohmann::json* in : {&attributes, &options})
    if (const auto at = in->find(key); at != in->end() && !at->is_null()) return &*at;
  if (place < constants.size() && !constants[place].is_null()) return &constants[place];
  return nullptr;
}

const std::vector<std::int64_t>& FxNode::parameter(const std::string& name) const {
  const auto at = parameters.find(name);
  if (at == parameters.end()) throw Error(ErrorKind::usage, fmt::format("a {} without '{}'", out.op, name));
  return at->second;
}

FxDocument read_fx_document(const nlohmann::json& document, const std::string& origin) {
  ObjectReader top(document, origin);
  FxDocument out;
  const std::vector<std::string> schemas{std::string(kGraphSchema)};
  (void)top.choice("schema", schemas);
  out.name = top.string("name", "network");
  (void)top.string("torch", "");
  ObjectReader parameters = top.object("parameters");
  std::map<std::string, std::vector<std::int64_t>> shapes;
  for (const std::string& name : parameters.keys()) out.parameters += elements_of(fx_sizes(*parameters.raw(name)));
  for (ObjectReader& in : top.objects("nodes")) {
    FxNode n;
    try {
      n = fx_node_of(in);
    } catch (Error& e) {
      if (e.where.empty()) e.where = fmt::format("{}: {}", origin, n.out.name);
      throw;
    }
    for (const std::string& from : n.out.inputs)
      if (!shapes.contains(from)) in.fail("inputs", fmt::format("nothing before it is called '{}'", from));
    if (!n.out.inputs.empty()) n.from = shapes.at(n.out.inputs.front());
    if (!shapes.try_emplace(n.out.name, n.out.shape).second)
      in.fail("name", fmt::format("two nodes are called '{}'", n.out.name));
    out.nodes.push_back(std::move(n));
  }
  top.finish();
  return out;
}

bool reads_tokens(const FxDocument& document) {
  return std::any_of(document.nodes.begin(), document.nodes.end(),
                     [](const FxNode& n) { return n.out.op == "Embedding" || n.out.op == "embedding"; });
}

}  // namespace rehearse
