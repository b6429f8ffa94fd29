#include "core/model/architecture.hpp"

#include <nlohmann/json.hpp>

#include "core/model/images/layer_list.hpp"
#include "core/model/network_check.hpp"

namespace rehearse {
namespace {

ObjectReader reader_of(const nlohmann::json& config, const std::string& origin, const std::string& path) {
  ObjectReader in(config, origin, path);
  in.take_null_as_absent();
  return in;
}

const Architecture& architecture_of(ObjectReader& in) {
  const auto valid = architectures().names();
  return architectures().at(in.choice("model_type", valid)).value;
}

}  // namespace

Registry<Architecture>& architectures() {
  static Registry<Architecture> registry("model type");
  return registry;
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
  ObjectReader in = reader_of(config, origin, path);
  const bool list = is_layer_list(config);
  Network network = list ? build_layer_list(in, name.empty() ? "network" : name) : architecture_of(in).build(in);
  network.name = !name.empty() ? name : list ? network.name : in.string("model_type");
  validate(network);
  return network;
}

TransformerConfig parse_hf_config(const nlohmann::json& config, const std::string& origin) {
  ObjectReader in = reader_of(config, origin, {});
  const auto& read = architecture_of(in).read;
  if (!read) in.fail("model_type", "this needs a model that is a stack of equal decoder layers");
  return read(in);
}

}  // namespace rehearse
