#include "core/api/session/exported.hpp"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/api/build_info.hpp"
#include "core/base/index.hpp"
#include "core/price/memory_rule.hpp"
#include "core/price/stage_memory.hpp"
#include "core/strategy/workload.hpp"

namespace rehearse {

namespace {

Bytes host_memory(const MemoryReport& memory) {
  Bytes out;
  for (const StageMemory& stage : memory.stages)
    out = max(out, nth(stage.memory.peak_by_space, MemorySpace::pinned_host) +
                       nth(stage.memory.peak_by_space, MemorySpace::host));
  return out;
}

/// Throws Error (usage) for what the target's software cannot do: of the release that the scenario names, else of that
/// which the target writes for.
void check_abilities(const Session& session, const std::string& target) {
  const std::string usual = framework_of_target(target);
  if (usual.empty()) return;
  const Frameworks all = Frameworks::load(session.data.frameworks());
  const Framework& written = all.find(usual);
  const Framework& used = session.framework && session.framework->name == written.name ? *session.framework : written;
  const std::vector<Ability> missing = lacking(used, session.scenario);
  if (missing.empty()) return;
  std::vector<std::string> reasons;
  for (const Ability& a : missing) reasons.push_back(fmt::format("{} {} ({})", a.kind, a.name, a.source.text));
  throw Error(
      ErrorKind::usage, fmt::format("{} cannot do {}", used.id(), fmt::join(reasons, ", ")), session.scenario.origin,
      fmt::format("change the plan, or its framework; 'rehearse explain framework:{}' says what it can do", used.id()));
}

/// Targets in the order in which they are tried.
std::vector<std::string> targets_for(const Session& session) {
  std::vector<std::string> own, others, launchers{"slurm"};
  for (const std::string& target : exporters().names()) {
    const std::string written = framework_of_target(target);
    if (written.empty()) continue;
    const bool same = session.framework && written.substr(0, written.find('@')) == session.framework->name;
    (same ? own : others).push_back(target);
  }
  own.insert(own.end(), others.begin(), others.end());
  own.insert(own.end(), launchers.begin(), launchers.end());
  return own;
}

}  // namespace

std::string job_name(const std::string& scenario) {
  std::string out;
  for (const char c : std::filesystem::path(scenario).stem().string())
    out += std::isalnum(static_cast<unsigned char>(c)) != 0
               ? static_cast<char>(std::tolower(static_cast<unsigned char>(c)))
               : '-';
  constexpr std::size_t kLongest = 40;
  out = out.substr(0, kLongest);
  while (!out.empty() && out.back() == '-') out.pop_back();
  while (!out.empty() && std::isalpha(static_cast<unsigned char>(out.front())) == 0) out.erase(0, 1);
  return out.empty() ? "plan" : out;
}

Exported exported(const Session& session, const Program& program, const std::string& target) {
  const CostModel cost = session.cost_model();
  const MemoryReport memory = memory_report(program, session.cluster, MemoryRule(session.cluster));
  std::set<std::string> by_profile;
  for (const TakenFact& t : session.taken)
    if (!t.stated) by_profile.insert(t.fact.key);
  const ExportInput input{job_name(session.scenario.origin),
                          session.scenario,
                          session.workload,
                          session.cluster,
                          program,
                          cost,
                          decoder_stack(session.scenario, session.data.models()),
                          host_memory(memory),
                          rehearse_version(),
                          session.data.models(),
                          std::move(by_profile)};
  Exported out = exporters().at(target).value(input);
  check_abilities(session, target);  // After what no framework of the target's kind could do.
  return out;
}

std::string target_that_takes(const Session& session, const Program& program) {
  for (const std::string& target : targets_for(session)) try {
      (void)exported(session, program, target);
      return target;
    } catch (const Error&) {  // The next one may.
    }
  return {};
}

}  // namespace rehearse
