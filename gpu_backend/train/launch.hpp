#pragma once
// Ranks as processes: which rank this process is, by the variables of whoever started it, and starting them on this
// machine.

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace rehearse {

/// This process among those of a run.
struct Place {
  int rank = 0, ranks = 1;
  int local_ranks = 1;  ///< Ranks on this machine, among which its cores are divided.
  int local_rank = 0;   ///< This one's number among them: which GPU it takes.
  std::string host;     ///< Of rank 0, or of the launcher.
  int port = 0;
  std::string run_id;     ///< The same on all ranks of a run, and on no other's.
  bool launched = false;  ///< By run_ranks, which serves the rendezvous and reports failures.
};

/// Value of an environment variable; nothing where it isn't set.
using Variables = std::function<std::optional<std::string>(const std::string& name)>;
[[nodiscard]] Variables process_environment();

/// Reads RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT (torchrun), else SLURM_PROCID, SLURM_NTASKS,
/// SLURM_LAUNCH_NODE_IPADDR (srun), else OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE (mpirun; MASTER_ADDR may be left
/// out where all ranks are on one machine). The run's id is REHEARSE_RUN_ID, else the launcher's (TORCHELASTIC_RUN_ID,
/// SLURM_JOB_ID with SLURM_STEP_ID, PMIX_NAMESPACE), else empty. Nothing where none of them is set. Throws Error
/// (usage) that names the missing or wrong variable.
[[nodiscard]] std::optional<Place> place_from(const Variables& variables);

/// What became of the processes.
struct Ended {
  int exit_code = 0;  ///< Of the first that failed; 1 where a signal ended it.
  /// "rank 2 was killed by signal 9 (Killed)"; empty where it has told the cause itself, or none failed.
  std::string cause;
};

/// Exit code of a launched rank that ends because another one did, or because it lost the others, and says nothing: the
/// launcher tells. No other rank ends with it.
inline constexpr int kEndedWithOthers = 75;

/// Runs `command` once per rank with the variables of a Place, serves their rendezvous, and waits for all. When one
/// fails the others get `kGraceSeconds` to end by themselves.
inline constexpr int kGraceSeconds = 10;
[[nodiscard]] Ended run_ranks(int ranks, const std::vector<std::string>& command);

}  // namespace rehearse
