// Whoever can start does, in order: large jobs may starve.

#include "core/fleet/engine/pass.hpp"

namespace rehearse::fleet {

namespace {

class Skip final : public Rule {
 public:
  void look(Pass& pass) override {
    while (JobState* j = pass.next())
      if (pass.start(*j) != Tried::started) pass.set_aside(*j);
  }
};

const bool registered_skip = rules().add(
    {"skip", "whoever can start does, in order", {}, [](const Parameters&) { return std::make_unique<Skip>(); }});

}  // namespace

}  // namespace rehearse::fleet
