#include "core/import/traces/kineto_reader.hpp"

#include <limits>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/import/traces/kineto_events.hpp"

namespace rehearse {

namespace {

/// What nlohmann-json calls while it reads. `depth_` counts what is open; entries of traceEvents are objects at
/// `entry_depth_`.
class KinetoHandler {
 public:
  KinetoHandler(const std::string& origin, const TraceLimits& limits)
      : origin_(origin), limits_(limits), events_(origin, limits) {}

  bool null() { return true; }
  bool boolean(bool) { return true; }
  bool number_integer(std::int64_t v) { return number(static_cast<double>(v), v); }
  bool number_unsigned(std::uint64_t v) {
    constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    return number(static_cast<double>(v), static_cast<std::int64_t>(std::min(v, kMost)));
  }
  bool number_float(double v, const std::string&) {
    return number(v, static_cast<std::int64_t>(std::clamp(v, -9e18, 9e18)));
  }
  bool binary(nlohmann::json::binary_t&) { return true; }
  bool string(std::string& v);
  bool key(std::string& k);
  bool start_object(std::size_t) { return open(false); }
  bool end_object() { return close(); }
  bool start_array(std::size_t) { return open(true); }
  bool end_array() { return close(); }
  bool parse_error(std::size_t position, const std::string& token, const nlohmann::json::exception& e) {
    const std::string said = e.what();
    if (said.find("unexpected end of input") != std::string::npos)
      throw Error(ErrorKind::usage, fmt::format("the file ends in the middle, after {} entries", events_.entries()),
                  origin_, "copy the file again, or let the profiler finish");
    throw Error(ErrorKind::usage, fmt::format("no JSON from byte {} on, at '{}'", position, token.substr(0, 40)),
                origin_, "a Kineto trace is one JSON object with \"traceEvents\"");
  }

  std::vector<RankTrace> finish() {
    if (!saw_events_)
      throw Error(ErrorKind::usage, "no \"traceEvents\" in it", origin_,
                  "PyTorch's profiler writes such files: prof.export_chrome_trace(...)");
    return events_.finish();
  }

 private:
  enum class Section { none, events, distributed, devices, base };
  enum class Field { none, phase, category, name, process, thread, ts, dur, args };
  enum class Arg {
    none,
    correlation,
    sequence,
    stream,
    device,
    group_size,
    in,
    out,
    dims,
    type,
    collective,
    dtype,
    group,
    members,
    label,
    cls,
    source,
    destination
  };

  bool open(bool array);
  bool close();
  bool number(double value, std::int64_t whole);
  void entry_number(double value, std::int64_t whole);
  void argument_number(double value, std::int64_t whole);
  [[nodiscard]] bool in_entry() const { return section_ == Section::events && depth_ == entry_depth_; }
  [[nodiscard]] bool in_arguments() const {
    return section_ == Section::events && field_ == Field::args && depth_ == entry_depth_ + 1;
  }
  /// Inside a list that is an argument's value.
  [[nodiscard]] bool in_argument_list() const {
    return section_ == Section::events && field_ == Field::args && depth_ > entry_depth_ + 1;
  }

