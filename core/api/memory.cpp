#include "core/api/memory.hpp"

#include "core/api/session/make_it_fit.hpp"
#include "core/api/session/observed.hpp"
#include "core/api/session/session.hpp"

namespace rehearse {

MemoryAnswer memory(const Session& session, const Program& program, bool suggest) {
  const MemoryRule rule(session.cluster);
  MemoryAnswer answer{session.head(program), memory_report(program, session.cluster, rule)};
  if (PeakRange range = peak_range_of(session); range.rows > 0) answer.memory.range = std::move(range);
  if (suggest && !answer.fits()) answer.memory.suggestion = cheapest_change(session, rule);
  if (answer.memory.suggestion)  // As the step is predicted elsewhere: with the known bias applied.
    answer.memory.suggestion->step_time *= range_of(session).middle;
  return answer;
}

MemoryAnswer memory(const Scenario& scenario, const MemoryOptions& options) {
  const Session session = open_session(scenario, {.data = options.data});
  return memory(session, session.lowered(), options.suggest);
}

Document to_document(const MemoryAnswer& answer) { return memory_document(answer.head, answer.memory); }
std::string to_json(const MemoryAnswer& answer) { return to_document(answer).json; }

}  // namespace rehearse
