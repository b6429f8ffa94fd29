"""What the record says, in figures and as the first section of ACCURACY.md."""
import glob
import os

import record
import scaling

KINDS = {"dense": "dense language models", "experts": "models with experts", "encoders": "BERT-like",
         "images": "image networks"}
FIGURES = {"rows": "rows", "sources": "sources", "median": "median %", "p90": "90th %", "bias": "bias %",
           "modelled": "bias before correction %", "inside": "in range %"}
LONG = 32768


def quantile(values, share):
    values = sorted(values)
    at = share * (len(values) - 1)
    below = int(at)
    above = min(below + 1, len(values) - 1)
    return values[below] + (at - below) * (values[above] - values[below])


def summary(rows):
    """Of (source, first error of one quantity): percent, but for counts."""
    errors = [error["error"] for _, error in rows]
    sizes = [abs(error) for error in errors]
    out = {"median": quantile(sizes, 0.5), "p90": quantile(sizes, 0.9), "bias": quantile(errors, 0.5)}
    modelled = [error["modelled_error"] for _, error in rows if "modelled_error" in error]
    if modelled:
        out["modelled"] = quantile(modelled, 0.5)
    inside = [error["inside"] for _, error in rows if "inside" in error]
    if inside:
        out["inside"] = sum(inside) / len(inside)
    counts = {"rows": len(rows), "sources": len({source for source, _ in rows})}
    return counts | {name: round(100 * value, 1) for name, value in out.items()}


# What a row is

class Machines:
    """Machines and GPUs of the catalogue, and machine files beside a source's rows."""

    def __init__(self, root):
        self.root = root
        files = glob.glob(os.path.join(root, "topologies", "gpus", "*.json"))
        self.generation = {os.path.basename(path)[:-5]: record.read(path).get("generation") for path in files}

    def of(self, name, folder):
        inside = os.path.join(folder, name)
        path = inside if name.endswith(".json") else os.path.join(self.root, "topologies", "machines", name + ".json")
        return record.read(path)


def kinds_of(scenario, row, machine, generation):
    """Every group that a row is counted in."""
    groups = [("kinds", KINDS[row["kind"]]), ("generations", f"{KINDS[row['kind']]} on {generation}")]
    wiring = machine["wiring"]
    if not wiring.get("nvswitches") and not wiring.get("nvlink_pairs"):
        groups.append(("among them", "machines without NVLink"))
    if scenario["training"].get("sequence_length", 0) >= LONG:
        groups.append(("among them", "sequences of 32k tokens and more"))
    if scaling.size_of(scenario, machine) >= 64:
        groups.append(("among them", "64 GPUs and more"))
    return groups


def figures(folder, root):
    """Of all opened sources: figures by quantity and group, refused rows by reason, and rows that were seen before."""
    machines, groups = Machines(root), {quantity: {} for quantity in record.QUANTITIES}
    refused, seen, opened, no_fit, scaled = {}, 0, [], 0, {}
    for source in (name for name in record.sources(folder) if record.opened(name, folder)):
        configurations = record.read(record.path_of(source, "configurations", folder))
        predictions = record.read(record.path_of(source, "predictions", folder))["rows"]
        errors = record.errors_of(source, folder)
        first, again = record.read(record.path_of(source, "errors", folder))["rows"], record.reread(source, folder)
        opened.append(source)
        where, met = os.path.join(folder, source), record.met(source, folder)
        for kind, rows in scaling.read_rows(source, folder, lambda name: machines.of(name, where),
                                            lambda row: not row.get("seen") and row["id"] not in met).items():
            scaled.setdefault(KINDS[kind], []).extend(scaling.efficiencies(rows))
        for row in configurations["rows"]:
            error = errors[row["id"]]
            if row.get("seen") or row["id"] in met:
                seen += 1
                continue
            if "refused" in error:
                reason = error["refused"].split(" hint: ")[0].replace("error: the scenario: ", "")
                refused[reason] = refused.get(reason, 0) + 1
                continue
            no_fit += not predictions[row["id"]]["fits"]
            scenario = record.scenario_of(configurations, row)
            machine = machines.of(scenario["cluster"]["machine"], where)
            names = [("all", "all"), *kinds_of(scenario, row, machine, machines.generation[machine["gpu"]]),
                     ("lots", f"lot {configurations['lot']}: {KINDS[row['kind']]}"),
                     ("sources", configurations["source"])]
            for quantity in set(groups) & set(error):
                for name in names:
                    groups[quantity].setdefault(name, []).append((source, error[quantity]))
                if quantity in again.get(row["id"], ()):
                    for name, of in ((f"{KINDS[row['kind']]}, read again", error),
                                     (f"{KINDS[row['kind']]}, as first read", first[row["id"]])):
                        groups[quantity].setdefault(("reread", name), []).append((source, of[quantity]))
    out = {quantity: by_group(members) for quantity, members in groups.items()}
    efficiency = {kind: scaling.summary(pairs, quantile) for kind, pairs in sorted(scaled.items()) if pairs}
    return {**out, "scaling": efficiency, "sources": len(opened), "refused": refused, "seen": seen, "no_fit": no_fit}