  std::string origin_;
  TraceLimits limits_;
  KinetoEvents events_;
  KinetoEntry entry_;
  int depth_ = 0, entry_depth_ = 2;
  Section section_ = Section::none;
  Field field_ = Field::none;
  Arg arg_ = Arg::none;
  bool saw_events_ = false, bare_ = false;
  int lists_ = 0;  // Inner lists of "Input Dims" that have begun.
  std::string key_;
  std::int64_t device_id_ = -1;
};

bool KinetoHandler::open(bool array) {
  ++depth_;
  if (depth_ > limits_.depth)
    throw Error(ErrorKind::usage, fmt::format("nested deeper than {}", limits_.depth),
                fmt::format("{}: /traceEvents/{}", origin_, events_.entries()));
  if (depth_ == 1 && array) {  // Chrome's other form: the events alone.
    bare_ = saw_events_ = true;
    entry_depth_ = 2;
    section_ = Section::events;
  } else if (depth_ == 1) {
    entry_depth_ = 3;
  } else if (depth_ == 2 && section_ == Section::events && !bare_) {
    saw_events_ = array;
  }
  if (section_ == Section::events && depth_ == entry_depth_) {
    if (array)
      throw Error(ErrorKind::usage, "an entry is no object",
                  fmt::format("{}: /traceEvents/{}", origin_, events_.entries()));
    entry_.clear();
    field_ = Field::none;
  }
  if (in_argument_list() && arg_ == Arg::dims && depth_ == entry_depth_ + 3) ++lists_;
  return true;
}

bool KinetoHandler::close() {
  if (section_ == Section::events && depth_ == entry_depth_) events_.add(entry_);
  --depth_;
  if (depth_ == 1 && !bare_) section_ = Section::none;
  if (depth_ <= entry_depth_) arg_ = Arg::none;
  return true;
}

bool KinetoHandler::key(std::string& k) {
  if (depth_ == 1) {
    section_ = k == "traceEvents"           ? Section::events
               : k == "distributedInfo"     ? Section::distributed
               : k == "deviceProperties"    ? Section::devices
               : k == "baseTimeNanoseconds" ? Section::base
                                            : Section::none;
    return true;
  }
  if (in_entry()) {
    field_ = k == "ph"     ? Field::phase
             : k == "cat"  ? Field::category
             : k == "name" ? Field::name
             : k == "pid"  ? Field::process
             : k == "tid"  ? Field::thread
             : k == "ts"   ? Field::ts
             : k == "dur"  ? Field::dur
             : k == "args" ? Field::args
                           : Field::none;
    return true;
  }
  if (in_arguments()) {
    struct Known {
      std::string_view name;
      Arg arg;
    };
    static constexpr Known kKnown[] = {{"correlation", Arg::correlation},
                                       {"stream", Arg::stream},
                                       {"device", Arg::device},
                                       {"name", Arg::label},
                                       {"Input Dims", Arg::dims},
                                       {"Input type", Arg::type},
                                       {"Seq", Arg::sequence},
                                       {"Group size", Arg::group_size},
                                       {"In msg nelems", Arg::in},
                                       {"Out msg nelems", Arg::out},
                                       {"Collective name", Arg::collective},
                                       {"dtype", Arg::dtype},
                                       {"Process Group Name", Arg::group},
                                       {"Process Group Ranks", Arg::members},
                                       {"class", Arg::cls},
                                       {"Src Rank", Arg::source},
                                       {"Dst Rank", Arg::destination}};
    arg_ = Arg::none;
    for (const Known& known : kKnown)
      if (known.name == k) arg_ = known.arg;
    lists_ = 0;
    return true;
  }
  if (section_ == Section::distributed || section_ == Section::devices) key_ = k;
  return true;
}

bool KinetoHandler::string(std::string& v) {
  if (v.size() > limits_.text)
    throw Error(ErrorKind::usage, fmt::format("a text of {} bytes", v.size()),
                fmt::format("{}: /traceEvents/{}", origin_, events_.entries()));
  if (in_entry()) {
    switch (field_) {
      case Field::phase: entry_.phase = v.size() == 1 ? v[0] : '?'; break;
      case Field::category: entry_.category.swap(v); break;
      case Field::name: entry_.name.swap(v); break;
      case Field::process: entry_.process.swap(v); break;
      case Field::thread: entry_.thread.swap(v); break;
      default: break;
    }
  } else if (in_arguments()) {
    switch (arg_) {
      case Arg::collective: entry_.collective.swap(v); break;
      case Arg::dtype: entry_.dtype.swap(v); break;
      case Arg::group: entry_.group.swap(v); break;
      case Arg::members: entry_.members.swap(v); break;
      case Arg::label: entry_.label.swap(v); break;
      case Arg::cls: entry_.cls.swap(v); break;
      default: break;
    }
  } else if (in_argument_list() && arg_ == Arg::type && entry_.dtype.empty() && lists_++ == 0) {
    entry_.dtype.swap(v);
  } else if (section_ == Section::devices && key_ == "name") {
    events_.gpu_names[device_id_] = v;
  }
  return true;
}

bool KinetoHandler::number(double value, std::int64_t whole) {
  if (in_entry())
    entry_number(value, whole);
  else if (in_arguments())
    argument_number(value, whole);
  else if (in_argument_list() && arg_ == Arg::dims && lists_ == 1 && depth_ == entry_depth_ + 3)
    entry_.elements_hint = (entry_.elements_hint < 0 ? 1 : entry_.elements_hint) * value;
  else if (section_ == Section::base)
    events_.base_ns = value;
  else if (section_ == Section::devices && key_ == "id")
    device_id_ = whole;
  else if (section_ == Section::distributed && depth_ == 2 && whole >= 0 && whole < 100'000'000) {
    if (key_ == "rank") events_.rank = static_cast<int>(whole);
    if (key_ == "world_size") events_.world_size = static_cast<int>(whole);
  }
  return true;
}

void KinetoHandler::entry_number(double value, std::int64_t whole) {
  switch (field_) {
    case Field::ts: entry_.ts = value, entry_.timed = true; break;
    case Field::dur: entry_.dur = value, entry_.lasting = true; break;
    case Field::process: entry_.process = std::to_string(whole); break;
    case Field::thread: entry_.thread = std::to_string(whole); break;
    default: break;
  }
}

void KinetoHandler::argument_number(double value, std::int64_t whole) {
  switch (arg_) {
    case Arg::correlation: entry_.correlation = whole; break;
    case Arg::sequence: entry_.sequence = whole; break;
    case Arg::stream: entry_.stream = whole >= 0 && whole < 1'000'000'000 ? whole : -1; break;
    case Arg::device: entry_.device = whole; break;
    case Arg::group_size: entry_.group_size = whole > 0 && whole < 100'000'000 ? whole : 0; break;
    case Arg::in: entry_.elements_in = value; break;
    case Arg::out: entry_.elements_out = value; break;
    case Arg::group: entry_.group = std::to_string(whole); break;
    case Arg::source: entry_.source = whole; break;
    case Arg::destination: entry_.destination = whole; break;
    default: break;
  }
}

}  // namespace

std::vector<RankTrace> read_kineto(std::istream& in, const std::string& origin, const TraceLimits& limits) {
  KinetoHandler handler(origin, limits);
  nlohmann::json::sax_parse(in, &handler);
  return handler.finish();
}

}  // namespace rehearse
