"""How much of its speed a GPU keeps where more of them work, of rows that differ in that alone."""
import copy
import json

import record


def size_of(scenario, machine):
    """GPUs of a job."""
    cluster = scenario["cluster"]
    return cluster.get("nodes", 1) * cluster.get("gpus_per_node", machine["gpus"])


def job_of(scenario, gpus):
    """The job of one GPU, as text: jobs of one text are one job on more or fewer GPUs."""
    job = copy.deepcopy(scenario)
    for key in ("nodes", "gpus_per_node", "network"):
        job["cluster"].pop(key, None)
    job["training"]["global_batch"] /= gpus
    return json.dumps(job, sort_keys=True)


def efficiencies(rows):
    """Of rows (scenario, GPUs, predicted seconds, measured seconds): for each that has a smaller one of its job, its
    efficiency against the smallest, predicted and measured: seconds there over seconds here."""
    jobs = {}
    for scenario, gpus, predicted, measured in rows:
        jobs.setdefault(job_of(scenario, gpus), []).append((gpus, predicted, measured))
    out = []
    for members in jobs.values():
        members.sort()
        _, predicted_first, measured_first = members[0]
        out += [(predicted_first / predicted, measured_first / measured) for gpus, predicted, measured in members
                if gpus > members[0][0]]
    return out


def summary(pairs, quantile):
    """In points of efficiency: predicted less measured."""
    errors = [100 * (predicted - measured) for predicted, measured in pairs]
    sizes = [abs(error) for error in errors]
    return {"rows": len(pairs), "measured": round(quantile([100 * measured for _, measured in pairs], 0.5), 1),
            "predicted": round(quantile([100 * predicted for predicted, _ in pairs], 0.5), 1),
            "median": round(quantile(sizes, 0.5), 1), "p90": round(quantile(sizes, 0.9), 1),
            "bias": round(quantile(errors, 0.5), 1)}


def seconds(predictions, values, name):
    """Predicted and measured seconds of a row; None where one is missing."""
    predicted, measured = predictions[name].get("step_time"), values[name].get("step_time")
    return (predicted["value"], measured) if predicted and measured else None


def read_rows(source, folder, machine_of, unseen):
    """Rows of one source for efficiencies(), by kind. Those of which anything was met are left out."""
    configurations = record.read(record.path_of(source, "configurations", folder))
    predictions = record.read(record.path_of(source, "predictions", folder))["rows"]
    values = record.measured(source, folder)
    out = {}
    for row in filter(unseen, configurations["rows"]):
        pair = seconds(predictions, values, row["id"])
        if pair:
            scenario = record.scenario_of(configurations, row)
            gpus = size_of(scenario, machine_of(scenario["cluster"]["machine"]))
            out.setdefault(row["kind"], []).append((scenario, gpus, *pair))
    return out
