#include "gpu_backend/train/launch.hpp"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "gpu_backend/communicate/net/rendezvous.hpp"

namespace rehearse {

namespace {

constexpr int kDefaultPort = 29500;  // torchrun's.

int number(const Variables& variables, const std::string& name, int least) {
  const auto text = variables(name);
  if (!text)
    throw Error(ErrorKind::usage, fmt::format("{} is not set", name), "--ranks-from-env",
                "it is set together with the other variables of the launcher");
  int value = 0;
  const auto [end, failed] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (failed != std::errc{} || end != text->data() + text->size() || value < least)
    throw Error(ErrorKind::usage, fmt::format("{}='{}' is not a whole number from {} on", name, *text, least),
                "--ranks-from-env");
  return value;
}

struct Names {
  const char *rank, *ranks, *local_ranks, *host, *local_rank;
};
constexpr Names kLaunchers[] = {
    {"RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", nullptr, "LOCAL_RANK"},
    {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_NTASKS_PER_NODE", "SLURM_LAUNCH_NODE_IPADDR", "SLURM_LOCALID"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", nullptr,
     "OMPI_COMM_WORLD_LOCAL_RANK"}};

std::string host_of(const Variables& variables, const Names& names, const Place& place) {
  if (const auto host = variables("MASTER_ADDR")) return *host;
  if (names.host != nullptr)
    if (const auto host = variables(names.host)) return *host;
  if (place.local_ranks == place.ranks) return "127.0.0.1";
  throw Error(ErrorKind::usage, "MASTER_ADDR is not set", "--ranks-from-env",
              "set it to the address of rank 0's machine");
}

std::string run_id_of(const Variables& variables) {
  std::string out;
  if (const auto own = variables("REHEARSE_RUN_ID")) {
    out = *own;
  } else if (const auto torchrun = variables("TORCHELASTIC_RUN_ID")) {
    out = "torchrun " + *torchrun;
  } else if (const auto job = variables("SLURM_JOB_ID")) {
    out = fmt::format("slurm {}.{}", *job, variables("SLURM_STEP_ID").value_or(""));
  } else if (const auto name = variables("PMIX_NAMESPACE")) {
    out = "pmix " + *name;
  }
  if (out.size() > net::kLongestRunId)
    throw Error(ErrorKind::usage,
                fmt::format("the run's id has {} bytes; at most {} are taken", out.size(), net::kLongestRunId),
                "--ranks-from-env", "set REHEARSE_RUN_ID to a shorter one");
  return out;
}

/// This process's environment, with the variables of a Place in front: the first of a name counts.
std::vector<std::string> environment_of(int rank, int ranks, int port, const std::string& run_id) {
  std::vector<std::string> out{fmt::format("RANK={}", rank),
                               fmt::format("WORLD_SIZE={}", ranks),
                               fmt::format("LOCAL_WORLD_SIZE={}", ranks),
                               fmt::format("LOCAL_RANK={}", rank),
                               "MASTER_ADDR=127.0.0.1",
                               fmt::format("MASTER_PORT={}", port),
                               fmt::format("REHEARSE_RUN_ID={}", run_id),
                               "REHEARSE_LAUNCHED=1"};
  for (char** e = environ; *e != nullptr; ++e) out.emplace_back(*e);
  return out;
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (const std::string& t : texts) out.push_back(const_cast<char*>(t.c_str()));
  out.push_back(nullptr);
  return out;
}

pid_t start(const std::vector<std::string>& command, int rank, int ranks, int port, const std::string& run_id) {
  // All that takes memory is done before the fork: another thread may hold the allocator's lock then.
  const std::vector<std::string> environment = environment_of(rank, ranks, port, run_id);
  const std::vector<char*> words = pointers(command), variables = pointers(environment);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0)
    throw Error(ErrorKind::check_failed, fmt::format("cannot start rank {}: {}", rank, std::strerror(errno)),
                "--ranks");
  if (child > 0) return child;
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);  // A launcher that dies takes its ranks with it.
  if (::getppid() != parent) ::_exit(1);
  ::execve("/proc/self/exe", words.data(), variables.data());
  ::_exit(127);
}

