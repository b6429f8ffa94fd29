#pragma once
// Jobs that a file does not list one by one: rows of a table, or drawn ones.

#include <optional>
#include <string>
#include <vector>

#include "core/config/object_reader.hpp"
#include "core/fleet/fleet.hpp"

namespace rehearse::fleet {

/// {"file": "jobs.csv", "columns": {"name": "job_id", "gpus": "num_gpu", ...}, "unit": "s"}: a CSV file with a header.
/// `columns` says which of its columns hold what; `arrival`, `duration` and `gpus` must be there. Times are numbers of
/// `unit`s. Throws Error (usage) with file and line.
[[nodiscard]] std::vector<Job> read_job_table(ObjectReader& table);

/// {"count": 1000, "every": "10min", "seed": 1, "kinds": [{"share": 2, "gpus": 8, "mean": "2h", "queue": "a"}, ...]}:
/// Poisson arrivals a mean of `every` apart; each job is of a kind by its share and takes an exponential time of that
/// mean, exactly `duration`, or so many steps of a `scenario`.
[[nodiscard]] std::vector<Job> draw_jobs(ObjectReader& generator);

/// Key "scenario" with "set" and "steps", where it is there: what a job trains.
[[nodiscard]] std::optional<ScenarioWork> read_work(ObjectReader& r);

/// Keys of a job that say what it asks for: gpus (a number, below 1 a fraction), min_gpus, pod_gpus, cpus, memory,
/// models, pools.
[[nodiscard]] Request read_request(ObjectReader& r);

}  // namespace rehearse::fleet
