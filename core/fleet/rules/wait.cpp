// Nobody passes: the first job that cannot start holds back all behind it, of its queue where queues are apart.

#include "core/fleet/engine/pass.hpp"

namespace rehearse::fleet {

namespace {

class Wait final : public Rule {
 public:
  void look(Pass& pass) override {
    while (JobState* j = pass.next())
      if (pass.start(*j) != Tried::started) pass.set_aside_queue(*j);
  }
};

const bool registered_wait = rules().add(
    {"wait", "nobody passes a job that cannot start", {}, [](const Parameters&) { return std::make_unique<Wait>(); }});

}  // namespace

}  // namespace rehearse::fleet
