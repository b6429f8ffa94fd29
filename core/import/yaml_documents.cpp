#include "core/import/yaml_documents.hpp"

#include <sstream>

#include <yaml-cpp/eventhandler.h>

namespace rehearse {

namespace {

/// Passes over everything, and sees that each document begins behind the one before.
class Progress final : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark& mark) override {
    if (mark.pos <= reached_) throw YAML::ParserException(mark, "what stands here belongs to nothing before it");
    reached_ = mark.pos;
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& /*mark*/, YAML::anchor_t /*anchor*/) override {}
  void OnAlias(const YAML::Mark& /*mark*/, YAML::anchor_t /*anchor*/) override {}
  void OnScalar(const YAML::Mark& /*mark*/, const std::string& /*tag*/, YAML::anchor_t /*anchor*/,
                const std::string& /*value*/) override {}
  void OnSequenceStart(const YAML::Mark& /*mark*/, const std::string& /*tag*/, YAML::anchor_t /*anchor*/,
                       YAML::EmitterStyle::value /*style*/) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark& /*mark*/, const std::string& /*tag*/, YAML::anchor_t /*anchor*/,
                  YAML::EmitterStyle::value /*style*/) override {}
  void OnMapEnd() override {}

 private:
  int reached_ = -1;
};

}  // namespace

std::vector<YAML::Node> yaml_documents(const std::string& text) {
  std::istringstream in(text);
  YAML::Parser parser(in);
  Progress progress;
  while (parser.HandleNextDocument(progress)) {}
  return YAML::LoadAll(text);
}

}  // namespace rehearse
