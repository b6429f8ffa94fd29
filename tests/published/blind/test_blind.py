"""Tests of the blind record: that it is whole, and that its tool refuses what would make it anything but blind."""
import contextlib
import importlib
import io
import os
import shutil
import subprocess
import tempfile
import unittest

import again
import blind
import page
import reading
import record
import scaling
from extractors import mlperf

CONFIGURATIONS = {"schema": "rehearse/blind_configurations/v1", "source": "toy", "lot": 1,
                  "base": {"cluster": {"machine": "toy"}, "training": {"optimizer": "sgd"}},
                  "rows": [{"id": "a", "kind": "dense", "set": {"training.global_batch": 8, "strategy.tp": 2}},
                           {"id": "b", "kind": "dense", "set": {}}]}
PREDICTIONS = {"a": {"step_time": {"value": 1.2, "modelled": 0.9, "p10": 0.8, "p90": 1.5}, "fits": True},
               "b": {"refused": "no such layer"}}
VALUES = {"a": {"step_time": 1.0, "stated": {"samples_per_s": 8}}, "b": {"step_time": 2.0}}


@unittest.skipUnless(shutil.which("git"), "git is not installed")
class Record(unittest.TestCase):
    """A record of one source in a repository of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = os.path.join(folder.name, "sources")
        self.values = os.path.join(folder.name, "outside.json")
        git = ["git", "-C", folder.name, "-c", "user.name=t", "-c", "user.email=t@t"]
        self.git = lambda *words: subprocess.run([*git, *words], check=True, capture_output=True)
        self.git("init", "-q")
        record.write(self.path("configurations"), CONFIGURATIONS)
        record.write(self.values, {"source": "toy", "rows": VALUES})
        record.write(self.path("predictions"),
                     {"configurations_sha256": record.sha256(self.path("configurations")),
                      "values_sha256": record.sha256(self.values), "rows": PREDICTIONS})
        where, record.SOURCES = record.SOURCES, self.folder
        self.addCleanup(setattr, record, "SOURCES", where)
        original = record.path_of
        record.path_of = lambda source, part, folder=None: original(source, part, folder or self.folder)
        self.addCleanup(setattr, record, "path_of", original)

    def path(self, part):
        return os.path.join(self.folder, "toy", part + ".json")

    def commit(self, *parts):
        self.git("add", *(self.path(part) for part in parts))
        self.git("commit", "-q", "-m", "x")

    def open(self):
        with contextlib.redirect_stdout(io.StringIO()):
            blind.open_values("toy", self.values)

    def faults(self):
        return blind.faults(self.folder)

    def opened(self):
        self.commit("configurations", "predictions")
        self.open()
        self.commit("values", "errors")

    def test_values_open_after_predictions_are_committed(self):
        with self.assertRaisesRegex(record.Refused, "commit"):
            self.open()
        self.opened()
        self.assertEqual(self.faults(), [])
        errors = record.read(self.path("errors"))["rows"]
        self.assertEqual(errors["a"]["step_time"], {"error": 0.2, "modelled_error": -0.1, "inside": True})
        self.assertEqual(errors["b"], {"refused": "no such layer"})

    def test_other_values_than_those_frozen_are_refused(self):
        self.commit("configurations", "predictions")
        record.write(self.values, {"source": "toy", "rows": {**VALUES, "a": {"step_time": 1.1}}})
        with self.assertRaisesRegex(record.Refused, "SHA-256"):
            self.open()

    def test_predictions_edited_before_opening_are_refused(self):
        self.commit("configurations", "predictions")
        document = record.read(self.path("predictions"))
        document["rows"]["a"]["step_time"]["value"] = 1.0
        record.write(self.path("predictions"), document)
        with self.assertRaisesRegex(record.Refused, "commit"):
            self.open()

    def test_a_prediction_changed_later_is_found(self):
        self.opened()
        document = record.read(self.path("predictions"))
        document["rows"]["a"]["step_time"]["value"] = 1.0
        record.write(self.path("predictions"), document)
        self.assertIn("toy: first errors do not follow from predictions and values", self.faults())
        blind.write_errors("toy", document)
        self.commit("predictions", "errors")
        self.assertRegex(" ".join(self.faults()), "toy: predictions changed after")

    def test_values_of_the_same_commit_are_found(self):
        record.write(self.path("values"), record.read(self.values))
        blind.write_errors("toy", record.read(self.path("predictions")))
        self.commit("configurations", "predictions", "values", "errors")
        self.assertRegex(" ".join(self.faults()), "values are no younger than the predictions")

    def test_what_was_read_again_counts_and_what_was_frozen_stays(self):
        self.opened()
        record.write(self.path("reread"), {"source": "toy", "rows": {"a": {"step_time": 2.0}}})
        self.assertEqual(record.errors_of("toy", self.folder)["a"]["step_time"]["error"], -0.4)
        self.assertEqual(record.errors_of("toy", self.folder)["b"], {"refused": "no such layer"})
        self.assertEqual(record.read(self.path("errors"))["rows"]["a"]["step_time"]["error"], 0.2)
        self.assertEqual(record.measured("toy", self.folder)["a"], {"step_time": 2.0})
        self.assertEqual(self.faults(), [])
        record.write(self.path("reread"), {"source": "toy", "rows": {"c": {"step_time": 2.0}}})
        with self.assertRaises(KeyError):
            record.errors_of("toy", self.folder)
        self.assertIn("toy: c was read again and has no values", self.faults())

    def test_rates_of_bert_are_of_samples_that_were_trained(self):
        def log(*events):
            return [{"key": key, "value": value, "time_ms": at, "metadata": {"epoch_num": samples}}
                    for key, value, at, samples in events]

        ends = log(("run_start", None, 1000, 0), ("run_stop", None, 11000, 0), ("train_samples", 50000, 11000, 0))
        counted = log(("eval_accuracy", 0.4, 3000, 10000), ("eval_accuracy", 0.5, 5000, 20000))
        tracked = log(("tracked_stats", {"throughput": 1}, 0, 0), ("tracked_stats", {"throughput": 7}, 0, 0))
        self.assertEqual(mlperf.rates(ends), [5000])
        self.assertEqual(mlperf.rates(ends + log(("eval_accuracy", 0.4, 3000, 1))), [5000])
        self.assertEqual(mlperf.rates(ends + counted), [5000])
        self.assertEqual(mlperf.rates(ends + counted + tracked), [7])
        self.assertEqual(mlperf.entries("{'training_sequences_per_second': 9000.0}"), [])

    def test_rows_are_predicted_again_beside_their_first_errors(self):
        self.opened()
        asked = []

        def answer_of(scenario, row):
            asked.append(scenario)
            return {"step_time": {"value": 1.1, "modelled": 1.05, "p10": 0.9, "p90": 1.2}}

        record.write(self.path("restated"), {"source": "toy", "rows": {"a": {"strategy.tp": 4}}})
        kind, first, today = again.errors("toy", answer_of, self.folder)["a"]
        self.assertEqual((kind, first["step_time"]["error"], today["step_time"]["error"]), ("dense", 0.2, 0.1))
        self.assertEqual([scenario.get("strategy") for scenario in asked], [{"tp": 4}, None])
        self.assertIn("| all | 1 | 10.0 | 10.0 | -10.0 | 5.0 | 5.0 | +5.0 |",
                      again.table({"toy": again.errors("toy", answer_of, self.folder)}))
        self.assertEqual(self.faults(), [])

    def test_changed_values_and_configurations_are_found(self):
        self.opened()
        record.write(self.path("values"), {"source": "toy", "rows": {**VALUES, "a": {"step_time": 1.1}}})
        record.write(self.path("configurations"), {**CONFIGURATIONS, "lot": 2})
        self.assertEqual(self.faults(), ["toy: configurations are not those that were predicted",
                                         "toy: values are not those whose SHA-256 was frozen"])


class Parts(unittest.TestCase):
    def test_a_row_sets_its_keys_over_the_base(self):
        self.assertEqual(record.scenario_of(CONFIGURATIONS, CONFIGURATIONS["rows"][0]),
                         {"cluster": {"machine": "toy"}, "training": {"optimizer": "sgd", "global_batch": 8},
                          "strategy": {"tp": 2}})

    def test_masking_hides_every_digit(self):
        self.assertEqual(reading.masked("| 8 | 1,234.5 img/s |"), "| # | #,###.# img/s |")

    def test_tables_come_with_their_headings(self):
        text = "# A\n## B\n| x | y<br>z |\n|--|--|\n| 1 | 2 |\n\n## C\n| x |\n|--|\n| 3 |\n"
        self.assertEqual(list(reading.markdown_tables(text)),
                         [(["A", "B"], ["x", "y z"], [(5, ["1", "2"])]), (["A", "C"], ["x"], [(10, ["3"])])])

    def test_figures_are_of_sizes_and_bias_of_errors(self):
        rows = [("s", {"error": error, "inside": error < 0.3}) for error in (-0.1, 0.2, 0.4)]
        self.assertEqual(page.summary(rows), {"rows": 3, "sources": 1, "median": 20.0, "p90": 36.0, "bias": 20.0,
                                              "inside": 66.7})


    def test_efficiency_is_against_the_fewest_gpus_of_a_job(self):
        def row(nodes, batch, predicted, measured):
            return ({"cluster": {"nodes": nodes}, "training": {"global_batch": batch}}, 8 * nodes, predicted, measured)

        rows = [row(2, 32, 1.0, 2.0), row(1, 16, 0.9, 1.0), row(4, 32, 1.0, 1.0)]
        self.assertEqual(scaling.efficiencies(rows), [(0.9, 0.5)])


class Kept(unittest.TestCase):
    def test_extractors_cite_what_the_record_says(self):
        for name in sorted(os.listdir(os.path.join(record.HERE, "extractors"))):
            module = importlib.import_module(f"extractors.{name[:-3]}") if name.endswith(".py") else None
            if not hasattr(module, "SOURCE"):
                continue
            for key in ("source", "repository", "commit", "files", "lot", "stated", "seen", "guesses", "base"):
                self.assertTrue(module.SOURCE[key], f"{name}: {key}")
            path = record.path_of(name[:-3], "configurations", record.SOURCES)
            if os.path.exists(path):
                kept = record.read(path)
                self.assertEqual({key: kept[key] for key in module.SOURCE}, module.SOURCE)

    def test_the_record_is_whole(self):
        self.assertTrue(record.sources(), "no source is in the record")
        self.assertEqual(blind.faults(record.SOURCES), [])

    def test_every_row_says_what_it_is(self):
        for source in record.sources(record.SOURCES):
            document = record.read(record.path_of(source, "configurations", record.SOURCES))
            for row in document["rows"]:
                self.assertIn(row["kind"], page.KINDS, source)
                if "peak_memory" in row["measured"]:
                    self.assertIn(row["memory"], ("allocated", "reserved", "needed"))


if __name__ == "__main__":
    unittest.main()