def by_group(members):
    out = {}
    for (group, name), rows in sorted(members.items()):
        out.setdefault(group, {})[name] = summary(rows)
    return out


# Page

def cell(figure, value):
    if figure in ("rows", "sources"):
        return f"{value:,}"
    return format(value, {"bias": "+.1f", "modelled": "+.1f", "inside": ".0f"}.get(figure, ".1f"))


def table(head, groups, figures_shown):
    shown = [figure for figure in figures_shown if any(figure in of for of in groups.values())]
    lines = [f"| {head} | " + " | ".join(FIGURES[figure] for figure in shown) + " |", "|---|" + "--:|" * len(shown)]
    for name, of in groups.items():
        cells = [cell(figure, of[figure]) if figure in of else "" for figure in shown]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def scaling_table(of):
    lines = ["| kind | rows | measured % | predicted % | error: median | 90th | bias |", "|---|" + "--:|" * 6]
    shown = ("rows", "measured", "predicted", "median", "p90")
    for kind, row in of.items():
        lines.append(f"| {kind} | " + " | ".join(str(row[figure]) for figure in shown) + f" | {row['bias']:+} |")
    return "\n".join(lines)


def reread_words(figures):
    if not figures:
        return ""
    return f"""Logs of these rows were first read wrongly, which their values' readers found out when they were open: the rate that
BERT's logs of MLPerf print last counts samples that were planned and never trained. They were read again, all by one
rule; predictions stayed as they were frozen. Above, what was read again counts:

{table("rows", figures, FIGURES)}

"""


def section(of):
    time, memory = of["step_time"], of["peak_memory"]
    reasons = [f"| {reason} | {rows} |" for reason, rows in of["refused"].items()]
    refused = "\n".join(["| reason | rows |", "|---|--:|", *reasons])
    without_sources = [figure for figure in FIGURES if figure != "sources"]
    return f"""## Blind: predicted before anybody looked

Predictions of these {of["sources"]} sources were frozen before their measured values were opened
([how](blind/README.md)), and none of them played a part in the model. These first errors are never revised: what is
mended afterwards shows in the next lot. They are errors of the answer, the middle of the likely range; *bias before
correction* is that of the model behind it.

{table("kind", {**time["all"], **time["kinds"], **time["generations"], **time.get("among them", {})}, FIGURES)}

Lots were opened one after another, and mechanisms mended in between by what a lot showed:

{table("lot", time["lots"], FIGURES)}

{table("source", time["sources"], without_sources)}

{reread_words(time.get("reread", {}))}Efficiency of more GPUs against the fewest of the same job, at the same work for each. Errors are points, predicted
less measured:

{scaling_table(of["scaling"])}

Peak memory, as each source counts it:

{table("kind", {**memory["all"], **memory["kinds"], **memory["lots"], **memory["sources"]}, without_sources)}

{of["no_fit"]} rows ran though the program said that they don't fit. {of["seen"]} rows of the record count in no figure,
because somebody had met their values or a log turned out to time something else. These were refused:

{refused}
"""
