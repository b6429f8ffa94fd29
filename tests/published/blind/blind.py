"""The blind record: predictions that were frozen before anybody opened the measured values.

usage: blind.py extract SOURCE --clone GIT_DIR --values FILE [--show]
       blind.py predict SOURCE --values FILE [--program REHEARSE] [--data FOLDER]
       blind.py open SOURCE --values FILE
       blind.py reread SOURCE --clone GIT_DIR
       blind.py again [SOURCE] [--rows] [--program REHEARSE] [--data FOLDER]
       blind.py report
       blind.py groups
       blind.py check

extract  reads a source with extractors/SOURCE.py: configurations into the record, values into FILE, which lies outside
         this repository. Shows no value; --show prints the rows with every digit of a value masked.
predict  asks the program for each row and freezes the answers with the program's version and commit and the SHA-256 of
         configurations and values. Commit the result before the next step.
open     takes the values into the record and works out the first errors. Refuses where the predictions are not
         committed as they lie, or where FILE or the configurations are not those that were there when predicting.
reread   where an extractor turned out to read open values wrongly and was mended: reads them again and writes those that
         differ to SOURCE/reread.json, beside the frozen ones. Figures then count what was read again.
again    what the program answers today for rows that are open, beside their first errors; nothing is written. With
         the keys of SOURCE/restated.json, which scenarios got since. --rows prints every row.
report   first errors by kind, as the page of accuracy has them.
groups   first errors as groups for topologies/first_errors.json, from which likely ranges are fitted.
check    whether the record is whole: hashes match, first errors follow from predictions and values, and no frozen file
         was changed after its first commit. Exit code 1 where it is not.
"""
import argparse
import concurrent.futures
import importlib
import json
import os
import subprocess
import sys
import tempfile

import again
import groups
import page
import reading
import record

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(record.HERE)))
SCHEMA = "rehearse/blind_{}/v1"


# Extract

def extract(source, clone, values_file, show):
    module = importlib.import_module(f"extractors.{source}")
    rows = list(module.rows(reading.Clone(clone, module.SOURCE["commit"])))
    names = [row["id"] for row in rows]
    if len(set(names)) != len(names):
        raise record.Refused(f"{source}: two rows have one id")
    if os.path.abspath(values_file).startswith(ROOT + os.sep):
        raise record.Refused(f"{values_file} lies in this repository: values stay outside until predictions are frozen")
    if record.opened(source):
        raise record.Refused(f"{source} is opened: its configurations are frozen")
    values = {row["id"]: row.pop("values") for row in rows}
    for row in rows:
        row["measured"] = [quantity for quantity in record.QUANTITIES if quantity in values[row["id"]]]
    record.write(record.path_of(source, "configurations"),
                 {"schema": SCHEMA.format("configurations"), **module.SOURCE, "rows": rows})
    record.write(values_file, {"schema": SCHEMA.format("values"), "source": source, "rows": values})
    print(f"{source}: {len(rows)} rows")
    for row in rows if show else []:
        print(json.dumps(row, ensure_ascii=False), reading.masked(json.dumps(values[row["id"]])))


def reread(source, clone):
    if not record.opened(source):
        raise record.Refused(f"{source} is not open: extract it anew")
    module = importlib.import_module(f"extractors.{source}")
    first = record.read(record.path_of(source, "values"))["rows"]
    found = {row["id"]: row["values"] for row in module.rows(reading.Clone(clone, module.SOURCE["commit"]))}
    missing = set(first) - set(found)
    if missing:
        raise record.Refused(f"{source}: {len(missing)} rows are not found any more, such as {min(missing)}")
    other = {row: found[row] for row, values in first.items() if found[row] != values}
    if other:
        record.write(record.path_of(source, "reread"), {"schema": SCHEMA.format("reread"), "source": source,
                                                        "rows": other})
    print(f"{source}: {len(other)} of {len(first)} rows differ")


# Predict

def ask(program, data, folder, scenario):
    """The answer of `estimate`, in closed form, as JSON; or why there is none."""
    with tempfile.NamedTemporaryFile("w", suffix=".json", dir=folder) as file:
        json.dump(scenario, file)
        file.flush()
        command = [program, "estimate", file.name, "--format", "json", "--despite-memory"]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "REHEARSE_DATA": data})
    try:
        return json.loads(done.stdout), ""
    except ValueError:
        words = " ".join(done.stderr.replace(file.name, "the scenario").split())
        return None, words[max(words.find("error: "), 0):]


