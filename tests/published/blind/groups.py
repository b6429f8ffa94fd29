"""First errors as topologies/first_errors.json has them: mean and spread by source, kind and GPU generation."""
import math
import os

import page
import record


def logarithms(source, folder, machines):
    """{(kind, generation, quantity): logarithms of predicted / measured} of one source, before the bias is applied."""
    configurations = record.read(record.path_of(source, "configurations", folder))
    errors = record.errors_of(source, folder)
    met, out = record.met(source, folder), {}
    for row in configurations["rows"]:
        if row.get("seen") or row["id"] in met or "refused" in errors[row["id"]]:
            continue
        scenario = record.scenario_of(configurations, row)
        machine = machines.of(scenario["cluster"]["machine"], os.path.join(folder, source))
        where = row["kind"], machines.generation[machine["gpu"]]
        for quantity in set(record.QUANTITIES) & set(errors[row["id"]]):
            error = errors[row["id"]][quantity]
            out.setdefault((*where, quantity), []).append(math.log1p(error.get("modelled_error", error["error"])))
    return out


def groups(folder, root):
    """One group for each source, kind, generation and quantity."""
    machines, out = page.Machines(root), []
    for source in (name for name in record.sources(folder) if record.opened(name, folder)):
        for (kind, generation, quantity), logs in sorted(logarithms(source, folder, machines).items()):
            mean = sum(logs) / len(logs)
            spread = math.sqrt(sum((log - mean) ** 2 for log in logs) / max(len(logs) - 1, 1))
            out.append({"source": source, "kind": kind, "generation": generation, "quantity": quantity,
                        "rows": len(logs), "mean_log_error": round(mean, 3), "sd_log_error": round(spread, 3)})
    return out
