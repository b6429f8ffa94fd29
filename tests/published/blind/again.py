"""What the program answers today for rows whose values are open: beside their first errors, and never in their place."""
import os

import page
import record


def restated(source, folder=record.SOURCES):
    """Keys that scenarios got after a source was predicted, as the source states them: {row: {key: value}}."""
    path = record.path_of(source, "restated", folder)
    return record.read(path)["rows"] if os.path.exists(path) else {}


def scenario_of(configurations, row, more):
    return record.scenario_of(configurations, {**row, "set": {**row["set"], **more.get(row["id"], {})}})


def errors(source, answer_of, folder=record.SOURCES):
    """By row: its kind, its first errors and those of today. `answer_of(scenario, row)` is a prediction or None. Rows
    that were met or refused are left out."""
    configurations = record.read(record.path_of(source, "configurations", folder))
    values = record.measured(source, folder)
    first = record.errors_of(source, folder)
    more, met = restated(source, folder), record.met(source, folder)
    out = {}
    for row in configurations["rows"]:
        if row.get("seen") or row["id"] in met or "inexpressible" in row:
            continue
        answer = answer_of(scenario_of(configurations, row, more), row)
        if answer is None:
            continue
        today = record.first_errors({"rows": {row["id"]: answer}}, {"rows": {row["id"]: values[row["id"]]}})
        out[row["id"]] = (row["kind"], first[row["id"]], today[row["id"]])
    return out


def modelled(source, error):
    """An error of step time before the bias of its kind is applied, for page.summary."""
    return source, {"error": error["step_time"]["modelled_error"], "inside": error["step_time"]["inside"]}


def table(by_source):
    """Of step times, by source and kind: first errors and today's, of the model behind the answer, in percent."""
    groups = {}
    for source, rows in by_source.items():
        for kind, first, today in rows.values():
            for name in (f"{source}, {page.KINDS[kind]}", page.KINDS[kind], "all"):
                if "step_time" in first and "step_time" in today:
                    pair = groups.setdefault(name, ([], []))
                    pair[0].append(modelled(source, first))
                    pair[1].append(modelled(source, today))
    lines = ["| rows of | rows | first: median % | 90th % | bias % | today: median % | 90th % | bias % |",
             "|---|" + "--:|" * 7]
    for name, pair in sorted(groups.items()):
        cells = [f"{of['median']} | {of['p90']} | {of['bias']:+}" for of in map(page.summary, pair)]
        lines.append(f"| {name} | {len(pair[0])} | {cells[0]} | {cells[1]} |")
    return "\n".join(lines)


def lines_of(by_source):
    """One line a row: first error and today's, in percent."""
    for source, rows in by_source.items():
        for name, (_, first, today) in rows.items():
            for quantity in sorted(set(first) & set(today) & set(record.QUANTITIES)):
                pair = [error[quantity].get("modelled_error", error[quantity]["error"]) for error in (first, today)]
                yield f"{source} {name} {quantity} {100 * pair[0]:+.1f} -> {100 * pair[1]:+.1f} %"