def memory_of(answer, counter):
    """Peak memory of the fullest stage as `counter` counts it: "allocated" and "reserved" are PyTorch's, "needed" is
    the device's. The likely range, which is one of needed memory, is scaled alike."""
    stage = max(answer["memory"], key=lambda stage: stage[counter + "_bytes"])
    value = stage[counter + "_bytes"]
    span, needed = answer.get("memory_range") or {}, stage["needed_bytes"]
    out = {"value": value}
    if "needed_bytes_p10" in span:
        base = next(stage for stage in answer["memory"] if stage["stage"] == span["stage"])["needed_bytes"]
        out.update({end: round(value * span[f"needed_bytes_{end}"] / base) for end in ("p10", "p90")})
    return out


def predicted_row(answer, row):
    out = {"step_time": {"value": answer["step_time_s"], "modelled": answer["modelled_step_time_s"],
                         "p10": answer["step_time_s_p10"], "p90": answer["step_time_s_p90"]},
           "fits": answer["fits"], "bound_by": answer["bound_by"], "range": answer["range_rows_of"]}
    if "peak_memory" in row["measured"]:
        out["peak_memory"] = memory_of(answer, row["memory"])
    return out


def predict(source, values_file, program, data):
    path = record.path_of(source, "predictions")
    if record.opened(source) or record.commits_of(path):
        raise record.Refused(f"{source} was predicted before: first predictions stay")
    if record.git("status", "--porcelain", "--", "core", "sim", "topologies", "scenarios", at=data).stdout.strip():
        raise record.Refused(f"{data} differs from its commit, which predictions are to name")
    configurations = record.read(record.path_of(source, "configurations"))

    def one(row):
        if "inexpressible" in row:
            return {"refused": row["inexpressible"]}
        scenario = record.scenario_of(configurations, row)
        answer, reason = ask(program, data, os.path.dirname(path), scenario)
        return predicted_row(answer, row) if answer else {"refused": reason}

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        rows = dict(zip((row["id"] for row in configurations["rows"]), pool.map(one, configurations["rows"])))
    version = subprocess.run([program, "version"], capture_output=True, text=True, check=True).stdout.split()[1]
    commit = record.git("rev-parse", "HEAD", at=data).stdout.decode().strip()
    record.write(path, {"schema": SCHEMA.format("predictions"), "program": {"version": version, "commit": commit},
                        "configurations_sha256": record.sha256(record.path_of(source, "configurations")),
                        "values_sha256": record.sha256(values_file), "rows": rows})
    refused = [row["refused"] for row in rows.values() if "refused" in row]
    print(f"{source}: {len(rows) - len(refused)} predicted, {len(refused)} refused")
    for reason in sorted(set(refused)):
        print(f"  {refused.count(reason)} x {reason[:300]}")


# Open

def open_values(source, values_file):
    path = record.path_of(source, "predictions")
    if record.opened(source):
        raise record.Refused(f"{source} is open already")
    if not os.path.exists(path) or not record.committed(path):
        raise record.Refused(f"{source}: commit {os.path.relpath(path, ROOT)} first")
    predictions = record.read(path)
    if record.sha256(record.path_of(source, "configurations")) != predictions["configurations_sha256"]:
        raise record.Refused(f"{source}: the configurations are not those that were predicted")
    if record.sha256(values_file) != predictions["values_sha256"]:
        raise record.Refused(f"{source}: {values_file} does not have the SHA-256 that was frozen")
    with open(values_file, "rb") as file, open(record.path_of(source, "values"), "wb") as to:
        to.write(file.read())
    write_errors(source, predictions)
    print(f"{source}: opened")


def write_errors(source, predictions):
    values = record.read(record.path_of(source, "values"))
    record.write(record.path_of(source, "errors"), {"schema": SCHEMA.format("errors"), "source": source,
                                                    "rows": record.first_errors(predictions, values)})


# Again

