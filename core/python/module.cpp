// rehearse._core: verbs as Python calls them. What users see is rehearse/, in Python.

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <new>

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "core/api/build_info.hpp"
#include "core/api/data_directory.hpp"
#include "core/base/error.hpp"
#include "core/base/stop.hpp"
#include "core/cli/run/run_watch.hpp"
#include "core/cli/verb.hpp"
#include "core/python/answer.hpp"

namespace py = pybind11;

namespace rehearse::python {

namespace {

constexpr int kInternalError = 70;  // As the command line has it.

/// Text that need not be UTF-8, such as a path in a message.
py::str text_of(const std::string& text) {
  return py::reinterpret_steal<py::str>(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

/// Python's signals, which only the thread that called can ask for. It does while another one works.
class Signals {
 public:
  /// Returns when `working` is done. What a signal's handler raises is kept, and ends the work.
  void heed_until(const std::future<void>& working) {
    while (working.wait_for(kEvery) != std::future_status::ready) {
      if (heard_) continue;
      const py::gil_scoped_acquire python;
      if (PyErr_CheckSignals() == 0) continue;
      raised_ = std::make_unique<py::error_already_set>();  // It takes the error out of the thread's state.
      heard_ = true;
    }
  }
  [[nodiscard]] bool heard() const { return heard_; }
  /// KeyboardInterrupt as a rule; null for nothing.
  [[nodiscard]] const py::error_already_set* raised() const { return raised_.get(); }

 private:
  static constexpr std::chrono::milliseconds kEvery{50};
  std::atomic<bool> heard_{false};
  std::unique_ptr<py::error_already_set> raised_;
};

struct Failure {
  int code = 0;
  std::string what, where, hint;
};

/// Runs the verb; what it throws is in `failure`.
Answer run_verb_safely(const std::string& verb, const Given& given, const Signals& signals, Failure& failure) {
  try {
    return run_verb(verb, given, [&signals] { return signals.heard(); });
  } catch (const Error& e) {
    failure = {static_cast<int>(e.kind), e.what(), e.where, e.hint};
  } catch (const cli::Interrupted&) {
    failure.code = cli::kInterrupted;
  } catch (const Stopped&) {
    failure.code = cli::kInterrupted;
  } catch (const std::bad_alloc&) {
    failure = {static_cast<int>(ErrorKind::unavailable), "not enough memory on this machine", "", ""};
  } catch (const std::exception& e) {
    failure = {kInternalError, e.what(), "internal error", "please report it with the scenario that shows it"};
  }
  return {};
}

[[noreturn]] void raise(int code, const std::string& what, const std::string& where, const std::string& hint) {
  const py::object error =
      py::module_::import("rehearse._errors").attr("error_of")(code, text_of(what), text_of(where), text_of(hint));
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
  throw py::error_already_set();
}

/// The verb's answer, Python's lock released while it works.
Answer call(const std::string& verb, const Given& given) {
  Signals signals;
  Failure failure;
  Answer out;
  {
    const py::gil_scoped_release others_run;
    const std::future<void> working =
        std::async(std::launch::async, [&] { out = run_verb_safely(verb, given, signals, failure); });
    signals.heed_until(working);
  }
  if (signals.raised() != nullptr) {
    if (out.document) py::setattr(signals.raised()->value(), "answer", py::cast(out));
    throw py::error_already_set(*signals.raised());
  }
  if (failure.code != 0) raise(failure.code, failure.what, failure.where, failure.hint);
  return out;
}

py::dict as_dict(const cli::Positional& p) {
  using namespace py::literals;
  return py::dict("name"_a = p.name, "help"_a = p.help, "required"_a = p.required, "repeatable"_a = p.repeatable);
}

py::dict as_dict(const cli::Option& o) {
  using namespace py::literals;
  return py::dict("name"_a = cli::long_name(o), "value"_a = o.value, "help"_a = o.help, "default"_a = o.fallback,
                  "repeatable"_a = o.repeatable);
}

/// Verbs that answer with an object: those with a --format.
py::list verbs() {
  using namespace py::literals;
  py::list out;
  for (const cli::Verb& verb : cli::verbs()) {
    bool answers = false;
    py::list positionals, options;
    for (const cli::Positional& p : verb.positionals) positionals.append(as_dict(p));
    for (const cli::Option& o : verb.options) o.prints ? void(answers = true) : options.append(as_dict(o));
    if (!answers || verb.left_out) continue;
    out.append(py::dict("name"_a = verb.name, "summary"_a = verb.summary, "notes"_a = verb.notes,
                        "examples"_a = verb.examples, "positionals"_a = positionals, "options"_a = options));
  }
  return out;
}

py::tuple records_of(const Answer& answer) {
  py::list columns, rows;
  if (answer.document) {
    for (const Column& c : answer.document->records.columns) columns.append(text_of(c.title));
    for (const auto& row : answer.document->records.rows) {
      py::list cells;
      for (const std::string& cell : row) cells.append(text_of(cell));
      rows.append(cells);
    }
  }
  return py::make_tuple(columns, rows);
}

}  // namespace

PYBIND11_MODULE(_core, m) {
  m.doc() = "Verbs of Rehearse, as the module rehearse calls them.";
  m.attr("version") = rehearse_version();
  m.def("verbs", &verbs);
  m.def("call", &call);
  m.def("use_data", [](const std::string& folder) { add_installed_data(folder); });
  py::class_<Answer>(m, "Answer")
      .def_readonly("code", &Answer::code)
      .def_property_readonly("notes", [](const Answer& a) { return text_of(a.notes); })
      .def_property_readonly("json", [](const Answer& a) { return text_of(a.json()); })
      .def_property_readonly("records", &records_of)
      .def_property_readonly("verdict",
                             [](const Answer& a) {
                               const auto [said, advice] = a.verdict();
                               return py::make_tuple(text_of(said), text_of(advice));
                             })
      .def_property_readonly("has_page", [](const Answer& a) { return a.page.has_value(); })
      .def("text",
           [](const Answer& a, const std::string& format, int width) {
             try {
               return text_of(a.text(format, width));
             } catch (const Error& e) {
               raise(static_cast<int>(e.kind), e.what(), "format", e.hint);
             }
           })
      .def("html", [](const Answer& a) { return text_of(a.page ? html_text(*a.page) : ""); });
}

}  // namespace rehearse::python
