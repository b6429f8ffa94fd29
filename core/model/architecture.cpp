#include "core/model/architecture.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/model/images/layer_list.hpp"
#include "core/model/network_check.hpp"

namespace rehearse {
namespace {

ObjectReader reader_of(const nlohmann::json& config, const std::string& origin, const std::string& path) {
  ObjectReader in(config, origin, path);
  in.take_null_as_absent();
  return in;
}

bool is_known(const nlohmann::json& model_type) {
  if (!model_type.is_string()) return false;
  const auto name = model_type.get<std::string>();
  const auto names = architectures().names();
  return refused_architectures().contains(name) || std::find(names.begin(), names.end(), name) != names.end();
}

/// The part of a model of images and text that is a stack of layers on tokens: its configuration, and where that is.
struct TextPart {
  nlohmann::json config;
  std::string path;
  std::vector<std::string> notes;
};

TextPart text_part(const nlohmann::json& config, const std::string& path) {
  const auto text = config.is_object() ? config.find("text_config") : config.end();
  if (!config.is_object() || text == config.end() || !text->is_object() ||
      is_known(config.value("model_type", nlohmann::json())) || !is_known(text->value("model_type", nlohmann::json())))
    return {config, path, {}};
  TextPart out{*text, path + "/text_config", {}};
  for (const char* shared : {"tie_word_embeddings", "merged_projections"})
    if (const auto at = config.find(shared); at != config.end()) out.config.emplace(shared, *at);
  std::string others;
  for (const auto& [key, value] : config.items())
    if (value.is_object() && key != "text_config" && key.ends_with("_config") && key != "quantization_config")
      others += (others.empty() ? "" : ", ") + key;
  out.notes.push_back(others.empty() ? "only the text's part is built"
                                     : "only the text's part is built, without " + others);
  return out;
}

const Architecture& architecture_of(ObjectReader& in) {
  const auto valid = architectures().names();
  const nlohmann::json* type = in.raw("model_type");
  if (const auto& refused = refused_architectures(); type != nullptr && type->is_string())
    if (const auto at = refused.find(type->get<std::string>()); at != refused.end())
      in.fail("model_type", "its layers need " + at->second,
              "no operator here computes that: simulate a model of another family of its size");
  return architectures().at(in.choice("model_type", valid)).value;
}

}  // namespace

Registry<Architecture>& architectures() {
  static Registry<Architecture> registry("model type");
  return registry;
}

std::map<std::string, std::string>& refused_architectures() {
  static std::map<std::string, std::string> refused;
  return refused;
}

Architecture decoder_architecture(TransformerConfig (*read)(ObjectReader&),
                                  Network (*build)(const TransformerConfig&)) {
  const auto checked = [read](ObjectReader& in) {
    TransformerConfig config = read(in);
    config.model_type = in.string("model_type");
    check(config, in);
    return config;
  };
  return {.build = [=](ObjectReader& in) { return build(checked(in)); }, .read = checked};
}

Network build_network(const nlohmann::json& config, const std::string& origin, const std::string& name,
                      const std::string& path) {
  const bool list = is_layer_list(config);
  const TextPart part = list ? TextPart{config, path, {}} : text_part(config, path);
  ObjectReader in = reader_of(part.config, origin, part.path);
  Network network = list ? build_layer_list(in, name.empty() ? "network" : name) : architecture_of(in).build(in);
  network.notes.insert(network.notes.begin(), part.notes.begin(), part.notes.end());
  if (!list)
    for (std::string& note : notes_on_unread(in)) network.notes.push_back(std::move(note));
  network.name = !name.empty() ? name : list ? network.name : in.string("model_type");
  validate(network);
  return network;
}

TransformerConfig parse_hf_config(const nlohmann::json& config, const std::string& origin) {
  const TextPart part = text_part(config, {});
  ObjectReader in = reader_of(part.config, origin, part.path);
  const auto& read = architecture_of(in).read;
  if (!read) in.fail("model_type", "this needs a model that is a stack of equal decoder layers");
  return read(in);
}

}  // namespace rehearse