def predict_again(sources, program, data, every_row):
    with tempfile.TemporaryDirectory() as folder:
        by_source = {}
        for source in sources:
            def answer_of(scenario, row, source=source):
                for part in ("machine", "network"):
                    own = os.path.join(record.SOURCES, source, str(scenario["cluster"].get(part)))
                    if os.path.exists(own):
                        scenario["cluster"][part] = own
                answer, _ = ask(program, data, folder, scenario)
                return predicted_row(answer, row) if answer else None

            by_source[source] = again.errors(source, answer_of)
    for line in again.lines_of(by_source) if every_row else ():
        print(line)
    print(again.table(by_source))


# Check

def faults(folder=record.SOURCES):
    """One line for everything that is wrong with the record."""
    out = []
    for source in record.sources(folder):
        out += [f"{source}: {fault}" for fault in faults_of(source, folder)]
    return out


def faults_of(source, folder):
    paths = {part: record.path_of(source, part, folder) for part in record.PARTS}
    if not os.path.exists(paths["predictions"]):
        return ["has no predictions"]
    configurations, predictions = record.read(paths["configurations"]), record.read(paths["predictions"])
    out = []
    if record.sha256(paths["configurations"]) != predictions["configurations_sha256"]:
        out.append("configurations are not those that were predicted")
    if [row["id"] for row in configurations["rows"]] != list(predictions["rows"]):
        out.append("rows and predictions differ")
    if os.path.exists(paths["values"]):
        values = record.read(paths["values"])
        if record.sha256(paths["values"]) != predictions["values_sha256"]:
            out.append("values are not those whose SHA-256 was frozen")
        elif record.read(paths["errors"])["rows"] != record.first_errors(predictions, values):
            out.append("first errors do not follow from predictions and values")
        out += [f"{row} was read again and has no values" for row in record.reread(source, folder) if row not in values["rows"]]
    return out + faults_of_history(paths)


def faults_of_history(paths):
    """What the commits say: predictions were never changed, and came before the values. Nothing where no history is, or
    only the end of one."""
    commits = record.commits_of(paths["predictions"])
    shallow = record.git("rev-parse", "--is-shallow-repository", at=os.path.dirname(paths["predictions"]))
    if not commits or shallow.stdout.strip() != b"false":
        return []
    out = [f"predictions changed after {commits[-1][:8]}"] if len(commits) > 1 else []
    folder = os.path.dirname(paths["values"])
    if record.git("cat-file", "-e", f"{commits[-1]}:./values.json", at=folder).returncode == 0:
        out.append(f"values are no younger than the predictions of {commits[-1][:8]}")
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("extract", "predict", "open", "reread", "again", "report", "groups", "check"))
    parser.add_argument("source", nargs="?")
    parser.add_argument("--clone")
    parser.add_argument("--values")
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--rows", action="store_true")
    parser.add_argument("--program", default=os.path.join(ROOT, "build", "default", "bin", "rehearse"))
    parser.add_argument("--data", default=ROOT)
    given = parser.parse_args()
    if given.command in ("extract", "predict", "open") and not (given.source and given.values):
        parser.error(f"{given.command} takes a source and --values")
    if given.command == "reread" and not (given.source and given.clone):
        parser.error("reread takes a source and --clone")
    try:
        if given.command == "extract":
            extract(given.source, given.clone, given.values, given.show)
        elif given.command == "predict":
            predict(given.source, given.values, given.program, os.path.abspath(given.data))
        elif given.command == "open":
            open_values(given.source, given.values)
        elif given.command == "reread":
            reread(given.source, given.clone)
        elif given.command == "again":
            sources = [given.source] if given.source else [name for name in record.sources() if record.opened(name)]
            predict_again(sources, given.program, os.path.abspath(given.data), given.rows)
        elif given.command == "report":
            print(page.section(page.figures(record.SOURCES, ROOT)))
        elif given.command == "groups":
            print("\n".join(json.dumps(group) for group in groups.groups(record.SOURCES, ROOT)))
        else:
            wrong = faults()
            print("\n".join(wrong) or f"{len(record.sources())} sources: the record is whole")
            return 1 if wrong else 0
    except record.Refused as refusal:
        sys.exit(f"blind.py: {refusal}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