/// Waits for processes; the first that fails decides.
class Watcher {
 public:
  explicit Watcher(std::vector<pid_t> processes)
      : processes_(std::move(processes)), running_(processes_.size(), true) {}

  Ended wait(net::RendezvousServer& server) {
    auto left = processes_.size();
    while (left > 0) {
      int status = 0;
      const pid_t who = ::waitpid(-1, &status, failed_ ? WNOHANG : 0);
      if (who < 0 && errno == EINTR) continue;
      if (who < 0) break;
      if (who == 0) {
        give_up_after_grace();
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        continue;
      }
      const auto at = std::find(processes_.begin(), processes_.end(), who);
      if (at == processes_.end()) continue;
      nth(running_, at - processes_.begin()) = false;
      --left;
      note(static_cast<int>(at - processes_.begin()), status, server);
    }
    if (failed_ && !told_ && ended_.cause.empty()) ended_ = {1, "the ranks lost their connections to each other"};
    return ended_;
  }

 private:
  void note(int rank, int status, net::RendezvousServer& server) {
    if (gave_up_ || (WIFEXITED(status) && WEXITSTATUS(status) == 0)) return;
    if (!failed_) since_ = std::chrono::steady_clock::now();
    failed_ = true;
    server.fail(rank, "its process has ended");
    // Ranks that end because another died may be seen before it.
    if (WIFSIGNALED(status) && ended_.cause.empty()) {
      ended_ = {1, fmt::format("rank {} was killed by signal {} ({})", rank, WTERMSIG(status),
                               ::strsignal(WTERMSIG(status)))};
    } else if (WIFEXITED(status) && WEXITSTATUS(status) != kEndedWithOthers && !told_ && ended_.cause.empty()) {
      ended_ = {WEXITSTATUS(status), {}};
      told_ = true;
    }
  }
  void give_up_after_grace() {
    if (std::chrono::steady_clock::now() - since_ < std::chrono::seconds(kGraceSeconds)) return;
    gave_up_ = true;
    for (std::size_t i = 0; i < processes_.size(); ++i)
      if (running_[i]) ::kill(processes_[i], SIGKILL);
  }

  std::vector<pid_t> processes_;
  std::vector<bool> running_;
  bool failed_ = false, gave_up_ = false;
  bool told_ = false;  ///< A rank has said why it ended.
  std::chrono::steady_clock::time_point since_;
  Ended ended_;
};

}  // namespace

Variables process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
}

std::optional<Place> place_from(const Variables& variables) {
  for (const Names& names : kLaunchers) {
    if (!variables(names.rank)) continue;
    Place out;
    out.rank = number(variables, names.rank, 0);
    out.ranks = number(variables, names.ranks, 1);
    if (out.rank >= out.ranks)
      throw Error(ErrorKind::usage,
                  fmt::format("{}={} is not below {}={}", names.rank, out.rank, names.ranks, out.ranks),
                  "--ranks-from-env");
    if (variables(names.local_ranks)) out.local_ranks = number(variables, names.local_ranks, 1);
    out.local_rank = variables(names.local_rank) ? number(variables, names.local_rank, 0) : out.rank % out.local_ranks;
    out.host = host_of(variables, names, out);
    out.port = variables("MASTER_PORT") ? number(variables, "MASTER_PORT", 1) : kDefaultPort;
    out.run_id = run_id_of(variables);
    out.launched = variables("REHEARSE_LAUNCHED").has_value();
    return out;
  }
  return std::nullopt;
}

Ended run_ranks(int ranks, const std::vector<std::string>& command) {
  const net::RunName run{net::fresh_run_id(), ranks};
  net::RendezvousServer server("127.0.0.1", 0, run);
  std::vector<pid_t> processes;
  for (int r = 0; r < ranks; ++r) processes.push_back(start(command, r, ranks, server.port(), run.id));
  return Watcher(std::move(processes)).wait(server);
}

}  // namespace rehearse
